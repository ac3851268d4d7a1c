#pragma once

#include <functional>
#include <string>
#include <vector>

#include "caffe/transform/transform.hpp"

namespace caffe {

class LayerParameter;

// The passes that TransformModel runs by their names. Those of Cortado are entries of this registry
// as well as those of users.

// Rewrites a model, and describes in `notes` what it changed. The parameters of a layer are in its
// `blobs`.
using PassFunction = std::function<NetParameter(NetParameter model, const TransformOptions& options,
                                                TransformNotes* notes)>;

// Adds a pass. A pass of a user may be added again, which replaces it. Throws if the name is one of
// Cortado's passes, "all", empty, or has other characters than letters, digits, '_' and '-'.
void RegisterPass(const std::string& name, PassFunction function);

// One layer of a pattern.
struct LayerPattern {
  std::string type;  // empty: any
  // A further condition; null: none.
  std::function<bool(const LayerParameter& layer)> fits;
};

// The layers that match a pattern, as indices in the model. Each layer reads, as bottom 0, top 0 of
// the one before it, and nothing else reads that top: it may be changed or removed. A layer belongs
// to one match at most.
std::vector<std::vector<int>> FindChains(const NetParameter& model,
                                         const std::vector<LayerPattern>& pattern);

// Adds a pass that calls a function for each match of a pattern. It may change the layers of the
// match; it must not add layers, remove them or change their order. RemoveCopy removes a layer.
using RewriteFunction =
    std::function<void(NetParameter* model, const std::vector<int>& layers, TransformNotes* notes)>;
void RegisterRewrite(const std::string& name, std::vector<LayerPattern> pattern,
                     RewriteFunction function);

// Removes a layer whose top equals its bottom 0: its readers read the bottom, and blobs that are
// outputs keep their names. Within a pass the layer stays in the list, without bottoms and tops;
// TransformModel takes it out. Returns the reason if the layer must stay.
std::string RemoveCopy(NetParameter* model, int layer);

// Opens a shared library and calls its function
//   extern "C" void RegisterCaffePasses();
// which adds passes. Throws if the library cannot be opened or lacks the function.
void LoadPasses(const std::string& library);

}  // namespace caffe
