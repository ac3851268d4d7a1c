#pragma once

#include <string>
#include <string_view>

namespace caffe {

// The line where braces and brackets are nested more than `limit` deep; 0 if there is none.
int LineOfNesting(std::string_view text, int limit);

// In every pooling_param of a prototxt, a kernel_size, stride or pad that is repeated or given as a
// list gets the suffix _nd. Line numbers do not change.
std::string RenameRepeatedPoolingFields(std::string_view text);

}  // namespace caffe
