#include "caffe/net/wiring.hpp"

#include <algorithm>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/repeated_names.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

bool WritesAny(const Node& node, const std::set<int>& ids) {
  return std::any_of(node.top_ids.begin(), node.top_ids.end(),
                     [&](int id) { return ids.count(id) > 0; });
}

}  // namespace

Wiring::Wiring() = default;
Wiring::~Wiring() = default;
Wiring::Wiring(Wiring&&) noexcept = default;
Wiring& Wiring::operator=(Wiring&&) noexcept = default;

int Wiring::UserBlob(int id) const {
  for (auto found = origins.find(id); found != origins.end(); found = origins.find(id)) {
    id = found->second;
  }
  return id;
}

int Wiring::Version(int id) const {
  while (!versions.count(id)) {
    const auto found = origins.find(id);
    if (found == origins.end()) break;
    id = found->second;
  }
  return id;
}

const std::string& Wiring::ShownName(int id) const {
  const auto version = versions.find(id);
  return blobs[version == versions.end() ? id : version->second]->name();
}

void Wiring::NameRanges() {
  std::vector<std::string> names = layer_names;
  for (const Node& node : nodes) {
    if (node.nested_in >= 0 && !node.added()) names.push_back(node.layer->name());
  }
  names = UniqueNames(names);
  size_t nested = layers.size();
  unique_names.clear();
  for (const Node& node : nodes) {
    const size_t index = node.layer_index < 0 && !node.added() ? nested++ : node.layer_index;
    unique_names.push_back(node.added() ? "" : names[index]);
  }
  range_names.assign(nodes.size(), {});
  std::set<int> changed;  // the user's blobs that a later layer writes
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    for (const int top : node.top_ids) {
      const int id = UserBlob(top);
      const std::string& name = blobs[id]->name();
      range_names[n].push_back(changed.count(id) ? name + "@" + unique_names[n] : name);
    }
    if (node.added()) continue;
    for (const int top : node.top_ids) changed.insert(UserBlob(top));
  }
}

std::vector<std::string> Wiring::RangeNames() const {
  std::vector<std::string> names;
  for (const Node& node : nodes) {
    if (node.added() || node.fixed_ranges) continue;
    for (int t = 0; t < node.layer->layer_param().top_size(); ++t) {
      names.push_back(RangeName(node, t));
    }
  }
  return names;
}

std::string Wiring::WeightsRange(const Node& node) const {
  return ParameterQuantizer(unique_names[&node - nodes.data()], 0);
}

int Wiring::EndOf(int layer) const {
  return layer == last_layer() ? last_node() + 1 : layer_begins[layer + 1];
}

std::vector<int> Wiring::AddedNodesBefore(int first, int last) const {
  std::set<int> read;
  for (int n = first; n <= last; ++n) {
    read.insert(nodes[n].bottom_ids.begin(), nodes[n].bottom_ids.end());
  }
  std::vector<int> found;
  for (int n = first - 1; n >= 0; --n) {
    const Node& node = nodes[n];
    if (!node.added() || !WritesAny(node, read)) continue;
    found.push_back(n);
    read.insert(node.bottom_ids.begin(), node.bottom_ids.end());
  }
  return found;
}

std::vector<int> Wiring::BackwardNodes(int start, int end) const {
  if (start < end) return {};  // also in a net without layers
  const int first = layer_nodes[start], last = layer_begins[end];
  std::vector<int> run;
  std::set<int> wanted;
  for (int n = EndOf(start) - 1; n > first; --n) {
    const Node& node = nodes[n];
    if (!WritesAny(node, wanted) && !node.makes_top) continue;
    run.push_back(n);
    wanted.insert(node.bottom_ids.begin(), node.bottom_ids.end());
  }
  for (int n = first; n >= last; --n) run.push_back(n);
  const std::vector<int> before = AddedNodesBefore(last, first);
  run.insert(run.end(), before.begin(), before.end());
  return run;
}

}  // namespace caffe
