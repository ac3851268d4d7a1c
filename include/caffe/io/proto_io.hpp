#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "caffe/io/file.hpp"

namespace google::protobuf {
class Message;
}

namespace caffe {

class NetParameter;
class SolverParameter;
struct OptionalName;

// Reads and writes messages. Errors name the file and, in text, the line.
//
// Text: an unknown field is an error, unless IgnoredFieldNote has it: then it is skipped with one
// warning. One error lists all unknown fields and values. A repeated kernel_size, stride or pad of
// a pooling layer (N dimensions in the OpenCL fork) is read into kernel_size_nd, stride_nd and
// pad_nd. Binary: at most 2 GiB - 1, protobuf's own limit. Writing is atomic (io/file.hpp).
void ReadTextProto(const std::string& path, google::protobuf::Message* message);
void ReadBinaryProto(const std::string& path, google::protobuf::Message* message);
void WriteTextProto(const std::string& path, const google::protobuf::Message& message);
void WriteBinaryProto(const std::string& path, const google::protobuf::Message& message);
// Without a commit.
void WriteBinaryProto(const google::protobuf::Message& message, AtomicFile* file);

// ReadTextProto from memory; `name` stands for the file in errors.
void ParseTextProto(std::string_view text, const std::string& name,
                    google::protobuf::Message* message);

// Whether a layer type exists.
using HasLayerType = std::function<bool(const std::string& type)>;

// Reads a whole prototxt, caffemodel or solver file, and upgrades it to the current format. With
// `has_type`, an error about unknown fields of a prototxt also lists layers of unknown types; a
// file with only unknown types is read, since the phase may exclude those layers. `lines` gets the
// line of each layer, 0 for one that an upgrade added; it is empty if an upgrade joined layers.
// With `optional`, unknown fields and values are accepted if all of them are in layers with include
// or exclude rules; `optional` gets them, and the caller checks them when it knows which layers
// stay.
NetParameter ReadNetParameter(const std::string& path, const HasLayerType& has_type = nullptr,
                              std::vector<int>* lines = nullptr,
                              std::vector<OptionalName>* optional = nullptr);
NetParameter ReadNetParameterBinary(const std::string& path);
// Also completes snapshot_prefix, and searches nets next to the solver file if they are not found
// from the working directory.
SolverParameter ReadSolverParameter(const std::string& path);

// The same for messages that another program serialized: upgrades them; an unknown field or value
// is an error, as in text. `name` stands for the file in errors.
NetParameter ParseNetParameter(const std::string& bytes, const std::string& name);
SolverParameter ParseSolverParameter(const std::string& bytes, const std::string& name);

}  // namespace caffe
