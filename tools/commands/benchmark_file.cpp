#include "commands/benchmark_file.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/io/file.hpp"
#include "commands/net_types.hpp"

namespace caffe {
namespace {

using Object = google::protobuf::Struct;
using google::protobuf::Value;

std::string Optional(const std::optional<int64_t>& value) {
  return value ? Concat(*value) : "null";
}

std::string Optional(const std::optional<double>& value) {
  return value ? JsonNumber(*value) : "null";
}

std::string CellJson(const BenchmarkCell& cell) {
  const bool timed = cell.milliseconds > 0;
  return Concat(
      "{\"net\": ", JsonString(cell.net), ", \"name\": ", JsonString(cell.name),
      ", \"framework\": ", JsonString(cell.framework), ", \"type\": ", JsonString(cell.type),
      ", \"device\": ", JsonString(cell.device),
      ", \"device_name\": ", JsonString(cell.device_name),
      ", \"train\": ", cell.train ? "true" : "false", ", \"batch\": ", cell.batch,
      ", \"milliseconds\": ", timed ? JsonNumber(cell.milliseconds) : "null",
      ", \"fastest\": ", timed ? JsonNumber(cell.fastest) : "null", ", \"samples\": ", cell.samples,
      ", \"images_per_second\": ", timed ? JsonNumber(cell.images_per_second()) : "null",
      ", \"memory\": ", Optional(cell.memory), ", \"predicted\": ", Optional(cell.predicted),
      ", \"plain_memory\": ", Optional(cell.plain_memory),
      ", \"storage\": ", Optional(cell.storage),
      ", \"random_ranges\": ", cell.random_ranges ? "true" : "false",
      ", \"error\": ", cell.error.empty() ? "null" : JsonString(cell.error), "}");
}

// Reads fields of an object; the errors name the file.
class Fields {
 public:
  Fields(const std::string& path, const Object& object) : path_(path), object_(object) {}

  const Value* Find(const std::string& name) const {
    const auto found = object_.fields().find(name);
    if (found == object_.fields().end() || found->second.has_null_value()) return nullptr;
    return &found->second;
  }
  std::string Text(const std::string& name) const {
    const Value* value = Find(name);
    if (!value) return "";
    CAFFE_CHECK(value->kind_case() == Value::kStringValue, path_, ": ", name, " is not a string");
    return value->string_value();
  }
  std::string NeededText(const std::string& name) const {
    CAFFE_CHECK(Find(name), path_, ": a cell has no \"", name, "\"");
    return Text(name);
  }
  std::optional<double> Number(const std::string& name) const {
    const Value* value = Find(name);
    if (!value) return std::nullopt;
    CAFFE_CHECK(value->kind_case() == Value::kNumberValue, path_, ": ", name, " is not a number");
    return value->number_value();
  }
  std::optional<int64_t> Count(const std::string& name) const {
    constexpr double kMost = double{int64_t{1} << 53};  // later ones are not integers of a double
    const std::optional<double> value = Number(name);
    if (!value) return std::nullopt;
    CAFFE_CHECK(*value >= 0 && *value <= kMost, path_, ": ", name, " is ", *value,
                "; it must be between 0 and ", kMost);
    return static_cast<int64_t>(*value);
  }
  bool Flag(const std::string& name) const {
    const Value* value = Find(name);
    return value && value->bool_value();
  }
  std::vector<Object> Objects(const std::string& name) const {
    std::vector<Object> objects;
    const Value* value = Find(name);
    if (!value) return objects;
    for (const Value& entry : value->list_value().values()) {
      CAFFE_CHECK(entry.has_struct_value(), path_, ": ", name, " is not a list of objects");
      objects.push_back(entry.struct_value());
    }
    return objects;
  }

 private:
  const std::string& path_;
  const Object& object_;
};

Object ReadObject(const std::string& path) {
  Object object;
  const auto status = google::protobuf::util::JsonStringToMessage(ReadFile(path), &object);
  CAFFE_CHECK(status.ok(), path, ": invalid JSON: ", status.message().as_string());
  return object;
}

BenchmarkCell Cell(const std::string& path, const Fields& fields) {
  BenchmarkCell cell;
  cell.net = fields.NeededText("net");
  cell.name = fields.Text("name");
  cell.framework = fields.NeededText("framework");
  cell.type = fields.NeededText("type");
  cell.device = fields.NeededText("device");
  cell.device_name = fields.Text("device_name");
  cell.train = fields.Flag("train");
  cell.batch = fields.Count("batch").value_or(0);
  cell.milliseconds = fields.Number("milliseconds").value_or(0);
  cell.fastest = fields.Number("fastest").value_or(0);
  cell.samples = fields.Count("samples").value_or(0);
  cell.memory = fields.Count("memory");
  cell.predicted = fields.Count("predicted");
  cell.plain_memory = fields.Count("plain_memory");
  cell.storage = fields.Count("storage");
  cell.random_ranges = fields.Flag("random_ranges");
  cell.error = fields.Text("error");
  // A chart has a line for each power of ten between the smallest and the largest speed.
  const bool sound = cell.milliseconds >= 1e-9 && cell.milliseconds <= 1e15 && cell.batch > 0;
  CAFFE_CHECK(cell.milliseconds == 0 || sound, path, ": a cell takes ", cell.milliseconds,
              " milliseconds for a batch of ", cell.batch, ", which cannot be");
  return cell;
}

}  // namespace

std::string BenchmarkJson(const BenchmarkRun& run) {
  std::string text =
      Concat("{\"date\": ", JsonString(run.date), ", \"version\": ", JsonString(run.version),
             ", \"host\": ", JsonString(run.host),
             ", \"interrupted\": ", run.interrupted ? "true" : "false", ",\n \"cells\": [");
  std::string separator = "\n  ";
  for (const BenchmarkCell& cell : run.cells) {
    text += separator + CellJson(cell);
    separator = ",\n  ";
  }
  text += "\n ],\n \"accuracies\": [";
  separator = "\n  ";
  for (const BenchmarkAccuracy& accuracy : run.accuracies) {
    text +=
        Concat(separator, "{\"name\": ", JsonString(accuracy.name),
               ", \"type\": ", JsonString(accuracy.type), ", \"top1\": ", Optional(accuracy.top1),
               ", \"agreement\": ", Optional(accuracy.agreement), "}");
    separator = ",\n  ";
  }
  return text + "\n ]}\n";
}

void ReadBenchmarkJson(const std::string& path, BenchmarkRun* run) {
  const Object object = ReadObject(path);
  const Fields fields(path, object);
  CAFFE_CHECK(fields.Find("cells"), path, ": it is not a file of caffe benchmark");
  for (const Object& cell : fields.Objects("cells")) run->cells.push_back(Cell(path, {path, cell}));
  for (const Object& accuracy : fields.Objects("accuracies")) {
    const Fields own(path, accuracy);
    run->accuracies.push_back({own.NeededText("name"), own.NeededText("type"), own.Number("top1"),
                               own.Number("agreement")});
  }
}

void ReadAccuracyJson(const std::string& path, BenchmarkRun* run) {
  const Object object = ReadObject(path);
  const Fields fields(path, object);
  CAFFE_CHECK(fields.Find("quantized_top1") || fields.Find("agreement"), path,
              ": it is not a report of caffe quantize with scores of classes");
  const std::string name = fields.Text("net");
  const std::optional<double> exact = fields.Number("float_top1");
  if (exact) run->accuracies.push_back({name, "float", exact, std::nullopt});
  run->accuracies.push_back({name, CommandTypeName(CommandType(fields.NeededText("type"))),
                             fields.Number("quantized_top1"), fields.Number("agreement")});
}

}  // namespace caffe
