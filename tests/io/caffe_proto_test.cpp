#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "caffe.pb.h"

namespace caffe {
namespace {

namespace pb = google::protobuf;

std::string Default(const pb::FieldDescriptor& field) {
  std::ostringstream out;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32: out << field.default_value_int32(); break;
    case pb::FieldDescriptor::CPPTYPE_INT64: out << field.default_value_int64(); break;
    case pb::FieldDescriptor::CPPTYPE_UINT32: out << field.default_value_uint32(); break;
    case pb::FieldDescriptor::CPPTYPE_UINT64: out << field.default_value_uint64(); break;
    case pb::FieldDescriptor::CPPTYPE_FLOAT: out << field.default_value_float(); break;
    case pb::FieldDescriptor::CPPTYPE_DOUBLE: out << field.default_value_double(); break;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      out << (field.default_value_bool() ? "true" : "false");
      break;
    case pb::FieldDescriptor::CPPTYPE_ENUM: out << field.default_value_enum()->name(); break;
    case pb::FieldDescriptor::CPPTYPE_STRING: out << field.default_value_string(); break;
    default: break;
  }
  return out.str();
}

// 1.0, 1. and 1 are the same default.
std::string Normal(const std::string& value) {
  char* end;
  const float number = std::strtof(value.c_str(), &end);
  if (value.empty() || *end) return value;
  std::ostringstream out;
  out << number;
  return out.str();
}

std::string TypeName(const pb::FieldDescriptor& field) {
  if (field.message_type()) return field.message_type()->name();
  if (field.enum_type()) return field.enum_type()->name();
  return field.type_name();
}

// Everything that caffe.proto declares: name -> the rest of a golden line.
std::map<std::string, std::string> Declared() {
  std::map<std::string, std::string> all;
  const auto add_enum = [&](const pb::EnumDescriptor& type) {
    for (int i = 0; i < type.value_count(); ++i) {
      all[type.full_name().substr(6) + "." + type.value(i)->name()] =
          "= " + std::to_string(type.value(i)->number());
    }
  };
  const pb::FileDescriptor* file = NetParameter::descriptor()->file();
  for (int i = 0; i < file->enum_type_count(); ++i) add_enum(*file->enum_type(i));
  for (int i = 0; i < file->message_type_count(); ++i) {
    const pb::Descriptor& message = *file->message_type(i);
    for (int e = 0; e < message.enum_type_count(); ++e) add_enum(*message.enum_type(e));
    for (int f = 0; f < message.field_count(); ++f) {
      const pb::FieldDescriptor& field = *message.field(f);
      std::string line = std::to_string(field.number());
      line += field.is_repeated() ? " repeated" : field.is_required() ? " required" : " optional";
      if (field.is_packed()) line += " packed";
      line += " " + TypeName(field);
      if (field.has_default_value()) line += " =" + Normal(Default(field));
      all[message.name() + "." + field.name()] = line;
    }
  }
  return all;
}

std::map<std::string, std::string> Golden() {
  std::map<std::string, std::string> all;
  std::ifstream in(CAFFE_SOURCE_DIR "/tests/golden/caffe_proto.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    const size_t blank = line.find(' ');
    std::string rest = line.substr(blank + 1);
    const size_t value = rest.find(" =");
    if (value != rest.npos) rest = rest.substr(0, value + 2) + Normal(rest.substr(value + 2));
    all[line.substr(0, blank)] = rest;
  }
  return all;
}

TEST(CaffeProtoTest, HasEveryFieldAndValueOfBothAncestors) {
  const auto declared = Declared(), golden = Golden();
  ASSERT_GT(golden.size(), 500u);
  for (const auto& [name, rest] : golden) {
    const auto found = declared.find(name);
    ASSERT_NE(found, declared.end()) << name;
    EXPECT_EQ(found->second, rest) << name;
  }
}

TEST(CaffeProtoTest, OwnFieldsStartAt1000AndStayClearOfForks) {
  const std::set<int> taken{6801, 6802};
  const auto golden = Golden();
  std::set<std::string> inherited;  // messages; those that are ours count from 1
  for (const auto& [name, rest] : golden) inherited.insert(name.substr(0, name.rfind('.')));
  for (const auto& [name, rest] : Declared()) {
    if (golden.contains(name) || name.starts_with("DataTypeProto.")) continue;
    if (!inherited.contains(name.substr(0, name.rfind('.')))) continue;
    const int number = std::atoi(rest.c_str() + (rest.starts_with("= ") ? 2 : 0));
    EXPECT_GE(number, 1000) << name;
    EXPECT_FALSE(taken.contains(number)) << name;
  }
}

TEST(CaffeProtoTest, CollisionsKeepTheMeaningOfBvlc) {
  const auto declared = Declared();
  EXPECT_EQ(declared.at("LayerParameter.clip_param"), "148 optional ClipParameter");
  EXPECT_EQ(declared.at("LayerParameter.mergecrop_param"), "1000 optional MergeCropParameter");
  EXPECT_EQ(declared.at("ClipParameter.min"), "1 optional float");
  EXPECT_EQ(declared.at("PoolingParameter.round_mode"), "13 optional RoundMode =CEIL");
  EXPECT_EQ(declared.at("PoolingParameter.dilation"), "1003 repeated uint64");
  EXPECT_EQ(declared.at("PoolingParameter.kernel_size"), "2 optional uint32");
  EXPECT_EQ(declared.at("PoolingParameter.stride"), "3 optional uint32 =1");
  EXPECT_EQ(declared.at("PoolingParameter.pad"), "4 optional uint32 =0");
  EXPECT_EQ(declared.at("SolverParameter.device_id"), "18 optional int32 =0");
  EXPECT_EQ(declared.at("SolverParameter.device"), "1000 optional int64");
  EXPECT_EQ(declared.at("DataTypeProto.CAFFE_BFLOAT16"), "= 8");
  EXPECT_EQ(declared.at("DataTypeProto.CAFFE_CUSTOM"), "= 9");
}

}  // namespace
}  // namespace caffe
