#include "net_weights.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/sub_net.hpp"
#include "packed_weights.hpp"

namespace caffe {
namespace {

int64_t Elements(const BlobProto& source) {
  return source.double_data_size() > 0 ? source.double_data_size() : source.data_size();
}

// Throws the error of FromProto before anything has changed. `stored`: elements that are still in
// the file, or -1.
void CheckFits(const BlobBase& target, const BlobProto& source, int64_t stored) {
  const int64_t elements = stored < 0 ? Elements(source) : stored;
  if (target.ShapeEquals(source) && elements == target.count()) return;
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
  target->data_memory()->ForgetHostWrites();  // what is not stored is not made for this
  void* const data = target->mutable_host_data();
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

// Layers are found by name. If several have one name, the first of the file or net matches the
// first of this net, and so on.
class Namesakes {
 public:
  explicit Namesakes(const Wiring& net) {
    for (const auto& layer : net.layers) layers_[layer->name()].push_back(layer.get());
  }
  // Null, with a log line, if there are no more layers of this name.
  LayerBase* Next(const std::string& name) {
    const auto found = layers_.find(name);
    const size_t place = given_[name]++;
    if (found != layers_.end() && place < found->second.size()) return found->second[place];
    log::Info("Ignoring source layer " + name);
    return nullptr;
  }

 private:
  std::map<std::string, std::vector<LayerBase*>> layers_;
  std::map<std::string, size_t> given_;
};

// Advice for a solver state that is given as weights; empty if the file is not a solver state.
std::string SolverStateAdvice(const std::string& path, bool hdf5) {
  SolverState state;
  try {
    if (hdf5) {
      state = ReadSolverStateHdf5(path);
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
  Namesakes namesakes(net);
  for (size_t i = 0; i < other.layers.size(); ++i) {
    const std::string& name = other.layer_names[i];
    LayerBase* layer = namesakes.Next(name);
    if (!layer) continue;
    auto& targets = layer->blobs();
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

// A parameter of a file, and the parameter of a net that gets its content.
struct ParameterSource {
  Wiring::NestedBlob target;  // of a composite layer: the nested layer's
  const std::string* name;    // of the layer in the file
  int parameter;
  const BlobProto* proto;
  int index;               // in the file
  int64_t stored, packed;  // elements in the file, and elements of packed data, or -1

  BlobBase* blob() const { return target.layer->blobs()[target.index].get(); }
  DataType type() const {
    if (packed >= 0) return PackedType(*proto);
    return proto->double_data_size() > 0 ? kDouble : kFloat;
  }
};

// Throws before anything has changed if the parameters do not fit.
std::vector<ParameterSource> FindSources(const Wiring& net, const NetParameter& trained,
                                         const WeightsFile* file, const PackedReader& reader) {
  std::vector<ParameterSource> sources;
  int index = 0;
  Namesakes namesakes(net);
  for (const LayerParameter& source : trained.layer()) {
    const int first = index;
    index += source.blobs_size();
    LayerBase* layer = namesakes.Next(source.name());
    if (!layer) continue;
    const size_t targets = layer->blobs().size();
    CAFFE_CHECK(static_cast<int>(targets) == source.blobs_size(), "layer '", source.name(),
                "' has ", targets, " parameters, but the file has ", source.blobs_size(),
                " for it; rename the layer to skip them");
    for (int b = 0; b < source.blobs_size(); ++b) {
      const BlobProto& blob = source.blobs(b);
      const int64_t packed = reader.Elements(blob, first + b);
      ParameterSource one{TargetOf(net, layer, b),
                          &source.name(),
                          b,
                          &blob,
                          first + b,
                          file ? file->Elements(first + b) : -1,
                          packed};
      if (packed >= 0) reader.Check(source.name(), b, blob, first + b);
      try {
        CheckFits(*one.blob(), blob, std::max(one.stored, packed));
      } catch (const Error& error) {
        CAFFE_THROW("layer '", source.name(), "', parameter ", b, ": ", error.what(),
                    "; to train it from its filler rename the layer");
      }
      sources.push_back(one);
    }
  }
  return sources;
}

// `file` may be null: then all arrays are in `trained`.
void Copy(const Wiring& net, const NetParameter& trained, const WeightsFile* file, bool map) {
  const PackedReader reader(trained, file, map);
  const std::vector<ParameterSource> sources = FindSources(net, trained, file, reader);
  WeightLosses losses;
  for (const ParameterSource& source : sources) {
    if (source.packed >= 0) {
      reader.Read(*source.name, source.parameter, *source.proto, source.index, *source.target.layer,
                  source.target.index);
    } else if (source.stored >= 0) {
      ReadStored(*file, source.index, map, source.blob());
    } else {
      source.blob()->FromProto(*source.proto, false);
    }
    if (source.target.index == 0) losses.Add(*source.target.layer, source.type());
  }
  losses.Log(net.name);
  if (sources.empty() && !net.parameters.empty()) {
    log::Warning(
        Concat("net ", net.name, ": no layer of the weights of net '", trained.name(),
               "' with parameters has the name of a layer of this net; nothing was copied"));
  }
}

}  // namespace

void CopyWeights(const Wiring& net, const NetParameter& trained) {
  Copy(net, trained, nullptr, false);
}

void CopyWeights(const Wiring& net, const WeightsFile& file, bool map) {
  Copy(net, file.net(), &file, map);
}

WeightsFile ReadWeights(const Wiring& net, const std::string& path) {
  return IsHdf5File(path) ? WeightsFile(ReadHdf5Weights(net, path)) : WeightsFile(path);
}

void RethrowWithAdvice(const std::string& path) {
  try {
    throw;
  } catch (const Error&) {
    const std::string advice = SolverStateAdvice(path, IsHdf5File(path));
    if (advice.empty()) throw;
    throw Error(advice);
  }
}

std::vector<std::string> SplitPaths(const std::string& paths) {
  std::vector<std::string> list;
  std::stringstream stream(paths);
  std::string path;
  while (std::getline(stream, path, ',')) {
    const size_t first = path.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    list.push_back(path.substr(first, path.find_last_not_of(' ') - first + 1));
  }
  return list;
}

void WriteWeights(const Wiring& net, NetParameter* parameter, Narrow narrow, bool write_diff) {
  for (size_t i = 0; i < net.layers.size(); ++i) {
    LayerParameter* layer = parameter->mutable_layer(static_cast<int>(i));
    const auto& blobs = net.layers[i]->blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      BlobProto* blob = layer->add_blobs();
      if (narrow == Narrow::kAsFloat || write_diff ||
          !WritePacked(*net.layers[i], static_cast<int>(b), blob, parameter)) {
        blobs[b]->ToProto(blob, write_diff);
      }
    }
  }
}

}  // namespace caffe
