#include "caffe/layers/eltwise_layer.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// Most inputs of one launch.
constexpr size_t kInputs = 4;

}  // namespace

void Eltwise::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const EltwiseParameter& parameter = layer_param().eltwise_param();
  stable_ = parameter.stable_prod_grad();
  const int coeffs = parameter.coeff_size();
  CAFFE_CHECK(coeffs == 0 || coeffs == static_cast<int>(bottom.size()), Where(),
              ": coeff is given ", coeffs, " times for ", bottom.size(),
              " bottoms; give it once per bottom, or not at all");
  const auto make = [&](const char* kernel) { return MakeKernel("blas/eltwise", kernel); };
  switch (parameter.operation()) {
    case EltwiseParameter::PROD:
      CAFFE_CHECK(coeffs == 0, Where(), ": coeff is not for PROD");
      operation_ = Operation::kProduct;
      combine_ = make("eltwise_product");
      if (!stable_) backward_ = make("eltwise_product_backward");
      break;
    case EltwiseParameter::SUM:
      operation_ = Operation::kSum;
      combine_ = make("eltwise_sum");
      sum_of_two_ = make("eltwise_sum_of_two");
      backward_ = make("eltwise_scale");
      coeffs_.assign(bottom.size(), 1);
      for (int i = 0; i < coeffs; ++i) coeffs_[i] = parameter.coeff(i);
      break;
    case EltwiseParameter::MAX:
      operation_ = Operation::kMax;
      combine_ = make("eltwise_max");
      more_ = make("eltwise_max_more");
      backward_ = make("eltwise_max_backward");
      // Holds i32, which is not a type of blobs but has the size of float.
      PlaceBlob(&mask_, kFloat, device(), {0}, name() + " mask");
      break;
  }
}

void Eltwise::Reshape(const BlobVec& bottom, const BlobVec& top) {
  for (size_t i = 1; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->shape() == bottom[0]->shape(), Where(), ": the bottoms must have one ",
                "shape; bottom ", i, " has ", bottom[i]->shape_string(), ", bottom 0 ",
                bottom[0]->shape_string());
  }
  count_ = bottom[0]->count();
  top[0]->ReshapeLike(*bottom[0]);
  if (mask_) mask_->ReshapeLike(*bottom[0]);
}

void Eltwise::Combine(std::vector<KernelArgument> inputs, std::vector<double> coeffs,
                      KernelArgument y) {
  while (true) {
    const size_t used = std::min(inputs.size(), kInputs);
    KernelArguments arguments{count_, static_cast<int>(used)};
    for (size_t i = 0; i < kInputs; ++i) arguments.push_back(inputs[i < used ? i : 0]);
    if (!coeffs.empty()) {
      for (size_t i = 0; i < kInputs; ++i) arguments.push_back(i < used ? coeffs[i] : 0.0);
    }
    arguments.push_back(y);
    combine_->Launch(count_, arguments);
    if (used == inputs.size()) return;
    // The partial result is the first input of the next launch.
    inputs.erase(inputs.begin() + 1, inputs.begin() + static_cast<int64_t>(used));
    inputs[0] = y;
    if (!coeffs.empty()) {
      coeffs.erase(coeffs.begin() + 1, coeffs.begin() + static_cast<int64_t>(used));
      coeffs[0] = 1;
    }
  }
}

void Eltwise::Forward(const BlobVec& bottom, const BlobVec& top) {
  const KernelArgument y = top[0]->MutableData();
  if (operation_ == Operation::kSum && bottom.size() == 2) {
    sum_of_two_->Launch(count_,
                        {count_, bottom[0]->Data(), bottom[1]->Data(), coeffs_[0], coeffs_[1], y});
    return;
  }
  if (operation_ != Operation::kMax) {
    std::vector<KernelArgument> inputs;
    for (BlobBase* blob : bottom) inputs.push_back(blob->Data());
    Combine(std::move(inputs), coeffs_, y);
    return;
  }
  const KernelArgument mask = mask_->MutableData();
  combine_->Launch(count_, {count_, bottom[0]->Data(), bottom[1]->Data(), y, mask});
  for (size_t i = 2; i < bottom.size(); ++i) {
    more_->Launch(count_, {count_, static_cast<int>(i), bottom[i]->Data(), y, mask});
  }
}

void Eltwise::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  const KernelArgument y_diff = top[0]->Diff();
  for (size_t i = 0; i < bottom.size(); ++i) {
    if (!propagate_down[i]) continue;
    const KernelArgument x_diff = bottom[i]->MutableDiff();
    if (operation_ == Operation::kSum) {
      backward_->Launch(count_, {count_, y_diff, coeffs_[i], x_diff});
    } else if (operation_ == Operation::kMax) {
      backward_->Launch(count_, {count_, static_cast<int>(i), mask_->Data(), y_diff, x_diff});
    } else if (stable_) {
      std::vector<KernelArgument> inputs{y_diff};
      for (size_t j = 0; j < bottom.size(); ++j) {
        if (j != i) inputs.push_back(bottom[j]->Data());
      }
      Combine(std::move(inputs), {}, x_diff);
    } else {
      backward_->Launch(count_, {count_, bottom[i]->Data(), top[0]->Data(), y_diff, x_diff});
    }
  }
}

LayerFacts Eltwise::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.any = true;
  if (operation_ == Operation::kSum) facts.sum = LayerFacts::Sum{coeffs_};
  return facts;
}

void RegisterEltwiseLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = -1;
  traits.backward_reads = [](const LayerParameter& layer) -> BackwardReads {
    const EltwiseParameter& parameter = layer.eltwise_param();
    if (parameter.operation() != EltwiseParameter::PROD) return {};
    if (parameter.stable_prod_grad()) return {{BackwardReads::kAll}, {}};
    return {{BackwardReads::kAll}, {0}};
  };
  traits.summary = "sum, product or maximum of bottoms, element by element";
  registry.Add<EltwiseLayer>("Eltwise", traits);
}

}  // namespace caffe
