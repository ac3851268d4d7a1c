#include <algorithm>

#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

// Whether narrow -> wide -> narrow keeps every value of float kinds.
bool ComesBack(DataType narrow, DataType wide) {
  if (!narrow.is_float() || !wide.is_float()) return false;
  if (wide == kDouble) return true;
  return wide == narrow || (wide == kFloat && narrow != kDouble);
}

}  // namespace

NetParameter RemoveCasts(NetParameter model, TransformNotes* notes) {
  const auto net = MakeNet(model);
  const auto converts = [&](int i) {
    return i >= 0 && TraitsOf(model.layer(i).type()).converts && model.layer(i).top_size() == 1;
  };
  for (int i = 0; i < model.layer_size(); ++i) {
    if (IsRemoved(model.layer(i)) || !converts(i)) continue;
    const TypeTriple types = net->layers()[i]->types();
    const std::string title = LayerTitle(model.layer(i));
    if (types.in == types.out && types.in.is_float()) {
      const std::string why = Bypass(&model, i, KeptName::kBottom);
      notes->push_back(title + (why.empty()
                                    ? " is removed: it converts " + types.in.name() + " to itself"
                                    : " stays: " + why));
      continue;
    }
    const Flow flow(model);
    const BlobUse first = flow.Source(i, 0);
    if (!converts(first.layer)) continue;
    const TypeTriple before = net->layers()[first.layer]->types();
    if (before.out != types.in || before.in != types.out) continue;
    const std::string first_title = LayerTitle(model.layer(first.layer));
    if (!ComesBack(before.in, before.out)) {
      notes->push_back(title + " stays: " + first_title + " before it loses precision");
      continue;
    }
    // Read what the first one reads.
    const std::string origin = model.layer(first.layer).bottom(0);
    if (flow.Writes(origin, first.layer, i)) {
      notes->push_back(title + " stays: blob " + origin + " changes before it");
      continue;
    }
    const std::string old = model.layer(i).bottom(0);
    model.mutable_layer(i)->set_bottom(0, origin);
    const std::string why = Bypass(&model, i, KeptName::kBottom);
    if (!why.empty()) {
      model.mutable_layer(i)->set_bottom(0, old);
      notes->push_back(title + " stays: " + why);
      continue;
    }
    notes->push_back(title + " is removed: it only restores the type before " + first_title);
    if (Flow(model).Readers(first.layer, 0).empty()) {
      RemoveLayer(model.mutable_layer(first.layer));
      notes->push_back(first_title + " is removed: nothing reads it any more");
    }
  }
  return WithoutRemovedLayers(std::move(model));
}

}  // namespace caffe
