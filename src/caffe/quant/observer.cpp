#include "caffe/quant/observer.hpp"

#include <algorithm>
#include <cstring>

#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

constexpr int64_t kSlots = Histogram::kBins + 1;  // the last one counts zeros
// The work items that count: more need more memory, and time to add their counts.
constexpr int64_t kMostParts = 256, kLeastLength = 4096;
constexpr double kFirstLimit = 0x1p-100;

int64_t PartsOf(int64_t count) { return std::clamp<int64_t>(count / kLeastLength, 1, kMostParts); }

}  // namespace

std::shared_ptr<BlobBase> RangeObserver::MakeScratch(Device* device) {
  return MakeBlob(kQuant8, device, {kMostParts * kSlots * 4}, "partial histograms");
}

RangeObserver::RangeObserver(DataType type, Device* device, std::shared_ptr<BlobBase> scratch)
    : type_(type), device_(device), min_max_(type, device), scratch_(std::move(scratch)) {
  const DataType master = type == kDouble ? kDouble : kFloat;
  range_ = MinMax::MakeRange(type, device);
  if (!scratch_) scratch_ = MakeScratch(device);
  limit_ = MakeBlob(master, device, {1}, "limit of a histogram");
  limit_->SetData({kFirstLimit});
  counts_ = MakeBlob(kQuant8, device, {kSlots * 8}, "histogram");
  std::memset(counts_->mutable_host_data(), 0, counts_->bytes());
  const auto histogram =
      ProgramBuilder(device, "histogram").Types(type).Body("quant/histogram").Build();
  widen_ = histogram->CreateKernel("histogram_widen");
  count_ = histogram->CreateKernel("histogram_parts");
  add_ = histogram->CreateKernel("histogram_add");
}

void RangeObserver::Observe(const BlobBase& blob) {
  CAFFE_CHECK(blob.type() == type_, "blob ", blob.name(), " holds ", blob.type().name(),
              ", its observer expects ", type_.name());
  const int64_t count = blob.count();
  if (count == 0) return;
  min_max_.Add(blob, range_.get());

  const int64_t bins = Histogram::kBins, parts = PartsOf(count);
  const int64_t length = (count + parts - 1) / parts;
  // Neighbouring work items of a GPU read neighbouring elements; a thread of a CPU reads a range.
  const bool apart = device_->info().span() > 1;
  widen_->Launch(1, {1, range_->Data(), limit_->MutableData(), counts_->MutableData(), bins});
  count_->Launch(parts, {parts, blob.Data(), limit_->Data(), scratch_->MutableData(), count, bins,
                         apart ? int64_t{1} : length, apart ? parts : int64_t{1}, length});
  add_->Launch(kSlots, {kSlots, scratch_->Data(), counts_->MutableData(), parts});
}

Histogram RangeObserver::ReadHistogram() const {
  std::vector<int64_t> slots(kSlots);
  std::memcpy(slots.data(), counts_->host_data(), kSlots * 8);
  Histogram histogram;
  histogram.zeros = slots.back();
  slots.pop_back();
  histogram.counts = std::move(slots);
  histogram.counts[Histogram::kBins / 2] += histogram.zeros;
  histogram.limit = limit_->DataAsDouble()[0];
  if (histogram.total() == 0) return {};
  return histogram;
}

Range RangeObserver::Read() const {
  const std::vector<double> seen = range_->DataAsDouble();
  Range range = merged_;
  range.Unite({seen[0], seen[1]});
  return range;
}

bool RangeObserver::lost() const { return range_->DataAsDouble()[2] != 0; }

}  // namespace caffe
