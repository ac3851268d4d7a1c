#pragma once

#include "caffe/core/data_type.hpp"

namespace caffe {

// Adds a type of kind kCustom and gives its id; from then on DataTypeByName finds it. Types stay for
// the life of the process. Throws if a type of that name exists already, if the name is not an
// identifier, or if the description does not fit the kind. Other threads may use types meanwhile.
DataType AddDataType(TypeInfo info);

}  // namespace caffe
