#include "finite_check.hpp"

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

// "blob conv1, element 7 of 20 (1 x 20), is nan"; empty if all elements are finite.
std::string NotFinite(const std::string& what, const Shape& shape,
                      const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return Concat(what, ", element ", i, " of ", values.size(), " ", ShapeString(shape), ", is ",
                    values[i]);
    }
  }
  return "";
}

}  // namespace

void FiniteCheck::AfterForward(const Node& node) {
  const std::string where = Concat("layer ", node.layer->name(), " (", node.layer->type(), ")");
  node.layer->CheckData();  // has a more specific message
  std::string found;
  for (size_t i = 0; i < node.layer->blobs().size() && found.empty(); ++i) {
    const BlobBase& blob = *node.layer->blobs()[i];
    found = NotFinite(Concat("parameter ", i), blob.shape(), blob.DataAsDouble());
  }
  for (size_t i = 0; i < node.top.size() && found.empty(); ++i) {
    if (!node.top[i]->type().is_float()) continue;
    found =
        NotFinite("top " + node.top[i]->name(), node.top[i]->shape(), node.top[i]->DataAsDouble());
  }
  CAFFE_CHECK(found.empty(), "forward of ", where, ": ", found);
}

void FiniteCheck::AfterBackward(const Node& node) {
  const std::vector<bool>& gradients =
      gradients_.bottoms(static_cast<int>(&node - wiring_.nodes.data()));
  const std::string where = Concat("layer ", node.layer->name(), " (", node.layer->type(), ")");
  std::string found;
  for (size_t i = 0; i < node.bottom.size() && found.empty(); ++i) {
    if (!gradients[i]) continue;
    found = NotFinite("gradient of bottom " + node.bottom[i]->name(), node.bottom[i]->shape(),
                      node.bottom[i]->DiffAsDouble());
  }
  for (size_t i = 0; i < node.layer->blobs().size() && found.empty(); ++i) {
    const BlobBase& blob = *node.layer->blobs()[i];
    if (!node.layer->param_propagate_down(static_cast<int>(i))) continue;
    found = NotFinite(Concat("gradient of parameter ", i), blob.shape(), blob.DiffAsDouble());
  }
  if (found.empty()) return;
  // If gradients overflow, the adaptive loss scale skips the update, and training continues.
  CAFFE_CHECK(gradients_.narrow(), "backward of ", where, ": ", found);
  log::Warning(Concat("backward of ", where, ": ", found));
}

}  // namespace caffe
