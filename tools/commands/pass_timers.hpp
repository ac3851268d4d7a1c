#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/net/pass_observer.hpp"

namespace caffe {

class Net;

// Events of a device's queue before and after each of several parts of a pass: layers or steps.
class PartTimer {
 public:
  PartTimer(Device* device, size_t parts);
  // The first Begin and the last End of a pass count.
  void Begin(size_t part);
  void End(size_t part);
  // Waits for the device and takes the times of a pass. Call it after each pass.
  void Collect();
  // Forgets all passes.
  void Clear();
  // The mean of all passes, in milliseconds; 0 for a part that did not run.
  double Mean(size_t part) const;
  double Median(size_t part) const;

 private:
  Device* device_;
  std::vector<std::unique_ptr<Event>> begin_, end_;
  std::vector<std::vector<double>> times_;  // of each part, in each pass
};

// Measures all layers in a forward and in a backward pass, which then run layer by layer. Layers
// that the net added are left out; those that compute a composite layer count as this layer.
class LayerObserver final : public PassObserver {
 public:
  LayerObserver(PartTimer* forward, PartTimer* backward) : forward_(forward), backward_(backward) {}
  const char* name() const override { return "a timer"; }
  void BeforeForward(const Node& node) override;
  void AfterForward(const Node& node) override;
  void BeforeBackward(const Node& node) override;
  void AfterBackward(const Node& node) override;

 private:
  PartTimer *forward_, *backward_;
};

// Measures the steps of whole forwards, numbered as in Net::Steps.
class StepObserver final : public PassObserver {
 public:
  explicit StepObserver(PartTimer* timer) : timer_(timer) {}
  const char* name() const override { return "a timer"; }
  bool per_layer() const override { return false; }
  bool per_step() const override { return true; }
  void BeforeForward(const Node&) override { timer_->Begin(step_); }
  void AfterForward(const Node&) override { timer_->End(step_++); }
  // Call it after each forward.
  void Collect();

 private:
  PartTimer* timer_;
  size_t step_ = 0;
};

// The median time of each step of a forward over some passes, in milliseconds.
std::vector<double> TimeSteps(Net* net, size_t steps, int passes);

}  // namespace caffe
