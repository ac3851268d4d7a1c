#include "caffe/io/proto_io.hpp"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/ignored_fields.hpp"
#include "caffe/io/upgrade.hpp"
#include "text_rewrite.hpp"
#include "wire_repair.hpp"

namespace caffe {
namespace {

namespace pb = google::protobuf;

constexpr int64_t kLimit = std::numeric_limits<int>::max();
constexpr int kMostNesting = 100;  // as protobuf has it for binary files

std::string MessageName(const pb::Message& message) { return message.GetDescriptor()->name(); }

// What a file that is not what it should be looks like, judged by its first bytes; else empty.
std::string Recognise(std::string_view head) {
  const auto starts = [&](std::string_view prefix) { return head.starts_with(prefix); };
  if (starts("\x89HDF\r\n\x1a\n")) return "it is an HDF5 file";
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

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The field of `message` whose name is nearest, if it is near at all.
std::string Suggestion(const std::string& message, std::string_view name) {
  const auto* descriptor = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(message);
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 4) + 1;
  for (int i = 0; descriptor && i < descriptor->field_count(); ++i) {
    const std::string& candidate = descriptor->field(i)->name();
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> QuotedWords(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = text.find('"'); begin != text.npos;) {
    const size_t end = text.find('"', begin + 1);
    if (end == text.npos) break;
    words.emplace_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('"', end + 1);
  }
  return words;
}

// Keeps the first error. Unknown fields arrive as warnings, because the parser was told to go on
// after them, and are errors unless the list has them.
class Collector final : public pb::io::ErrorCollector {
 public:
  Collector(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {}

  // Two sets of names: protobuf renamed them after 3.21. Only one of them overrides.
  void AddError(int line, int column, const std::string& error) { Fail(line, column, error); }
  void AddWarning(int line, int column, const std::string& error) { Warn(line, column, error); }
  void RecordError(int line, int column, std::string_view error) { Fail(line, column, error); }
  void RecordWarning(int line, int column, std::string_view error) { Warn(line, column, error); }

  const std::string& error() const { return error_; }

 private:
  void Fail(int line, int column, std::string_view error) {
    const auto words = QuotedWords(error);
    if (error_.empty()) {
      error_ = Concat(Place(line, column, words.empty() ? "" : words[0]), error);
    }
  }

  void Warn(int line, int column, std::string_view warning) {
    // protobuf says: Message type "M" has no field named "F".
    const auto words = QuotedWords(warning);
    if (words.size() != 2 || warning.find("has no field named") == warning.npos) {
      log::Warning(Concat(name_, ": ", Place(line, column, ""), warning));
      return;
    }
    const std::string& message = words[0];
    const std::string& field = words[1];
    if (IsIgnoredField(message, field)) {
      log::WarnOnce(Concat(name_, ": ", message, " field \"", field,
                           "\" of another Caffe does not change the result and is ignored"));
    } else if (error_.empty()) {
      const std::string suggestion = Suggestion(message, field);
      error_ = Concat(Place(line, column, field), message, " has no field \"", field, "\"",
                      suggestion.empty() ? "" : Concat("; did you mean \"", suggestion, "\"?"));
    }
  }

  // The parser tells the place after the word that it complains about, which may be a later line.
  std::string Place(int line, int column, std::string_view word) const {
    if (line < 0) return "";
    size_t at = 0;
    for (int i = 0; i < line && at < text_.size(); ++i) {
      at = std::min(text_.find('\n', at), text_.size() - 1) + 1;
    }
    at = std::min(at + static_cast<size_t>(column), text_.size());
    const size_t found = word.empty() ? text_.npos : text_.substr(0, at).rfind(word);
    if (found == text_.npos) return Concat("line ", line + 1, ": ");
    return Concat("line ", 1 + std::ranges::count(text_.substr(0, found), '\n'), ": ");
  }

  std::string name_;
  std::string_view text_;
  std::string error_;
};

// A file that was opened for reading, and its size.
class Input {
 public:
  explicit Input(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      CAFFE_CHECK(errno != ENOENT, "File not found: ", path);
      CAFFE_THROW("cannot open ", path, ": ", std::strerror(errno));
    }
  }
  ~Input() { close(descriptor_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

bool ParseStream(pb::io::ZeroCopyInputStream* stream, pb::Message* message) {
  pb::io::CodedInputStream coded(stream);
  coded.SetTotalBytesLimit(static_cast<int>(kLimit));
  return message->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

// Fields of BVLC's number 148 in a layer of the fork are those of its MergeCrop.
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

// What a message, or one in it, holds that is not known here; else empty.
std::string UnknownField(const pb::Message& message) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  const auto* name = descriptor->FindFieldByName("name");
  std::string where = descriptor->name();
  if (name && name->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING && !name->is_repeated() &&
      reflection->HasField(message, name)) {
    where += " '" + reflection->GetString(message, name) + "'";
  }
  const auto& unknown = reflection->GetUnknownFields(message);
  if (!unknown.empty()) {
    const int number = unknown.field(0).number();
    const auto* field = descriptor->FindFieldByNumber(number);
    return field ? Concat(where, " has a ", field->name(), " that is not known here")
                 : Concat(where, " has a field ", number, " that is not known here");
  }
  std::vector<const pb::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string found =
          UnknownField(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                            : reflection->GetMessage(message, field));
      if (!found.empty()) return where + ": " + found;
    }
  }
  return "";
}

template <class Message> Message ParseMessage(const std::string& bytes, const std::string& name) {
  Message message;
  CAFFE_CHECK(message.ParseFromString(bytes), name, " is no ", MessageName(message));
  const std::string unknown = UnknownField(message);
  CAFFE_CHECK(unknown.empty(), name, ": ", unknown,
              "; it comes from another Caffe: take it out if the result does not depend on it "
              "(Python: DiscardUnknownFields())");
  return message;
}

}  // namespace

void ParseTextProto(std::string_view text, const std::string& name, pb::Message* message) {
  const std::string failed =
      Concat("Failed to parse ", MessageName(*message), " file: ", name, ": ");
  const std::string recognised = Recognise(text.substr(0, 64));
  CAFFE_CHECK(recognised.empty(), failed, recognised);
  CAFFE_CHECK(IsText(text), failed,
              "it is binary, but a text file (prototxt) is expected here; weights "
              "(.caffemodel, .solverstate, .h5) go with the options for weights and snapshots");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // editors on Windows mark UTF-8
  const int deep = LineOfNesting(text, kMostNesting);  // the parser would overflow the stack
  CAFFE_CHECK(deep == 0, failed, "line ", deep, ": messages or lists lie more than ", kMostNesting,
              " deep in each other; the file is damaged or no prototxt");
  const std::string rewritten = RenameRepeatedPoolingFields(text);
  Collector collector(name, rewritten);
  pb::TextFormat::Parser parser;
  parser.AllowUnknownField(true);
  parser.RecordErrorsTo(&collector);
  message->Clear();
  const bool parsed = parser.ParseFromString(rewritten, message);
  CAFFE_CHECK(parsed && collector.error().empty(), failed, collector.error());
}

void ReadTextProto(const std::string& path, pb::Message* message) {
  const std::string text = ReadFile(path);
  CAFFE_CHECK(!text.empty(), "Failed to parse ", MessageName(*message), " file: ", path,
              ": it is empty");
  ParseTextProto(text, path, message);
}

void ReadBinaryProto(const std::string& path, pb::Message* message) {
  const std::string failed =
      Concat("Failed to parse ", MessageName(*message), " file: ", path, ": ");
  Input input(path);
  struct stat status;
  CAFFE_CHECK(fstat(input.descriptor(), &status) == 0, "cannot read ", path, ": ",
              std::strerror(errno));
  CAFFE_CHECK(!S_ISDIR(status.st_mode), path, " is a folder, not a file");
  std::string head(1024, '\0');
  if (S_ISREG(status.st_mode)) {
    CAFFE_CHECK(status.st_size > 0, failed, "it is empty; copy or download it again");
    CAFFE_CHECK(status.st_size <= kLimit, failed, "it has ", status.st_size,
                " bytes, but protobuf reads at most 2 GiB - 1; store weights of this size as HDF5 "
                "(snapshot_format: HDF5) or safetensors");
    const ssize_t count = pread(input.descriptor(), head.data(), head.size(), 0);
    CAFFE_CHECK(count >= 0, "cannot read ", path, ": ", std::strerror(errno));
    head.resize(static_cast<size_t>(count));
  }
  const std::string recognised = Recognise(head);
  CAFFE_CHECK(recognised.empty(), failed, recognised);
  bool parsed;
  {
    pb::io::FileInputStream stream(input.descriptor(), 1 << 20);
    parsed = ParseStream(&stream, message);
    CAFFE_CHECK(stream.GetErrno() == 0, "cannot read ", path, ": ",
                std::strerror(stream.GetErrno()));
  }
  if (!parsed && message->GetDescriptor() == NetParameter::descriptor()) {
    const std::string repaired = DropForeignLayerFields(ReadFile(path));
    pb::io::ArrayInputStream stream(repaired.data(), static_cast<int>(repaired.size()));
    parsed = !repaired.empty() && ParseStream(&stream, message);
  }
  CAFFE_CHECK(parsed, failed,
              IsAscii(head)
                  ? "it is text, but a binary file is expected here"
                  : "it is damaged, cut off, or of another format; copy or download it again");
}

void WriteTextProto(const std::string& path, const pb::Message& message) {
  std::string text;
  CAFFE_CHECK(pb::TextFormat::PrintToString(message, &text), "cannot write ", path,
              ": the message does not print");
  WriteFileAtomically(path, text);
}

void WriteBinaryProto(const std::string& path, const pb::Message& message) {
  const size_t bytes = message.ByteSizeLong();
  CAFFE_CHECK(bytes <= static_cast<size_t>(kLimit), "cannot write ", path, ": it would have ",
              bytes, " bytes, but protobuf holds at most 2 GiB - 1; use snapshot_format: HDF5");
  AtomicFile file(path);
  {
    pb::io::FileOutputStream stream(file.descriptor(), 1 << 20);
    const bool written = message.SerializeToZeroCopyStream(&stream) && stream.Flush();
    CAFFE_CHECK(written, "cannot write ", path, ": ", std::strerror(stream.GetErrno()));
  }
  file.Commit();
}

NetParameter ReadNetParameter(const std::string& path) {
  NetParameter net;
  ReadTextProto(path, &net);
  UpgradeNetAsNeeded(path, &net);
  return net;
}

NetParameter ReadNetParameterBinary(const std::string& path) {
  NetParameter net;
  ReadBinaryProto(path, &net);
  // Any bytes may happen to be a message of unknown fields.
  const bool alien = net.layer_size() == 0 && net.layers_size() == 0 &&
                     !net.GetReflection()->GetUnknownFields(net).empty();
  CAFFE_CHECK(!alien, "Failed to parse NetParameter file: ", path,
              ": it holds no layers; it is damaged or not a caffemodel");
  MoveMergeCrop(&net);
  UpgradeNetAsNeeded(path, &net);
  return net;
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
