#include "caffe/io/proto_io.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "binary_net.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/text_lines.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/io/upgrade.hpp"
#include "text_parser.hpp"
#include "text_rewrite.hpp"
#include "text_scan.hpp"
#include "wire_repair.hpp"

namespace caffe {
namespace {

namespace pb = google::protobuf;

constexpr char kText[] = "it is text, but a binary file is expected here";
constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n";
constexpr int64_t kLimit = std::numeric_limits<int>::max();
constexpr int64_t kMostText = int64_t{1} << 30;  // bytes
constexpr int kMostNesting = 100;                // protobuf's limit for binary files

std::string MessageName(const pb::Message& message) { return message.GetDescriptor()->name(); }

// Names the kind of a wrong file, judged by its first bytes; else empty.
std::string Recognise(std::string_view head) {
  const auto starts = [&](std::string_view prefix) { return head.starts_with(prefix); };
  if (starts(kHdf5)) return "it is an HDF5 file";
  if (starts("version https://git-lfs")) {
    return "it is a Git LFS pointer, not the file itself: run `git lfs pull`";
  }
  if (starts("<!DOCTYPE") || starts("<!doctype") || starts("<html") || starts("<HTML")) {
    return "it is an HTML page: the download failed, repeat it";
  }
  if (starts("\x1f\x8b") || starts("PK\x03\x04") || starts("BZh") ||
      starts("\xfd"
             "7zXZ")) {
    return "it is a compressed archive: unpack it first";
  }
  return "";
}

bool IsText(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u == 0x7f || (u < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v');
  });
}

bool IsAscii(std::string_view bytes) {
  return IsText(bytes) && std::ranges::none_of(bytes, [](char c) { return (c & 0x80) != 0; });
}

// Whether the bytes are a message of this type without unknown fields.
template <class Message> bool Is(const std::string& bytes, Message* message) {
  return message->ParseFromString(bytes) &&
         message->GetReflection()->GetUnknownFields(*message).empty();
}

// Describes a binary file that could not be parsed as `wanted`.
std::string WhatItIs(const std::string& bytes, const pb::Message& wanted) {
  BlobProto blob;
  if (wanted.GetDescriptor() != BlobProto::descriptor() && Is(bytes, &blob) &&
      (blob.data_size() > 0 || blob.double_data_size() > 0)) {
    return "it is a single array (BlobProto), such as a mean image (mean_file), and not a net";
  }
  if (wanted.GetDescriptor() == NetParameter::descriptor() &&
      NetParameter().ParseFromString(bytes)) {
    return "it holds no layers; it is damaged or not a caffemodel";
  }
  return "it is damaged, cut off, or of another format; copy or download it again";
}

bool ParseStream(pb::io::ZeroCopyInputStream* stream, pb::Message* message) {
  pb::io::CodedInputStream coded(stream);
  coded.SetTotalBytesLimit(static_cast<int>(kLimit));
  return message->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

// Number 148 is BVLC's clip_param and the fork's mergecrop_param: moves the fields for MergeCrop.
void MoveMergeCrop(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() == "MergeCrop" && layer.has_clip_param() && !layer.has_mergecrop_param()) {
      CAFFE_CHECK(
          layer.mutable_mergecrop_param()->ParseFromString(layer.clip_param().SerializeAsString()),
          layer.name(), " (MergeCrop): its parameters are damaged");
      layer.clear_clip_param();
    }
  }
}

// A message and those around it.
struct Inside {
  const pb::Message& message;
  const Inside* outer = nullptr;

  std::string ToString() const {
    const auto* layer = message.GetDescriptor() == LayerParameter::descriptor()
                            ? static_cast<const LayerParameter*>(&message)
                            : nullptr;
    const std::string own =
        Shortened(layer ? LayerLabel(layer->name(), layer->type()) : MessageName(message));
    return outer ? outer->ToString() + ": " + own : own;
  }
};

// Collects the fields of a message and its children that caffe.proto does not have.
void FindUnknown(const Inside& at, UnknownNames* unknown) {
  constexpr size_t kMostNames = 1000;
  const pb::Message& message = at.message;
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  const auto& fields = reflection->GetUnknownFields(message);
  std::set<int> numbers;
  for (int i = 0; i < fields.field_count(); ++i) {
    const int number = fields.field(i).number();
    if (!numbers.insert(number).second) continue;
    if (unknown->size() >= kMostNames) {
      unknown->AddMore(1);
      continue;
    }
    const auto* field = descriptor->FindFieldByNumber(number);
    unknown->Add(0,
                 field ? Concat(at.ToString(), " has an invalid value of ", field->name())
                       : Concat(at.ToString(), " has an unknown field ", number),
                 "");
  }
  std::vector<const pb::FieldDescriptor*> parts;
  reflection->ListFields(message, &parts);
  for (const auto* field : parts) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      FindUnknown({field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                        : reflection->GetMessage(message, field),
                   &at},
                  unknown);
    }
  }
}

template <class Message> Message ParseMessage(const std::string& bytes, const std::string& name) {
  Message message;
  CAFFE_CHECK(bytes.size() <= static_cast<size_t>(kLimit), name, " has ", bytes.size(),
              " bytes, but protobuf reads at most 2 GiB - 1");
  CAFFE_CHECK(NamingMemory(name, [&] { return message.ParseFromString(bytes); }), name,
              " is not a valid ", MessageName(message));
  UnknownNames unknown;
  FindUnknown({message}, &unknown);
  CAFFE_CHECK(unknown.empty(), name, ": ", unknown.ToString(), unknown.size() > 1 ? "\n" : "; ",
              "fields of another Caffe: remove them if the result does not depend on them "
              "(Python: DiscardUnknownFields())");
  return message;
}

}  // namespace

namespace {

void CheckText(std::string_view text, const std::string& failed) {
  const std::string recognised = Recognise(text.substr(0, 64));
  CAFFE_CHECK(recognised.empty(), failed, recognised);
  // The marks of the order of bytes that editors on Windows write.
  CAFFE_CHECK(!text.starts_with("\xff\xfe") && !text.starts_with("\xfe\xff"), failed,
              "it is UTF-16: save it as UTF-8");
  CAFFE_CHECK(IsText(text), failed,
              "it is binary, but a text file (prototxt) is expected here; weights "
              "(.caffemodel, .solverstate, .h5) go with the options for weights and snapshots");
}

void ParseTextProto(std::string_view text, const std::string& name, const HasLayerType& has_type,
                    pb::Message* message, std::vector<OptionalName>* optional = nullptr) {
  const std::string failed =
      Concat("Failed to parse ", MessageName(*message), " file: ", name, ": ");
  CheckText(text, failed);
  text = WithoutMark(text);
  const int deep = LineOfNesting(text, kMostNesting);  // the parser would overflow the stack
  CAFFE_CHECK(deep == 0, failed, "line ", deep, ": messages or lists are nested more than ",
              kMostNesting, " deep; the file is damaged or not a prototxt");
  NamingMemory(name, [&] {
    ParseText(RenameRepeatedPoolingFields(text), name, failed, has_type, message, optional);
  });
}

std::string ReadText(const std::string& path, const pb::Message& message) {
  // A large file of another kind is refused before it is read whole.
  const auto check = [&](std::string_view head) {
    CheckText(head, Concat("Failed to parse ", MessageName(message), " file: ", path, ": "));
  };
  InputFile file(path);
  std::string text = ReadFile(&file, file.is_pipe() ? kMostPiped : kMostText, check);
  CAFFE_CHECK(!text.empty(), "Failed to parse ", MessageName(message), " file: ", path,
              ": it is empty");
  return text;
}

// The layers of a net's text. If their number is that of the net's layers after it was upgraded,
// they have the same order, behind `added`, the layer of the net's inputs.
struct LayersOfText {
  LayersOfText(std::string_view text, const NetParameter& net) {
    for (TextLayer& layer : FindLayers(text)) {
      if (layer.depth == 0) layers.push_back(std::move(layer));
    }
    added = net.layer_size() - static_cast<int>(layers.size());
  }

  // False if the upgrade joined layers.
  bool match() const { return added == 0 || added == 1; }

  // The line of each layer; empty if they do not match.
  std::vector<int> Lines(const NetParameter& net) const {
    if (!match()) return {};
    std::vector<int> lines(static_cast<size_t>(added), 0);
    for (const TextLayer& layer : layers) {
      const bool same = layer.name == net.layer(static_cast<int>(lines.size())).name();
      lines.push_back(same ? layer.line : 0);
    }
    return lines;
  }

  std::vector<TextLayer> layers;
  int added = 0;
};

}  // namespace

void ParseTextProto(std::string_view text, const std::string& name, pb::Message* message) {
  ParseTextProto(text, name, nullptr, message);
}

void ReadTextProto(const std::string& path, pb::Message* message) {
  ParseTextProto(ReadText(path, *message), path, nullptr, message);
}

namespace {

void CheckBinary(std::string_view head, const std::string& failed) {
  CAFFE_CHECK(!head.empty(), failed, "it is empty; copy or download it again");
  const std::string recognised = Recognise(head.substr(0, 64));
  CAFFE_CHECK(recognised.empty(), failed, recognised);
  // No message begins so, but a file with holes and an endless pipe may.
  CAFFE_CHECK(head[0] != 0, failed,
              "it is damaged or of another format: its first byte is zero; copy or download it "
              "again");
}

// Throws if a net has more layers than any net: an empty layer of 3 bytes takes 1 KB of memory.
void CheckLayerCount(pb::io::ZeroCopyInputStream* stream, const std::string& failed) {
  using pb::internal::WireFormatLite;
  constexpr int kMostLayers = 1 << 17;
  pb::io::CodedInputStream coded(stream);
  coded.SetTotalBytesLimit(static_cast<int>(kLimit));
  int layers = 0;
  while (const uint32_t tag = coded.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == NetParameter::kLayerFieldNumber || field == NetParameter::kLayersFieldNumber) {
      CAFFE_CHECK(++layers <= kMostLayers, failed, "it has more than ", kMostLayers,
                  " layers; it is damaged");
    }
    if (!WireFormatLite::SkipField(&coded, tag)) return;
  }
}

bool ParseBytes(std::string_view bytes, pb::Message* message) {
  pb::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return ParseStream(&stream, message);
}

}  // namespace

void ReadBinaryProto(const std::string& path, pb::Message* message) {
  const std::string failed =
      Concat("Failed to parse ", MessageName(*message), " file: ", path, ": ");
  const auto check = [&](std::string_view head) { CheckBinary(head, failed); };
  NamingMemory(path, [&] {
    std::string bytes;  // of a pipe, which can be read once; of a file, if it is wrong
    bool parsed = false;
    InputFile input(path);
    const bool is_net = message->GetDescriptor() == NetParameter::descriptor();
    if (input.is_pipe()) {
      bytes = ReadFile(&input, kLimit, [&](std::string_view head) {
        CAFFE_CHECK(!head.starts_with(kHdf5), failed,
                    "it is an HDF5 file, which cannot be read from a pipe; write it to a file, and "
                    "give that");
        CAFFE_CHECK(head.size() < 4096 || !IsAscii(head), failed, kText);
        check(head);
      });
      if (is_net) {
        pb::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
        CheckLayerCount(&stream, failed);
      }
      parsed = ParseBytes(bytes, message);
    } else {
      CAFFE_CHECK(input.size() <= kLimit, failed, "it has ", input.size(),
                  " bytes, but protobuf reads at most 2 GiB - 1; store weights of this size as "
                  "HDF5 (snapshot_format: HDF5)");
      std::string head(1024, '\0');
      const ssize_t count = pread(input.descriptor(), head.data(), head.size(), 0);
      CAFFE_CHECK(count >= 0, "cannot read ", path, ": ", std::strerror(errno));
      head.resize(static_cast<size_t>(count));
      check(head);
      if (is_net) {
        pb::io::FileInputStream first(input.descriptor(), 1 << 16);
        CheckLayerCount(&first, failed);
        CAFFE_CHECK(lseek(input.descriptor(), 0, SEEK_SET) == 0, "cannot read ", path, ": ",
                    std::strerror(errno));
      }
      pb::io::FileInputStream stream(input.descriptor(), 1 << 20);
      parsed = ParseStream(&stream, message);
      CAFFE_CHECK(stream.GetErrno() == 0, "cannot read ", path, ": ",
                  std::strerror(stream.GetErrno()));
    }
    if (parsed) return;
    if (!input.is_pipe()) bytes = ReadFile(path, kLimit);
    if (is_net) {
      const std::string repaired = DropForeignLayerFields(bytes);
      if (!repaired.empty() && ParseBytes(repaired, message)) return;
    }
    CAFFE_THROW(failed, IsAscii(std::string_view(bytes).substr(0, 1024))
                            ? kText
                            : WhatItIs(bytes, *message));
  });
}

void WriteTextProto(const std::string& path, const pb::Message& message) {
  std::string text;
  CAFFE_CHECK(pb::TextFormat::PrintToString(message, &text), "cannot write ", path,
              ": the message cannot be printed as text");
  WriteFileAtomically(path, text);
}

void WriteBinaryProto(const std::string& path, const pb::Message& message) {
  AtomicFile file(path);
  WriteBinaryProto(message, &file);
  file.Commit();
}

void WriteBinaryProto(const pb::Message& message, AtomicFile* file) {
  const size_t bytes = message.ByteSizeLong();
  CAFFE_CHECK(bytes <= static_cast<size_t>(kLimit), "cannot write ", file->path(),
              ": it would have ", bytes,
              " bytes, but protobuf holds at most 2 GiB - 1; use snapshot_format: HDF5");
  pb::io::FileOutputStream stream(file->descriptor(), 1 << 20);
  const bool written = message.SerializeToZeroCopyStream(&stream) && stream.Flush();
  CAFFE_CHECK(written, "cannot write ", file->path(), ": ", std::strerror(stream.GetErrno()));
}

NetParameter ReadNetParameter(const std::string& path, const HasLayerType& has_type,
                              std::vector<int>* lines, std::vector<OptionalName>* optional) {
  NetParameter net;
  const std::string text = ReadText(path, net);
  ParseTextProto(text, path, has_type, &net, optional);
  UpgradeNetAsNeeded(path, &net);
  const LayersOfText layers(text, net);
  if (lines) *lines = layers.Lines(net);
  if (!optional) return net;
  // Without an index that is right, the names are errors at once.
  if (!layers.match() && !optional->empty()) ParseTextProto(text, path, has_type, &net);
  for (OptionalName& name : *optional) name.layer += layers.added;
  return net;
}

NetParameter ReadNetParameterBinary(const std::string& path) {
  NetParameter net;
  ReadBinaryProto(path, &net);
  // Arbitrary bytes may parse as a message of unknown fields.
  const bool alien = net.layer_size() == 0 && net.layers_size() == 0 &&
                     !net.GetReflection()->GetUnknownFields(net).empty();
  CAFFE_CHECK(!alien, "Failed to parse NetParameter file: ", path, ": ",
              WhatItIs(net.SerializeAsString(), net));
  UpgradeBinaryNet(path, &net);
  return net;
}

void UpgradeBinaryNet(const std::string& path, NetParameter* net) {
  MoveMergeCrop(net);
  UpgradeNetAsNeeded(path, net);
}

NetParameter ParseNetParameter(const std::string& bytes, const std::string& name) {
  auto net = ParseMessage<NetParameter>(bytes, name);
  MoveMergeCrop(&net);
  UpgradeNetAsNeeded(name, &net);
  return net;
}

SolverParameter ParseSolverParameter(const std::string& bytes, const std::string& name) {
  auto solver = ParseMessage<SolverParameter>(bytes, name);
  UpgradeSolverAsNeeded(name, &solver);
  return solver;
}

SolverParameter ReadSolverParameter(const std::string& path) {
  SolverParameter solver;
  ReadTextProto(path, &solver);
  UpgradeSolverAsNeeded(path, &solver);
  UpgradeSnapshotPrefix(path, &solver);
  ResolveNetPaths(path, &solver);
  return solver;
}

}  // namespace caffe
