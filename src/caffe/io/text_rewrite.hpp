#pragma once

#include <string>
#include <string_view>

namespace caffe {

// In every pooling_param of a prototxt, kernel_size, stride and pad that are repeated or given as a
// list get the suffix _nd. Lines stay where they are.
std::string RenameRepeatedPoolingFields(std::string_view text);

}  // namespace caffe
