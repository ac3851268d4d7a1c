#pragma once

#include <optional>

#include "caffe/memory/workspace.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "caffe/net/run/passes.hpp"

namespace caffe {

// The rooms that a net consists of, besides its wiring.
struct Net::Rooms {
  Rooms(const Wiring& wiring, const NetParameter& given, StepState* state, Device* device)
      : gradients(wiring),
        ranges(wiring, given, device),
        losses(wiring, state),
        versions(wiring, &ranges),
        views(wiring),
        runner(wiring),
        observers(wiring, gradients, views, &versions, &ranges) {}

  PassRooms ForPasses(const Wiring& wiring) {
    return {&runner, &ranges, &gradients, &losses, &versions, wiring.workspace.get(), &tail};
  }

  Gradients gradients;
  NetRanges ranges;
  LossSeeds losses;
  BlobVersions versions;
  Views views;
  NodeRunner runner;
  Observers observers;
  TrainingTail tail;
  std::optional<Passes> passes;  // made last
};

}  // namespace caffe
