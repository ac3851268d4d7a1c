#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

#include "caffe.pb.h"
#include "caffe/device/device.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/layer/usage_report.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer: selects K = select_experts experts for each item, and
// the rows in which they compute it. A pair is an item and one of its experts, in falling order of
// probability; of equal probabilities the earlier expert is first.
//   weights[n, k] = p[n, e(n, k)] / sum over l of p[n, e(n, l)]        (thesis eq. 1.9, 1.10)
// or p[n, e(n, k)] without normalize_weights.
// bottom 0: the probabilities p of the gate, N items by E experts.
// top 0: observed usage [N, E]: the share of items that selected an expert, the same in each row;
//        it has this meaning in both phases.
// top 1: expected usage [N, E]: K / E.
// top 2: weights [N, K].
// top 3: slots [N, K], always float: the row of each pair; -1 if its expert was full.
// top 4: rows, always float: the pair of each row, n * K + k; -1 for a row without one.
// top 5: offsets [E + 1], always float: the first row of each expert, then the number of rows in
// use. There are N K rows, ordered by expert and by item. With full_forward there are E N: every
// expert computes all items, and row e N + n belongs to expert e and item n.
//
// Gradients: dE/dp through the weights, as of a softmax over the selected experts, or as they are
// without normalize_weights; and through the observed usage u as if u = K times the mean of p. The
// latter reaches unselected experts, too.
//
// moe_param: select_experts (E), full_forward, normalize_weights (true), and
//   balance_rate b: p + bias decides the selection. Each forward in TRAIN adds b to the bias of
//     experts with less than the mean usage, and subtracts it from those with more. The bias is
//     blobs()[0], which a solver must not change.
//   capacity_factor c: in TRAIN an expert computes ceil(c N K / E) items, those with the lowest
//     indices. Other pairs get the weight 0; the weights of the item's other experts stay.
// Types: float kinds.
class MOERoute : public LayerBase, public UsageReport {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  std::vector<ExpertUsage> TakeUsage() override;

 private:
  bool balances() const { return !blobs_.empty(); }
  // Whether one launch computes all.
  bool HasFewPairs() const;
  // Adds the usage to `used`, and changes `bias` by `rate`.
  void Route(const BlobVec& bottom, const BlobVec& top, double rate, BlobBase* bias,
             BlobBase* used);

  int64_t items_ = 0, experts_ = 0, select_ = 0, capacity_ = 0, length_ = 0, blocks_ = 0;
  bool all_ = false, normalize_ = true;
  // bias_: that of the last forward. used_: sums of shares, and the number of forwards. unread_:
  // the same of repeated forwards, which do not count.
  std::shared_ptr<BlobBase> bias_, usage_sums_, chosen_, counts_, totals_, used_, unread_;
  std::unique_ptr<Kernel> choose_, count_, total_, offset_, place_, usage_, sum_usage_, backward_;
  std::unique_ptr<Kernel> few_;  // null on the CPU
};

template <class Dtype, class MItype, class MOtype>
using MOERouteLayer = Layer<Dtype, MItype, MOtype, MOERoute>;

enum Top { kObserved, kExpected, kWeights, kSlots, kRows, kOffsets };

// Indices are stored as float, which is exact up to here.
constexpr int64_t kLargestIndex = int64_t{1} << 24;
// Each item compares all experts for each one that it selects.
constexpr int64_t kMostExperts = 1 << 14;
// PAIRS and EXPERTS of kernels/moe/route_few.h.
constexpr int64_t kFewPairs = 512, kFewExperts = 256;

// The least integer at or above factor * pairs / experts; at most `most`. The factor stands for the
// shortest decimal number that is read as this float, which is the one that the user wrote if it
// has at most 6 digits: 1.1f is 1.10000002, and 1.1f * 10 is above 11.
int64_t Capacity(float factor, int64_t pairs, int64_t experts, int64_t most) {
  if (!std::isfinite(factor)) return most;
  char text[32];
  const char* const end =
      std::to_chars(text, text + sizeof text, factor, std::chars_format::scientific).ptr;
  int64_t digits = 0;  // factor = digits 10^exponent
  int exponent = 0;
  bool fraction = false;
  for (const char* c = text; c < end; ++c) {
    if (*c == 'e') {
      exponent += std::atoi(std::string(c + 1, end).c_str());
      break;
    }
    if (*c == '.') {
      fraction = true;
      continue;
    }
    digits = 10 * digits + (*c - '0');
    exponent -= fraction;
  }
  // At most 10^9 * 2^24, so that products with 10 do not overflow.
  int64_t above = digits * pairs, below = experts;
  for (; exponent > 0 && above / below < most; --exponent) above *= 10;
  for (; exponent < 0 && below <= above; ++exponent) below *= 10;
  return std::min(most, (above + below - 1) / below);
}

void MOERoute::LayerSetUp(const BlobVec& bottom, const BlobVec&) {
  const MOEParameter& parameter = layer_param().moe_param();
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs probabilities of shape [N, E]; blob ",
              bottom[0]->name(), " has shape ", bottom[0]->shape_string());
  experts_ = bottom[0]->count(1);
  CAFFE_CHECK(experts_ <= kMostExperts, Where(), ": the gate has ", experts_,
              " outputs, more than ", kMostExperts);
  CAFFE_CHECK(!parameter.has_experts() || parameter.experts() == experts_, Where(),
              ": the gate has ", experts_, " outputs, but there are ", parameter.experts(),
              " experts");
  select_ = parameter.has_select_experts() ? parameter.select_experts() : experts_;
  all_ = parameter.full_forward();
  normalize_ = parameter.normalize_weights();
  CAFFE_CHECK(select_ >= 1 && select_ <= experts_, Where(), ": select_experts ", select_,
              " is not between 1 and the number of experts, ", experts_);
  CAFFE_CHECK(parameter.capacity_factor() >= 0, Where(), ": capacity_factor ",
              parameter.capacity_factor(), " is negative");
  if (parameter.balance_rate() != 0) {
    FillerParameter zero;
    zero.set_type("constant");
    AddParameter(0, {experts_}, zero);
    if (layer_param().param_size() == 0) {
      ParamSpec* const spec = mutable_layer_param()->add_param();
      spec->set_lr_mult(0);
      spec->set_decay_mult(0);
    }
    CAFFE_CHECK(layer_param().param(0).lr_mult() == 0, Where(), ": lr_mult of the bias is ",
                layer_param().param(0).lr_mult(), "; it must be 0, since a forward changes it");
  }
  PlaceBlob(&bias_, master_type(), device(), {experts_}, name() + " bias of the last forward");
  PlaceBlob(&usage_sums_, master_type(), device(), {experts_}, name() + " gradient of the usage");
  PlaceBlob(&totals_, kFloat, device(), {experts_}, name() + " totals");
  PlaceBlob(&used_, kFloat, device(), {experts_ + 1}, name() + " usage");
  PlaceBlob(&unread_, kFloat, device(), {experts_ + 1}, name() + " usage of repeated forwards");
  PlaceBlob(&chosen_, kFloat, device(), {0}, name() + " selected experts");
  PlaceBlob(&counts_, kFloat, device(), {0}, name() + " counts");
  const auto make = [&](const char* kernel) { return MakeKernel("moe/route", kernel); };
  choose_ = make("moe_select");
  count_ = make("moe_count");
  total_ = make("moe_totals");
  offset_ = all_ ? nullptr : make("moe_offsets");
  place_ = make(all_ ? "moe_place_all" : "moe_place");
  usage_ = make("moe_usage");
  sum_usage_ = make("moe_usage_sums");
  backward_ = make("moe_route_backward");
  few_.reset();
  if (device()->host_accessible()) return;
  few_ = MakeGroupKernel("moe/route_few", "moe_route_few");
}

void MOERoute::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2 && bottom[0]->count(1) == experts_, Where(),
              ": was made for ", experts_, " experts, but blob ", bottom[0]->name(), " has shape ",
              bottom[0]->shape_string());
  items_ = bottom[0]->shape(0);
  const int64_t pairs = items_ * select_, rows = all_ ? items_ * experts_ : pairs;
  CAFFE_CHECK(rows <= kLargestIndex, Where(), ": ", rows, " rows of experts; at most ",
              kLargestIndex, " are supported");
  const float factor = phase() == TRAIN ? layer_param().moe_param().capacity_factor() : 0;
  capacity_ = factor > 0 ? Capacity(factor, pairs, experts_, items_) : items_;
  // As many blocks as pairs in a block: a pair counts those before it in both.
  length_ = std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(pairs))));
  blocks_ = (pairs + length_ - 1) / length_;
  chosen_->Reshape({pairs});
  counts_->Reshape({blocks_, experts_});
  top[kObserved]->Reshape({items_, experts_});
  top[kExpected]->Reshape({items_, experts_});
  top[kWeights]->Reshape({items_, select_});
  top[kSlots]->Reshape({items_, select_});
  top[kRows]->Reshape({rows});
  top[kOffsets]->Reshape({experts_ + 1});
}

void MOERoute::PrepareParameters() {
  if (balances()) blobs_[0]->device_data();  // uploads a stale device copy now, not in the forward
}

void MOERoute::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (balances()) {
    device()->Copy(bias_->mutable_device_data(), blobs_[0]->device_data(), bias_->bytes());
  }
  const bool changes = balances() && phase() == TRAIN;
  const double rate = changes ? layer_param().moe_param().balance_rate() : 0;
  Route(bottom, top, rate, changes ? blobs_[0].get() : bias_.get(), used_.get());
}

void MOERoute::RepeatForward(const BlobVec& bottom, const BlobVec& top) {
  Route(bottom, top, 0, bias_.get(), unread_.get());
}

bool MOERoute::HasFewPairs() const {
  return few_ && phase() == TEST && !all_ && items_ * select_ <= kFewPairs &&
         experts_ <= kFewExperts;
}

void MOERoute::Route(const BlobVec& bottom, const BlobVec& top, double rate, BlobBase* bias,
                     BlobBase* used) {
  if (items_ == 0) return;
  const int64_t pairs = items_ * select_;
  const double share = static_cast<double>(select_) / static_cast<double>(experts_);
  if (HasFewPairs()) {
    const auto out = [&](Top blob) { return top[blob]->MutableData(); };
    few_->LaunchInGroups(
        {{1, 1, 1}, {few_->group(), 1, 1}},
        {items_, experts_, select_, normalize_, share, bottom[0]->Data(), bias_->Data(),
         out(kObserved), out(kExpected), out(kWeights), out(kSlots), out(kRows), out(kOffsets),
         chosen_->MutableData(), totals_->MutableData(), used->MutableData()});
    return;
  }
  choose_->Launch(items_, {items_, experts_, select_, normalize_, bottom[0]->Data(), bias_->Data(),
                           top[kWeights]->MutableData(), chosen_->MutableData()});
  count_->Launch(blocks_ * experts_,
                 {blocks_, length_, pairs, experts_, chosen_->Data(), counts_->MutableData()});
  const double mean = static_cast<double>(pairs) / static_cast<double>(experts_);
  total_->Launch(experts_, {experts_, blocks_, items_, mean, rate, counts_->MutableData(),
                            totals_->MutableData(), used->MutableData(), bias->MutableData()});
  if (all_) {
    place_->Launch(items_,
                   {items_, experts_, select_, length_, capacity_, chosen_->Data(), counts_->Data(),
                    top[kOffsets]->MutableData(), top[kSlots]->MutableData(),
                    top[kRows]->MutableData(), top[kWeights]->MutableData()});
  } else {
    offset_->Launch(experts_ + 1,
                    {experts_, capacity_, totals_->Data(), top[kOffsets]->MutableData()});
    place_->Launch(pairs, {pairs, experts_, length_, capacity_, chosen_->Data(), counts_->Data(),
                           top[kOffsets]->Data(), top[kSlots]->MutableData(),
                           top[kRows]->MutableData(), top[kWeights]->MutableData()});
  }
  usage_->Launch(items_ * experts_, {items_ * experts_, items_, experts_, share, totals_->Data(),
                                     top[kObserved]->MutableData(), top[kExpected]->MutableData()});
}

void MOERoute::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                        const BlobVec& bottom) {
  if (!propagate_down[0] || items_ == 0) return;
  sum_usage_->Launch(experts_,
                     {items_, experts_, top[kObserved]->Diff(), usage_sums_->MutableData()});
  // The mean of p over the items, times K.
  const double factor = static_cast<double>(select_) / static_cast<double>(items_);
  backward_->Launch(items_ * experts_,
                    {items_, experts_, select_, normalize_, factor, bottom[0]->Data(),
                     chosen_->Data(), top[kSlots]->Data(), top[kWeights]->Data(),
                     top[kWeights]->Diff(), usage_sums_->Data(), bottom[0]->MutableDiff()});
}

std::vector<ExpertUsage> MOERoute::TakeUsage() {
  used_->mutable_device_data();  // a replayed forward has written it
  std::vector<double> usage = used_->DataAsDouble();
  device()->Fill(used_->mutable_device_data(), 0, used_->bytes());
  const double forwards = usage.back();
  usage.pop_back();
  if (forwards == 0) return {};
  for (double& share : usage) share /= forwards;
  return {{name(), usage}};
}

LayerFacts MOERoute::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterMOERouteLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_top = traits.max_top = 6;
  traits.float_tops = {kSlots, kRows, kOffsets};
  traits.backward_reads = Always({{0}, {kWeights, kSlots}});
  traits.summary = "a part of MOE: selects the experts of each item";
  registry.Add<MOERouteLayer>("MOERoute", traits);
}

}  // namespace caffe
