#include "caffe/transform/transform.hpp"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "builtin_passes.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/less_log.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/data/gzip_file.hpp"
#include "caffe/data/zstd_size.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/weights_file.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

constexpr char kRoundLevels[] = "round_levels";

bool IsCustomType(const std::string& name) {
  const std::optional<DataType> type = FindDataType(name);
  return type && type->is_custom();
}

std::vector<PassEntry> Resolve(const std::vector<std::string>& names) {
  const std::vector<PassEntry> registered = RegisteredPasses();
  std::vector<PassEntry> passes;
  for (const std::string& name : names) {
    bool found = false;
    for (const PassEntry& entry : registered) {
      if (name != entry.name && !(name == "all" && entry.in_all)) continue;
      passes.push_back(entry);
      found = true;
    }
    if (found) continue;
    std::string known;
    for (const std::string& pass : TransformPasses()) known += pass + " ";
    std::vector<std::string> candidates = TransformPasses();
    candidates.push_back("all");
    const std::string nearest = NearName(name, candidates);
    CAFFE_THROW("unknown pass '", name, "'", nearest.empty() ? "" : "; did you mean ", nearest,
                nearest.empty() ? "" : "?", " (known: ", known, "all)");
  }
  CAFFE_CHECK(!passes.empty(), "no pass is named");
  return passes;
}

// Runs a pass. Errors of a user's pass have its name.
NetParameter Run(const PassEntry& pass, NetParameter model, const TransformOptions& options,
                 TransformNotes* notes) {
  if (pass.built_in) return pass.run(std::move(model), options, notes);
  try {
    return WithoutRemovedLayers(pass.run(std::move(model), options, notes));
  } catch (const Error& error) {
    throw Error(Concat("pass '", pass.name, "': ", error.what()));
  }
}

std::vector<PackedSize> PackedSizes(const NetParameter& before, const NetParameter& after) {
  const std::string first = before.SerializeAsString(), second = after.SerializeAsString();
  std::vector<PackedSize> sizes;
  const auto add = [&](const char* program, std::optional<int64_t> (*size)(std::string_view)) {
    const std::optional<int64_t> one = size(first), other = size(second);
    if (one && other) sizes.push_back({program, *one, *other});
  };
  add("gzip", GzipSize);
  add("zstd", ZstdSize);
  return sizes;
}

bool Names(const TransformOptions& options, const std::string& pass) {
  return std::find(options.passes.begin(), options.passes.end(), pass) != options.passes.end();
}

// Entries of parameters that are decoded have no use.
void RemoveParameterRanges(const std::set<std::string>& names, NetParameter* model) {
  auto* entries = model->mutable_quantizer();
  for (int i = entries->size() - 1; i >= 0; --i) {
    if (names.count(entries->Get(i).name()) > 0) entries->DeleteSubrange(i, 1);
  }
}

}  // namespace

std::vector<std::string> TransformPasses() {
  std::vector<std::string> names;
  for (const PassEntry& entry : RegisteredPasses()) names.push_back(entry.name);
  return names;
}

std::vector<std::string> AllPasses() {
  std::vector<std::string> names;
  for (const PassEntry& entry : RegisteredPasses()) {
    if (entry.in_all) names.push_back(entry.name);
  }
  return names;
}

void CheckPasses(const TransformOptions& options) {
  Resolve(options.passes);
  const bool rounds = Names(options, "round"), codes = Names(options, "quantize_weights"),
             levels = Names(options, kRoundLevels);
  CAFFE_CHECK(rounds + codes + levels < 2,
              "the passes round, round_levels and quantize_weights exclude each other; name one of "
              "them");
  CAFFE_CHECK(options.levels == 0 || levels,
              "levels are for the pass round_levels, which is not "
              "named");
  CAFFE_CHECK(options.levels == 0 || options.levels >= 2, "round_levels needs 2 levels at least, ",
              "not ", options.levels);
  CAFFE_CHECK(options.strip.outputs.empty() || Names(options, "strip") || Names(options, "all"),
              "outputs are for the pass strip, which is not named");
  if (options.type.empty()) return;
  CAFFE_CHECK(rounds || codes, "type ", options.type,
              " is for the passes round and quantize_weights, and neither is named");
  if (rounds && IsCustomType(options.type)) return;
  const std::vector<std::string> known = rounds ? std::vector<std::string>{"half", "bfloat16"}
                                                : std::vector<std::string>{"int8", "int16"};
  CAFFE_CHECK(std::find(known.begin(), known.end(), options.type) != known.end(), "pass ",
              rounds ? "round" : "quantize_weights", " does not have type '", options.type,
              "' (known: ", known[0], " ", known[1], ")");
}

NetParameter TransformModel(NetParameter model, const TransformOptions& options,
                            TransformReport* report) {
  CheckPasses(options);
  const LessLog less_log;
  const NetParameter original = model;
  *report = {};
  for (const PassEntry& pass : Resolve(options.passes)) {
    PassReport one;
    one.name = pass.name;
    one.layers_before = model.layer_size();
    one.bytes_before = static_cast<int64_t>(model.ByteSizeLong());
    model = Run(pass, std::move(model), options, &one.notes);
    one.layers_after = model.layer_size();
    one.bytes_after = static_cast<int64_t>(model.ByteSizeLong());
    report->passes.push_back(std::move(one));
  }
  if (Names(options, kRoundLevels)) report->packed = PackedSizes(original, model);
  report->outputs = CompareOutputs(original, model, options);
  return model;
}

NetParameter JoinModel(const NetParameter& net, NetParameter weights) {
  std::set<std::string> decoded;
  if (HasCodedParameters(weights)) {
    const std::vector<std::string> names = UniqueLayerNames(weights);
    for (int l = 0; l < weights.layer_size(); ++l) {
      for (int b = 0; b < weights.layer(l).blobs_size(); ++b) {
        if (weights.layer(l).blobs(b).has_packed_data()) {
          decoded.insert(ParameterQuantizer(names[l], b));
        }
      }
    }
    DecodeParameters(&weights);
  }
  NetParameter model = net;
  model.mutable_state()->set_phase(TEST);
  std::vector<int> kept;
  model = FilterNet(model, &kept);
  if (!net.has_state()) model.clear_state();
  std::vector<std::string> names, sources;
  for (const LayerParameter& layer : model.layer()) names.push_back(layer.name());
  for (const LayerParameter& layer : weights.layer()) sources.push_back(layer.name());
  const std::vector<int> matches = MatchInOrder(names, sources);
  for (int i = 0; i < model.layer_size(); ++i) {
    LayerParameter* layer = model.mutable_layer(i);
    if (!net.layer(kept[i]).has_phase()) layer->clear_phase();
    layer->clear_blobs();
    if (matches[i] < 0) continue;
    layer->mutable_blobs()->Swap(weights.mutable_layer(matches[i])->mutable_blobs());
  }
  model.mutable_quantizer()->MergeFrom(weights.quantizer());
  RemoveParameterRanges(decoded, &model);
  return model;
}

NetParameter ReadModel(const std::string& net, const std::vector<std::string>& weights,
                       bool strict) {
  return ReadModel(ReadTestNetFile(net), weights, strict);
}

NetParameter ReadModel(const NetParameter& net, const std::vector<std::string>& weights,
                       bool strict, std::set<std::string>* coded) {
  CAFFE_CHECK(!weights.empty(), "no file of weights is named");
  NetParameter joined;
  std::string surplus;
  for (const std::string& path : weights) {
    NetParameter file = IsHdf5File(path) ? ReadNetHdf5(path) : ReadNetParameterBinary(path);
    for (const LayerParameter& layer : file.layer()) {
      for (const BlobProto& blob : layer.blobs()) {
        if (!coded || !blob.has_packed_data() || !PackedType(blob).is_quantized()) continue;
        coded->insert(PackedType(blob).name());
      }
    }
    std::map<std::string, int> stored;  // layers with parameters that no layer has taken
    for (const LayerParameter& layer : file.layer()) stored[layer.name()] += layer.blobs_size() > 0;
    NetParameter one = JoinModel(net, std::move(file));
    for (const LayerParameter& layer : one.layer()) stored[layer.name()] -= layer.blobs_size() > 0;
    for (const auto& [name, count] : stored) {
      if (count > 0) surplus += Concat(surplus.empty() ? "" : ", ", "'", name, "' of ", path);
    }
    if (&path == &weights.front()) {
      joined = std::move(one);
      continue;
    }
    for (int i = 0; i < joined.layer_size(); ++i) {
      if (one.layer(i).blobs_size() == 0) continue;
      joined.mutable_layer(i)->mutable_blobs()->Swap(one.mutable_layer(i)->mutable_blobs());
    }
    joined.mutable_quantizer()->MergeFrom(one.quantizer());
  }
  CAFFE_CHECK(!strict || surplus.empty(), "net ", net.name(),
              ": no layer of phase TEST takes the parameters of ", surplus);
  return joined;
}

void WriteModel(const NetParameter& model, const std::string& prefix) {
  const size_t bytes = model.ByteSizeLong();
  CAFFE_CHECK(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()), "cannot write ",
              prefix, ".caffemodel: it would have ", bytes,
              " bytes, but protobuf holds at most 2 GiB - 1");
  NetParameter net = model;
  std::set<std::string> ranges;  // of parameters: they belong to the weights
  const std::vector<std::string> names = UniqueLayerNames(net);
  for (int l = 0; l < net.layer_size(); ++l) {
    for (int b = 0; b < net.layer(l).blobs_size(); ++b) {
      ranges.insert(ParameterQuantizer(names[l], b));
    }
    net.mutable_layer(l)->clear_blobs();
  }
  RemoveParameterRanges(ranges, &net);
  std::string text;
  CAFFE_CHECK(google::protobuf::TextFormat::PrintToString(net, &text), "cannot write ", prefix,
              ".prototxt: the net cannot be printed as text");
  AtomicFile weights(prefix + ".caffemodel"), prototxt(prefix + ".prototxt");
  {
    google::protobuf::io::FileOutputStream stream(weights.descriptor(), 1 << 20);
    const bool written = WriteAlignedNet(model, &stream) && stream.Flush();
    CAFFE_CHECK(written, "cannot write ", prefix,
                ".caffemodel: ", std::strerror(stream.GetErrno()));
  }
  prototxt.Write(text);
  AtomicFile::CommitTogether({&weights, &prototxt});
}

}  // namespace caffe
