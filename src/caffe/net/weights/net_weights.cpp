#include "net_weights.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/core/sha256.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "packed_weights.hpp"

namespace caffe {
namespace {

int64_t Elements(const BlobProto& source) {
  return source.double_data_size() > 0 ? source.double_data_size() : source.data_size();
}

bool HasDiff(const BlobProto& source) {
  return source.double_diff_size() > 0 || source.diff_size() > 0 || source.has_packed_diff();
}

// Throws the error of FromProto before anything has changed. `stored`: elements that are still in
// the file, or -1.
void CheckFits(const BlobBase& target, const BlobProto& source, int64_t stored) {
  const int64_t elements = stored < 0 ? Elements(source) : stored;
  if (target.ShapeEquals(source) && elements == target.count() && !HasDiff(source)) return;
  CAFFE_CHECK(stored < 0 || !target.ShapeEquals(source), "blob ", target.name(), " of shape ",
              target.shape_string(), " needs ", target.count(),
              " elements, but its data in the file has ", stored);
  MakeBlob(target.type(), Runtime::Get().cpu(), target.shape(), target.name())
      ->FromProto(source, false);
}

// Copies the floats of a blob that are still in the file.
void ReadStored(const WeightsFile& file, int index, bool map, BlobBase* target) {
  if (map && target->type() == kFloat && target->data_memory()->bytes() == target->bytes()) {
    if (auto mapped = file.Map(index)) return target->data_memory()->Adopt(std::move(mapped));
  }
  void* const data = target->overwrite_host_data();
  if (target->type() == kFloat) {
    file.Read(index, 0, target->count(), static_cast<float*>(data));
    return;
  }
  constexpr int64_t kPart = 1 << 16;
  std::vector<float> part(kPart);
  for (int64_t first = 0; first < target->count(); first += kPart) {
    const int64_t count = std::min(kPart, target->count() - first);
    file.Read(index, first, count, part.data());
    ConvertElements(kFloat, part.data(), target->type(),
                    static_cast<char*>(data) + first * target->type().bytes(), count);
  }
}

// A hash that any change of one element changes; several times faster than SHA-256.
uint64_t HashOf(const void* data, size_t bytes) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
  constexpr size_t kLanes = 4;
  const auto mix = [](uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kFactor;
    return hash ^ (hash >> 29);
  };
  uint64_t lanes[kLanes] = {1, 2, 3, 4};
  const char* const begin = static_cast<const char*>(data);
  size_t done = 0;
  for (; done + sizeof(lanes) <= bytes; done += sizeof(lanes)) {
    uint64_t words[kLanes];
    std::memcpy(words, begin + done, sizeof(words));
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  uint64_t hash = bytes;
  for (const uint64_t lane : lanes) hash = mix(hash, lane);
  for (; done < bytes; ++done) hash = mix(hash, static_cast<unsigned char>(begin[done]));
  return hash;
}

// Advice for a solver state that is given as weights; empty if the file is not a solver state.
std::string SolverStateAdvice(const std::string& path, bool hdf5) {
  SolverState state;
  try {
    if (hdf5) {
      state = ReadSolverStateHdf5(path, [](const auto&...) { return false; });
    } else {
      ReadBinaryProto(path, &state);
    }
  } catch (const Error&) {
    return "";
  }
  if (!state.has_iter()) return "";
  const std::string weights =
      state.has_learned_net() ? state.learned_net() : "the .caffemodel beside it";
  return Concat(path, " is a solver state (of iteration ", state.iter(), "), not weights: resume ",
                "training from it with -snapshot (Python: solver.restore), or give the weights ",
                "that were written with it, ", weights);
}

}  // namespace

void ShareWeights(const Wiring& net, const Wiring& other) {
  const std::vector<int> matches = MatchInOrder(other.layer_names, net.layer_names);
  for (size_t i = 0; i < other.layers.size(); ++i) {
    const std::string& name = other.layer_names[i];
    if (matches[i] < 0) {
      log::Info("Ignoring source layer " + name);
      continue;
    }
    auto& targets = net.layers[matches[i]]->blobs();
    auto& sources = other.layers[i]->blobs();
    CAFFE_CHECK(targets.size() == sources.size(), "layer '", name, "' has ", targets.size(),
                " parameters here and ", sources.size(), " in net ", other.name);
    for (size_t b = 0; b < sources.size(); ++b) {
      CAFFE_CHECK(targets[b]->shape() == sources[b]->shape(), "layer '", name, "', parameter ", b,
                  ": shape ", targets[b]->shape_string(), " here, ", sources[b]->shape_string(),
                  " in net ", other.name);
      CAFFE_CHECK(targets[b]->device() == sources[b]->device(), "layer '", name, "', parameter ", b,
                  ": it is on ", targets[b]->device()->info().id, " here and on ",
                  sources[b]->device()->info().id, " in net ", other.name,
                  ", and devices cannot share memory; put both nets on one device, ",
                  "or copy the weights (ToProto and CopyTrainedLayersFrom, in Python save and ",
                  "copy_from)");
      // Nets that share weights may run in several threads; none of them may run a filler then.
      const SyncedMemory& memory = *sources[b]->data_memory();
      if (!memory.stored() && !memory.form()) sources[b]->host_data();
      targets[b]->ShareData(*sources[b]);
    }
  }
}

namespace {

// The blob of the layer that computes with it.
Wiring::NestedBlob TargetOf(const Wiring& net, LayerBase* layer, int parameter) {
  if (!dynamic_cast<const CompositeLayer*>(layer)) return {layer, parameter};
  return net.nested_blobs.at(layer->blobs()[parameter].get());
}

// A parameter of a source, and the parameter of a net that gets its content.
struct ParameterSource {
  Wiring::NestedBlob target;  // of a composite layer: the nested layer's
  std::string name;           // of the layer in the source: see UniqueLayerNames
  int parameter;
  const BlobProto* proto;
  int index;               // in the source
  int64_t stored, packed;  // elements in the file, and elements of packed data, or -1

  BlobBase* blob() const { return target.layer->blobs()[target.index].get(); }
  DataType type() const {
    if (packed >= 0) return PackedType(*proto);
    return proto->double_data_size() > 0 ? kDouble : kFloat;
  }
};

// The weights that a source gives to a net.
struct FoundWeights {
  std::vector<ParameterSource> parameters;
  std::vector<int> layers;                     // of the net, which get parameters
  std::vector<const LayerParameter*> surplus;  // layers with parameters that no layer takes
};

// Throws before anything has changed if the parameters do not fit.
FoundWeights FindSources(const Wiring& net, const WeightsSource& trained,
                         const PackedReader& reader) {
  FoundWeights found;
  int index = 0;
  const std::vector<std::string> names = UniqueLayerNames(*trained.net);
  std::vector<std::string> given;
  for (const LayerParameter& layer : trained.net->layer()) given.push_back(layer.name());
  const std::vector<int> matches = MatchInOrder(given, net.layer_names);
  for (int l = 0; l < trained.net->layer_size(); ++l) {
    const LayerParameter& source = trained.net->layer(l);
    const int first = index;
    index += source.blobs_size();
    if (matches[l] < 0) {
      log::Info("Ignoring source layer " + source.name());
      if (source.blobs_size() > 0) found.surplus.push_back(&source);
      continue;
    }
    LayerBase* layer = net.layers[matches[l]].get();
    const size_t targets = layer->blobs().size();
    CAFFE_CHECK(static_cast<int>(targets) == source.blobs_size(), "layer '", source.name(),
                "' has ", targets, " parameters, but the file has ", source.blobs_size(),
                " for it; rename the layer to skip them");
    if (targets > 0) found.layers.push_back(matches[l]);
    for (int b = 0; b < source.blobs_size(); ++b) {
      const BlobProto& blob = source.blobs(b);
      const int64_t packed = reader.Elements(blob, first + b);
      ParameterSource one{TargetOf(net, layer, b),
                          names[l],
                          b,
                          &blob,
                          first + b,
                          trained.file ? trained.file->Elements(first + b) : -1,
                          packed};
      if (packed >= 0) reader.Check(names[l], b, blob, first + b);
      try {
        CheckFits(*one.blob(), blob, std::max(one.stored, packed));
      } catch (const Error& error) {
        CAFFE_THROW("layer '", source.name(), "', parameter ", b, ": ", error.what(),
                    "; to train it from its filler rename the layer");
      }
      found.parameters.push_back(one);
    }
  }
  return found;
}

void CopyParameters(const WeightsSource& trained, const PackedReader& reader, bool map,
                    const std::vector<ParameterSource>& parameters, WeightLosses* losses) {
  for (const ParameterSource& source : parameters) {
    if (source.packed >= 0) {
      reader.Read(source.name, source.parameter, *source.proto, source.index, *source.target.layer,
                  source.target.index);
    } else if (source.stored >= 0) {
      ReadStored(*trained.file, source.index, map, source.blob());
    } else {
      source.blob()->FromProto(*source.proto, false);
    }
    if (source.target.index == 0) losses->Add(*source.target.layer, source.type());
  }
}

// The layers with a parameter that no source gives, neither to them nor to a layer that shares it.
std::vector<int> LayersWithout(const Wiring& net, const std::vector<FoundWeights>& sources) {
  std::set<int> takers, missing;
  for (const FoundWeights& source : sources) {
    takers.insert(source.layers.begin(), source.layers.end());
  }
  std::vector<bool> given(net.learnable.size(), false);
  ForEachParameter(net, [&](int layer, int, int id) {
    if (takers.contains(layer)) given[id] = true;
  });
  ForEachParameter(net, [&](int layer, int, int id) {
    if (!given[id]) missing.insert(layer);
  });
  return {missing.begin(), missing.end()};
}

bool SameShapes(const LayerBase& layer, const LayerParameter& source) {
  const auto& blobs = layer.blobs();
  if (static_cast<int>(blobs.size()) != source.blobs_size()) return false;
  for (size_t b = 0; b < blobs.size(); ++b) {
    if (!blobs[b]->ShapeEquals(source.blobs(static_cast<int>(b)))) return false;
  }
  return true;
}

// The layer of the sources that a layer without weights probably is: one with nearly the same name,
// or the only one whose parameters have the same shapes. Only layers that no other layer takes.
std::string NearestLayer(const LayerBase& layer, const std::vector<FoundWeights>& sources) {
  std::vector<std::string> names, fitting;
  for (const FoundWeights& source : sources) {
    for (const LayerParameter* one : source.surplus) {
      names.push_back(one->name());
      if (SameShapes(layer, *one)) fitting.push_back(one->name());
    }
  }
  const std::string near = NearName(layer.name(), names);
  if (!near.empty()) return near;
  return fitting.size() == 1 ? fitting[0] : "";
}

constexpr size_t kMostListed = 12;  // layers in a message

template <class Item, class Describe>
std::string Listed(const std::vector<Item>& items, const Describe& describe) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < kMostListed; ++i) {
    text += (i > 0 ? ", " : "") + describe(items[i]);
  }
  if (items.size() > kMostListed) {
    text += Concat(" and ", items.size() - kMostListed, " more");
  }
  return text;
}

std::string DescribeMissing(const Wiring& net, const std::vector<int>& missing,
                            const std::vector<FoundWeights>& sources) {
  const auto describe = [&](int index) {
    const LayerBase& layer = *net.layers[index];
    const std::string near = NearestLayer(layer, sources);
    return Concat("'", layer.name(), "' (", layer.type(),
                  near.empty() ? "" : "; did you mean '" + near + "'?", ")");
  };
  return Concat(missing.size() == 1 ? "layer " : Concat(missing.size(), " layers: "),
                Listed(missing, describe));
}

// Warns or throws, as the options say, if weights and net do not have the same layers.
void Judge(const Wiring& net, const std::vector<WeightsSource>& sources,
           const std::vector<FoundWeights>& found, const std::vector<int>& missing,
           MissingWeights action) {
  if (action == MissingWeights::kAllow || net.parameters.empty()) {
    if (action != MissingWeights::kRefuse) return;
  }
  const std::string names = Listed(sources, [](const WeightsSource& one) { return one.name; });
  const char* const have = sources.size() == 1 ? " has" : " have";
  if (action == MissingWeights::kRefuse) {
    std::string fault;
    if (!missing.empty()) {
      fault = Concat(names, have, " no parameters for ", DescribeMissing(net, missing, found));
    }
    std::vector<const LayerParameter*> surplus;
    for (const FoundWeights& one : found) {
      surplus.insert(surplus.end(), one.surplus.begin(), one.surplus.end());
    }
    if (!surplus.empty()) {
      fault += Concat(fault.empty() ? "" : "; ", names, have, " parameters that no layer takes: ",
                      Listed(surplus, [](const LayerParameter* one) {
                        return Concat("those of '", one->name(), "'");
                      }));
    }
    CAFFE_CHECK(fault.empty(), NetLabel(net.name), ": ", fault,
                "; all weights must fit here, so nothing was copied");
    return;
  }
  const bool none = std::all_of(found.begin(), found.end(),
                                [](const FoundWeights& one) { return one.parameters.empty(); });
  if (none) {
    log::Warning(Concat(NetLabel(net.name), ": no layer of ", names,
                        " with parameters has the name of a layer of this net; nothing was copied",
                        missing.empty() ? "" : " to " + DescribeMissing(net, missing, found)));
  } else if (!missing.empty()) {
    log::Warning(
        Concat(NetLabel(net.name), ": ", names, have, " no parameters for ",
               DescribeMissing(net, missing, found),
               missing.size() == 1 ? ", which keeps its values" : ", which keep their values"));
  }
}

}  // namespace

std::vector<int> CopyWeights(const Wiring& net, const std::vector<WeightsSource>& sources,
                             const WeightsOptions& options) {
  std::vector<PackedReader> readers;
  std::vector<FoundWeights> found;
  readers.reserve(sources.size());
  for (const WeightsSource& source : sources) {
    readers.emplace_back(*source.net, source.file, options.map);
    found.push_back(FindSources(net, source, readers.back()));
  }
  std::vector<int> missing = LayersWithout(net, found);
  Judge(net, sources, found, missing, options.missing);
  for (size_t i = 0; i < sources.size(); ++i) {
    WeightLosses losses;
    CopyParameters(sources[i], readers[i], options.map, found[i].parameters, &losses);
    losses.Log(net.name);
  }
  return missing;
}

WeightsFile ReadWeights(const Wiring& net, const std::string& path, bool whole) {
  if (IsHdf5File(path)) return WeightsFile(ReadHdf5Weights(net, path));
  return whole ? WeightsFile(ReadNetParameterBinary(path)) : WeightsFile(path);
}

std::string WeightsId(const Wiring& net) {
  Sha256 hash;
  for (const BlobBase* blob : net.learnable) {
    hash.UpdateFramed(Concat(blob->type().name(), " ", blob->shape_string()));
    const uint64_t values = HashOf(blob->host_data(), static_cast<size_t>(blob->bytes()));
    hash.Update(&values, sizeof(values));
  }
  return Sha256::Hex(hash.Finish()).substr(0, 32);
}

void RethrowWithAdvice(const std::vector<std::string>& paths) {
  try {
    throw;
  } catch (const Error&) {
    for (const std::string& path : paths) {
      std::error_code code;
      if (!std::filesystem::is_regular_file(path, code)) continue;  // a pipe can be read once
      const std::string advice = SolverStateAdvice(path, IsHdf5File(path));
      if (!advice.empty()) throw Error(advice);
    }
    throw;
  }
}

void WriteWeights(const Wiring& net, NetParameter* parameter, Narrow narrow, bool write_diff) {
  for (size_t i = 0; i < net.layers.size(); ++i) {
    LayerParameter* layer = parameter->mutable_layer(static_cast<int>(i));
    const auto& blobs = net.layers[i]->blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      BlobProto* blob = layer->add_blobs();
      if (narrow == Narrow::kAsFloat || write_diff ||
          !WritePacked(*net.layers[i], net.unique_names[net.layer_nodes[i]], static_cast<int>(b),
                       blob, parameter)) {
        blobs[b]->ToProto(blob, write_diff);
      }
    }
  }
}

}  // namespace caffe
