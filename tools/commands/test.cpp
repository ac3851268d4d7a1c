#include <cmath>
#include <iostream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/progress_bar.hpp"
#include "caffe/net/batch_size.hpp"
#include "caffe/net/expert_usage.hpp"
#include "caffe/net/lost_scores.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/copy_weights.hpp"
#include "commands/results.hpp"

namespace caffe {

int TestCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "test: Need a model definition to score: -model FILE");
  CAFFE_CHECK(!options.weights.empty(), "test: Need model weights to score: -weights FILE");
  NetOptions net_options;
  const NetParameter parameter = ReadNetFile(options.model, &net_options.lines);
  net_options.device = ChooseDevice(options.gpu);
  net_options.phase = TEST;
  net_options.level = options.level;
  net_options.stages = options.stages;
  Net net(parameter, net_options);
  CopyWeights(options, &net);
  log::Info(Concat("Running for ", options.iterations, " iterations."));

  std::unique_ptr<ProgressBar> bar;
  if (options.progress && ProgressBar::Wanted()) {
    bar = std::make_unique<ProgressBar>(&std::cerr, 0, options.iterations, BatchSize(net));
  }
  std::vector<double> sums;
  double loss = 0;
  for (int i = 0; i < options.iterations; ++i) {
    net.Forward();
    loss += net.Loss();
    size_t element = 0;
    for (int index : net.output_blob_indices()) {
      for (double value : net.blobs()[index]->DataAsDouble()) {
        if (!std::isfinite(value)) net.CheckData();
        if (element == sums.size()) sums.push_back(0);
        sums[element++] += value;
        log::Info(
            Concat("Batch ", i, ", ", net.blob_names()[index], " = ", static_cast<float>(value)));
      }
    }
    if (bar) bar->Show(i + 1);
  }
  bar.reset();
  const std::string lost = TakeLostScores(net);
  if (!lost.empty()) log::Warning(lost);
  const Results results(options.json);
  results.Print(Concat("Loss: ", static_cast<float>(loss / options.iterations)));
  size_t element = 0;
  std::string outputs;
  for (int index : net.output_blob_indices()) {
    const float weight = net.blob_loss_weights()[index];
    for (int64_t i = 0; i < net.blobs()[index]->count(); ++i) {
      const float mean = static_cast<float>(sums[element++] / options.iterations);
      const std::string part = weight ? Concat(" (* ", weight, " = ", weight * mean, " loss)") : "";
      results.Print(Concat(net.blob_names()[index], " = ", mean, part));
      outputs +=
          Concat(outputs.empty() ? "\n  " : ",\n  ",
                 "{\"name\": ", JsonString(net.blob_names()[index]), ", \"element\": ", i,
                 ", \"mean\": ", JsonNumber(mean), ", \"loss_weight\": ", JsonNumber(weight), "}");
    }
  }
  for (const std::string& line : TakeExpertUsage(net, "Test")) results.Print(line);
  if (!options.json) return 0;
  const DeviceInfo& device = net_options.device->info();
  std::cout << Concat("{\"model\": ", JsonString(options.model),
                      ", \"net\": ", JsonString(net.name()),
                      ", \"weights\": ", JsonString(options.weights),
                      ", \"device\": ", JsonString(device.id),
                      ", \"device_name\": ", JsonString(device.name),
                      ", \"iterations\": ", options.iterations, ", \"batch\": ", BatchSize(net),
                      ",\n \"loss\": ", JsonNumber(loss / options.iterations), ", \"outputs\": [",
                      outputs, "\n]}")
            << std::endl;
  return 0;
}

}  // namespace caffe
