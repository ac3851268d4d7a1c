#pragma once

#include "caffe/core/data_type.hpp"

namespace caffe {

// Adds a type of kind kCustom and returns its id; DataTypeByName then finds it. Types exist until
// the process ends. Throws if a type of that name exists, if the name is not an identifier, or if
// the description does not fit the kind. Other threads may use types at the same time.
DataType AddDataType(TypeInfo info);

}  // namespace caffe
