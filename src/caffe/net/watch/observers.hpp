#pragma once

#include <functional>
#include <string>
#include <vector>

#include "debug_lines.hpp"
#include "finite_check.hpp"
#include "layer_callbacks.hpp"

namespace caffe {

class NetRanges;

// Why a pass with these observers is not replayed as a graph; empty if it can be.
std::string WhyNotReplayed(const std::vector<PassObserver*>& observers);

// The observers of a net's passes.
class Observers {
 public:
  Observers(const Wiring& wiring, const Gradients& gradients, const Views& views,
            BlobVersions* versions, NetRanges* ranges);

  // Called between two steps; may throw to end the pass.
  void set_interruption(std::function<void()> check) { interruption_.check = std::move(check); }
  void set_debug_info(bool all) { debug_lines_.set_all(all); }
  LayerCallbacks& callbacks() { return callbacks_; }
  void Add(PassObserver* observer) { added_.push_back(observer); }
  void Remove(PassObserver* observer) { std::erase(added_, observer); }

  // Those that are active now, in the order of their calls.
  std::vector<PassObserver*> Active();
  // The name of one that looks at blobs between the layers of a forward or of a backward; null if
  // there is none.
  const char* LooksAtLayers();

 private:
  class Interruption final : public PassObserver {
   public:
    std::function<void()> check;
    bool per_layer() const override { return false; }
    void BeforeForward(const Node&) override { check(); }
    void BeforeBackward(const Node&) override { check(); }
  };

  NetRanges* ranges_;
  Interruption interruption_;
  DebugLines debug_lines_;
  FiniteCheck finite_check_;
  bool checks_finite_;
  LayerCallbacks callbacks_;
  std::vector<PassObserver*> added_;  // by callers
};

}  // namespace caffe
