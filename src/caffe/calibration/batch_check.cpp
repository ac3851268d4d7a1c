#include "batch_check.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/net/input_shape.hpp"
#include "scores.hpp"

namespace caffe {
namespace {

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Images of another height and width. Exchanged ones of arrays are more likely an error.
bool IsOtherSize(const Shape& given, const Shape& wanted, bool images) {
  return given.size() == 4 && wanted.size() == 4 && given[1] == wanted[1] &&
         (given[2] != wanted[2] || given[3] != wanted[3]) &&
         (images || given[2] != wanted[3] || given[3] != wanted[2]);
}

}  // namespace

BatchCheck::BatchCheck(const Net& net) {
  for (const int index : net.input_blob_indices()) {
    const BlobBase& blob = *net.blobs()[index];
    const std::string& name = net.blob_names()[index];
    names_.push_back(name);
    inputs_[name] = blob.shape();
    if (batch_ == 0 && blob.num_axes() > 0) batch_ = blob.shape(0);
  }
  if (const auto sequences = Sequences(net)) sequences_ = sequences->second;
}

Shape BatchCheck::ShapeOf(const Batch& batch, const std::string& name, const Shape& wanted) const {
  const auto shape = batch.shapes.find(name);
  if (shape != batch.shapes.end()) return shape->second;
  const auto count = static_cast<int64_t>(batch.values.at(name).size());
  if (wanted.empty()) return count == 1 ? wanted : Shape{count};
  const int64_t item = std::max<int64_t>(ShapeCount(wanted, 1), 1);
  if (count % item != 0) return {count};
  Shape items = wanted;
  items[0] = count / item;
  return items;
}

void BatchCheck::Check(int64_t index, Batch* batch) const {
  const std::string where = Concat("batch ", index, ": ");
  CAFFE_CHECK(!names_.empty(), "the net has no inputs");
  std::vector<std::string> given;
  for (const auto& [name, values] : batch->values) given.push_back(name);
  for (const std::string& name : names_) {
    CAFFE_CHECK(batch->values.count(name), where, "there are no values for input ", name,
                "; there are some for ", given.empty() ? "none" : Joined(given));
  }
  for (const std::string& name : given) {
    CAFFE_CHECK(inputs_.count(name), where, "there are values for '", name,
                "', which is not an input of the net; the inputs are ", Joined(names_));
  }
  int64_t items = -1;
  std::string first;
  for (const std::string& name : names_) {
    const Shape &wanted = inputs_.at(name), shape = ShapeOf(*batch, name, wanted);
    const bool counts = !wanted.empty() && wanted[0] == batch_ && sequences_ == 0;
    const bool fits =
        shape == wanted ||
        (counts && shape.size() == wanted.size() && shape[0] > 0 && shape[0] <= wanted[0] &&
         std::equal(shape.begin() + 1, shape.end(), wanted.begin() + 1));
    const bool other = counts && IsOtherSize(shape, wanted, batch->images) && shape[0] > 0;
    CAFFE_CHECK(fits || other, where, InputShapeFault(name, shape, wanted, InputUser::kBatch),
                sequences_ > 0 ? "; a net with recurrent layers takes whole batches" : "");
    if (!counts) continue;
    CAFFE_CHECK(items < 0 || shape[0] == items, where, "there are ", items, " items of input ",
                first, ", but ", shape[0], " of input ", name);
    items = shape[0];
    if (first.empty()) first = name;
  }
  if (batch->items < 0) batch->items = sequences_ > 0 ? sequences_ : std::max<int64_t>(items, 1);
}

}  // namespace caffe
