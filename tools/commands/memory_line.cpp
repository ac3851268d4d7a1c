#include "commands/memory_line.hpp"

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string MemoryLine(const MemoryNeeds& needs, int64_t history) {
  const auto part = [](int64_t bytes) { return GeneralText(MiB(bytes), 6) + " MiB"; };
  return Concat("Memory needed: activations ", part(needs.data), ", diffs ",
                part(needs.diffs + needs.parameter_diffs), ", weights ", part(needs.parameters),
                ", derived weights ", part(needs.derived), ", workspace ", part(needs.workspace),
                history > 0 ? ", history " + part(history) : "", ", total ",
                part(needs.total() + history));
}

}  // namespace caffe
