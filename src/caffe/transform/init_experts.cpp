#include "caffe/transform/init_experts.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layer/has_experts.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"

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
    const std::vector<std::string> names = UniqueLayerNames(dense);
    for (int i = 0; i < dense.layer_size(); ++i) layers_[names[i]] = &dense.layer(i);
  }

  void Start(const std::string& name, const HasExperts& moe) {
    std::map<std::string, ExpertStart> starts;  // by the names of layers without numbers
    std::vector<ExpertBlob> layer;              // the blobs of one layer of one expert
    const std::vector<ExpertBlob> blobs = moe.ExpertBlobs();
    for (size_t i = 0; i < blobs.size(); ++i) {
      layer.push_back(blobs[i]);
      if (i + 1 < blobs.size() && blobs[i + 1].index > blobs[i].index) continue;
      const std::string own = WithoutNumber(blobs[i].layer);
      ExpertStart& start = starts[own];
      start.layer = name + "/" + own;
      start.experts = std::max(start.experts, blobs[i].expert + 1);
      const auto exact = layers_.find(blobs[i].layer);
      const auto found = exact != layers_.end() ? exact : layers_.find(own);
      start.why =
          found == layers_.end() ? "the dense net has no such layer" : Take(*found->second, layer);
      start.dense = start.why.empty() ? found->first : "";
      layer.clear();
    }
    for (const auto& [own, start] : starts) report_.push_back(start);
  }

  std::vector<ExpertStart> TakeReport() { return std::move(report_); }

 private:
  // Takes all blobs of the layer or none. Why none; empty if it took them.
  std::string Take(const LayerParameter& dense, const std::vector<ExpertBlob>& layer) {
    if (dense.blobs_size() != static_cast<int>(layer.size())) {
      return Concat("the dense layer has ", dense.blobs_size(), " blobs, the expert ",
                    layer.size());
    }
    std::vector<std::shared_ptr<BlobBase>> values;
    for (size_t i = 0; i < layer.size(); ++i) {
      BlobBase& own = *layer[i].blob;
      values.push_back(MakeBlob(kFloat, own.device(), {0}, "dense"));
      values[i]->FromProto(dense.blobs(static_cast<int>(i)));
      if (values[i]->count() == own.count()) continue;
      return Concat("the dense layer has shape ", values[i]->shape_string(), ", the expert ",
                    own.shape_string());
    }
    for (size_t i = 0; i < layer.size(); ++i) {
      layer[i].blob->SetData(values[i]->DataAsDouble());
      Perturb(noise_, seed_ + ++blobs_, layer[i].blob.get());
    }
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
  for (const int layer : net->CopyTrainedLayersFrom(dense, MissingWeights::kAllow)) {
    const LayerBase& missing = *net->layers()[layer];
    if (dynamic_cast<const HasExperts*>(&missing)) continue;  // it starts below
    log::Warning(Concat(NetLabel(net->name()), ": the dense net has no parameters for layer '",
                        missing.name(), "' (", missing.type(), "), which keeps its filler"));
  }
  Starter starter(dense, noise, seed);
  bool any = false;
  for (const auto& layer : net->layers()) {
    const auto* const moe = dynamic_cast<const HasExperts*>(layer.get());
    if (!moe) continue;
    any = true;
    starter.Start(layer->name(), *moe);
  }
  CAFFE_CHECK(any, NetLabel(net->name()), " has no MOE layer");
  std::vector<ExpertStart> report = starter.TakeReport();
  CAFFE_CHECK(std::any_of(report.begin(), report.end(),
                          [](const ExpertStart& start) { return !start.dense.empty(); }),
              "no layer of the experts has the name and the shape of a layer of the dense net");
  return report;
}

}  // namespace caffe
