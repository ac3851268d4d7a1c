#include "caffe/io/hdf5_messages.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {
namespace {

const char* const kRanges = "/cortado/quantizer";
const char* const kWeightsId = "/cortado/weights_id";
const char* const kState = "/cortado/state";
constexpr int kMostGroups = 100;  // nested in each other

Shape ShapeOf(const BlobProto& blob) {
  return {blob.shape().dim().begin(), blob.shape().dim().end()};
}

void WriteBlob(Hdf5Writer* file, const std::string& name, const BlobProto& blob, bool diff) {
  const auto& doubles = diff ? blob.double_diff() : blob.double_data();
  const auto& floats = diff ? blob.diff() : blob.data();
  const int64_t count = ShapeCount(ShapeOf(blob));
  const auto check = [&](size_t elements) {
    CAFFE_CHECK(static_cast<int64_t>(elements) == count, file->path(), ": dataset '", name,
                "' has shape ", ShapeString(ShapeOf(blob)), ", but ", elements, " elements");
  };
  if (!doubles.empty()) {
    check(doubles.size());
    return file->Write(name, ShapeOf(blob), doubles.data());
  }
  if (blob.has_packed_data()) {
    // HDF5 has no type for bfloat16, and BVLC writes no half: both are stored as float.
    const std::string& packed = diff ? blob.packed_diff() : blob.packed_data();
    const DataType type = PackedType(blob);
    const bool fits = static_cast<int64_t>(packed.size()) == type.FileBytes(count);
    check(fits ? count : packed.size() / type.bytes());
    std::vector<float> values(count);
    ConvertElements(type, packed.data(), kFloat, values.data(), values.size());
    return file->Write(name, ShapeOf(blob), values.data());
  }
  check(floats.size());
  file->Write(name, ShapeOf(blob), floats.data());
}

// The values of the blob that has the shape already.
void ReadValues(const Hdf5Reader& file, const std::string& name, BlobProto* blob, bool diff) {
  const Shape shape = file.ShapeOf(name);
  const int64_t count = ShapeCount(shape);
  CAFFE_CHECK(shape == ShapeOf(*blob), "dataset '", name, "' has shape ", ShapeString(shape),
              ", but the parameter has shape ", ShapeString(ShapeOf(*blob)));
  CAFFE_CHECK(count <= INT32_MAX, "dataset '", name, "' of shape ", ShapeString(shape),
              " is too large");
  if (file.IsDouble(name)) {
    auto* values = diff ? blob->mutable_double_diff() : blob->mutable_double_data();
    values->Resize(static_cast<int>(count), 0);
    file.Read(name, values->mutable_data());
  } else {
    auto* values = diff ? blob->mutable_diff() : blob->mutable_data();
    values->Resize(static_cast<int>(count), 0);
    file.Read(name, values->mutable_data());
  }
}

// Reads a blob, or only its shape if its values are not wanted.
void ReadBlob(const Hdf5Reader& file, const std::string& name, const Hdf5Wants& wants,
              const std::string& layer, int index, BlobProto* blob) {
  const Shape shape = file.ShapeOf(name);
  blob->mutable_shape()->mutable_dim()->Assign(shape.begin(), shape.end());
  if (wants && !wants(layer, index, shape)) return;
  ReadValues(file, name, blob, false);
  const std::string diff = Concat("/diff/", layer, "/", index);
  if (!layer.empty() && file.Has(diff)) ReadValues(file, diff, blob, true);
}

// The index that a dataset's name is, or -1.
int IndexOf(const std::string& name) {
  int index = -1;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  return error == std::errc() && stop == name.data() + name.size() && index < 1 << 16 ? index : -1;
}

// Reads the layers of a file.
class LayerReader {
 public:
  LayerReader(const Hdf5Reader& file, const Hdf5Wants& wants, NetParameter* net,
              std::set<std::string>* empty)
      : file_(file), wants_(wants), net_(net), empty_(empty) {}

  // A layer is a group that holds datasets named by an index; its name may contain slashes.
  void Read(const std::string& group, const std::string& layer) {
    const auto [known, fresh] = groups_.emplace(file_.Identity(group), group);
    CAFFE_CHECK(fresh, "group '", group, "' is the same as group '", known->second,
                "'; the file is damaged");
    CAFFE_CHECK(std::count(group.begin(), group.end(), '/') <= kMostGroups, "group '", group,
                "' is nested in more than ", kMostGroups, " groups; the file is damaged");
    LayerParameter* parameter = nullptr;
    for (const std::string& child : file_.Children(group)) {
      const std::string path = group + "/" + child;
      if (file_.IsGroup(path)) {
        Read(path, layer.empty() ? child : layer + "/" + child);
        continue;
      }
      const int index = IndexOf(child);
      CAFFE_CHECK(index >= 0 && !layer.empty(), "dataset '", path,
                  "' is not a parameter of a layer");
      if (!parameter) {
        parameter = net_->add_layer();
        parameter->set_name(layer);
      }
      AddBlobs(path, index, parameter);
      ReadBlob(file_, path, wants_, layer, index, parameter->mutable_blobs(index));
    }
    if (!parameter && empty_ && !layer.empty()) empty_->insert(layer);
  }

 private:
  // Adds what is missing up to the index: the file omits shared parameters.
  void AddBlobs(const std::string& path, int index, LayerParameter* parameter) {
    constexpr int kMostAbsent = 1 << 16;  // in the file
    absent_ += std::max(0, index - parameter->blobs_size());
    CAFFE_CHECK(absent_ <= kMostAbsent, "dataset '", path, "': the file omits more than ",
                kMostAbsent, " parameters; it is damaged");
    while (parameter->blobs_size() <= index) parameter->add_blobs();
  }

  const Hdf5Reader& file_;
  const Hdf5Wants& wants_;
  NetParameter* net_;
  std::set<std::string>* empty_;
  // The groups that were read, by identity. One damaged byte can make a group its own child.
  std::map<std::string, std::string> groups_;
  int absent_ = 0;
};

bool HasValues(const BlobProto& blob) {
  return blob.has_shape() || blob.data_size() > 0 || blob.double_data_size() > 0 ||
         blob.has_packed_data();
}

bool HasDiff(const BlobProto& blob) {
  return blob.diff_size() > 0 || blob.double_diff_size() > 0 || blob.has_packed_diff();
}

// Why HDF5 would not find a group under this name; empty if it would.
std::string PathFault(const std::string& name) {
  if (name.empty()) return "a layer with parameters has no name";
  if (name.find('\0') != std::string::npos) return "it holds a zero byte";
  if (name.front() == '/' || name.back() == '/' || name.find("//") != std::string::npos) {
    return "HDF5 ignores its additional slashes";
  }
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == ".") return "HDF5 ignores the part '.' of a path";
    begin = end + 1;
  }
  if (std::count(name.begin(), name.end(), '/') + 2 > kMostGroups) {
    return Concat("it is nested in ", kMostGroups, " groups or more");
  }
  return "";
}

// The layers with parameters by name.
std::map<std::string, int> StoredLayers(const std::vector<Hdf5Layer>& layers) {
  std::map<std::string, int> stored;
  for (const Hdf5Layer& layer : layers) {
    if (layer.parameters > 0) stored[layer.name] = layer.parameters;
  }
  return stored;
}

// The layer with a parameter whose path is this name or the beginning of it; empty if there is
// none.
std::string LayerInTheWay(const std::string& name, const std::map<std::string, int>& stored) {
  for (size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const auto layer = stored.find(name.substr(0, slash));
    if (layer == stored.end()) continue;
    const size_t end = std::min(name.find('/', slash + 1), name.size());
    const std::string part = name.substr(slash + 1, end - slash - 1);
    const int index = IndexOf(part);
    if (index >= 0 && index < layer->second && part == std::to_string(index)) return layer->first;
  }
  return "";
}

std::vector<Hdf5Layer> LayersOf(const NetParameter& net) {
  std::vector<Hdf5Layer> layers;
  for (const LayerParameter& layer : net.layer()) {
    layers.push_back({layer.name(), layer.blobs_size()});
  }
  return layers;
}

}  // namespace

std::string Hdf5NameFault(const std::vector<Hdf5Layer>& layers) {
  constexpr char kCure[] =
      "; rename the layer, or store the weights as a .caffemodel "
      "(snapshot_format: BINARYPROTO)";
  const std::map<std::string, int> stored = StoredLayers(layers);
  std::set<std::string> names;
  for (const Hdf5Layer& layer : layers) {
    if (layer.parameters == 0) continue;
    if (!names.insert(layer.name).second) {
      return Concat("two layers with parameters are called '", layer.name,
                    "', but an HDF5 file finds layers by name", kCure);
    }
    const std::string fault = PathFault(layer.name);
    if (!fault.empty()) {
      return Concat("an HDF5 file cannot store layer '", layer.name,
                    "' so that it is found again: ", fault, kCure);
    }
    const std::string other = LayerInTheWay(layer.name, stored);
    if (!other.empty()) {
      return Concat("an HDF5 file cannot store the layers '", other, "' and '", layer.name,
                    "': the name of the latter is the path of a parameter of the former", kCure);
    }
  }
  return "";
}

void WriteNetHdf5(const std::string& path, const NetParameter& net) {
  Hdf5Writer file(path);
  WriteNetHdf5(net, &file);
  file.Commit();
}

void WriteNetHdf5(const NetParameter& net, Hdf5Writer* file) {
  const std::vector<Hdf5Layer> layers = LayersOf(net);
  const std::string fault = Hdf5NameFault(layers);
  CAFFE_CHECK(fault.empty(), file->path(), ": ", fault);
  const std::map<std::string, int> stored = StoredLayers(layers);
  file->MakeGroup("/data");
  for (const LayerParameter& layer : net.layer()) {
    // The group of a layer without parameters says nothing: it is omitted if HDF5 cannot store it.
    const bool fits =
        PathFault(layer.name()).empty() && LayerInTheWay(layer.name(), stored).empty();
    if (layer.blobs_size() == 0 && !fits) continue;
    const std::string group = "/data/" + layer.name();
    file->MakeGroup(group);
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const BlobProto& blob = layer.blobs(i);
      if (!HasValues(blob)) continue;
      const std::string name = layer.name() + "/" + std::to_string(i);
      WriteBlob(file, "/data/" + name, blob, false);
      if (HasDiff(blob)) WriteBlob(file, "/diff/" + name, blob, true);
    }
  }
  if (net.quantizer_size() > 0) {
    NetParameter ranges;
    *ranges.mutable_quantizer() = net.quantizer();
    file->WriteBytes(kRanges, ranges.SerializeAsString());
  }
  if (net.has_weights_id()) file->WriteString(kWeightsId, net.weights_id());
}

namespace {

// Runs `read`, whose errors get the name of the file.
template <class Read> void NamingFile(const std::string& path, const Read& read) {
  try {
    NamingMemory(path, read);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    const std::string text = error.what();
    // The text of an error is escaped.
    CAFFE_THROW(text.starts_with(Printable(path)) ? "" : path + ": ", text);
  }
}

}  // namespace

NetParameter ReadNetHdf5(const std::string& path, std::set<std::string>* empty,
                         const Hdf5Wants& wants) {
  const Hdf5Reader file(path);
  NetParameter net;
  NamingFile(path, [&] {
    CAFFE_CHECK(file.Has("/data"), "it has no group '/data', so it is not a file of weights");
    LayerReader(file, wants, &net, empty).Read("/data", "");
    if (file.Has(kWeightsId)) net.set_weights_id(file.ReadString(kWeightsId));
    if (file.Has(kRanges)) {
      NetParameter ranges;
      CAFFE_CHECK(ranges.ParseFromString(file.ReadBytes(kRanges)), "dataset '", kRanges,
                  "' is damaged");
      *net.mutable_quantizer() = ranges.quantizer();
    }
  });
  return net;
}

std::string ReadWeightsIdHdf5(const std::string& path) {
  const Hdf5Reader file(path);
  return file.Has(kWeightsId) ? file.ReadString(kWeightsId) : "";
}

void WriteSolverStateHdf5(const std::string& path, const SolverState& state) {
  Hdf5Writer file(path);
  WriteSolverStateHdf5(state, &file);
  file.Commit();
}

void WriteSolverStateHdf5(const SolverState& state, Hdf5Writer* file) {
  file->WriteInteger("/iter", state.iter());
  file->WriteInteger("/current_step", state.current_step());
  if (state.has_learned_net()) file->WriteString("/learned_net", state.learned_net());
  file->MakeGroup("/history");
  for (int i = 0; i < state.history_size(); ++i) {
    WriteBlob(file, "/history/" + std::to_string(i), state.history(i), false);
  }
  SolverState rest = state;
  rest.clear_iter();
  rest.clear_current_step();
  rest.clear_learned_net();
  rest.clear_history();
  file->WriteBytes(kState, rest.SerializeAsString());
}

SolverState ReadSolverStateHdf5(const std::string& path, const Hdf5Wants& wants) {
  const Hdf5Reader file(path);
  SolverState state;
  NamingFile(path, [&] {
    CAFFE_CHECK(file.Has("/iter") && file.Has("/history"),
                "'/iter' or '/history' is missing, so it is not a solver state");
    if (file.Has(kState)) {
      CAFFE_CHECK(state.ParseFromString(file.ReadBytes(kState)), "dataset '", kState,
                  "' is damaged");
    }
    state.clear_history();
    const auto integer = [&](const std::string& name) {
      const int64_t value = file.ReadInteger(name);
      CAFFE_CHECK(value >= 0 && value <= INT32_MAX, "'", name, "' is ", value,
                  "; the file is damaged");
      return static_cast<int>(value);
    };
    state.set_iter(integer("/iter"));
    if (file.Has("/current_step")) state.set_current_step(integer("/current_step"));
    if (file.Has("/learned_net")) state.set_learned_net(file.ReadString("/learned_net"));
    const int count = static_cast<int>(file.Children("/history").size());
    for (int i = 0; i < count; ++i) {
      ReadBlob(file, "/history/" + std::to_string(i), wants, "", i, state.add_history());
    }
  });
  return state;
}

}  // namespace caffe
