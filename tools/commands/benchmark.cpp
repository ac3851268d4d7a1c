#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/solver/signal_handler.hpp"
#include "commands/benchmark_report.hpp"
#include "commands/commands.hpp"
#include "commands/net_types.hpp"
#include "commands/version.hpp"

namespace caffe {
namespace {

std::vector<std::string> Parts(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::vector<int64_t> Batches(const std::string& text) {
  std::vector<int64_t> batches;
  for (const std::string& part : Parts(text)) {
    std::istringstream stream(part);
    int64_t batch = 0;
    CAFFE_CHECK(stream >> batch && (stream >> std::ws).eof() && batch > 0, "benchmark: -batches: '",
                part, "' is not a positive whole number");
    batches.push_back(batch);
  }
  return batches;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

// Nets, types, devices and batch sizes, and what happens to each combination.
class Benchmark {
 public:
  explicit Benchmark(const Options& options)
      : options_(options),
        types_(Parts(options.types)),
        devices_(Parts(options.devices)),
        batches_(Batches(options.batches)),
        signals_(SolverAction::kStop, SolverAction::kNone) {
    for (const std::string& type : types_) CommandType(type);
    settings_.seconds = options.seconds;
    if (options.iterations_given) settings_.samples = options.iterations;
    settings_.train = options.phase == "TRAIN";
    settings_.plain = options.plain;
    run_.date = Now();
    run_.version = std::string("caffe ") + kVersion;
    run_.host = Runtime::Get().cpu()->info().name;
    if (devices_.empty()) devices_.push_back(Runtime::Get().BestDevice()->info().id);
    for (const std::string& path : FilesInList(options.merge)) ReadBenchmarkJson(path, &run_);
    for (const std::string& path : FilesInList(options.accuracy)) ReadAccuracyJson(path, &run_);
  }

  int Run() {
    for (const std::string& name : FilesInList(options_.models)) {
      const BenchmarkModel model(name, FilesInList(options_.weights), options_.strict);
      for (const std::string& device : devices_) {
        for (const int64_t batch : batches_) {
          for (const std::string& type : types_) {
            if (!Stopped()) Add(model, device, batch, type);
          }
        }
      }
    }
    run_.interrupted = Stopped();
    Write();
    std::cout << (options_.json ? BenchmarkJson(run_) : BenchmarkMarkdown(run_, ""));
    std::cout << std::flush;
    return run_.interrupted ? 128 + signals_.stopped_by() : 0;
  }

 private:
  bool Stopped() {
    if (signals_.stopped_by() == 0) signals_.Poll();
    return signals_.stopped_by() != 0;
  }

  void Add(const BenchmarkModel& model, const std::string& device_name, int64_t batch,
           const std::string& type) {
    BenchmarkCell cell;
    cell.net = model.net();
    cell.name = model.name();
    cell.type = CommandTypeName(CommandType(type));
    cell.device = device_name;
    cell.train = settings_.train;
    cell.batch = batch;
    try {
      Device* device = Runtime::Get().DeviceByName(device_name);
      cell.device = device->info().id;
      cell.device_name = device->info().name;
      MeasureCell(
          model, device, settings_, [this] { return Stopped(); }, &cell);
    } catch (const std::exception& error) {
      cell.error = error.what();
    }
    log::Info(BenchmarkLine(cell));
    run_.cells.push_back(cell);
    Write();  // what there is survives a crash
  }

  void Write() const {
    if (options_.out.empty()) return;
    const std::string svg = BenchmarkSvg(run_);
    const std::string image = std::filesystem::path(options_.out).filename().string() + ".svg";
    if (!svg.empty()) WriteFileAtomically(options_.out + ".svg", svg);
    WriteFileAtomically(options_.out + ".json", BenchmarkJson(run_));
    WriteFileAtomically(options_.out + ".md", BenchmarkMarkdown(run_, svg.empty() ? "" : image));
  }

  const Options& options_;
  std::vector<std::string> types_, devices_;
  std::vector<int64_t> batches_;
  BenchmarkSettings settings_;
  SignalHandler signals_;
  BenchmarkRun run_;
};

}  // namespace

int BenchmarkCommand(const Options& options) {
  const size_t models = Parts(options.models).size();
  CAFFE_CHECK(models > 0 || !options.merge.empty(),
              "benchmark: Need models to measure: -models lenet,net.prototxt, or files of earlier "
              "runs: -merge a.json,b.json");
  CAFFE_CHECK(options.weights.empty() || models == 1,
              "benchmark: -weights needs one model, and there are ", models);
  if (!options.out.empty()) {
    std::vector<std::string> inputs;
    for (const std::string& list :
         {options.models, options.weights, options.merge, options.accuracy}) {
      for (const std::string& path : FilesInList(list)) inputs.push_back(path);
    }
    CheckResults(options.out, {".md", ".json", ".svg"}, inputs);
  }
  return Benchmark(options).Run();
}

}  // namespace caffe
