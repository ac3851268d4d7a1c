#include "describe_step.hpp"

#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

bool IsAlias(const LayerFacts& facts, size_t top) {
  return std::any_of(facts.aliases.begin(), facts.aliases.end(),
                     [top](const Alias& alias) { return alias.top == static_cast<int>(top); });
}

// Forward writes no top: all are inputs of the net, share memory, or are bottoms that do not
// change.
bool ComputesNothing(const Node& node, const LayerFacts& facts) {
  if (node.top.empty() || facts.host) return false;
  if (TraitsOf(node.layer->type()).input) return true;
  if (facts.function == ElementFunction{}) return node.bottom_ids == node.top_ids;
  for (size_t t = 0; t < node.top.size(); ++t) {
    if (!IsAlias(facts, t)) return false;
  }
  return true;
}

// The operations of a layer without an operator.
std::optional<int64_t> ElementwiseOperations(const Node& node, const LayerFacts& facts) {
  if (node.top.empty()) return std::nullopt;
  const int64_t count = node.top[0]->count();
  if (facts.function) return facts.function->kind == ElementFunction::Kind::kNone ? 0 : count;
  if (facts.affine) return 2 * count;
  if (!facts.sum) return std::nullopt;
  const std::vector<double>& coefficients = facts.sum->coefficients;
  const int64_t additions = static_cast<int64_t>(coefficients.size()) - 1;
  const int64_t multiplications =
      std::count_if(coefficients.begin(), coefficients.end(),
                    [](double coefficient) { return coefficient != 1; });
  return (additions + multiplications) * count;
}

// The bytes of the blobs that the step reads from other steps, and of those that it writes.
int64_t BlobBytes(const Wiring& wiring, const Step& step, const LayerFacts& facts) {
  const std::vector<int>& tops = wiring.nodes[step.nodes.back()].top_ids;
  int64_t bytes = 0;
  std::set<int> written;               // by the step itself, so far
  std::set<const SyncedMemory*> read;  // blobs may share memory
  for (int n : step.nodes) {
    const Node& node = wiring.nodes[n];
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (written.count(node.bottom_ids[b])) continue;
      if (read.insert(node.bottom[b]->data_memory().get()).second) bytes += node.bottom[b]->bytes();
    }
    written.insert(node.top_ids.begin(), node.top_ids.end());
  }
  for (size_t t = 0; t < tops.size(); ++t) {
    if (!IsAlias(facts, t)) bytes += wiring.blobs[tops[t]]->bytes();
  }
  return bytes;
}

}  // namespace

std::string StepInfo::name() const {
  std::string text;
  for (const std::string& layer : layers) text += (text.empty() ? "" : " + ") + layer;
  return text;
}

std::string StepInfo::layout() const {
  std::string text = LayoutName(layouts.x);
  if (layouts.y != layouts.x) text += std::string("/") + LayoutName(layouts.y);
  return conversions > 0 ? Concat(text, " +", conversions) : text;
}

StepInfo DescribeStep(const Wiring& wiring, const Plan& plan, size_t index, const Work& work,
                      const std::function<bool(int node, int bottom)>& is_part) {
  const Step& step = plan.steps[index];
  StepInfo info;
  int64_t converted_bytes = 0;
  const auto add = [&](const Step& other) {
    if (!other.converts() || other.nodes[0] != step.nodes[0]) return false;
    ++info.conversions;
    converted_bytes += 2 * wiring.blobs[plan.arrays[other.writes[0]].blob]->bytes();
    return true;
  };
  for (size_t i = index; i > 0 && add(plan.steps[i - 1]); --i) {
  }
  for (size_t i = index + 1; i < plan.steps.size() && add(plan.steps[i]); ++i) {
  }
  for (int n : step.nodes) {
    info.layers.push_back(wiring.nodes[n].layer->name());
    info.layer_types.push_back(wiring.nodes[n].layer->type());
  }
  const Node& first = wiring.nodes[step.nodes[0]];
  const LayerFacts facts = first.layer->Facts();
  info.types = first.layer->types();
  info.layouts = step.request.layouts;
  info.workspace_bytes = work.workspace_bytes();
  if (ComputesNothing(first, facts)) {
    info.operations = 0;
    return info;
  }
  info.library = work.library();
  if (info.library.empty()) info.library = facts.host ? "host" : "kernels";
  if (facts.join) {
    for (size_t b = 0; b < first.bottom.size(); ++b) {
      if (is_part(step.nodes[0], static_cast<int>(b))) continue;
      ++info.copies;
      info.bytes += 2 * first.bottom[b]->bytes();
    }
    if (info.copies == 0) info.library = "producers";
  } else {
    info.bytes = BlobBytes(wiring, step, facts) + work.parameter_bytes();
  }
  info.bytes += converted_bytes;
  info.operations = work.operations();
  if (!info.operations) info.operations = ElementwiseOperations(first, facts);
  return info;
}

}  // namespace caffe
