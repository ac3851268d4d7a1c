#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace caffe {

// Parses the text of a message. Throws one error that lists, with lines, all unknown fields, all
// unknown values of enumerations and, if `has_type` is given, all layers of unknown types. A syntax
// error is listed, too; parsing stops there. `failed` begins the error's text; `name` stands for
// the file in warnings.
void ParseText(std::string_view text, const std::string& name, const std::string& failed,
               const std::function<bool(const std::string&)>& has_type,
               google::protobuf::Message* message);

}  // namespace caffe
