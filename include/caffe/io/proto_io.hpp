#pragma once

#include <string>
#include <string_view>

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
// result: then it is skipped with one warning. Repeated kernel_size, stride or pad of a pooling
// layer (the OpenCL fork's way to N dimensions) are read into kernel_size_nd, stride_nd and pad_nd.
// Binary: at most 2 GiB - 1, protobuf's own limit. Writing is atomic (io/file.hpp).
void ReadTextProto(const std::string& path, google::protobuf::Message* message);
void ReadBinaryProto(const std::string& path, google::protobuf::Message* message);
void WriteTextProto(const std::string& path, const google::protobuf::Message& message);
void WriteBinaryProto(const std::string& path, const google::protobuf::Message& message);

// As ReadTextProto, from memory; `name` stands for the file in errors.
void ParseTextProto(std::string_view text, const std::string& name,
                    google::protobuf::Message* message);

// The whole of a prototxt, a caffemodel, a solver file, upgraded to the present format.
NetParameter ReadNetParameter(const std::string& path);
NetParameter ReadNetParameterBinary(const std::string& path);
// Also completes snapshot_prefix, and looks for nets next to the solver file where they are not
// found from the working directory.
SolverParameter ReadSolverParameter(const std::string& path);

// The same for messages that another program serialized: upgraded, and a field or value that is not
// known here is an error, as it is in text. `name` stands for the file in errors.
NetParameter ParseNetParameter(const std::string& bytes, const std::string& name);
SolverParameter ParseSolverParameter(const std::string& bytes, const std::string& name);

}  // namespace caffe
