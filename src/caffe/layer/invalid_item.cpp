#include "caffe/layer/invalid_item.hpp"

#include "caffe/layer/place_blob.hpp"

namespace caffe {

void InvalidItem::Place(Device* device, const std::string& name) {
  const bool fresh = !record_;
  PlaceBlob(&record_, kFloat, device, {3}, name + " invalid item");
  if (fresh) record_->SetData({0, 0, 0});
}

std::optional<InvalidItem::Item> InvalidItem::Take() {
  const float* record = As<float>(*record_).cpu_data();
  if (record[0] == 0) return std::nullopt;
  const Item item{static_cast<int64_t>(record[1]), record[2]};
  record_->SetData({0, 0, 0});
  return item;
}

}  // namespace caffe
