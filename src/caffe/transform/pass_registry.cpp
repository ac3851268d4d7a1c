#include "caffe/transform/pass_registry.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "builtin_passes.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<PassEntry> entries = BuiltInPasses();
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

bool IsName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

bool Fits(const LayerPattern& pattern, const LayerParameter& layer) {
  if (IsRemoved(layer)) return false;
  if (!pattern.type.empty() && pattern.type != layer.type()) return false;
  return !pattern.fits || pattern.fits(layer);
}

}  // namespace

std::vector<PassEntry> RegisteredPasses() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.entries;
}

void RegisterPass(const std::string& name, PassFunction function) {
  CAFFE_CHECK(IsName(name) && name != "all", "a pass cannot have the name '", name,
              "': give it one of letters, digits, '_' and '-' that is not 'all'");
  CAFFE_CHECK(function, "pass '", name, "' has no function");
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (PassEntry& entry : registry.entries) {
    if (entry.name != name) continue;
    CAFFE_CHECK(!entry.built_in, "there is a pass '", name,
                "' in Cortado; give yours another name");
    entry.run = std::move(function);
    return;
  }
  registry.entries.push_back({name, std::move(function)});
}

std::vector<std::vector<int>> FindChains(const NetParameter& model,
                                         const std::vector<LayerPattern>& pattern) {
  CAFFE_CHECK(!pattern.empty(), "a pattern needs one layer at least");
  const Flow flow(model);
  std::vector<std::vector<int>> chains;
  std::set<int> taken;
  for (int first = 0; first < model.layer_size(); ++first) {
    std::vector<int> chain{first};
    while (Fits(pattern[chain.size() - 1], model.layer(chain.back())) &&
           taken.count(chain.back()) == 0 && chain.size() < pattern.size()) {
      const int last = chain.back();
      if (model.layer(last).top_size() == 0) break;
      const std::vector<BlobUse>& readers = flow.Readers(last, 0);
      if (readers.size() != 1 || readers[0].index != 0) break;
      chain.push_back(readers[0].layer);
    }
    const bool whole = chain.size() == pattern.size() && taken.count(chain.back()) == 0 &&
                       Fits(pattern.back(), model.layer(chain.back()));
    if (!whole) continue;
    taken.insert(chain.begin(), chain.end());
    chains.push_back(std::move(chain));
  }
  return chains;
}

void RegisterRewrite(const std::string& name, std::vector<LayerPattern> pattern,
                     RewriteFunction function) {
  CAFFE_CHECK(!pattern.empty(), "pass '", name, "': a pattern needs one layer at least");
  CAFFE_CHECK(function, "pass '", name, "' has no function");
  RegisterPass(name, [name, pattern = std::move(pattern), function = std::move(function)](
                         NetParameter model, const TransformOptions&, TransformNotes* notes) {
    for (const std::vector<int>& chain : FindChains(model, pattern)) {
      const int before = model.layer_size();
      function(&model, chain, notes);
      CAFFE_CHECK(model.layer_size() == before, "pass '", name, "' had ", before,
                  " layers before a match, and ", model.layer_size(),
                  " after it; a rewrite only changes the layers of its match");
    }
    return model;
  });
}

std::string RemoveCopy(NetParameter* model, int layer) {
  CAFFE_CHECK(layer >= 0 && layer < model->layer_size(), "there is no layer ", layer,
              "; the model ", "has ", model->layer_size());
  const LayerParameter& copy = model->layer(layer);
  CAFFE_CHECK(copy.bottom_size() > 0 && copy.top_size() > 0, LayerTitle(copy),
              " has no bottom or no top, and is not a copy");
  return Bypass(model, layer, KeptName::kBottom);
}

void LoadPasses(const std::string& library) {
  std::string why;
  // The loader searches for a path without a slash elsewhere.
  const std::string path = library.find('/') == std::string::npos ? "./" + library : library;
  const auto opened = DynamicLibrary::Open({path}, &why);
  CAFFE_CHECK(opened, "cannot open the library of passes ", library, ": ", why);
  void (*add)() = nullptr;
  CAFFE_CHECK(
      opened->Bind("RegisterCaffePasses", &add), library,
      " has no function RegisterCaffePasses; write extern \"C\" void RegisterCaffePasses(), "
      "which calls caffe::RegisterPass");
  add();
}

}  // namespace caffe
