#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Blobs filled by fillers. Values of a constant filler are written once, and the caller may
// overwrite them; other fillers write new values in every forward, which depend on the layer's seed
// and on the number of forwards.
// top 0…: dummy_data_param.shape, one for all tops or one per top; or the older num, channels,
//   height, width, each once or once per top.
// dummy_data_param: data_filler, none (constant 0), one for all or one per top. Tops that layers
//   read as labels of classes, and as nothing else, are truncated to integers, with one warning.
// Types: float kinds.
class DummyData : public LayerBase, public HasRecords, public ClassSource {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  std::vector<uint64_t> RunState() const override { return {forwards_}; }
  LayerFacts Facts() const override;
  int64_t records() const override { return kEndless; }
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;
  void SetClassTops(const std::vector<int>& tops, const BlobVec& top) override;

 private:
  Shape TopShape(int top, int tops) const;
  // Fills the tops whose filler is constant, or the others.
  void FillTops(const BlobVec& top, bool constant);
  void Truncate(BlobBase* top);

  bool set_up_ = false, warned_ = false;
  std::vector<int> class_tops_;
  uint64_t forwards_ = 0;
};

template <class Dtype, class MItype, class MOtype>
using DummyDataLayer = Layer<Dtype, MItype, MOtype, DummyData>;

Shape DummyData::TopShape(int top, int tops) const {
  const DummyDataParameter& parameter = layer_param().dummy_data_param();
  const bool old_form = parameter.num_size() + parameter.channels_size() + parameter.height_size() +
                            parameter.width_size() >
                        0;
  CAFFE_CHECK(!old_form || parameter.shape_size() == 0, Where(),
              ": give either shape, or num, channels, height and width, not both");
  const auto check = [&](int count, const char* what) {
    CAFFE_CHECK(count == 1 || count == tops, Where(), ": ", what, " must be given once or ", tops,
                " times (once for each top); it is given ", count, " times");
  };
  Shape shape;
  if (old_form) {
    const auto add = [&](const auto& extents, const char* what) {
      check(extents.size(), what);
      shape.push_back(extents[extents.size() == 1 ? 0 : top]);
    };
    add(parameter.num(), "num");
    add(parameter.channels(), "channels");
    add(parameter.height(), "height");
    add(parameter.width(), "width");
  } else {
    check(parameter.shape_size(), "shape");
    const auto& dims = parameter.shape(parameter.shape_size() == 1 ? 0 : top).dim();
    shape.assign(dims.begin(), dims.end());
  }
  return shape;
}

void DummyData::LayerSetUp(const BlobVec&, const BlobVec& top) {
  if (set_up_) return;  // the values moved to the other device with the blobs
  set_up_ = true;
  const int tops = static_cast<int>(top.size());
  const int fillers = layer_param().dummy_data_param().data_filler_size();
  CAFFE_CHECK(fillers <= 1 || fillers == tops, Where(),
              ": data_filler must be given not at all, once ", "or ", tops,
              " times (once for each top); it is given ", fillers, " times");
  for (int i = 0; i < tops; ++i) top[i]->Reshape(TopShape(i, tops));
  FillTops(top, true);
}

void DummyData::FillTops(const BlobVec& top, bool constant) {
  const DummyDataParameter& parameter = layer_param().dummy_data_param();
  static const FillerParameter zeros;
  for (size_t i = 0; i < top.size(); ++i) {
    const int fillers = parameter.data_filler_size();
    const FillerParameter& filler =
        fillers == 0 ? zeros : parameter.data_filler(fillers == 1 ? 0 : static_cast<int>(i));
    if ((filler.type() == "constant") != constant) continue;
    // Every top of every forward has its own seed, far from those of other layers.
    const uint64_t step = (forwards_ * top.size() + i) * 0x9E3779B97F4A7C15u;
    try {
      // Constants are written when they are read: the net's forecast of memory comes before that.
      constant ? FillAtAccess(filler, context().seed + step, top[i])
               : Fill(filler, context().draw_seed() + step, top[i]);
    } catch (...) {
      RethrowIn(Concat(Where(), ": top ", top[i]->name()));
    }
    if (std::ranges::count(class_tops_, static_cast<int>(i)) > 0) Truncate(top[i]);
  }
}

void DummyData::SetClassTops(const std::vector<int>& tops, const BlobVec& top) {
  class_tops_ = tops;
  for (const int i : tops) Truncate(top[i]);
}

void DummyData::Truncate(BlobBase* top) {
  const std::vector<double> given = top->DataAsDouble();
  std::vector<double> whole = given;
  for (double& value : whole) value = std::trunc(value);
  const auto changed = std::ranges::mismatch(given, whole, [](double a, double b) {
    return a == b || std::isnan(a);  // the layer that reads a NaN refuses it
  });
  if (changed.in1 == given.end()) return;
  top->SetData(whole);
  if (warned_) return;
  warned_ = true;
  log::WarnOnce(Concat(Where(), ": values of top ", top->name(), ", such as ", *changed.in1,
                       ", are truncated to integers, because layers read them as classes"));
}

void DummyData::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  forwards_ = values[0];
}

void DummyData::Forward(const BlobVec&, const BlobVec& top) {
  FillTops(top, false);
  ++forwards_;
}

LayerFacts DummyData::Facts() const {
  LayerFacts facts;
  // Random fillers run on the host, in every forward; constants are there already.
  const auto& fillers = layer_param().dummy_data_param().data_filler();
  facts.host = std::any_of(fillers.begin(), fillers.end(), [](const FillerParameter& filler) {
    return filler.type() != "constant";
  });
  return facts;
}

}  // namespace

void RegisterDummyDataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.max_top = -1;
  traits.data = true;
  traits.backward_reads = Always({});
  traits.summary = "blobs made by fillers";
  registry.Add<DummyDataLayer>("DummyData", traits);
}

}  // namespace caffe
