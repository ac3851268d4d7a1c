#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace caffe {

struct OptionalName;

// Parses the text of a message. Throws one error that lists, with lines, all unknown fields, all
// unknown values of enumerations and, if `has_type` is given, all layers of unknown types. A syntax
// error is listed, too; parsing stops there. `failed` begins the error's text; `name` stands for
// the file in warnings. If `optional` is given, the message is a net, and all its unknown names are
// in layers with include or exclude rules, then it is parsed; `optional` gets them.
void ParseText(std::string_view text, const std::string& name, const std::string& failed,
               const std::function<bool(const std::string&)>& has_type,
               google::protobuf::Message* message, std::vector<OptionalName>* optional = nullptr);

}  // namespace caffe
