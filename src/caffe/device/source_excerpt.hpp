#pragma once

#include <optional>
#include <string>
#include <vector>

namespace caffe {

// A place as a compiler names it: `kernels/neuron/relu.h`, 7.
struct SourcePlace {
  std::string file;
  int line = 0;
};

// The first error of a compiler's log, in clang's form (`file:line:column: error: …` or
// `error: file:line:column: …`) or NVRTC's (`file(line): error: …`).
std::optional<SourcePlace> FirstErrorPlace(const std::string& log);

// What a message shows of a source that did not compile.
struct SourceExcerpt {
  SourcePlace place;   // in the terms of the #line directives
  std::string kernel;  // the kernel whose body or head holds the place; empty outside of kernels
  std::string lines;   // the lines around the place with their numbers, the place marked with `>`
};

// `source` holds #line directives; `place` is meant in their terms. A file that no directive names
// is the whole source: NVIDIA's OpenCL ignores the directives and counts lines of `<kernel>`. Empty
// if there is no such line.
SourceExcerpt ExcerptAround(const std::string& source, const SourcePlace& place,
                            const std::vector<std::string>& kernel_names);

}  // namespace caffe
