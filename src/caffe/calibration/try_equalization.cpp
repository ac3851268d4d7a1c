// The net with equalized channels beside the net as given.
#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "equalization.hpp"
#include "quantization.hpp"

namespace caffe {

Quantization::Prepared Quantization::Take(const NetParameter& weights) {
  Prepared prepared{std::move(float_net_), std::move(changed_),        std::move(histograms_),
                    std::move(ranges_),    std::move(rounding_gains_), report_.corrected_biases};
  ranges_.clear();
  float_net_ = TestNet(model_, device_);
  float_net_->CopyTrainedLayersFrom(weights);
  return prepared;
}

double Quantization::OutputNoise() {
  const auto net = QuantizedTestNet();
  ResetStates();
  Comparison comparison;
  Batch batch;
  for (int64_t i = 0; i < calibration_batches_ && comparison.count == 0 && Read(i, &batch); ++i) {
    if (batch.items == 0) continue;
    for (Net* each : {float_net_.get(), net.get()}) {
      Fill(batch, each);
      each->Forward();
    }
    comparison.Add(RealValues(*float_net_->BlobByName(Output())),
                   RealValues(*net->BlobByName(Output())));
  }
  return comparison.relative_noise();
}

const std::string& Quantization::Output() const {
  return scores_.empty() ? float_net_->blob_names()[float_net_->output_blob_indices()[0]] : scores_;
}

double Quantization::Change(const Net& other) const {
  Comparison comparison;
  comparison.Add(RealValues(*other.BlobByName(Output())),
                 RealValues(*float_net_->BlobByName(Output())));
  return comparison.relative_noise();
}

void Quantization::TryEqualization() {
  CAFFE_CHECK(given_ranges_.empty(),
              "equalize scales blobs, so that given ranges do not fit: ", "use one of them");
  Equalization equalization(*float_net_);
  if (equalization.blobs().empty()) return;
  const double noise = OutputNoise();
  float_net_->Keep(equalization.blobs());
  Batch batch;
  for (int64_t i = 0; i < calibration_batches_ && Read(i, &batch); ++i) {
    if (batch.items == 0) continue;
    Fill(batch, float_net_.get());
    float_net_->Forward();
    equalization.Add(*float_net_);
    Progress("equalizing channels", i + 1, calibration_batches_);
  }
  NetParameter file;
  float_net_->ToProto(&file);
  file.clear_quantizer();
  report_.equalized_layers = equalization.Apply(&file);
  if (report_.equalized_layers == 0) return;
  Prepared before = Take(file);
  Prepare();
  const double equalized = OutputNoise();
  Read(0, &batch);
  for (Net* each : {before.float_net.get(), float_net_.get()}) {
    Fill(batch, each);
    each->Forward();
  }
  const double change = Change(*before.float_net);
  CAFFE_CHECK(change < 1e-6, "equalized channels changed the float net: relative square ", change);
  log::Info(Concat("noise of ", scores_.empty() ? "the output" : scores_,
                   " on a batch: ", Decibels(1, noise), " dB, with equalized channels ",
                   Decibels(1, equalized), " dB"));
  if (equalized < noise) return;
  float_net_ = std::move(before.float_net);
  changed_ = std::move(before.changed);
  histograms_ = std::move(before.histograms);
  ranges_ = std::move(before.ranges);
  rounding_gains_ = std::move(before.rounding_gains);
  report_.corrected_biases = before.corrected_biases;
  report_.equalized_layers = 0;
}

}  // namespace caffe
