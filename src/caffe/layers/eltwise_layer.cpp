#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/common_shift.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// Two or more bottoms, element by element.
//   SUM:  y = sum of coeff_i x_i.      dE/dx_i = coeff_i dE/dy
//   PROD: y = product of x_i.          dE/dx_i = dE/dy times the product of the others, or, without
//                                      stable_prod_grad, dE/dy y / x_i: NaN where x_i is 0
//   MAX:  y = the largest x_i.         dE/dx_i = dE/dy where x_i was chosen, else 0; of equal ones
//                                      bottom 1 is chosen before bottom 0, else the earlier one
// bottoms, top 0: the same shape, which may be any. Not in place.
// eltwise_param: operation (SUM), coeff (1 each; as many as bottoms or none, not for PROD, ignored
//   for MAX), stable_prod_grad (true).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own. With v_i = code
// of x_i - its zero point, the code of y - its zero point is
//   SUM:  round(sum of v_i m_i / 2^n), m_i / 2^n being coeff_i s_i / s_y with one n (CommonShift)
//   PROD: round(product of v_i times that of s_i / s_y), for up to 3 bottoms
//   MAX:  the largest round(v_i s_i / s_y)
// each with one rounding, half away from zero.
class Eltwise : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    if (!mask_) return {};
    return {{mask_.get()}, {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  enum class Operation { kProduct, kSum, kMax };
  // y = the sum of coeffs * inputs, or the product of inputs (no coeffs), in launches of up to four
  // inputs.
  void Combine(std::vector<KernelArgument> inputs, std::vector<double> coeffs, KernelArgument y);
  // The forward pass in quantized types.
  void CombineCodes(const BlobVec& bottom, const BlobVec& top);
  // Bytes of the sums of more than two quantized bottoms.
  int64_t SumBytes() const { return 8 * count_; }

  Operation operation_ = Operation::kSum;
  bool stable_ = true;
  int64_t count_ = 0;
  std::vector<double> coeffs_;
  std::shared_ptr<BlobBase> mask_;  // i32: the index of the chosen bottom
  std::unique_ptr<Kernel> combine_, sum_of_two_, more_, finish_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using EltwiseLayer = Layer<Dtype, MItype, MOtype, Eltwise>;

// Most inputs of one launch.
constexpr size_t kInputs = 4;
// Most bottoms of a product of codes: that of three codes of 16 bits fits 64 bits.
constexpr int kCodeFactors = 3;

void Eltwise::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const EltwiseParameter& parameter = layer_param().eltwise_param();
  stable_ = parameter.stable_prod_grad();
  const int coeffs = parameter.coeff_size();
  CAFFE_CHECK(coeffs == 0 || coeffs == static_cast<int>(bottom.size()), Where(),
              ": coeff is given ", coeffs, " times for ", bottom.size(),
              " bottoms; give it once per bottom, or not at all");
  const auto make = [&](const char* kernel) { return MakeKernel("blas/eltwise", kernel); };
  const bool codes = types().compute.is_quantized();
  const auto make_for_codes = [&](const char* kernel) {
    return MakeKernel("quant/eltwise", kernel);
  };
  switch (parameter.operation()) {
    case EltwiseParameter::PROD:
      CAFFE_CHECK(coeffs == 0, Where(), ": coeff is not for PROD");
      operation_ = Operation::kProduct;
      if (codes) {
        CAFFE_CHECK(bottom.size() <= kCodeFactors, Where(), ": PROD in ", types().name(),
                    " takes at most ", kCodeFactors, " bottoms, but the net gives ", bottom.size(),
                    "; give the layer a float type");
        combine_ = make_for_codes("product_codes");
        break;
      }
      combine_ = make("eltwise_product");
      if (!stable_) backward_ = make("eltwise_product_backward");
      break;
    case EltwiseParameter::SUM:
      operation_ = Operation::kSum;
      coeffs_.assign(bottom.size(), 1);
      for (int i = 0; i < coeffs; ++i) coeffs_[i] = parameter.coeff(i);
      if (codes) {
        combine_ = make_for_codes("sum_codes_part");
        sum_of_two_ = make_for_codes("sum_codes_of_two");
        finish_ = make_for_codes("sum_codes_finish");
        break;
      }
      combine_ = make("eltwise_sum");
      sum_of_two_ = make("eltwise_sum_of_two");
      backward_ = make("eltwise_scale");
      break;
    case EltwiseParameter::MAX:
      operation_ = Operation::kMax;
      if (codes) {
        combine_ = make_for_codes("max_codes");
        break;
      }
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
  if (finish_ && bottom.size() > 2) workspace().Need(SumBytes());
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

void Eltwise::CombineCodes(const BlobVec& bottom, const BlobVec& top) {
  const int count = static_cast<int>(bottom.size());
  const double scale = TopRange(0).scale;
  const KernelArgument y = Out(top, 0);
  if (operation_ == Operation::kMax) {
    combine_->Launch(count_,
                     {count_, In(bottom, 0), In(bottom, 1), Rescale(0, 0), Rescale(1, 0), y});
    for (int i = 2; i < count; ++i) {
      combine_->Launch(count_, {count_, y, In(bottom, i), Scale(1), Rescale(i, 0), y});
    }
    return;
  }
  if (operation_ == Operation::kProduct) {
    double factor = 1 / scale;
    for (int i = 0; i < count; ++i) factor *= BottomRange(i).scale;
    combine_->Launch(count_, {count_, count == 3 ? 1 : 0, In(bottom, 0), In(bottom, 1),
                              In(bottom, count - 1), Requant::FromReal(factor), y});
    return;
  }
  std::vector<double> factors;
  double largest = 0;
  for (int i = 0; i < count; ++i) {
    factors.push_back(coeffs_[i] * (BottomRange(i).scale / scale));
    largest = std::max(largest, std::abs(factors[i]));
  }
  const CommonShift common = CommonShift::For(largest);
  if (count == 2) {
    sum_of_two_->Launch(count_, {count_, In(bottom, 0), In(bottom, 1), common.Integer(factors[0]),
                                 common.Integer(factors[1]), common.shift, y});
    return;
  }
  const DevicePtr sum = workspace().Need(SumBytes());
  for (int i = 0; i < count; ++i) {
    combine_->Launch(count_,
                     {count_, i == 0 ? 1 : 0, In(bottom, i), common.Integer(factors[i]), sum});
  }
  finish_->Launch(count_, {count_, common.shift, sum, y});
}

void Eltwise::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) return CombineCodes(bottom, top);
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
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
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

}  // namespace

void RegisterEltwiseLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = -1;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) {
    return layer.eltwise_param().operation() != EltwiseParameter::PROD ||
           layer.bottom_size() <= kCodeFactors;
  };
  traits.backward_reads = [](const LayerParameter& layer) -> BackwardReads {
    const EltwiseParameter& parameter = layer.eltwise_param();
    if (parameter.operation() != EltwiseParameter::PROD) return {};
    if (parameter.stable_prod_grad()) return {{BackwardReads::kAll}, {}};
    return {{BackwardReads::kAll}, {0}};
  };
  traits.per_item = Always(true);
  traits.summary = "sum, product or maximum of bottoms, element by element";
  registry.Add<EltwiseLayer>("Eltwise", traits);
}

}  // namespace caffe
