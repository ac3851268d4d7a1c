// LayerTraits::backward_reads: Backward gives the same gradients when all data that it is not
// declared to read are NaN, and others when data that it is declared to read are.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "support/layer_samples.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

using Sample = LayerSample;

// Those of types that have a backward pass and bottoms.
const std::map<std::string, std::vector<Sample>>& Samples() {
  static const auto samples = [] {
    std::map<std::string, std::vector<Sample>> some;
    for (const auto& [type, all] : LayerSamples()) {
      const LayerTraits& traits = LayerRegistry::Get().Traits(type);
      if (traits.backward && traits.max_bottom != 0) some[type] = all;
    }
    return some;
  }();
  return samples;
}

// A layer with blobs of its own.
class Probe {
 public:
  Probe(const std::string& type, const Sample& sample, bool in_place)
      : text_("type: '" + type + "' " +
              (sample.parameters.find("phase") == std::string::npos
                   ? "phase: TRAIN " + sample.parameters
                   : sample.parameters)),
        traits_(LayerRegistry::Get().Traits(type)),
        tester_(text_, Runtime::Get().cpu(), TypeTriple::Equal(kDouble), sample.bottoms,
                sample.tops) {
    for (size_t i = 0; i < sample.bottoms.size(); ++i) bottom_.push_back(&tester_.bottom(i));
    for (int i = 0; i < sample.tops; ++i) top_.push_back(&tester_.top(i));
    if (in_place) top_[0] = bottom_[0];
    for (size_t i = 0; i < bottom_.size(); ++i) {
      values_.push_back(bottom_[i]->DataAsDouble());
      const auto& none = traits_.no_gradient_bottoms;
      propagate_down_.push_back(std::find(none.begin(), none.end(), static_cast<int>(i)) ==
                                none.end());
    }
    for (const auto& [index, values] : sample.given) values_[index] = values;
    state_ = tester_.layer().RunState();
  }

  BackwardReads reads() { return BackwardReadsOf(tester_.layer().layer_param()); }
  size_t bottoms() const { return bottom_.size(); }
  size_t tops() const { return top_.size(); }

  // The gradients of bottoms and parameters, after `poison` had its way with the data.
  template <class Poison> std::vector<Numbers> Gradients(const Poison& poison) {
    LayerBase& layer = tester_.layer();
    layer.SetRunState(layer.context().seed, state_);
    for (size_t i = 0; i < bottom_.size(); ++i) bottom_[i]->SetData(values_[i]);
    layer.Reshape(bottom_, top_);
    layer.PrepareParameters();
    layer.Forward(bottom_, top_);
    for (auto& blob : layer.blobs()) blob->SetDiff(Numbers(blob->count(), 0));
    for (size_t i = 0; i < top_.size(); ++i) {
      top_[i]->SetDiff(TestNumbers(top_[i]->count(), 7 + i));
    }
    poison();
    layer.Backward(top_, propagate_down_, bottom_);
    std::vector<Numbers> gradients;
    for (size_t i = 0; i < bottom_.size(); ++i) {
      gradients.push_back(propagate_down_[i] ? bottom_[i]->DiffAsDouble() : Numbers());
    }
    for (auto& blob : layer.blobs()) gradients.push_back(blob->DiffAsDouble());
    return gradients;
  }
  void PoisonBottom(size_t i) { Poison(bottom_[i]); }
  // Other numbers of the same signs.
  void KeepSigns(size_t i) {
    Numbers values = bottom_[i]->DataAsDouble();
    for (double& value : values) value *= value > 0 ? 3 : 0.25;
    bottom_[i]->SetData(values);
  }
  void PoisonTop(size_t i) { Poison(top_[i]); }

 private:
  static void Poison(BlobBase* blob) {
    blob->SetData(Numbers(blob->count(), std::numeric_limits<double>::quiet_NaN()));
  }

  std::string text_;
  const LayerTraits& traits_;
  LayerTester tester_;
  BlobVec bottom_, top_;
  std::vector<Numbers> values_;
  std::vector<bool> propagate_down_;
  std::vector<uint64_t> state_;
};

// NaN equals nothing, so a gradient made of poison differs, too.
bool Same(const std::vector<Numbers>& a, const std::vector<Numbers>& b) { return a == b; }

TEST(BackwardReadsTest, EveryTypeWithAGradientIsDeclared) {
  const LayerRegistry& registry = LayerRegistry::Get();
  for (const std::string& type : registry.Names()) {
    const LayerTraits& traits = registry.Traits(type);
    if (!traits.backward || traits.max_bottom == 0 || type == "Python") continue;
    EXPECT_TRUE(traits.backward_reads) << type << ": LayerTraits::backward_reads is missing";
  }
}

TEST(BackwardReadsTest, NothingElseIsRead) {
  for (const auto& [type, samples] : Samples()) {
    // Flatten and others share memory: it is read if one of its blobs is.
    const bool shared = LayerRegistry::Get().Traits(type).top_memory != TopMemory::kOwn;
    for (const Sample& sample : samples) {
      Probe probe(type, sample, false);
      const BackwardReads reads = probe.reads();
      const std::vector<Numbers> expected = probe.Gradients([] {});
      const std::vector<Numbers> actual = probe.Gradients([&] {
        for (size_t i = 0; i < probe.bottoms(); ++i) {
          if (!reads.Bottom(static_cast<int>(i))) {
            probe.PoisonBottom(i);
          } else if (reads.only_signs) {
            probe.KeepSigns(i);
          }
        }
        for (size_t i = 0; i < probe.tops() && !shared; ++i) {
          if (!reads.Top(static_cast<int>(i))) probe.PoisonTop(i);
        }
      });
      EXPECT_TRUE(Same(actual, expected)) << type << " { " << sample.parameters << " }";
    }
  }
}

TEST(BackwardReadsTest, WhatIsDeclaredIsRead) {
  for (const auto& [type, samples] : Samples()) {
    std::set<std::string> declared, read;
    for (const Sample& sample : samples) {
      Probe probe(type, sample, false);
      const BackwardReads reads = probe.reads();
      const std::vector<Numbers> expected = probe.Gradients([] {});
      // Other gradients, or an error about invalid indices.
      const auto changes = [&](const std::function<void()>& poison) {
        try {
          return !Same(probe.Gradients(poison), expected);
        } catch (const Error&) {
          return true;
        }
      };
      for (size_t i = 0; i < probe.bottoms(); ++i) {
        if (!reads.Bottom(static_cast<int>(i))) continue;
        const std::string what = "bottom " + std::to_string(i);
        declared.insert(what);
        if (changes([&] { probe.PoisonBottom(i); })) read.insert(what);
      }
      for (size_t i = 0; i < probe.tops(); ++i) {
        if (!reads.Top(static_cast<int>(i))) continue;
        const std::string what = "top " + std::to_string(i);
        declared.insert(what);
        if (changes([&] { probe.PoisonTop(i); })) read.insert(what);
      }
    }
    EXPECT_EQ(read, declared) << type;
  }
}

// In place the bottom's memory holds the top: it is read if bottom 0 or top 0 is, unless a copy is.
TEST(BackwardReadsTest, InPlaceOnlyTheDeclaredMemoryIsRead) {
  for (const auto& [type, samples] : Samples()) {
    if (!LayerRegistry::Get().Traits(type).in_place) continue;
    for (const Sample& sample : samples) {
      Probe apart(type, sample, false), in_place(type, sample, true);
      const BackwardReads reads = in_place.reads();
      const std::vector<Numbers> expected = apart.Gradients([] {});
      const bool read = reads.Top(0) || (reads.Bottom(0) && !reads.copies_in_place);
      const std::vector<Numbers> actual = in_place.Gradients([&] {
        if (!read) in_place.PoisonTop(0);
        for (size_t i = 1; i < in_place.bottoms(); ++i) {
          if (!reads.Bottom(static_cast<int>(i))) in_place.PoisonBottom(i);
        }
      });
      EXPECT_TRUE(Same(actual, expected)) << type << " { " << sample.parameters << " }";
    }
  }
}

}  // namespace
}  // namespace caffe
