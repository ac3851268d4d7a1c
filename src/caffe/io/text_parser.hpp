#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace caffe {

// Parses the text of a message. If it has unknown fields, unknown values of enumerations or, where
// `has_type` is given, layers of unknown types beside them, throws one error that lists all of them,
// with lines; so it does for an error of syntax, behind which nothing is read. `failed` begins the
// message; `name` stands for the file in warnings.
void ParseText(std::string_view text, const std::string& name, const std::string& failed,
               const std::function<bool(const std::string&)>& has_type,
               google::protobuf::Message* message);

}  // namespace caffe
