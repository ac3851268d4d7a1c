#pragma once

#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

// fp8_e4m3, fp8_e5m2, posit8 and float10: types of kind kCustom that need no registration. Their
// formulas are in kernels/types/.
std::vector<TypeInfo> ReadyTypes();

}  // namespace caffe
