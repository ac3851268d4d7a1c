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

// Reading and writing of messages. Errors name the file and, in text, the line.
//
// Text: an unknown field is an error, unless IsIgnoredField knows it as one that does not change a
// result: then it is skipped with one warning. One error lists all unknown fields and values. Repeated kernel_size, stride or pad of a pooling
// layer (the OpenCL fork's way to N dimensions) are read into kernel_size_nd, stride_nd and pad_nd.
// Binary: at most 2 GiB - 1, protobuf's own limit. Writing is atomic (io/file.hpp).
void ReadTextProto(const std::string& path, google::protobuf::Message* message);
void ReadBinaryProto(const std::string& path, google::protobuf::Message* message);
void WriteTextProto(const std::string& path, const google::protobuf::Message& message);
void WriteBinaryProto(const std::string& path, const google::protobuf::Message& message);

// As ReadTextProto, from memory; `name` stands for the file in errors.
void ParseTextProto(std::string_view text, const std::string& name,
                    google::protobuf::Message* message);

// Whether there is a layer of this type.
using HasLayerType = std::function<bool(const std::string& type)>;

// The whole of a prototxt, a caffemodel, a solver file, upgraded to the present format. With
// `has_type`, an error about unknown fields of a prototxt lists layers of unknown types, too; a file
// that has unknown types alone is read, since the phase may leave those layers out. `lines` gets the
// line of each layer, 0 for one that an upgrade made; none if an upgrade joined layers.
NetParameter ReadNetParameter(const std::string& path, const HasLayerType& has_type = nullptr,
                              std::vector<int>* lines = nullptr);
NetParameter ReadNetParameterBinary(const std::string& path);
// Also completes snapshot_prefix, and looks for nets next to the solver file where they are not
// found from the working directory.
SolverParameter ReadSolverParameter(const std::string& path);

// The same for messages that another program serialized: upgraded, and a field or value that is not
// known here is an error, as it is in text. `name` stands for the file in errors.
NetParameter ParseNetParameter(const std::string& bytes, const std::string& name);
SolverParameter ParseSolverParameter(const std::string& bytes, const std::string& name);

}  // namespace caffe
