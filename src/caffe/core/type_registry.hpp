#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "caffe/core/data_type.hpp"
#include "caffe/core/type_functions.hpp"

namespace caffe {

// Adds a type of kind kCustom and returns its id; DataTypeByName then finds it. Types exist until
// the process ends. A type of more than kMostTableBits bits has `functions` and both texts, others
// have a table. Throws if a type of that name exists, if the name is not an identifier, or if the
// description does not fit the kind. Other threads may use types at the same time. Users call
// RegisterType (caffe/device/register_type.hpp), which makes the description.
DataType AddDataType(TypeInfo info, std::shared_ptr<const TypeFunctions> functions = nullptr);

// The type of this name; nothing if there is none.
std::optional<DataType> FindDataType(std::string_view name);

// Throws if a type cannot have this name: it has letters, digits and _ and does not begin with a
// digit.
void CheckTypeName(const std::string& name);

}  // namespace caffe
