#pragma once

#include <optional>
#include <string>
#include <vector>

namespace caffe {

// A line of a source as a compiler names it: `kernels/neuron/relu.h`, 7.
struct SourcePlace {
  std::string file;
  int line = 0;
};

// The first error of a compiler's log, in clang's form (`file:line:column: error: …` or
// `error: file:line:column: …`) or NVRTC's (`file(line): error: …`).
std::optional<SourcePlace> FirstErrorPlace(const std::string& log);

// The part of a source that an error message shows.
struct SourceExcerpt {
  SourcePlace place;   // by the #line directives
  std::string kernel;  // the kernel whose body or head contains the line; empty outside kernels
  std::string lines;   // the lines around it with their numbers; `>` marks it
};

// `source` has #line directives, and `place` refers to them. A file that no directive names means
// the whole source: NVIDIA's OpenCL ignores the directives and counts the lines of `<kernel>`.
// Returns an empty excerpt if the line does not exist.
SourceExcerpt ExcerptAround(const std::string& source, const SourcePlace& place,
                            const std::vector<std::string>& kernel_names);

}  // namespace caffe
