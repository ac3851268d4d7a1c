// The quantized net beside the float net on held-out batches.
#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "quantization.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostKeptAnswers = 1 << 24;  // if there are more, the float net runs again

}  // namespace

int64_t Quantization::HeldOutEnd() const {
  return options_.held_out_batches < 0 ? INT64_MAX
                                       : calibration_batches_ + options_.held_out_batches;
}

MeasuredAccuracy Quantization::Measure(bool compare) {
  const auto net = QuantizedTestNet();
  ResetStates();
  if (compare) {
    comparisons_.clear();
    net->Keep(net->blob_names());
    float_net_->Keep(float_net_->blob_names());
  }
  Batch batch;
  int64_t items = 0, batches = 0, positions = 0, labelled = 0, same = 0, right = 0;
  int64_t float_right = 0;
  const int64_t wanted = options_.held_out_batches;
  int64_t all = std::max<int64_t>(options_.batches - calibration_batches_, 0);
  if (wanted > 0) all = all > 0 ? std::min(all, wanted) : wanted;
  for (int64_t i = calibration_batches_; i < HeldOutEnd() && Read(i, &batch); ++i) {
    if (batch.items == 0) continue;
    const auto known = float_answers_.find(i);
    Answers fresh;
    if (known == float_answers_.end() || compare) {
      Fill(batch, float_net_.get());
      float_net_->Forward();
      fresh = FloatAnswers(batch, i);
    }
    Fill(batch, net.get());
    net->Forward();
    if (!scores_.empty()) {
      const auto& [theirs, labels] = fresh.answers.empty() ? known->second : fresh;
      const std::vector<Answer> mine =
          AnswersOf(*net, class_scores_, PositionsOf(*net, class_scores_, batch.items));
      for (size_t k = 0; k < mine.size(); ++k) {
        const float label = k < labels.size() ? labels[k] : kUnknownLabel;
        if (class_scores_.ignore_label && k < labels.size() &&
            label == static_cast<float>(*class_scores_.ignore_label)) {
          continue;
        }
        ++positions;
        same += mine[k].best == theirs[k].best && mine[k].best >= 0;  // NaN equals nothing
        if (label == kUnknownLabel) continue;
        ++labelled;
        right += class_scores_.Right(mine[k], label);
        float_right += class_scores_.Right(theirs[k], label);
      }
    }
    const auto count = static_cast<int64_t>(fresh.answers.size());
    if (!compare && count > 0) {
      kept_answers_ = std::min(kept_answers_ + count, kMostKeptAnswers + 1);
      if (kept_answers_ <= kMostKeptAnswers) {
        float_answers_[i] = std::move(fresh);
      } else {
        float_answers_.clear();  // all or none, since recurrent layers go on in the next batch
      }
    }
    items += batch.items;
    ++batches;
    if (compare) Compare(*net);
    Progress(compare ? "comparing layers" : "measuring accuracy", i - calibration_batches_ + 1,
             all);
  }
  CAFFE_CHECK(items > 0,
              "no data is left to compare with the float net: ", report_.calibration_items,
              " items were used to calibrate; give more, or ", "calibrate with fewer batches");
  report_.held_out_items = items;
  if (compare && wanted > 0 && batches < wanted) {
    log::Warning(Concat("the data end after ", batches,
                        " batches to compare with the float net, not ", wanted));
  }
  MeasuredAccuracy accuracy;
  accuracy.positions = positions;
  accuracy.labels = labelled;
  const auto percent = [](int64_t part, int64_t all) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(all);
  };
  if (positions > 0) accuracy.agreement = percent(same, positions);
  if (labelled > 0) {
    accuracy.top1 = percent(right, labelled);
    accuracy.float_top1 = percent(float_right, labelled);
  }
  return accuracy;
}

std::optional<std::pair<QuantRange, DataType>> Quantization::RangeOf(
    const Net& net, const std::string& name) const {
  const BlobBase& blob = *net.BlobByName(name);
  if (blob.type().is_quantized()) return std::pair{blob.range(), blob.type()};
  const auto chosen = ranges_.find(name);
  if (!quantized() || chosen == ranges_.end()) return std::nullopt;
  // An input is quantized by the layers that read it.
  bool input = false;
  for (size_t i = 0; i < net.layers().size(); ++i) {
    const LayerBase& layer = *net.layers()[i];
    const auto is_blob = [&](int id) { return net.blob_names()[id] == name; };
    const auto& tops = net.top_ids(static_cast<int>(i));
    const auto& bottoms = net.bottom_ids(static_cast<int>(i));
    input |= IsDataLayer(layer.layer_param()) && std::any_of(tops.begin(), tops.end(), is_blob);
    if (!input || !layer.types().in.is_quantized()) continue;
    if (std::none_of(bottoms.begin(), bottoms.end(), is_blob)) continue;
    return std::pair{AffineRange(chosen->second, layer.types().in), layer.types().in};
  }
  return std::nullopt;
}

void Quantization::Compare(const Net& net) {
  for (const std::string& name : net.blob_names()) {
    const std::vector<float> real = RealValues(*float_net_->BlobByName(name));
    Comparison& comparison = comparisons_[name];
    comparison.Add(real, RealValues(*net.BlobByName(name)));
    if (const auto range = RangeOf(net, name)) {
      comparison.AddOwn(real, range->first, range->second);
    }
  }
}

}  // namespace caffe
