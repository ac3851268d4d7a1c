#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "caffe.pb.h"
#include "caffe/calibration/random_batch.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/net/batch_size.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/step_info.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/copy_weights.hpp"
#include "commands/memory_line.hpp"
#include "commands/pass_timers.hpp"
#include "commands/results.hpp"
#include "commands/step_table.hpp"

namespace caffe {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::string Fixed(double value) { return GeneralText(value, 6); }

std::string LayerLine(const std::string& name, const char* direction, double milliseconds) {
  char head[32];
  std::snprintf(head, sizeof(head), "%10s", name.substr(0, 30).c_str());
  return Concat(name.size() < 31 ? head : name, "\t", direction, ": ", Fixed(milliseconds), " ms.");
}

bool HasLoss(const Net& net) {
  const std::vector<float>& weights = net.blob_loss_weights();
  return std::any_of(weights.begin(), weights.end(), [](float weight) { return weight != 0; });
}

bool InFloats(const Net& net) {
  return std::all_of(net.layers().begin(), net.layers().end(),
                     [](const auto& layer) { return layer->types().compute.is_float(); });
}

// Whether the net runs in phase TEST and computes in codes there.
bool HasCodesInTest(const Options& options) {
  try {
    NetOptions net_options;
    const NetParameter parameter = ReadNetFile(options.model, &net_options.lines);
    net_options.device = ChooseDevice(options.gpu);
    net_options.phase = TEST;
    net_options.level = options.level;
    net_options.stages = options.stages;
    Net net(parameter, net_options);
    if (InFloats(net)) return false;
    if (!options.weights.empty()) {
      CopyWeights(options, &net);
    }
    ObserveMissingRanges(&net, options.weights.empty());
    net.Forward();
    return true;
  } catch (const Error&) {
    return false;
  }
}

int Time(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "time: Need a model definition to time: -model FILE");
  NetOptions net_options;
  NetParameter parameter = ReadNetFile(options.model, &net_options.lines);
  const bool train = options.phase != "TEST";
  net_options.device = ChooseDevice(options.gpu);
  net_options.phase = train ? TRAIN : TEST;
  net_options.level = options.level;
  net_options.stages = options.stages;
  Device* device = net_options.device;
  device->ResetPeak();
  auto made = std::make_unique<Net>(parameter, net_options);
  if (train && !HasLoss(*made) && InFloats(*made)) {
    log::Info("The net has no loss: the backward passes of all layers are timed.");
    parameter.set_force_backward(true);
    made.reset();
    device->ResetPeak();
    made = std::make_unique<Net>(parameter, net_options);
  }
  Net& net = *made;
  if (!options.weights.empty()) {
    CopyWeights(options, &net);
  }
  ObserveMissingRanges(&net, options.weights.empty());
  device->ReleaseCache();
  device->ResetPeak();

  // Stated before anything is allocated, but for the weights.
  net.Reshape();
  const MemoryNeeds needs = net.memory_needs();
  log::Info(Concat("Memory needed: ", Fixed(MiB(needs.total())), " MiB"));
  net.set_frees_memory(train);

  log::Info("Performing Forward");
  net.Forward();
  log::Info(Concat("Initial loss: ", net.Loss()));
  if (train) {
    log::Info("Performing Backward");
    net.Backward();
  }
  device->Synchronize();
  const int n = options.iterations;
  log::Info("*** Benchmark begins ***");
  log::Info(Concat("Testing for ", n, " iterations."));

  // First whole passes, as in normal use; then layer by layer, without fusion.
  double forward = 0, backward = 0;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < n; ++i) {
    const Clock::time_point start = Clock::now();
    const auto before = device->RecordEvent();
    net.Forward();
    const auto between = device->RecordEvent();
    if (train) net.Backward();
    const auto after = device->RecordEvent();
    forward += 1e3 * between->SecondsSince(*before);
    backward += 1e3 * after->SecondsSince(*between);
    log::Info(Concat("Iteration: ", i + 1,
                     " forward-backward time: ", Fixed(MillisecondsSince(start)), " ms."));
  }
  const double total = MillisecondsSince(begin);
  const int64_t peak = device->bytes_peak();  // timing layer by layer stores every blob
  forward /= n;
  backward /= n;

  const Results results(options.json);
  const size_t layers = net.layers().size();
  PartTimer forward_timer(device, layers), backward_timer(device, layers);
  if (options.lt || options.json) {
    LayerObserver observer(&forward_timer, &backward_timer);
    net.AddObserver(&observer);
    // The first of these passes makes the kernels of layers that run alone.
    for (int i = 0; i <= n; ++i) {
      net.Forward();
      if (train) net.Backward();
      for (PartTimer* timer : {&forward_timer, &backward_timer}) {
        timer->Collect();
        if (i == 0) timer->Clear();
      }
    }
    net.RemoveObserver(&observer);
    results.Print("Average time per layer: ");
    for (size_t i = 0; i < layers; ++i) {
      const std::string& name = net.layer_names()[i];
      results.Print(LayerLine(name, "forward", forward_timer.Mean(i)));
      if (train) results.Print(LayerLine(name, "backward", backward_timer.Mean(i)));
    }
  }
  const std::vector<StepInfo> steps = options.plan ? net.Steps() : std::vector<StepInfo>();
  std::vector<double> step_times;
  if (options.plan) {
    step_times = TimeSteps(&net, steps.size(), n);
    results.Print("Steps of a forward, median times: ");
    for (const std::string& line : StepTable(steps, step_times)) results.Print(line);
  }
  const int64_t batch = BatchSize(net);
  const double images = static_cast<double>(batch) * 1e3 * n / total;
  const int64_t blobs = net.blob_bytes(), parameters = net.parameter_bytes();
  results.Print(Concat("Average Forward pass: ", Fixed(forward), " ms."));
  if (train) results.Print(Concat("Average Backward pass: ", Fixed(backward), " ms."));
  results.Print(Concat("Average Forward-Backward: ", Fixed(total / n), " ms."));
  results.Print(Concat("Total Time: ", Fixed(total), " ms."));
  results.Print(Concat("Images per second: ", Fixed(images), " (batch ", batch, ")"));
  results.Print(MemoryLine(needs));
  results.Print(Concat("Memory: blobs ", Fixed(MiB(blobs)), " MiB, parameters ",
                       Fixed(MiB(parameters)), " MiB, device peak ", Fixed(MiB(peak)), " MiB"));
  log::Info("*** Benchmark ends ***");

  if (!options.json) return 0;
  std::string text = Concat(
      "{\"model\": ", JsonString(options.model), ", \"net\": ", JsonString(net.name()),
      ", \"phase\": \"", train ? "TRAIN" : "TEST",
      "\", \"device\": ", JsonString(device->info().id),
      ", \"device_name\": ", JsonString(device->info().name), ", \"iterations\": ", n,
      ", \"batch\": ", batch, ",\n \"forward_ms\": ", forward,
      ", \"backward_ms\": ", train ? Concat(backward) : "null", ", \"iteration_ms\": ", total / n,
      ", \"total_ms\": ", total, ", \"images_per_second\": ", images,
      ",\n \"memory_bytes\": {\"activations\": ", needs.data,
      ", \"diffs\": ", needs.diffs + needs.parameter_diffs, ", \"weights\": ", needs.parameters,
      ", \"derived_weights\": ", needs.derived, ", \"workspace\": ", needs.workspace,
      ", \"total\": ", needs.total(), "}, \"blob_bytes\": ", blobs,
      ", \"parameter_bytes\": ", parameters, ", \"device_peak_bytes\": ", peak,
      ",\n \"layers\": [");
  for (size_t i = 0; i < layers; ++i) {
    text += Concat(i ? ",\n  " : "\n  ", "{\"name\": ", JsonString(net.layer_names()[i]),
                   ", \"type\": ", JsonString(net.layers()[i]->type()),
                   ", \"compute\": ", JsonString(net.layers()[i]->types().compute.name()),
                   ", \"forward_ms\": ", forward_timer.Mean(i),
                   ", \"backward_ms\": ", train ? Concat(backward_timer.Mean(i)) : "null", "}");
  }
  text += "\n]";
  if (options.plan) text += ",\n \"steps\": " + StepsJson(steps, step_times);
  std::cout << text << "}" << std::endl;
  return 0;
}

}  // namespace

int TimeCommand(const Options& options) {
  try {
    return Time(options);
  } catch (const Error& error) {
    // Some layers have codes in phase TEST only.
    if (options.model.empty() || options.phase == "TEST" || !HasCodesInTest(options)) throw;
    throw Error(Concat(error.what(),
                       "; this is phase TRAIN, in which the net cannot be timed with ",
                       "codes: give -phase TEST"));
  }
}

}  // namespace caffe
