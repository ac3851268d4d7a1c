#include "caffe/calibration/checked_batches.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/input_shape.hpp"
#include "test_nets.hpp"

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

// The shape of the values, which is computed if the reader does not give it.
Shape ShapeOf(const Batch& batch, const std::string& name, const Shape& wanted) {
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

// Throws if the batch has not the net's inputs, if a shape does not fit, or if inputs have
// different numbers of items. Sets the number of items if it is negative.
void Check(const Net& net, int64_t index, Batch* batch) {
  const std::string where = Concat("batch ", index, ": ");
  const std::vector<int>& inputs = net.input_blob_indices();
  CAFFE_CHECK(!inputs.empty(), "the net has no inputs");
  std::vector<std::string> names, given;
  for (const int input : inputs) names.push_back(net.blob_names()[input]);
  for (const auto& [name, values] : batch->values) given.push_back(name);
  for (const std::string& name : names) {
    CAFFE_CHECK(batch->values.count(name), where, "there are no values for input ", name,
                "; there are some for ", given.empty() ? "none" : Joined(given));
  }
  for (const std::string& name : given) {
    CAFFE_CHECK(std::find(names.begin(), names.end(), name) != names.end(), where,
                "there are values for '", name,
                "', which is not an input of the net; the inputs are ", Joined(names));
  }
  const auto sequences = Sequences(net);  // the batches of recurrent layers must be whole
  int64_t items = -1, most = 0;
  std::string first;
  for (const int input : inputs) {
    const std::string& name = net.blob_names()[input];
    const Shape wanted = InputShape(net, input), shape = ShapeOf(*batch, name, wanted);
    if (most == 0 && !wanted.empty()) most = wanted[0];
    const bool counts = !wanted.empty() && wanted[0] == most && !sequences;
    const bool fits =
        shape == wanted ||
        (counts && shape.size() == wanted.size() && shape[0] > 0 && shape[0] <= wanted[0] &&
         std::equal(shape.begin() + 1, shape.end(), wanted.begin() + 1));
    const bool other = counts && IsOtherSize(shape, wanted, batch->images) && shape[0] > 0;
    CAFFE_CHECK(fits || other, where, InputShapeFault(name, shape, wanted, InputUser::kBatch),
                sequences ? "; a net with recurrent layers takes whole batches" : "");
    if (!counts) continue;
    CAFFE_CHECK(items < 0 || shape[0] == items, where, "there are ", items, " items of input ",
                first, ", but ", shape[0], " of input ", name);
    items = shape[0];
    if (first.empty()) first = name;
  }
  if (batch->items < 0) batch->items = sequences ? sequences->second : std::max<int64_t>(items, 1);
}

}  // namespace

void CheckedBatches::CheckOtherSizes(const Batch& batch) {
  if (takes_other_sizes_) return;
  // A third size: weights may have as many elements for images of 8 x 10 as for those of 10 x 8.
  constexpr int64_t kMore[] = {0, 0, 32, 64};
  NetParameter model = *net_.model;
  for (LayerParameter& layer : *model.mutable_layer()) {
    if (!TraitsOf(layer.type()).input) continue;
    for (int t = 0; t < layer.top_size(); ++t) {
      const auto found = batch.shapes.find(layer.top(t));
      if (found == batch.shapes.end()) continue;
      InputParameter* input = layer.mutable_input_param();
      auto* dims = input->mutable_shape(input->shape_size() == 1 ? 0 : t)->mutable_dim();
      for (int a = 0; found->second.size() == 4 && a < dims->size(); ++a) {
        dims->Set(a, found->second[a] + kMore[a]);
      }
    }
  }
  const auto net = TestNet(model, net_.device);
  for (size_t l = 0; l < net->layers().size(); ++l) {
    const auto &other = net->layers()[l]->blobs(), &own = net_.net->layers()[l]->blobs();
    for (size_t b = 0; b < own.size(); ++b) {
      CAFFE_CHECK(other[b]->shape() == own[b]->shape(), "a batch has images of another size than ",
                  "the net, but parameter ", b, " of layer '", net->layer_names()[l],
                  "' depends on it; resize or crop the images");
    }
  }
  takes_other_sizes_ = true;
}

bool CheckedBatches::Read(int64_t index, Batch* batch) {
  *batch = {};
  if (!read_(index, batch)) return false;
  if (batch->items != 0) Check(*net_.net, index, batch);
  if (HasOtherSizes(*batch, *net_.net)) CheckOtherSizes(*batch);
  return true;
}

int64_t CheckedBatches::ForEach(
    const char* what, int64_t first, int64_t end, int64_t all,
    const std::function<void(int64_t index, const Batch& batch)>& function) {
  Batch batch;
  int64_t i = first;
  for (; i < end && Read(i, &batch); ++i) {
    if (batch.items == 0) continue;
    function(i, batch);
    options_.Show(what, i - first + 1, all);
  }
  return i - first;
}

std::vector<Batch> CheckedBatches::First(size_t count, int64_t first, int64_t end) {
  std::vector<Batch> batches;
  Batch batch;
  for (int64_t i = first; i < end && batches.size() < count && Read(i, &batch); ++i) {
    if (batch.items > 0) batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace caffe
