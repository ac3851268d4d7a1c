#include <algorithm>
#include <memory>
#include <vector>

#include "caffe.pb.h"
#include "caffe/calibration/random_batch.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/library/tuning.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/step_info.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/copy_weights.hpp"
#include "commands/pass_timers.hpp"
#include "commands/results.hpp"
#include "commands/step_table.hpp"

namespace caffe {
namespace {

bool HasLoss(const Net& net) {
  const std::vector<float>& weights = net.blob_loss_weights();
  return std::any_of(weights.begin(), weights.end(), [](float weight) { return weight != 0; });
}

bool InFloats(const Net& net) {
  return std::all_of(net.layers().begin(), net.layers().end(),
                     [](const auto& layer) { return layer->types().compute.is_float(); });
}

// Runs a net once, so that its libraries choose, and then measures its steps.
void TunePhase(const Options& options, Device* device, Phase phase, const Results& results) {
  NetOptions net_options;
  NetParameter parameter = ReadNetFile(options.model, &net_options.lines);
  net_options.device = device;
  net_options.phase = phase;
  net_options.level = options.level;
  net_options.stages = options.stages;
  auto net = std::make_unique<Net>(parameter, net_options);
  if (phase == TRAIN && !HasLoss(*net) && InFloats(*net)) {
    log::Info("The net has no loss: the backward passes of all layers are measured.");
    parameter.set_force_backward(true);
    net.reset();
    net = std::make_unique<Net>(parameter, net_options);
  }
  if (!options.weights.empty()) CopyWeights(options, net.get());
  ObserveMissingRanges(net.get(), options.weights.empty());
  net->Forward();
  if (phase == TRAIN) net->Backward();
  device->Synchronize();
  const std::vector<StepInfo> steps = net->Steps();
  const auto times = TimeSteps(net.get(), steps.size(), options.iterations);
  results.Print(Concat("Steps of a forward in phase ", phase == TRAIN ? "TRAIN" : "TEST",
                       ", median times: "));
  for (const std::string& line : StepTable(steps, times)) results.Print(line);
}

std::string ChoiceLine(const TunedChoice& choice) {
  return Concat(choice.library, "  ", choice.operation, "  ", choice.configuration, "  ",
                FixedText(choice.milliseconds, 4), " ms, the fastest of ", choice.measured);
}

}  // namespace

int TuneCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "tune: Need a model definition to tune: -model FILE");
  Device* device = ChooseDevice(options.gpu);
  const Results results(options.json);
  const TuneExhaustively exhaustively;
  const size_t before = TunedChoices().size();
  TunePhase(options, device, TEST, results);
  if (options.train) TunePhase(options, device, TRAIN, results);
  std::vector<TunedChoice> choices = TunedChoices();
  choices.erase(choices.begin(), choices.begin() + static_cast<ptrdiff_t>(before));
  std::erase_if(choices, [](const TunedChoice& choice) { return choice.measured == 0; });
  if (choices.empty()) {
    results.Print(Concat("Nothing was measured: no library that computes this net on ",
                         device->info().id, " has several algorithms."));
    return 0;
  }
  results.Print(Concat("Choices of the libraries: ", choices.size()));
  for (const TunedChoice& choice : choices) results.Print(ChoiceLine(choice));
  return 0;
}

}  // namespace caffe
