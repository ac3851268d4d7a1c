#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class Descriptor;
}

namespace caffe::fuzz {

// The names of the fields and of the enumeration values of a message and of those in it.
std::vector<std::string> FieldWords(const google::protobuf::Descriptor& message);

}  // namespace caffe::fuzz
