#pragma once

#include <string>
#include <vector>

namespace caffe {

class NetParameter;

// The files and folders that layers of a net read: sources of data, and means.
std::vector<std::string> InputFiles(const NetParameter& net);

// Throws if a file of `outputs` is one of `inputs`, so that writing it would replace an input.
// Files are compared by identity: links and other spellings of a path do not matter. What is not a
// file is ignored.
void CheckKeepsInputs(const std::vector<std::string>& outputs,
                      const std::vector<std::string>& inputs);

// CheckKeepsInputs for the files prefix + extension; throws, too, if one of them cannot be written.
// Leaves existing files unchanged.
void CheckResults(const std::string& prefix, const std::vector<std::string>& extensions,
                  const std::vector<std::string>& inputs);

}  // namespace caffe
