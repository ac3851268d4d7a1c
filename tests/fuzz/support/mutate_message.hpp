#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace caffe::fuzz {

// Changes one to four fields of a message, or of messages in it, by reflection: sets, clears, adds,
// removes, copies and swaps them. Numbers become small, large, negative or special ones, texts
// become other texts of the message, so that names still match now and then.
void MutateMessage(google::protobuf::Message* message, uint32_t seed);

// Parses the bytes as `prototype`, mutates that, and writes it again. Empty if the bytes cannot be
// parsed, or if the result has more than `most` bytes.
std::string MutateBytes(const google::protobuf::Message& prototype, std::string_view bytes,
                        size_t most, uint32_t seed);

}  // namespace caffe::fuzz
