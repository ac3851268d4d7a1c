#include "caffe/transform/transform.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/transform/pass_registry.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"

namespace caffe {
namespace {

std::vector<std::string> List(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

Shape ParseShape(const std::string& text) {
  Shape shape;
  for (const std::string& part : List(text)) {
    int64_t extent = 0;
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data(), end, extent);
    CAFFE_CHECK(error == std::errc() && rest == end && extent > 0, "transform: -shape has '", part,
                "', which is not a positive whole number");
    shape.push_back(extent);
  }
  return shape;
}

std::string Text(const TransformReport& report) {
  std::string text;
  for (const PassReport& pass : report.passes) {
    for (const std::string& note : pass.notes) text += Concat(pass.name, ": ", note, "\n");
  }
  char line[200];
  std::snprintf(line, sizeof line, "\n%-18s%8s%8s%14s%14s\n", "pass", "layers", "after", "bytes",
                "after");
  text += line;
  for (const PassReport& pass : report.passes) {
    std::snprintf(line, sizeof line, "%-18s%8d%8d%14lld%14lld\n", pass.name.c_str(),
                  pass.layers_before, pass.layers_after, static_cast<long long>(pass.bytes_before),
                  static_cast<long long>(pass.bytes_after));
    text += line;
  }
  for (const PackedSize& packed : report.packed) {
    text += Concat(
        &packed == &report.packed.front() ? "\n" : "", packed.program, ": ", packed.before,
        " bytes before, ", packed.after, " after (",
        FixedText(100.0 * static_cast<double>(packed.after) / static_cast<double>(packed.before),
                  1),
        " %)\n");
  }
  text += "\noutputs of both nets for the same inputs\n";
  std::snprintf(line, sizeof line, "%-22s%12s%12s%12s%14s%14s\n", "blob", "largest", "difference",
                "relative", "cosine", "same argmax");
  text += line;
  const auto number = [](double value) {
    return std::isnan(value) ? std::string("NaN") : GeneralText(value, 4);
  };
  for (const OutputDifference& output : report.outputs) {
    std::snprintf(line, sizeof line, "%-22s%12s%12s%12s%14s%14s\n", output.blob.c_str(),
                  number(output.largest).c_str(), number(output.largest_difference).c_str(),
                  number(output.relative).c_str(),
                  std::isnan(output.cosine) ? "NaN" : FixedText(output.cosine, 9).c_str(),
                  Concat(output.same_argmax, " of ", output.items).c_str());
    text += line;
  }
  for (const OutputDifference& output : report.outputs) {
    if (output.not_finite == 0) continue;
    text += Concat(output.blob, ": ", output.not_finite, " of ", output.count,
                   " elements are not finite, and are left out\n");
  }
  if (report.outputs.empty()) text += "(none: the nets have no output in common)\n";
  return text;
}

std::string Json(const Options& options, const TransformReport& report) {
  std::string passes, outputs, sizes;
  for (const PackedSize& packed : report.packed) {
    sizes += Concat(sizes.empty() ? "" : ", ", "{\"program\": ", JsonString(packed.program),
                    ", \"before\": ", packed.before, ", \"after\": ", packed.after, "}");
  }
  for (const PassReport& pass : report.passes) {
    std::string notes;
    for (const std::string& note : pass.notes) {
      notes += (notes.empty() ? "" : ", ") + JsonString(note);
    }
    passes +=
        Concat(passes.empty() ? "\n  " : ",\n  ", "{\"name\": ", JsonString(pass.name),
               ", \"layers_before\": ", pass.layers_before,
               ", \"layers_after\": ", pass.layers_after, ", \"bytes_before\": ", pass.bytes_before,
               ", \"bytes_after\": ", pass.bytes_after, ", \"notes\": [", notes, "]}");
  }
  for (const OutputDifference& output : report.outputs) {
    outputs += Concat(outputs.empty() ? "\n  " : ",\n  ", "{\"blob\": ", JsonString(output.blob),
                      ", \"count\": ", output.count, ", \"items\": ", output.items,
                      ", \"not_finite\": ", output.not_finite,
                      ", \"largest\": ", JsonNumber(output.largest),
                      ", \"largest_difference\": ", JsonNumber(output.largest_difference),
                      ", \"relative\": ", JsonNumber(output.relative),
                      ", \"cosine\": ", JsonNumber(output.cosine),
                      ", \"same_argmax\": ", output.same_argmax, "}");
  }
  return Concat("{\"model\": ", JsonString(options.model),
                ", \"weights\": ", JsonString(options.weights),
                ", \"out\": ", JsonString(options.out), ",\n \"passes\": [", passes,
                "\n],\n \"packed\": [", sizes, "],\n \"outputs\": [", outputs, "\n]}\n");
}

}  // namespace

int TransformCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "transform: Need a model: -model FILE");
  CAFFE_CHECK(!options.weights.empty(), "transform: Need the weights of the model: -weights FILE");
  CAFFE_CHECK(!options.out.empty(),
              "transform: Need the names of the results: -out PREFIX (writes PREFIX.prototxt and "
              "PREFIX.caffemodel)");
  TransformOptions transform;
  transform.passes = List(options.passes);
  // The default of -type depends on the pass.
  for (const std::string& flag : options.flags) {
    if (flag.starts_with("--type=")) transform.type = options.type;
  }
  transform.strip.shape = ParseShape(options.shape);
  transform.strip.outputs = List(options.outputs);
  transform.seed = static_cast<uint64_t>(options.seed);
  transform.levels = options.levels;
  for (const std::string& library : FilesInList(options.libraries)) LoadPasses(library);
  CheckPasses(transform);
  const std::vector<std::string> files = FilesInList(options.weights);
  std::vector<std::string> inputs = files;
  inputs.push_back(options.model);
  const NetParameter net = ReadTestNetFile(options.model);
  for (const std::string& file : InputFiles(net)) inputs.push_back(file);
  CheckResults(options.out, {".caffemodel", ".prototxt"}, inputs);
  NetParameter model = ReadModel(net, files, options.strict);
  transform.device = ChooseDevice(options.gpu);
  TransformReport report;
  model = TransformModel(std::move(model), transform, &report);
  WriteModel(model, options.out);
  std::cout << (options.json ? Json(options, report) : Text(report)) << std::flush;
  return 0;
}

}  // namespace caffe
