#include "caffe/layer/chain.hpp"

#include <array>
#include <span>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;

std::vector<const BlobBase*> Sources(const Chain& chain) {
  std::vector<const BlobBase*> sources;
  for (const ChainStage& stage : chain.stages) {
    for (const Affine& map : stage.maps) {
      sources.insert(sources.end(), map.sources.begin(), map.sources.end());
    }
    if (stage.slopes) sources.push_back(stage.slopes);
  }
  return sources;
}

ChainOp MakeOp(const Chain& chain, const BlobBase& x, Layout layout) {
  ChainOp::Shape shape{x.count(), chain.channels, 1};
  if (chain.channels > 1) {
    CAFFE_CHECK(layout == Layout::kNCHW || chain.axis == 1, "a chain over axis ", chain.axis,
                " was requested in ", LayoutName(layout));
    if (layout == Layout::kNCHW) shape.inner = x.count(chain.axis + 1);
    if (shape.count == 0) shape.inner = 1;
  }
  std::vector<Kind> functions;
  for (const ChainStage& stage : chain.stages) functions.push_back(stage.function.kind);
  return {x.device(), x.type(), std::move(functions), shape};
}

// The constants of all stages, one column for each channel: computed in double on the host, and
// rounded once, to the type of masters.
class ChainTable final : public Derived {
 public:
  ChainTable(Chain chain, const ChainOp& op, const BlobBase& x, const BlobBase& top)
      : Derived(Sources(chain)), chain_(std::move(chain)), width_(op.width()) {
    if (op.constants() == 0) return;
    table_ = MakeBlob(x.type() == kDouble ? kDouble : kFloat, x.device(), {op.constants(), width_},
                      top.name() + " constants");
  }
  // Null without constants.
  const BlobBase* blob() const { return table_.get(); }

 private:
  void Build() override {
    if (!table_) return;
    std::vector<double> table;
    for (const ChainStage& stage : chain_.stages) {
      if (stage.function.kind == Kind::kAffine) {
        std::vector<double> scale(1, 1), shift(1, 0);
        Merge(stage.maps, &scale, &shift);
        AddRow(scale, &table);
        AddRow(shift, &table);
      } else if (stage.slopes) {
        AddRow(stage.slopes->DataAsDouble(), &table);
      } else {
        for (const double constant : stage.function.constants()) AddRow({constant}, &table);
      }
    }
    table_->SetData(table);
  }

  void Merge(const std::vector<Affine>& maps, std::vector<double>* scale,
             std::vector<double>* shift) const {
    for (const Affine& map : maps) {
      std::vector<double> a, b;
      map.evaluate(&a, &b);
      CAFFE_CHECK((a.size() == 1 || static_cast<int64_t>(a.size()) == chain_.channels) &&
                      b.size() == a.size(),
                  table_->name(), ": ", a.size(), " scales and ", b.size(), " shifts for ",
                  chain_.channels, " channels");
      if (a.size() > scale->size()) {
        scale->resize(a.size(), scale->front());
        shift->resize(a.size(), shift->front());
      }
      for (size_t c = 0; c < scale->size(); ++c) {
        const size_t from = a.size() == 1 ? 0 : c;
        (*scale)[c] *= a[from];
        (*shift)[c] = (*shift)[c] * a[from] + b[from];
      }
    }
  }

  void AddRow(const std::vector<double>& values, std::vector<double>* table) const {
    for (int64_t c = 0; c < width_; ++c) table->push_back(values[c % values.size()]);
  }

  Chain chain_;
  int64_t width_;
  std::shared_ptr<BlobBase> table_;
};

class ChainWork final : public Work {
 public:
  ChainWork(const Chain& chain, const std::vector<BlobBase*>& inputs, BlobBase* top, Layout layout)
      : op_(MakeOp(chain, *inputs[0], layout)),
        table_(chain, op_, *inputs[0], *top),
        inputs_(inputs),
        top_(top),
        sources_(Sources(chain)) {
    for (const ChainStage& stage : chain.stages) {
      operations_ += stage.function.kind == Kind::kAffine ? 2 : 1;
    }
  }
  const char* library() const override { return "chain"; }
  int64_t parameter_bytes() const override { return table_.blob() ? table_.blob()->bytes() : 0; }
  std::optional<int64_t> operations() const override { return operations_ * top_->count(); }
  void CountMemory(WorkMemory* memory) const override {
    memory->derived += parameter_bytes();
    if (top_->device()->host_accessible()) return;
    memory->absent.insert(sources_.begin(), sources_.end());  // the table is computed on the host
  }
  void Prepare() override {
    table_.Refresh();
    if (table_.blob()) table_.blob()->device_data();  // uploads it now, not in the forward
  }
  void Run(DevicePtr) override {
    std::array<DevicePtr, ChainOp::kMaxSummands> summands;
    for (size_t i = 1; i < inputs_.size(); ++i) summands[i - 1] = inputs_[i]->device_data();
    const DevicePtr x = inputs_[0]->device_data();
    op_.Run(table_.blob() ? table_.blob()->device_data() : DevicePtr{}, x,
            std::span(summands.data(), inputs_.size() - 1), top_->mutable_device_data());
  }

 private:
  ChainOp op_;
  ChainTable table_;
  std::vector<BlobBase*> inputs_;
  BlobBase* top_;
  std::vector<const BlobBase*> sources_;
  int64_t operations_ = 0;
};

}  // namespace

bool Chain::SetChannels(int of, int64_t count) {
  if (count == 1) return true;
  if (channels > 1) return channels == count && axis == of;
  axis = of;
  channels = count;
  return true;
}

bool Chain::Add(const Affine& map) {
  if (!SetChannels(map.axis, map.channels)) return false;
  if (stages.empty() || stages.back().function.kind != Kind::kAffine) {
    stages.push_back({{Kind::kAffine}, {}, nullptr});
  }
  stages.back().maps.push_back(map);
  return true;
}

bool Chain::AddSlopes(const BlobBase* slopes) {
  if (!SetChannels(1, slopes->count())) return false;
  stages.push_back({{Kind::kPReLU}, {}, slopes});
  return true;
}

void Chain::Add(const ElementFunction& function) { stages.push_back({function, {}, nullptr}); }

void Chain::AddSum(double coefficient) {
  stages.push_back({{Kind::kSum, coefficient}, {}, nullptr});
}

bool Chain::fits() const {
  int sums = 0;
  for (const ChainStage& stage : stages) sums += stage.function.kind == Kind::kSum;
  return stages.size() <= ChainOp::kMaxStages && sums <= ChainOp::kMaxSummands;
}

std::unique_ptr<Work> MakeChainWork(const Chain& chain, const std::vector<BlobBase*>& inputs,
                                    BlobBase* top, Layout layout) {
  return std::make_unique<ChainWork>(chain, inputs, top, layout);
}

}  // namespace caffe
