#include "loss_seeds.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/device/program_builder.hpp"

namespace caffe {

LossSeeds::LossSeeds(const Wiring& wiring, StepState* state) : state_(state) {
  for (size_t n = 0; n < wiring.nodes.size(); ++n) {
    const Node& node = wiring.nodes[n];
    for (size_t t = 0; t < node.top.size(); ++t) {
      const float weight = node.layer->loss_weight(static_cast<int>(t));
      if (weight != 0) losses_.push_back({node.top[t], weight, static_cast<int>(n), {}, {}});
    }
  }
}

double LossSeeds::Sum() const {
  double sum = 0;
  for (const Loss& loss : losses_) {
    for (double value : loss.blob->DataAsDouble()) sum += value * loss.weight;
  }
  return sum;
}

bool LossSeeds::WrittenByCaller(const Loss& loss) const {
  if (loss.diff->version() == loss.version || state_->Get(StepState::kLossScale) != 1) {
    return false;
  }
  // A view that was only read also bumps the version; unchanged values do not count as written by
  // the caller.
  const std::vector<double> values = loss.blob->DiffAsDouble();
  const auto all = [&values](double expected) {
    return std::all_of(values.begin(), values.end(), [&](double value) {
      return std::abs(value - expected) <= 0x1p-8 * std::abs(expected);
    });
  };
  return !all(loss.weight) && (loss.seeded || !all(0));
}

void LossSeeds::Seed(const std::vector<int>& nodes, Device* device) {
  for (Loss& loss : losses_) {
    if (std::find(nodes.begin(), nodes.end(), loss.node) == nodes.end()) continue;
    if (!loss.seed) {
      loss.seed = ProgramBuilder(device, "loss_seed")
                      .Types(loss.blob->type())
                      .Body("solver/loss_seed")
                      .Build()
                      ->CreateKernel("loss_seed");
    }
    if (loss.diff != loss.blob->diff_memory()) {
      loss.diff = loss.blob->diff_memory();
      loss.version = 0;
      loss.given = loss.seeded = false;
    }
    if (loss.diff->version() != loss.version) loss.given = WrittenByCaller(loss);
    if (!loss.given) {
      loss.seed->Launch(
          loss.blob->count(),
          {loss.blob->count(), state_->reals(), loss.blob->MutableDiff(),
           static_cast<int>(StepState::kLossScale), static_cast<double>(loss.weight)});
    }
    loss.seeded = true;
    loss.version = loss.diff->version();
  }
}

void LossSeeds::AddToEpoch(GraphEpoch* epoch) const {
  for (const Loss& loss : losses_) {
    epoch->Add(loss.given);
    const bool unchanged =
        loss.diff && loss.diff == loss.blob->diff_memory() && loss.diff->version() == loss.version;
    if (!unchanged) epoch->Add(DevicePtr());
  }
}

void LossSeeds::NoteSeeded() {
  for (Loss& loss : losses_) {
    if (loss.diff) loss.version = loss.diff->version();
  }
}

void LossSeeds::SetDevice() {
  for (Loss& loss : losses_) loss.seed.reset();
}

}  // namespace caffe
