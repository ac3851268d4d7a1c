#include "caffe/net/net.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <random>
#include <set>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/out_of_memory.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "ignored_settings.hpp"

namespace caffe {
namespace {

// An independent seed for each layer: splitmix64 of the net's seed and the layer's place.
uint64_t LayerSeed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

TypeTriple TypesOf(const LayerParameter& layer) {
  return {DataTypeByProto(layer.compute_data_type()), DataTypeByProto(layer.bottom_data_type()),
          DataTypeByProto(layer.top_data_type())};
}

double MeanAbs(double sum, int64_t count) { return count ? sum / static_cast<double>(count) : 0; }

// Errors from below (a blob's, a device's) get the layer's name in front.
std::string WithLayer(const LayerBase& layer, const Error& error) {
  const std::string text = error.what();
  if (text.find(layer.name() + " (") != std::string::npos) return text;
  return layer.name() + " (" + layer.type() + "): " + text;
}

}  // namespace

void Net::InLayer(const LayerBase& layer, const std::function<void()>& work) const {
  try {
    work();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        Concat(WithLayer(layer, error), "; net ", name_, " needs ", memory_needs().ToString()));
  } catch (const Error& error) {
    const std::string text = WithLayer(layer, error);
    if (text == error.what()) throw;
    throw Error(text);
  }
}

Net::Net(const NetParameter& parameter, const NetOptions& options) { Init(parameter, options); }

Net::Net(const std::string& path, const NetOptions& options) {
  NetOptions with_lines = options;
  const NetParameter parameter = ReadNetFile(path, &with_lines.lines);
  Init(parameter, with_lines);
}

Net::~Net() = default;

void Net::Init(const NetParameter& parameter, const NetOptions& options) {
  NetParameter given = parameter;
  DecodeParameters(&given);
  NetState* state = given.mutable_state();
  if (options.phase >= 0) state->set_phase(static_cast<Phase>(options.phase));
  if (options.level != 0) state->set_level(options.level);
  for (const std::string& stage : options.stages) state->add_stage(stage);
  phase_ = state->phase();
  name_ = given.name();
  debug_info_ = given.debug_info();
  check_finite_ = log::Topic("nan");
  explicit_device_ = options.device != nullptr;
  device_ = options.device ? options.device : Runtime::Get().default_device();
  step_state_ = std::make_unique<StepState>(device_);
  const uint64_t seed = options.seed >= 0
                            ? static_cast<uint64_t>(options.seed)
                            : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();

  std::vector<int> kept;
  filtered_ = std::make_unique<NetParameter>(FilterNet(given, &kept));
  CheckLayerTypes(*filtered_, options.lines.Of(kept));
  const NetParameter separated = SeparateInPlace(AssignTypes(*filtered_));
  const NetParameter net = InsertSplits(InsertCasts(separated));
  if (!KeepsGradients(separated)) {
    for (const InPlaceConflict& conflict : FindInPlaceConflicts(separated, true)) {
      if (conflict.reader < 0) continue;
      conflicts_.push_back({conflict.reader, conflict.layer, conflict.reason});
    }
  }
  for (LayerParameter& layer : *filtered_->mutable_layer()) layer.clear_blobs();
  // Log lines name blobs as the user does.
  std::map<std::string, std::string> last_versions;
  for (int i = 0; i < separated.layer_size(); ++i) {
    for (int t = 0; t < separated.layer(i).top_size(); ++t) {
      last_versions[separated.layer(i).top(t)] = filtered_->layer(i).top(t);
    }
  }
  const auto shown = [&last_versions](const std::string& blob) {
    const auto found = last_versions.find(blob);
    return found == last_versions.end() ? blob : found->second;
  };
  WarnOfIgnoredSettings(*filtered_, *device_);
  log::Info("Initializing net from parameters: \n" + filtered_->DebugString());
  if (log::Topic("passes")) log::Info("net after the passes:\n" + net.DebugString());

  std::set<std::string> fresh_tops;
  for (int index = 0; index < net.layer_size(); ++index) {
    const LayerParameter& layer = net.layer(index);
    const LayerTraits& traits = LayerRegistry::Get().Traits(layer.type());
    const bool internal = IsInternalLayer(layer.name(), layer.type(), *filtered_);
    log::Info("Creating Layer " + layer.name());
    Node node;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const auto found = blob_index_.find(layer.bottom(b));
      CAFFE_CHECK(found != blob_index_.end(), "Unknown bottom blob '", layer.bottom(b),
                  "' (layer '", layer.name(), "', bottom index ", b, ")");
      log::Info(layer.name() + " <- " + shown(layer.bottom(b)));
      node.bottom_ids.push_back(found->second);
    }
    const TypeTriple types = TypesOf(layer);
    int tops = layer.top_size();
    for (int t = 0; t < tops; ++t) {
      const std::string& top = layer.top(t);
      const bool in_place = t < layer.bottom_size() && layer.bottom(t) == top;
      if (in_place) {
        CAFFE_CHECK(traits.in_place || internal, layer.name(), " (", layer.type(),
                    "): can not work in place; give blob '", top, "' another name as top");
        log::Info(layer.name() + " -> " + shown(top) + " (in-place)");
        node.top_ids.push_back(node.bottom_ids[t]);
        continue;
      }
      CAFFE_CHECK(blob_index_.count(top) == 0, "Top blob '", top,
                  "' produced by multiple sources (layer '", layer.name(), "')");
      const bool apart = t < layer.bottom_size() && shown(layer.bottom(t)) == shown(top);
      log::Info(layer.name() + " -> " + shown(top) + (apart ? " (memory of its own)" : ""));
      blob_index_[top] = static_cast<int>(blobs_.size());
      node.top_ids.push_back(static_cast<int>(blobs_.size()));
      blobs_.push_back(MakeBlob(TopType(layer, t), device_, {0}, top));
    }
    // A loss without a named top still needs a place for its value, which no layer can read.
    while (traits.loss && tops < traits.min_top) {
      log::Info(layer.name() + " -> (automatic)");
      node.top_ids.push_back(static_cast<int>(blobs_.size()));
      blobs_.push_back(MakeBlob(types.out, device_, {0}, "(automatic)"));
      ++tops;
    }
    for (int id : node.bottom_ids) node.bottom.push_back(blobs_[id].get());
    for (int id : node.top_ids) node.top.push_back(blobs_[id].get());

    LayerContext context;
    context.device = device_;
    context.types = types;
    context.seed = LayerSeed(seed, static_cast<uint64_t>(index));
    log::Info("Setting up " + layer.name());
    node.layer = LayerRegistry::Get().Create(layer, context);
    InLayer(*node.layer, [&] { node.layer->SetUp(traits, node.bottom, node.top); });
    node.shapes.resize(node.bottom.size() + node.top.size());
    NoteShapes(node);
    for (size_t t = 0; t < node.top.size(); ++t) {
      log::Info("Top shape: " + node.top[t]->shape_string());
      const float weight = node.layer->loss_weight(static_cast<int>(t));
      if (weight != 0) log::Info(Concat("    with loss weight ", weight));
    }
    node.public_index = internal ? -1 : 0;
    nodes_.push_back(std::move(node));
    AppendParameters(static_cast<int>(nodes_.size()) - 1);
  }
  log::Info(Concat("Memory required for data: ", blob_bytes()));
  DecideGradients();
  for (const Node& node : nodes_) {
    log::Info(node.layer->name() + (node.need_backward ? " needs backward computation."
                                                       : " does not need backward computation."));
  }
  ListLosses();
  MakeOrigins(separated);
  MakePublicLists();
  ShareVersionDiffs();
  MakePlan();
  InitRanges(given, net);
  for (int id : output_indices_) {
    log::Info("This network produces output " + public_blob_names_[id]);
  }
  log::Info("Network initialization done.");
}

void Net::AppendParameters(int index) {
  LayerBase& layer = *nodes_[index].layer;
  const LayerParameter& parameter = layer.layer_param();
  const int count = static_cast<int>(layer.blobs().size());
  CAFFE_CHECK(parameter.param_size() <= count, layer.name(), " (", layer.type(), "): has ", count,
              " parameters, ", parameter.param_size(), " param entries are given");
  for (int i = 0; i < count; ++i) {
    const ParamSpec spec = i < parameter.param_size() ? parameter.param(i) : ParamSpec();
    const auto owner = spec.name().empty() ? param_owners_.end() : param_owners_.find(spec.name());
    std::shared_ptr<BlobBase>& blob = layer.blobs()[i];
    if (owner == param_owners_.end()) {
      if (!spec.name().empty()) {
        param_owners_[spec.name()] = {layer.name(), i, static_cast<int>(learnable_params_.size()),
                                      spec.has_lr_mult(), spec.has_decay_mult()};
      }
      learnable_params_.push_back(blob.get());
      params_lr_.push_back(spec.lr_mult());
      params_decay_.push_back(spec.decay_mult());
    } else {
      Owner& own = owner->second;
      BlobBase* shared = learnable_params_[own.learnable];
      log::Info(Concat("Sharing parameters '", spec.name(), "' owned by layer '", own.layer,
                       "', param index ", own.index));
      const bool permissive = spec.share_mode() == ParamSpec::PERMISSIVE;
      CAFFE_CHECK(permissive ? blob->count() == shared->count() : blob->shape() == shared->shape(),
                  layer.name(), " (", layer.type(), "): parameter '", spec.name(), "' of shape ",
                  blob->shape_string(), " can not be shared with that of layer '", own.layer,
                  "' of shape ", shared->shape_string());
      blob->ShareData(*shared);
      blob->ShareDiff(*shared);
      if (spec.has_lr_mult()) {
        CAFFE_CHECK(!own.lr_given || params_lr_[own.learnable] == spec.lr_mult(),
                    "shared parameter '", spec.name(), "' has different lr_mult in layers '",
                    own.layer, "' and '", layer.name(), "'");
        params_lr_[own.learnable] = spec.lr_mult();
        own.lr_given = true;
      }
      if (spec.has_decay_mult()) {
        CAFFE_CHECK(!own.decay_given || params_decay_[own.learnable] == spec.decay_mult(),
                    "shared parameter '", spec.name(), "' has different decay_mult in layers '",
                    own.layer, "' and '", layer.name(), "'");
        params_decay_[own.learnable] = spec.decay_mult();
        own.decay_given = true;
      }
    }
    params_.push_back(blob);
  }
}

// Which blobs of casts and splits stand for which blob of a layer of the user, and which of those is
// an earlier version of another one.
void Net::MakeOrigins(const NetParameter& separated) {
  std::set<std::string> tops;
  for (const LayerParameter& layer : separated.layer()) {
    for (const std::string& top : layer.top()) tops.insert(top);
  }
  for (Node& node : nodes_) {
    if (node.public_index >= 0) continue;
    // Reading a cast's input gives the layer's blob, unless the cast makes the layer's blob.
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      if (!tops.count(node.top[t]->name())) {
        origin_[node.top_ids[t]] = node.bottom_ids[0];
      } else if (!tops.count(node.bottom[0]->name())) {
        node.makes_top = true;
        // A split may lie between the layer's own top and the cast.
        const int own = UserBlob(node.bottom_ids[0]);
        if (!tops.count(blobs_[own]->name())) origin_[own] = node.top_ids[t];
      }
    }
  }
  for (int i = 0; i < separated.layer_size(); ++i) {
    for (int t = 0; t < separated.layer(i).top_size(); ++t) {
      const std::string &own = separated.layer(i).top(t), &user = filtered_->layer(i).top(t);
      if (own == user) continue;
      const int id = blob_index_.at(own);
      origin_[id] = versions_[id] = blob_index_.at(user);
    }
  }
}

void Net::MakePublicLists() {
  std::map<int, int> places;  // blob -> public blob
  const auto user_blob = [&](int id) { return UserBlob(id); };
  std::vector<bool> consumed(blobs_.size(), false);
  std::vector<float> weights(blobs_.size(), 0.f);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const int id = user_blob(node.top_ids[t]);
      weights[id] += node.layer->loss_weight(static_cast<int>(t));
      if (!places.count(id)) {
        places[id] = static_cast<int>(public_blobs_.size());
        public_blobs_.push_back(blobs_[id]);
        public_blob_names_.push_back(blobs_[id]->name());
      }
    }
  }
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    if (node.public_index < 0) continue;
    node.public_index = static_cast<int>(public_layers_.size());
    public_nodes_.push_back(static_cast<int>(n));
    public_layers_.push_back(node.layer);
    public_layer_names_.push_back(node.layer->name());
    std::vector<int> bottoms, tops;
    for (int id : node.bottom_ids) {
      bottoms.push_back(places.at(user_blob(id)));
      consumed[user_blob(id)] = true;
    }
    const int named = node.layer->layer_param().top_size();
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const int id = user_blob(node.top_ids[t]);
      tops.push_back(places.at(id));
      // In place: the present version has not been read yet. Blobs without a name are no outputs.
      consumed[id] = static_cast<int>(t) >= named;
    }
    if (node.layer->type() == "Input") {
      input_indices_.insert(input_indices_.end(), tops.begin(), tops.end());
    }
    public_bottom_ids_.push_back(std::move(bottoms));
    public_top_ids_.push_back(std::move(tops));
  }
  std::map<std::string, int> outputs;  // alphabetical, as BVLC numbers them
  blob_loss_weights_.resize(public_blobs_.size(), 0.f);
  for (const auto& [id, place] : places) {
    if (!consumed[id]) outputs[public_blob_names_[place]] = place;
    blob_loss_weights_[place] = weights[id];
  }
  for (const auto& [name, place] : outputs) output_indices_.push_back(place);
}

void Net::MakePlan() {
  std::vector<PlanNode> plan_nodes;
  std::vector<std::string> names;
  for (const Node& node : nodes_) {
    PlanNode plan_node;
    plan_node.type = node.layer->type();
    plan_node.can_fuse_relu = node.layer->CanFuseReLU();
    plan_node.plain_relu = node.layer->IsPlainReLU();
    plan_node.in_place = node.bottom_ids == node.top_ids;
    plan_node.bottoms = node.bottom_ids;
    plan_node.tops = node.top_ids;
    plan_nodes.push_back(plan_node);
    names.push_back(node.layer->name());
  }
  const bool gradients = std::any_of(nodes_.begin(), nodes_.end(),
                                     [](const Node& node) { return node.need_backward; });
  plan_ = Plan::Make(plan_nodes, phase_ == TEST && !filtered_->force_backward() && !gradients &&
                                     !debug_info_ && !check_finite_);
  // Steps of a former plan may have fused more.
  for (const Node& node : nodes_) {
    if (node.layer->CanFuseReLU()) node.layer->SetFusedReLU(false);
  }
  const std::string report = plan_.Report(names);
  if (!report.empty()) log::Debug("fused steps:\n" + report);
}

void Net::FollowDefaultDevice() {
  if (explicit_device_ || !Runtime::Get().default_device_is_set()) return;
  Device* device = Runtime::Get().default_device();
  if (device != device_) SetDevice(device);
}

void Net::SetDevice(Device* device) {
  if (device == device_) return;
  device_ = device;
  step_state_->SetDevice(device);
  for (auto& blob : blobs_) blob->SetDevice(device);
  for (auto& blob : params_) blob->SetDevice(device);
  for (LossTop& loss : losses_) loss.seed.reset();
  loaded_ranges_ = Ranges();
  observers_.clear();
  ranges_changed_ = true;
  for (Node& node : nodes_) node.layer->MoveToDevice(device, node.bottom, node.top);
}

// The shapes that the layer and its caller see, at the last Reshape and after the forward.
void Net::NoteShapes(Node& node) {
  for (size_t b = 0; b < node.bottom.size(); ++b) node.shapes[b] = node.bottom[b]->shape();
  for (size_t t = 0; t < node.top.size(); ++t) {
    node.shapes[node.bottom.size() + t] = node.top[t]->shape();
  }
}

bool Net::HasNotedShapes(const Node& node) {
  for (size_t b = 0; b < node.bottom.size(); ++b) {
    if (node.shapes[b] != node.bottom[b]->shape()) return false;
  }
  for (size_t t = 0; t < node.top.size(); ++t) {
    if (node.shapes[node.bottom.size() + t] != node.top[t]->shape()) return false;
  }
  return true;
}

void Net::ReshapeIfNeeded(Node& node) {
  if (HasNotedShapes(node)) return;
  InLayer(*node.layer, [&] { node.layer->Reshape(node.bottom, node.top); });
  NoteShapes(node);
}

void Net::Reshape() {
  for (Node& node : nodes_) {
    InLayer(*node.layer, [&] { node.layer->Reshape(node.bottom, node.top); });
    NoteShapes(node);
  }
}

void Net::RefreshViews() {
  for (auto& blob : public_blobs_) {
    if (blob->data_memory()->has_view()) blob->data_memory()->MarkHostWritten();
  }
  for (auto& blob : params_) {
    if (blob->data_memory()->has_view()) blob->data_memory()->MarkHostWritten();
  }
}

void Net::TakeViews() {
  RefreshViews();
  RefreshDiffViews();
}

// A blob that a whole forward writes before it reads need not be uploaded because somebody looked
// at it: reading an output in every iteration would cost an upload each.
void Net::ForgetOverwrittenViews() {
  for (const Node& node : nodes_) {
    if (node.bottom.empty()) continue;
    for (BlobBase* top : node.top) {
      const auto same_memory = [top](BlobBase* bottom) {
        return bottom->data_memory() == top->data_memory();
      };
      if (std::none_of(node.bottom.begin(), node.bottom.end(), same_memory)) {
        top->data_memory()->ForgetHostWrites();
      }
    }
  }
}

void Net::RunCallback(const Callback& callback, int place) {
  if (!callback || place < 0) return;
  SyncViews();
  callback(place);
  TakeViews();
}

void Net::RunNode(int index) {
  Node& node = nodes_[index];
  ReshapeIfNeeded(node);
  InLayer(*node.layer, [&] {
    node.layer->PrepareParameters();
    node.layer->Forward(node.bottom, node.top);
  });
  node.ran = true;
  // Data decide about some shapes.
  if (!HasNotedShapes(node)) NoteShapes(node);
  if (debug_info_) DebugForward(node);
  if (check_finite_) CheckForward(node);
  for (size_t t = 0; t < node.written_ranges.size(); ++t) {
    if (node.top[t]->type().is_quantized()) node.top[t]->set_range(node.written_ranges[t].range);
  }
  if (observes_any() && node.public_index >= 0) Observe(node);
}

void Net::Forward() { Forward(0, static_cast<int>(public_layers_.size()) - 1); }

void Net::Forward(int start, int end) {
  const int count = static_cast<int>(public_layers_.size());
  if (count == 0) return;
  CAFFE_CHECK(start >= 0 && start < count && end >= start - 1 && end < count, "net ", name_,
              ": layers ", start, " to ", end, " were asked for, there are 0 to ", count - 1);
  if (end < start) return;
  FollowDefaultDevice();
  RefreshViews();
  if (start == 0 && end == count - 1) ForgetOverwrittenViews();
  // Internal layers behind the first node belong to what is before them.
  const int first = start == 0 ? 0 : public_nodes_[start];
  const int last =
      end == count - 1 ? static_cast<int>(nodes_.size()) - 1 : public_nodes_[end + 1] - 1;
  const bool by_layer =
      before_forward_ || after_forward_ || observes_any() || debug_info_ || check_finite_;
  if (start > 0) {
    TakeVersions(first, last);
    std::vector<int> before = InternalNodesBefore(first, last);
    for (auto index = before.rbegin(); index != before.rend(); ++index) {
      if (any_quantized_) PrepareQuantized(*index, *index, true);
      RunNode(*index);
    }
  }
  if (any_quantized_) PrepareQuantized(first, last, by_layer);
  for (const Step& step : plan_.steps) {
    const int begin = step.nodes.front(), finish = step.nodes.back();
    if (finish < first || begin > last) continue;
    if (interruption_) interruption_();
    const bool whole = begin >= first && finish <= last && !by_layer;
    if (step.fused_relu) nodes_[begin].layer->SetFusedReLU(whole);
    for (int index : step.nodes) {
      if (index < first || index > last) continue;
      const Node& node = nodes_[index];
      RunForwardCallback(before_forward_, node, node.bottom_ids);
      RunNode(index);
      RunForwardCallback(after_forward_, node, node.top_ids);
      if (step.fused_relu && whole) break;
    }
  }
  if (end < count - 1) PublishVersions(first, last);
  SyncViews();
}

void Net::SyncViews() {
  const auto sync = [](const std::shared_ptr<BlobBase>& blob) {
    if (blob->data_memory()->has_view()) blob->data_memory()->host_data();
    if (blob->has_diff() && blob->diff_memory()->has_view()) blob->diff_memory()->host_data();
  };
  std::for_each(public_blobs_.begin(), public_blobs_.end(), sync);
  std::for_each(params_.begin(), params_.end(), sync);
}

void Net::RefreshDiffViews() {
  const auto refresh = [](const std::shared_ptr<BlobBase>& blob) {
    if (blob->has_diff() && blob->diff_memory()->has_view()) blob->diff_memory()->MarkHostWritten();
  };
  std::for_each(public_blobs_.begin(), public_blobs_.end(), refresh);
  std::for_each(params_.begin(), params_.end(), refresh);
}

// Casts and splits before node `first` that nodes `first` to `last` read from, last one first.
std::vector<int> Net::InternalNodesBefore(int first, int last) const {
  std::set<int> read;
  for (int n = first; n <= last; ++n) {
    read.insert(nodes_[n].bottom_ids.begin(), nodes_[n].bottom_ids.end());
  }
  std::vector<int> found;
  for (int n = first - 1; n >= 0; --n) {
    const Node& node = nodes_[n];
    if (node.public_index >= 0 || std::none_of(node.top_ids.begin(), node.top_ids.end(),
                                               [&](int id) { return read.count(id); })) {
      continue;
    }
    found.push_back(n);
    read.insert(node.bottom_ids.begin(), node.bottom_ids.end());
  }
  return found;
}

// What runs between layers `start` and `end`, in the order of the backward pass. The casts and splits
// behind start are left out, for its tops have their diffs already; those in front of end bring its
// gradients to the blobs that the user knows.
std::vector<int> Net::BackwardNodes(int start, int end) {
  const int count = static_cast<int>(public_layers_.size());
  const int first = public_nodes_[start], last = public_nodes_[end];
  std::vector<int> run;
  const int behind =
      start == count - 1 ? static_cast<int>(nodes_.size()) : public_nodes_[start + 1];
  std::set<int> wanted;
  for (int n = behind - 1; n > first; --n) {
    const Node& node = nodes_[n];
    const bool read = std::any_of(node.top_ids.begin(), node.top_ids.end(),
                                  [&](int id) { return wanted.count(id) > 0; });
    if (!read && !node.makes_top) continue;
    run.push_back(n);
    wanted.insert(node.bottom_ids.begin(), node.bottom_ids.end());
  }
  for (int n = first; n >= last; --n) run.push_back(n);
  const std::vector<int> before = InternalNodesBefore(last, first);
  for (int split : before) {
    run.push_back(split);
    // A copy whose reader comes later in the backward pass has no gradient yet.
    for (BlobBase* top : nodes_[split].top) {
      for (int n = split + 1; n < last; ++n) {
        const Node& reader = nodes_[n];
        if (std::find(before.begin(), before.end(), n) == before.end() &&
            std::find(reader.bottom.begin(), reader.bottom.end(), top) != reader.bottom.end()) {
          SyncedMemory& diff = *top->diff_memory();
          device_->Fill(diff.mutable_device_data(), 0, diff.bytes());
        }
      }
    }
  }
  return run;
}

bool Net::WrittenByCaller(const LossTop& loss) const {
  if (loss.diff->version() == loss.version || step_state_->Get(StepState::kLossScale) != 1) {
    return false;
  }
  // Whoever only looked at it has it as it was.
  const std::vector<double> values = loss.blob->DiffAsDouble();
  const auto all = [&values](double expected) {
    return std::all_of(values.begin(), values.end(), [&](double value) {
      return std::abs(value - expected) <= 0x1p-8 * std::abs(expected);
    });
  };
  return !all(loss.weight) && (loss.seeded || !all(0));
}

void Net::SeedLosses(const std::vector<int>& nodes) {
  for (LossTop& loss : losses_) {
    if (std::find(nodes.begin(), nodes.end(), loss.node) == nodes.end()) continue;
    if (!loss.seed) {
      loss.seed = ProgramBuilder(device_, "loss_seed")
                      .Types(loss.blob->type())
                      .Body("solver/loss_seed")
                      .Build()
                      ->CreateKernel("loss_seed");
    }
    if (loss.diff != loss.blob->diff_memory()) {
      loss.diff = loss.blob->diff_memory();
      loss.version = 0;
      loss.given = loss.seeded = false;
    }
    if (loss.diff->version() != loss.version) loss.given = WrittenByCaller(loss);
    if (!loss.given) {
      loss.seed->Launch(
          loss.blob->count(),
          {loss.blob->count(), step_state_->reals(), loss.blob->MutableDiff(),
           static_cast<int>(StepState::kLossScale), static_cast<double>(loss.weight)});
    }
    loss.seeded = true;
    loss.version = loss.diff->version();
  }
}

void Net::Backward() { Backward(static_cast<int>(public_layers_.size()) - 1, 0); }

void Net::Backward(int start, int end) {
  const int count = static_cast<int>(public_layers_.size());
  if (count == 0) return;
  CAFFE_CHECK(end >= 0 && start < count && start >= end - 1, "net ", name_,
              ": backward from layer ", start, " to ", end, ", there are 0 to ", count - 1);
  if (start < end) return;
  RefreshDiffViews();
  CheckConflicts();
  ShareVersionDiffs();
  if (start < count - 1) CopyVersionDiffs(nodes_[public_nodes_[start]].top_ids, true);
  const std::vector<int> nodes = BackwardNodes(start, end);
  SeedLosses(nodes);
  for (int index : nodes) {
    Node& node = nodes_[index];
    if (!node.need_backward) continue;
    if (interruption_) interruption_();
    RunCallback(before_backward_, node.public_index);
    CAFFE_CHECK(HasNotedShapes(node), node.layer->name(), " (", node.layer->type(),
                "): a bottom or top was reshaped since the last forward; run forward first");
    InLayer(*node.layer,
            [&] { node.layer->Backward(node.top, node.bottom_gradient, node.bottom); });
    if (debug_info_) DebugBackward(node);
    if (check_finite_) CheckBackward(node);
    RunCallback(after_backward_, node.public_index);
  }
  if (end > 0) CopyVersionDiffs(nodes_[public_nodes_[end]].bottom_ids, false);
  if (debug_info_ && start == count - 1 && end == 0) DebugParameters();
  SyncViews();
}

void Net::CheckTrainable() const {
  for (const Node& node : nodes_) {
    const LayerBase& layer = *node.layer;
    CAFFE_CHECK(
        !node.need_backward || node.public_index < 0 || !layer.types().compute.is_quantized(),
        layer.name(), " (", layer.type(), "): there is no backward pass in ",
        layer.types().compute.name(),
        "; train in a float type, observe ranges, and quantize afterwards");
  }
}

void Net::ClearParamDiffs() {
  std::set<SyncedMemory*> cleared;
  for (BlobBase* blob : learnable_params_) {
    SyncedMemory* memory = blob->diff_memory().get();
    if (!cleared.insert(memory).second) continue;
    device_->Fill(memory->mutable_device_data(), 0, memory->bytes());
  }
}

float Net::Loss() {
  double loss = 0;
  for (const LossTop& top : losses_) {
    for (double value : top.blob->DataAsDouble()) loss += value * top.weight;
  }
  if (!std::isfinite(loss)) CheckData();
  return static_cast<float>(loss);
}

void Net::CheckData() {
  // Every layer is asked, so that the next call tells of later forwards only.
  std::exception_ptr first;
  for (const Node& node : nodes_) {
    try {
      InLayer(*node.layer, [&node] { node.layer->CheckData(); });
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

bool Net::has_blob(const std::string& name) const {
  return std::find(public_blob_names_.begin(), public_blob_names_.end(), name) !=
         public_blob_names_.end();
}

const std::shared_ptr<BlobBase>& Net::BlobByName(const std::string& name) const {
  const auto found = std::find(public_blob_names_.begin(), public_blob_names_.end(), name);
  CAFFE_CHECK(found != public_blob_names_.end(), "net ", name_, " has no blob '", name, "'");
  return public_blobs_[found - public_blob_names_.begin()];
}

bool Net::has_layer(const std::string& name) const {
  return std::find(public_layer_names_.begin(), public_layer_names_.end(), name) !=
         public_layer_names_.end();
}

const std::shared_ptr<LayerBase>& Net::LayerByName(const std::string& name) const {
  const auto found = std::find(public_layer_names_.begin(), public_layer_names_.end(), name);
  CAFFE_CHECK(found != public_layer_names_.end(), "net ", name_, " has no layer '", name, "'");
  return public_layers_[found - public_layer_names_.begin()];
}

std::vector<BlobBase*> Net::input_blobs() const {
  std::vector<BlobBase*> blobs;
  for (int index : input_indices_) blobs.push_back(public_blobs_[index].get());
  return blobs;
}

std::vector<BlobBase*> Net::output_blobs() const {
  std::vector<BlobBase*> blobs;
  for (int index : output_indices_) blobs.push_back(public_blobs_[index].get());
  return blobs;
}

bool Net::has_narrow_gradients() const {
  for (const Node& node : nodes_) {
    const DataType type = node.layer->types().compute;
    if (node.need_backward && (type == kHalf || type == kBfloat16)) return true;
  }
  return false;
}

int64_t Net::blob_bytes() const {
  int64_t bytes = 0;
  for (const auto& blob : blobs_) bytes += blob->bytes();
  return bytes;
}

int64_t Net::parameter_bytes() const {
  int64_t bytes = 0;
  for (const BlobBase* blob : learnable_params_) bytes += blob->bytes();
  return bytes;
}

std::string MemoryNeeds::ToString() const {
  return Concat(total(), " bytes: ", data, " for blobs, ", diffs, " for their diffs, ", parameters,
                " for parameters, ", parameter_diffs, " for their diffs; workspaces come on top");
}

MemoryNeeds Net::memory_needs() const {
  MemoryNeeds needs;
  std::set<const SyncedMemory*> seen;
  // A diff that nobody has made yet will be of its blob's size.
  const auto count = [&seen](BlobBase& blob, bool gradient, int64_t* data, int64_t* diffs) {
    if (seen.insert(blob.data_memory().get()).second) *data += blob.bytes();
    if (gradient && (!blob.has_diff() || seen.insert(blob.diff_memory().get()).second)) {
      *diffs += blob.bytes();
    }
  };
  const bool backward = phase_ == TRAIN || filtered_->force_backward() || !requested_.empty();
  std::vector<bool> gradient(blobs_.size(), false);
  for (const Node& node : nodes_) {
    if (!backward || !node.need_backward) continue;
    for (int id : node.top_ids) gradient[id] = true;
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      if (node.bottom_gradient[b]) gradient[node.bottom_ids[b]] = true;
    }
  }
  for (size_t id = 0; id < blobs_.size(); ++id) {
    count(*blobs_[id], gradient[id], &needs.data, &needs.diffs);
  }
  for (BlobBase* blob : learnable_params_) {
    count(*blob, backward, &needs.parameters, &needs.parameter_diffs);
  }
  return needs;
}

// The user's name of a blob or of an earlier version of it.
const std::string& Net::ShownName(int id) const {
  const auto version = versions_.find(id);
  return blobs_[version == versions_.end() ? id : version->second]->name();
}

void Net::DebugForward(const Node& node) const {
  for (size_t t = 0; t < node.top.size(); ++t) {
    const BlobBase* const top = node.top[t];
    if (!top->type().is_float()) continue;
    log::Info(Concat("    [Forward] Layer ", node.layer->name(), ", top blob ",
                     ShownName(node.top_ids[t]),
                     " data: ", MeanAbs(top->asum_data(), top->count())));
  }
  for (size_t i = 0; i < node.layer->blobs().size(); ++i) {
    const BlobBase& blob = *node.layer->blobs()[i];
    log::Info(Concat("    [Forward] Layer ", node.layer->name(), ", param blob ", i,
                     " data: ", MeanAbs(blob.asum_data(), blob.count())));
  }
}

void Net::DebugParameters() const {
  double asum_data = 0, asum_diff = 0, sumsq_data = 0, sumsq_diff = 0;
  for (const BlobBase* blob : learnable_params_) {
    asum_data += blob->asum_data();
    asum_diff += blob->asum_diff();
    sumsq_data += blob->sumsq_data();
    sumsq_diff += blob->sumsq_diff();
  }
  // At this level in BVLC's Caffe.
  log::Error(Concat("    [Backward] All net params (data, diff): L1 norm = (", asum_data, ", ",
                    asum_diff, "); L2 norm = (", std::sqrt(sumsq_data), ", ", std::sqrt(sumsq_diff),
                    ")"));
}

void Net::DebugBackward(const Node& node) const {
  for (size_t b = 0; b < node.bottom.size(); ++b) {
    if (!node.bottom_gradient[b]) continue;
    log::Info(Concat("    [Backward] Layer ", node.layer->name(), ", bottom blob ",
                     ShownName(node.bottom_ids[b]),
                     " diff: ", MeanAbs(node.bottom[b]->asum_diff(), node.bottom[b]->count())));
  }
  for (size_t i = 0; i < node.layer->blobs().size(); ++i) {
    if (!node.layer->param_propagate_down(static_cast<int>(i))) continue;
    const BlobBase& blob = *node.layer->blobs()[i];
    log::Info(Concat("    [Backward] Layer ", node.layer->name(), ", param blob ", i,
                     " diff: ", MeanAbs(blob.asum_diff(), blob.count())));
  }
}

}  // namespace caffe
