#include "memory_forecast.hpp"

#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {

int64_t MemoryForecast::Epochs() const {
  int64_t sum = 0;
  for (size_t n = 0; n < wiring_.nodes.size(); ++n) sum += runner_.shape_epoch(static_cast<int>(n));
  return sum;
}

// Callers reshape inputs; the shapes behind them follow in Check.
bool MemoryForecast::ShapesChanged() const {
  if (Epochs() != epochs_) return true;
  for (size_t n = 0; n < wiring_.nodes.size(); ++n) {
    const bool source = wiring_.nodes[n].bottom_ids.empty();
    if (source && !runner_.HasNotedShapes(static_cast<int>(n))) return true;
  }
  return false;
}

// More than any net needs, from the sizes of its arrays: workspaces and derived weights may be
// several times as large.
int64_t MemoryForecast::MostNeeded() const {
  int64_t blobs = 0, parameters = 0;
  for (const auto& blob : wiring_.blobs) blobs += blob->bytes();
  for (const auto& blob : wiring_.parameters) parameters += blob->bytes();
  return 32 * blobs + 16 * parameters + (64 << 20);
}

// The bytes that the net has already, and would not take again.
int64_t MemoryForecast::Held() const {
  int64_t bytes = 0;
  std::set<const SyncedMemory*> seen;
  const auto count = [&](const SyncedMemory& memory) {
    if (memory.buffer() && !memory.adopted() && seen.insert(&memory).second)
      bytes += memory.bytes();
  };
  for (const auto& blob : wiring_.parameters) {
    const bool stored = blob->data_memory()->stored();
    if (const auto packed = stored ? nullptr : PackedParameter::Of(*blob)) {
      bytes += packed->mapped() ? 0 : packed->bytes();
    } else {
      count(*blob->data_memory());
    }
    if (blob->has_diff()) count(*blob->diff_memory());
  }
  return std::max(bytes, last_total_);
}

void MemoryForecast::Check(Pass pass, const std::function<MemoryNeeds()>& needs,
                           const std::function<std::string(const MemoryNeeds&)>& cure) {
  const int bit = static_cast<int>(pass);
  if (ShapesChanged()) {
    for (size_t n = 0; n < wiring_.nodes.size(); ++n) {
      runner_.ReshapeIfNeeded(static_cast<int>(n));
    }
    epochs_ = Epochs();
    checked_ = 0;
  }
  if (checked_ & bit) return;
  checked_ |= bit;
  if (!ChecksMemory()) return;
  Device* const device = wiring_.workspace->device();
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at_ > std::chrono::seconds(1) || MostNeeded() > available_.bytes) {
    available_ = AvailableMemoryOf(*device);
    read_at_ = now;
  }
  if (MostNeeded() <= available_.bytes) return;
  const MemoryNeeds need = needs();
  const int64_t held = Held();
  if (need.total() <= held + std::max<int64_t>(available_.bytes, 0)) {
    last_total_ = need.total();
    return;
  }
  checked_ = 0;
  const DeviceInfo& info = device->info();
  throw OutOfMemory(Concat(info.id, " (", info.name, "): out of memory: ", NetLabel(wiring_.name),
                           " needs ", need.ToString(), "; it has ", held, " of them, and ",
                           std::max<int64_t>(available_.bytes, 0), " are available (",
                           available_.limit, "); use a smaller batch or a narrower type",
                           cure(need), "; CAFFE_MEMORY_CHECK=off runs it all the same"));
}

}  // namespace caffe
