#pragma once

#include "caffe/net/build/gradients.hpp"
#include "caffe/net/pass_observer.hpp"

namespace caffe {

// CAFFE_DEBUG=nan: throws at the first layer and blob with a NaN or an infinity. Reads back every
// blob.
class FiniteCheck final : public PassObserver {
 public:
  FiniteCheck(const Wiring& wiring, const Gradients& gradients)
      : wiring_(wiring), gradients_(gradients) {}
  const char* name() const override { return "CAFFE_DEBUG=nan"; }
  void AfterForward(const Node& node) override;
  void AfterBackward(const Node& node) override;

 private:
  const Wiring& wiring_;
  const Gradients& gradients_;
};

}  // namespace caffe
