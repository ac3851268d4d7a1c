#include "caffe/transform/init_experts.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layers/moe_layer.hpp"
#include "caffe/net/net.hpp"

namespace caffe {
namespace {

// The fork's files have a layer for each expert, ex_0_conv2, ex_1_conv2, …
std::string WithoutNumber(const std::string& name) {
  if (!name.starts_with("ex_")) return name;
  size_t end = 3;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
  return end > 3 && end < name.size() && name[end] == '_' ? name.substr(end + 1) : name;
}

double Deviation(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  return std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
}

void Perturb(double noise, uint64_t seed, BlobBase* blob) {
  std::vector<double> values = blob->DataAsDouble();
  const double deviation = noise * Deviation(values);
  if (deviation == 0) return;
  FillerParameter filler;
  filler.set_type("gaussian");
  filler.set_std(static_cast<float>(deviation));
  const auto change = MakeBlob(kFloat, blob->device(), blob->shape(), "change");
  Fill(filler, seed, change.get());
  const std::vector<double> changes = change->DataAsDouble();
  for (size_t i = 0; i < values.size(); ++i) values[i] += changes[i];
  blob->SetData(values);
}

class Starter {
 public:
  Starter(const NetParameter& dense, double noise, uint64_t seed) : noise_(noise), seed_(seed) {
    for (const LayerParameter& layer : dense.layer()) layers_[layer.name()] = &layer;
  }

  void Start(const MOELayer& moe) {
    std::map<std::string, ExpertStart> starts;  // by the names of layers without numbers
    for (const MOELayer::ExpertBlob& one : moe.ExpertBlobs()) {
      const std::string own = WithoutNumber(one.layer);
      ExpertStart& start = starts[own];
      start.layer = moe.name() + "/" + own;
      start.experts = std::max(start.experts, one.expert + 1);
      const auto exact = layers_.find(one.layer);
      const auto found = exact != layers_.end() ? exact : layers_.find(own);
      if (found == layers_.end()) {
        start.why = "the dense net has no such layer";
        continue;
      }
      start.why = Take(*found->second, one);
      start.dense = start.why.empty() ? found->first : "";
    }
    for (const auto& [name, start] : starts) report_.push_back(start);
  }

  std::vector<ExpertStart> TakeReport() { return std::move(report_); }

 private:
  // Why the blob was not taken; empty if it was.
  std::string Take(const LayerParameter& dense, const MOELayer::ExpertBlob& one) {
    if (one.index >= dense.blobs_size()) return "the dense layer has fewer blobs";
    const auto blob = MakeBlob(kFloat, one.blob->device(), {0}, "dense");
    blob->FromProto(dense.blobs(one.index));
    if (blob->count() != one.blob->count()) {
      return Concat("the dense layer has shape ", blob->shape_string(), ", the expert ",
                    one.blob->shape_string());
    }
    one.blob->SetData(blob->DataAsDouble());
    Perturb(noise_, seed_ + ++blobs_, one.blob.get());
    return "";
  }

  std::map<std::string, const LayerParameter*> layers_;
  double noise_;
  uint64_t seed_, blobs_ = 0;
  std::vector<ExpertStart> report_;
};

}  // namespace

std::vector<ExpertStart> InitExperts(const NetParameter& dense, double noise, uint64_t seed,
                                     Net* net) {
  net->CopyTrainedLayersFrom(dense);
  Starter starter(dense, noise, seed);
  bool any = false;
  for (const auto& layer : net->layers()) {
    const auto* const moe = dynamic_cast<const MOELayer*>(layer.get());
    if (!moe) continue;
    any = true;
    starter.Start(*moe);
  }
  CAFFE_CHECK(any, "net ", net->name(), " has no MOE layer");
  std::vector<ExpertStart> report = starter.TakeReport();
  CAFFE_CHECK(std::any_of(report.begin(), report.end(),
                          [](const ExpertStart& start) { return !start.dense.empty(); }),
              "no layer of the experts has the name and the shape of a layer of the dense net");
  return report;
}

}  // namespace caffe
