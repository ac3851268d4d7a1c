#include "commands/net_types.hpp"

namespace caffe {

DataType CommandType(const std::string& name) {
  if (name == "int8") return kQuant8;
  if (name == "int16") return kQuant16;
  return DataTypeByName(name);
}

std::string CommandTypeName(DataType type) {
  return type == kQuant8 ? "int8" : type == kQuant16 ? "int16" : type.name();
}

void SetNetType(DataType type, NetParameter* net) {
  ForEachNet(net, [&](NetParameter* one) {
    one->clear_data_type();
    one->clear_data_type_name();
    if (type.is_custom()) {
      one->set_data_type_name(type.name());
    } else {
      one->set_data_type(static_cast<DataTypeProto>(type.info().proto));
    }
  });
}

}  // namespace caffe
