#include "support/layer_tester.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/type_of_top.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

std::vector<double> TestNumbers(int64_t count, uint64_t seed) {
  std::vector<double> values(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int step = static_cast<int>((state >> 33) % 254) - 127;
    value = (step >= 0 ? step + 1 : step) / 128.0;
  }
  return values;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double allowed = tolerance * std::max(1.0, std::abs(expected[i]));
    // Written so that a NaN fails.
    ASSERT_TRUE(std::abs(actual[i] - expected[i]) <= allowed)
        << what << ": element " << i << " is " << actual[i] << ", expected " << expected[i];
  }
}

LayerTester::LayerTester(const std::string& prototxt, Device* device, const TypeTriple& types,
                         const std::vector<Shape>& shapes, int tops, uint64_t seed)
    : seed_(seed) {
  LayerParameter parameter;
  CAFFE_CHECK(google::protobuf::TextFormat::ParseFromString(prototxt, &parameter),
              "not a LayerParameter: ", prototxt);
  if (!parameter.has_name()) parameter.set_name("tested");
  const LayerTraits& traits = LayerRegistry::Get().Traits(parameter.type());
  const auto has = [](const std::vector<int>& list, size_t index) {
    return std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DataType type = has(traits.float_bottoms, i) ? kFloat : types.in;
    bottoms_.push_back(MakeBlob(type, device, shapes[i], "bottom" + std::to_string(i)));
    if (type.is_scaled()) bottoms_[i]->set_range({1, 0, true});
    if (type.is_float()) bottoms_[i]->SetData(TestNumbers(bottoms_[i]->count(), seed + i));
    bottom_vec_.push_back(bottoms_[i].get());
    propagate_down_.push_back(!has(traits.no_gradient_bottoms, i));
  }
  for (int i = 0; i < tops; ++i) {
    const DataType type = TypeOfTop(traits, i, types.out);
    tops_.push_back(MakeBlob(type, device, {0}, "top" + std::to_string(i)));
    top_vec_.push_back(tops_[i].get());
  }
  LayerContext context;
  context.device = device;
  context.types = types;
  context.seed = seed;
  layer_ = LayerRegistry::Get().Create(parameter, context);
  layer_->SetUp(traits, bottom_vec_, top_vec_);
  for (size_t i = 0; i < layer_->blobs().size(); ++i) {
    layer_->set_param_propagate_down(static_cast<int>(i), true);
  }
}

void LayerTester::Forward() {
  ShapeAndSetRanges();
  layer_->PrepareParameters();
  layer_->Forward(bottom_vec_, top_vec_);
}

void LayerTester::ForwardWith(WorkRequest request) {
  const NodeRanges ranges = ShapeAndSetRanges();
  request.last = &ranges;
  const std::unique_ptr<Work> work = layer_->MakeWork(request, bottom_vec_, top_vec_);
  work->Prepare();
  Workspace workspace(layer_->device());
  work->Run(workspace.Need(work->workspace_bytes()));
  layer_->device()->Synchronize();
}

NodeRanges LayerTester::ShapeAndSetRanges() {
  layer_->Reshape(bottom_vec_, top_vec_);
  const bool carried = layer_->Facts().range == LayerFacts::Range::kCarried;
  for (const auto& top : tops_) {
    if (carried && top->type().is_quantized()) top->set_range(bottoms_[0]->range());
  }
  NodeRanges ranges;
  for (const auto& blob : bottoms_) ranges.bottom.push_back({blob->range(), blob->name()});
  for (const auto& blob : tops_) ranges.top.push_back({blob->range(), blob->name()});
  layer_->SetRanges(ranges);
  return ranges;
}

void LayerTester::Backward() { layer_->Backward(top_vec_, propagate_down_, bottom_vec_); }

void LayerTester::SetBottom(int index, const std::vector<double>& values) {
  bottoms_[index]->SetData(values);
}

void LayerTester::RandomTopDiff(int index) {
  tops_[index]->SetDiff(TestNumbers(tops_[index]->count(), seed_ + 100 + index));
}

double LayerTester::Objective(const std::vector<std::vector<double>>& weights) {
  // Layers that draw random numbers draw the same ones.
  if (!frozen_.empty()) layer_->SetRunState(layer_->context().seed, frozen_);
  Forward();
  double sum = 0;
  for (size_t i = 0; i < tops_.size(); ++i) {
    const std::vector<double> top = Top(static_cast<int>(i));
    for (size_t j = 0; j < top.size(); ++j) sum += top[j] * weights[i][j];
  }
  return sum;
}

void LayerTester::CheckGradient(double step, double tolerance, double kink, double kink_range) {
  ASSERT_EQ(layer_->types().compute, kDouble) << "numerical gradients need double";
  frozen_ = layer_->RunState();
  Forward();
  std::vector<std::vector<double>> weights;
  for (size_t i = 0; i < tops_.size(); ++i) {
    const bool gradient = tops_[i]->type() == layer_->types().out;
    weights.push_back(gradient ? TestNumbers(tops_[i]->count(), seed_ + 100 + i)
                               : std::vector<double>(tops_[i]->count(), 0));
    if (gradient) tops_[i]->SetDiff(weights[i]);
  }
  for (auto& blob : layer_->blobs()) blob->SetDiff(std::vector<double>(blob->count(), 0));
  Backward();

  struct Target {
    BlobBase* blob;
    bool bottom;
  };
  std::vector<Target> targets;
  for (size_t i = 0; i < bottoms_.size(); ++i) {
    if (propagate_down_[i]) targets.push_back({bottoms_[i].get(), true});
  }
  for (size_t i = 0; i < layer_->blobs().size(); ++i) {
    if (layer_->param_propagate_down(static_cast<int>(i))) {
      targets.push_back({layer_->blobs()[i].get(), false});
    }
  }
  for (const Target& target : targets) {
    const std::vector<double> gradient = target.blob->DiffAsDouble();
    std::vector<double> values = target.blob->DataAsDouble();
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      if (target.bottom && std::abs(value - kink) <= kink_range) continue;
      values[i] = value + step;
      target.blob->SetData(values);
      const double above = Objective(weights);
      values[i] = value - step;
      target.blob->SetData(values);
      const double below = Objective(weights);
      values[i] = value;
      const double expected = (above - below) / (2 * step);
      ASSERT_NEAR(gradient[i], expected, tolerance * std::max(1.0, std::abs(expected)))
          << layer_->type() << ": gradient of " << target.blob->name() << ", element " << i;
    }
    target.blob->SetData(values);
  }
}

}  // namespace caffe
