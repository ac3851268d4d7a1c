#pragma once

#include <string>
#include <string_view>

namespace caffe {

// The line where braces and brackets lie more than `limit` deep in each other; 0 if they never do.
int LineOfNesting(std::string_view text, int limit);

// In every pooling_param of a prototxt, kernel_size, stride and pad that are repeated or given as a
// list get the suffix _nd. Lines stay where they are.
std::string RenameRepeatedPoolingFields(std::string_view text);

}  // namespace caffe
