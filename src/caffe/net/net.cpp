#include "caffe/net/net.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <random>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/freed_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/net/build/net_builder.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/run/in_layer.hpp"
#include "caffe/net/weights/net_weights.hpp"
#include "caffe/net/weights/run_state.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "rooms.hpp"

namespace caffe {

Net::Net(const NetParameter& parameter, const NetOptions& options) {
  NamingMemory(NetLabel(parameter.name()), [&] { Init(parameter, options); });
}

Net::Net(const std::string& path, const NetOptions& options) {
  NamingMemory(path, [&] {
    NetOptions with_lines = options;
    const NetParameter parameter = ReadNetFile(path, &with_lines.lines);
    Init(parameter, with_lines);
  });
}

// In the order in which members are destroyed; then the device need not keep what they had.
Net::~Net() {
  Device* const device = device_;
  rooms_.reset();
  wiring_ = Wiring();
  step_state_.reset();
  if (device) TrimFreedMemory(device);
}

void Net::Init(const NetParameter& parameter, const NetOptions& options) {
  NetParameter given = parameter;
  DecodeParameters(&given);
  NetState* state = given.mutable_state();
  if (options.phase >= 0) state->set_phase(static_cast<Phase>(options.phase));
  if (options.level != 0) state->set_level(options.level);
  for (const std::string& stage : options.stages) state->add_stage(stage);
  if (!options.python_layers) RefusePythonLayers(given);
  explicit_device_ = options.device != nullptr;
  device_ = options.device ? options.device : Runtime::Get().default_device();
  step_state_ = std::make_unique<StepState>(device_);
  const uint64_t seed = options.seed >= 0
                            ? static_cast<uint64_t>(options.seed)
                            : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  wiring_ = NetBuilder(device_, seed, options.lines).Build(given);
  log::Info(Concat("Memory required for data: ", blob_bytes()));
  rooms_ = std::make_unique<Rooms>(wiring_, given, step_state_.get(), device_);
  rooms_->observers.set_debug_info(given.debug_info());
  for (size_t n = 0; n < wiring_.nodes.size(); ++n) {
    if (wiring_.nodes[n].nested_in >= 0) continue;
    log::Info(wiring_.nodes[n].layer->name() + (rooms_->gradients.needed(static_cast<int>(n))
                                                    ? " needs backward computation."
                                                    : " does not need backward computation."));
  }
  rooms_->versions.ShareDiffs();
  rooms_->passes.emplace(wiring_, rooms_->ForPasses(wiring_), &rooms_->views, &rooms_->observers);
  for (int output : wiring_.outputs) {
    log::Info("This network produces output " + wiring_.user_blob_names[output]);
  }
  log::Info("Network initialization done.");
}

void Net::Keep(const std::vector<std::string>& blobs) {
  std::vector<std::string> names;
  for (const std::string& blob : blobs) names.push_back(BlobByName(blob)->name());
  plans().Keep(names);
}

void Net::set_debug_info(bool value) { rooms_->observers.set_debug_info(value); }

Plans& Net::plans() const { return rooms_->passes->plans(); }

LostBlobs& Net::lost() const { return plans().whole().lost(); }

const Plan& Net::plan() const { return plans().whole().plan(); }

std::vector<StepInfo> Net::Steps() {
  FollowDefaultDevice();
  return rooms_->passes->Describe();
}

void Net::FollowDefaultDevice() {
  if (explicit_device_ || !Runtime::Get().default_device_is_set()) return;
  Device* device = Runtime::Get().default_device();
  if (device != device_) SetDevice(device);
}

void Net::SetDevice(Device* device) {
  if (device == device_) return;
  lost().MakeForgotten();
  device_ = device;
  step_state_->SetDevice(device);
  for (auto& blob : wiring_.blobs) blob->SetDevice(device);
  for (auto& blob : wiring_.parameters) blob->SetDevice(device);
  rooms_->losses.SetDevice();
  rooms_->ranges.SetDevice(device);
  for (Node& node : wiring_.nodes) node.layer->MoveToDevice(device, node.bottom, node.top);
  plans().Make();
}

void Net::Reshape() {
  rooms_->versions.ShapeInputs();
  for (int n = 0; n <= wiring_.last_node(); ++n) rooms_->runner.Reshape(n);
}

void Net::Forward() { Forward(0, wiring_.last_layer()); }

void Net::Forward(int start, int end) {
  FollowDefaultDevice();
  rooms_->passes->Forward(start, end);
}

void Net::Backward() { Backward(wiring_.last_layer(), 0); }

void Net::Backward(int start, int end) { rooms_->passes->Backward(start, end); }

void Net::ForwardBackward() {
  FollowDefaultDevice();
  rooms_->passes->Iterate(IterationEnd::kBackward);
}

void Net::Iterate(IterationEnd end) {
  FollowDefaultDevice();
  rooms_->passes->Iterate(end);
}

void Net::SetReplica(const Replica& replica) {
  CAFFE_CHECK(replica.rank >= 0 && replica.rank < replica.ranks, NetLabel(name()), ": rank ",
              replica.rank, " of ", replica.ranks, " replicas; ranks are 0 to ", replica.ranks - 1);
  for (Node& node : wiring_.nodes) node.layer->SetReplica(replica);
}

void Net::SetTrainingTail(TrainingTail tail) {
  rooms_->tail = std::move(tail);
  rooms_->passes->DropTail();
}

void Net::RunTail() { rooms_->passes->RunTail(); }

void Net::set_frees_memory(bool value) { rooms_->passes->set_frees_memory(value); }

void Net::RequestGradients(const std::vector<std::string>& blobs) {
  const std::set<int> before = rooms_->gradients.requested();
  const std::vector<bool> needed = rooms_->gradients.NeededNodes();
  for (const std::string& blob : blobs) {
    std::string why;
    if (rooms_->gradients.Request(blob, &why)) continue;
    rooms_->gradients.Restore(before);
    CAFFE_THROW(NetLabel(name()), ": no gradient for blob '", blob, "': ", why);
  }
  if (rooms_->gradients.requested() != before) rooms_->passes->TakeNewGradients(needed);
}

std::vector<std::string> Net::RequestGradientsWhereKnown(const std::vector<std::string>& blobs) {
  const size_t before = rooms_->gradients.requested().size();
  const std::vector<bool> needed = rooms_->gradients.NeededNodes();
  std::vector<std::string> known;
  std::string first;
  for (const std::string& blob : blobs) {
    std::string why;
    if (rooms_->gradients.Request(blob, &why)) {
      known.push_back(blob);
    } else if (first.empty()) {
      first = Concat(NetLabel(name()), ": no gradient for blob '", blob, "': ", why);
    }
  }
  CAFFE_CHECK(rooms_->gradients.any() || first.empty() || !known.empty(), first);
  if (rooms_->gradients.requested().size() != before) rooms_->passes->TakeNewGradients(needed);
  return known;
}

void Net::CheckTrainable() const { rooms_->gradients.CheckTrainable(); }

bool Net::has_narrow_gradients() const { return rooms_->gradients.narrow(); }

void Net::ClearParamDiffs() {
  std::set<SyncedMemory*> cleared;
  for (BlobBase* blob : wiring_.learnable) {
    SyncedMemory* memory = blob->diff_memory().get();
    if (!cleared.insert(memory).second) continue;
    device_->Fill(memory->mutable_device_data(), 0, memory->bytes());
  }
}

float Net::Loss() {
  const double loss = rooms_->losses.Sum();
  if (!std::isfinite(loss)) CheckData();
  return static_cast<float>(loss);
}

void Net::CheckData() {
  // Calls CheckData of every layer, so that the next call reports only later forwards.
  std::exception_ptr first;
  for (const Node& node : wiring_.nodes) {
    try {
      InLayer(*node.layer, [&node] { node.layer->CheckData(); });
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

namespace {

int IndexOf(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::vector<BlobBase*> Pick(const std::vector<std::shared_ptr<BlobBase>>& blobs,
                            const std::vector<int>& indices) {
  std::vector<BlobBase*> picked;
  for (int index : indices) picked.push_back(blobs[index].get());
  return picked;
}

}  // namespace

bool Net::has_blob(const std::string& blob) const {
  return IndexOf(wiring_.user_blob_names, blob) >= 0;
}

const std::shared_ptr<BlobBase>& Net::BlobByName(const std::string& blob) const {
  const int index = IndexOf(wiring_.user_blob_names, blob);
  CAFFE_CHECK(index >= 0, NetLabel(name()), " has no blob '", blob, "'");
  return wiring_.user_blobs[index];
}

bool Net::has_layer(const std::string& layer) const {
  return IndexOf(wiring_.layer_names, layer) >= 0;
}

const std::shared_ptr<LayerBase>& Net::LayerByName(const std::string& layer) const {
  const int index = IndexOf(wiring_.layer_names, layer);
  CAFFE_CHECK(index >= 0, NetLabel(name()), " has no layer '", layer, "'");
  return wiring_.layers[index];
}

std::vector<BlobBase*> Net::input_blobs() const { return Pick(wiring_.user_blobs, wiring_.inputs); }

std::vector<BlobBase*> Net::output_blobs() const {
  return Pick(wiring_.user_blobs, wiring_.outputs);
}

void Net::ShareTrainedLayersWith(const Net& other) {
  std::set<const SyncedMemory*> shared;
  for (const auto& blob : other.wiring_.parameters) shared.insert(blob->data_memory().get());
  for (const auto& blob : wiring_.parameters) {
    if (shared.count(blob->data_memory().get())) continue;
    lost().MakeForgotten();  // with the parameters of the last forward
    break;
  }
  ShareWeights(wiring_, other.wiring_);
}

std::vector<int> Net::CopyTrainedLayersFrom(const NetParameter& trained, MissingWeights missing) {
  lost().MakeForgotten();  // with the parameters and ranges of the last forward
  WeightsOptions options;
  options.missing = missing;
  const WeightsSource source{Concat("the weights of net '", trained.name(), "'"), &trained,
                             nullptr};
  std::vector<int> without = CopyWeights(wiring_, {source}, options);
  rooms_->ranges.Read(trained);
  return without;
}

std::vector<int> Net::CopyTrainedLayersFrom(const std::string& path,
                                            const WeightsOptions& options) {
  return CopyTrainedLayersFrom(std::vector<std::string>{path}, options);
}

namespace {

std::string JoinedPaths(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

}  // namespace

std::vector<int> Net::CopyTrainedLayersFrom(const std::vector<std::string>& paths,
                                            const WeightsOptions& options) {
  CAFFE_CHECK(!paths.empty(), NetLabel(name()), ": no file of weights is named");
  lost().MakeForgotten();
  try {
    std::vector<WeightsFile> files;
    std::vector<WeightsSource> sources;
    files.reserve(paths.size());
    for (const std::string& path : paths) {
      CAFFE_CHECK(!path.empty(), NetLabel(name()), ": the name of a file of weights is empty");
      NamingMemory(path, [&] { files.push_back(ReadWeights(wiring_, path, options.whole)); });
      sources.push_back({path, &files.back().net(), &files.back()});
    }
    return NamingMemory(NetLabel(name()) + ", which reads " + JoinedPaths(paths), [&] {
      std::vector<int> without = CopyWeights(wiring_, sources, options);
      // A snapshot has all ranges of its training; others were observed in another one.
      if (options.whole) rooms_->ranges.Forget();
      for (const WeightsFile& file : files) rooms_->ranges.Read(file.net());
      return without;
    });
  } catch (const Error&) {
    RethrowWithAdvice(paths);
  }
}

void Net::ToProto(NetParameter* parameter, bool write_diff) const {
  *parameter = *wiring_.parameter;
  rooms_->ranges.Write(parameter);
  WriteWeights(wiring_, parameter, Narrow::kAsStored, write_diff);
}

void Net::ToHDF5(NetParameter* parameter, bool write_diff) const {
  CheckHdf5Names();
  *parameter = *wiring_.parameter;
  rooms_->ranges.Write(parameter);
  WriteWeights(wiring_, parameter, Narrow::kAsFloat, write_diff);
  RemoveSharedParameters(wiring_, parameter);
}

void Net::SaveHDF5(const std::string& path, bool write_diff) const {
  NamingMemory(path, [&] {
    NetParameter parameter;
    ToHDF5(&parameter, write_diff);
    WriteNetHdf5(path, parameter);
  });
}

void Net::CheckHdf5Names() const { caffe::CheckHdf5Names(wiring_); }

std::string Net::WeightsId() const { return caffe::WeightsId(wiring_); }

std::vector<int> Net::LoadHDF5(const std::string& path, const WeightsOptions& options) {
  return NamingMemory(path, [&] {
    const WeightsFile file(ReadHdf5Weights(wiring_, path));
    lost().MakeForgotten();
    std::vector<int> without = CopyWeights(wiring_, {{path, &file.net(), &file}}, options);
    rooms_->ranges.Read(file.net());
    return without;
  });
}

void Net::WriteRunState(NetRunState* state) const { caffe::WriteRunState(wiring_, state); }

void Net::ReadRunState(const NetRunState& state) {
  lost().MakeForgotten();  // with the random numbers of the last forward
  caffe::ReadRunState(wiring_, state);
}

void Net::set_before_forward(Callback callback) {
  rooms_->observers.callbacks().before_forward = std::move(callback);
}
void Net::set_after_forward(Callback callback) {
  rooms_->observers.callbacks().after_forward = std::move(callback);
}
void Net::set_before_backward(Callback callback) {
  rooms_->observers.callbacks().before_backward = std::move(callback);
}
void Net::set_after_backward(Callback callback) {
  rooms_->observers.callbacks().after_backward = std::move(callback);
}
void Net::AddObserver(PassObserver* observer) { rooms_->observers.Add(observer); }
void Net::RemoveObserver(PassObserver* observer) { rooms_->observers.Remove(observer); }
void Net::set_interruption(std::function<void()> check) {
  rooms_->observers.set_interruption(std::move(check));
}

void Net::set_observe(bool observe) {
  set_quantizer_mode(observe ? CAFFE_QUANT_OBSERVE : CAFFE_QUANT_PASSIVE);
}

bool Net::observe() const { return quantizer_mode() == CAFFE_QUANT_OBSERVE; }

void Net::set_quantizer_mode(QuantizerMode mode) {
  if (rooms_->ranges.set_mode(mode)) plans().Make();
}

QuantizerMode Net::quantizer_mode() const { return rooms_->ranges.table().mode; }

void Net::set_pseudo_type(DataType type) {
  if (rooms_->ranges.set_pseudo_type(type)) plans().Make();
}

DataType Net::pseudo_type() const { return rooms_->ranges.table().pseudo_type; }

std::vector<std::string> Net::quantizers() const { return rooms_->ranges.Quantizers(); }

void Net::SetQuantizerMode(const std::string& quantizer, QuantizerMode mode) {
  if (rooms_->ranges.SetMode(quantizer, mode)) plans().Make();
}

QuantizerMode Net::QuantizerModeOf(const std::string& quantizer) const {
  return rooms_->ranges.table().ModeOf(quantizer);
}

void Net::SetPseudoType(const std::string& quantizer, DataType type) {
  if (rooms_->ranges.SetPseudoType(quantizer, type)) plans().Make();
}

DataType Net::PseudoTypeOf(const std::string& quantizer) const {
  return rooms_->ranges.table().PseudoTypeOf(quantizer);
}

bool Net::is_pseudo() const { return rooms_->ranges.table().HasMode(CAFFE_QUANT_PSEUDO); }
void Net::CopyRangesFrom(const Net& other) {
  lost().MakeForgotten();  // with the ranges of the last forward
  rooms_->ranges.CopyFrom(other.rooms_->ranges);
}
std::map<std::string, Range> Net::Ranges() const { return rooms_->ranges.Stored(); }
std::map<std::string, Histogram> Net::Histograms() const {
  return rooms_->ranges.pass().Histograms();
}
void Net::UsePlaceholderRanges() { rooms_->ranges.UsePlaceholders(); }

void Net::UpdateBlobRanges() { rooms_->ranges.UpdateBlobs(); }

bool Net::lacks_ranges() {
  UpdateBlobRanges();
  return rooms_->ranges.Lack();
}

void Net::SyncViews() { rooms_->views.Update(); }

BlobBase* Net::FirstVersion(const BlobBase& input) {
  rooms_->versions.ShapeInputs();
  return rooms_->versions.FirstVersion(input);
}

void Net::NoteWritten(const BlobBase& input) { rooms_->versions.NoteWritten(input); }

void Net::ExpectForward(bool yes) { lost().late_reads().ExpectForward(yes); }

void Net::NoteFirstVersion(const BlobBase& input) { rooms_->versions.NoteInput(input); }

void Net::TakeViews() {
  rooms_->views.TakeData();
  rooms_->views.TakeDiffs();
}

int64_t Net::blob_bytes() const {
  int64_t bytes = 0;
  for (const auto& blob : wiring_.blobs) bytes += blob->bytes();
  return bytes;
}

int64_t Net::parameter_bytes() const {
  int64_t bytes = 0;
  for (const BlobBase* blob : wiring_.learnable) bytes += blob->bytes();
  return bytes;
}

MemoryNeeds Net::memory_needs() const { return plans().Needs(); }

}  // namespace caffe
