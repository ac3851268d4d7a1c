#include "observers.hpp"

#include "caffe/core/log.hpp"
#include "caffe/net/ranges/net_ranges.hpp"

namespace caffe {

std::string WhyNotReplayed(const std::vector<PassObserver*>& observers) {
  for (const PassObserver* observer : observers) {
    if (observer->per_layer()) return Concat(observer->name(), " looks at every layer");
    if (observer->per_step()) return Concat(observer->name(), " is called between all steps");
  }
  return "";
}

Observers::Observers(const Wiring& wiring, const Gradients& gradients, const Views& views,
                     BlobVersions* versions, NetRanges* ranges)
    : ranges_(ranges),
      debug_lines_(wiring, gradients),
      finite_check_(wiring, gradients),
      checks_finite_(log::Topic("nan")),
      callbacks_(wiring, gradients, views, versions) {}

std::vector<PassObserver*> Observers::Active() {
  std::vector<PassObserver*> active;
  if (interruption_.check) active.push_back(&interruption_);
  if (debug_lines_.any()) active.push_back(&debug_lines_);
  if (checks_finite_) active.push_back(&finite_check_);
  if (ranges_->table().active()) active.push_back(&ranges_->pass());
  if (callbacks_.any()) active.push_back(&callbacks_);
  active.insert(active.end(), added_.begin(), added_.end());
  return active;
}

const char* Observers::LooksAtLayers() {
  if (callbacks_.any()) return callbacks_.name();
  for (const PassObserver* observer : Active()) {
    if (observer->per_layer()) return observer->name();
  }
  return nullptr;
}

}  // namespace caffe
