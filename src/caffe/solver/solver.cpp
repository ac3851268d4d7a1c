#include "caffe/solver/solver.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <list>
#include <optional>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/available_memory.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/has_statistics.hpp"
#include "caffe/net/batch_size.hpp"
#include "caffe/net/expert_usage.hpp"
#include "caffe/net/lost_scores.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/solver/learning_rate.hpp"
#include "check_replicas.hpp"

namespace caffe {
namespace {

// The lines "    Train net output #0: loss = 2.3 (* 1 = 2.3 loss)", one for each element, and those
// of TakeExpertUsage.
void LogOutputs(const Net& net, const char* kind, const std::vector<double>& values) {
  size_t element = 0;
  for (int index : net.output_blob_indices()) {
    const std::string& name = net.blob_names()[index];
    const float weight = net.blob_loss_weights()[index];
    for (int64_t i = 0; i < net.blobs()[index]->count(); ++i, ++element) {
      const float value = static_cast<float>(values[element]);
      const std::string loss =
          weight ? Concat(" (* ", weight, " = ", weight * value, " loss)") : "";
      log::Info(Concat("    ", kind, " net output #", element, ": ", name, " = ", value, loss));
    }
  }
  for (const std::string& line : TakeExpertUsage(net, kind)) log::Info(line);
}

std::vector<double> OutputValues(const Net& net) {
  std::vector<double> all;
  for (int index : net.output_blob_indices()) {
    const std::vector<double> values = net.blobs()[index]->DataAsDouble();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// While it exists, the net frees activations that it does not need any more.
class FreesMemory {
 public:
  explicit FreesMemory(std::span<Solver* const> solvers) : solvers_(solvers) {
    for (Solver* one : solvers_) one->net()->set_frees_memory(one->frees_memory());
  }
  ~FreesMemory() {
    for (Solver* one : solvers_) one->net()->set_frees_memory(false);
  }
  FreesMemory(const FreesMemory&) = delete;
  FreesMemory& operator=(const FreesMemory&) = delete;

 private:
  std::span<Solver* const> solvers_;
};

bool AllFinite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

}  // namespace

Solver::Solver(const SolverParameter& parameter, Device* device, bool python_layers)
    : python_layers_(python_layers), param_(std::make_unique<SolverParameter>(parameter)) {
  NamingMemory("the solver", [&] { Init(device); });
}

Solver::Solver(const std::string& path, Device* device, bool python_layers)
    : python_layers_(python_layers),
      param_(std::make_unique<SolverParameter>(ReadSolverParameter(path))) {
  NamingMemory(path, [&] { Init(device); });
}

Solver::~Solver() {
  if (!reduces_) return;
  try {
    communicator_->Finish();
  } catch (const std::exception&) {
    // Step has thrown this error already.
  }
}

void Solver::Init(Device* device) {
  log::Info(Concat("Initializing solver from parameters: \n", param_->DebugString()));
  rate_policy_ = ReadRatePolicy(*param_);
  CheckBaseRate(*param_);
  FindUpdateRule(param_->type());
  CAFFE_CHECK(param_->snapshot() >= 0, "snapshot must not be negative; it is ", param_->snapshot(),
              " (0 writes none while training)");
  CAFFE_CHECK(param_->eval_type() == "classification", "eval_type ", param_->eval_type(),
              " is not supported; remove it: test nets print the means of their outputs");
  if (param_->has_ap_version() || param_->show_per_class_result()) {
    log::Warning("ap_version and show_per_class_result have no effect");
  }
  if (param_->snapshot() > 0) CheckSnapshotCanBeWritten();
  InitTrainNet(device);
  if (param_->snapshot() > 0) CheckSnapshotCanBeRead();
  LearnableParameters learnable{net_->learnable_params(), net_->params_lr(),
                                net_->params_weight_decay()};
  if (learnable.blobs.empty()) {
    log::Warning(NetLabel(net_->name()) + " has no parameters, so that training changes nothing");
  }
  updater_ = std::make_unique<Updater>(*param_, learnable, &net_->step_state(), net_->device(),
                                       net_->has_narrow_gradients());
  net_->SetTrainingTail({{}, {[this] { RunUpdate(); }}});
  losses_ = std::make_unique<LossWindow>(net_.get(), param_->average_loss(), param_->iter_size());
  InitTestNets(device);
  ReadInitialWeights();
  displayed_at_ = std::chrono::steady_clock::now();
  log::Info("Solver scaffolding done.");
}

void Solver::ReadInitialWeights() {
  std::vector<std::string> files;
  for (const std::string& list : param_->weights()) {
    for (const std::string& file : FilesInList(list)) files.push_back(file);
  }
  if (files.empty()) return;
  for (const std::string& file : files) log::Info(Concat("Finetuning from ", file));
  const bool strict = param_->strict_weights();
  WeightsOptions options;
  options.missing = strict ? MissingWeights::kRefuse : MissingWeights::kWarn;
  net_->CopyTrainedLayersFrom(files, options);
  // Layers of a test net that the trained net has, too, take its weights in every test.
  options.missing = MissingWeights::kAllow;
  for (const auto& test_net : test_nets_) {
    for (const int layer : test_net->CopyTrainedLayersFrom(files, options)) {
      const std::string& name = test_net->layer_names()[layer];
      if (net_->has_layer(name)) continue;
      const std::string fault = Concat("layer '", name, "' of test net ", test_net->name(),
                                       " has parameters, but neither the trained net nor the "
                                       "given weights have any for it");
      CAFFE_CHECK(!strict, fault);
      log::Warning(fault + "; it keeps its values");
    }
  }
}

NetOptions Solver::OptionsFor(Device* device) const {
  NetOptions options;
  options.device = device;
  options.seed = param_->random_seed();
  options.python_layers = python_layers_;
  return options;
}

void Solver::ApplyDefaults(NetParameter* net) const {
  if (net->has_data_type() || net->has_data_type_name()) return;
  if (param_->has_data_type()) net->set_data_type(param_->data_type());
  if (param_->has_data_type_name()) net->set_data_type_name(param_->data_type_name());
}

void Solver::InitTrainNet(Device* device) {
  const SolverParameter& p = *param_;
  const int sources = p.has_net() + p.has_net_param() + p.has_train_net() + p.has_train_net_param();
  CAFFE_CHECK(sources == 1,
              "SolverParameter must specify a train net using exactly one of net, "
              "net_param, train_net and train_net_param; it has ",
              sources);
  NetParameter net;
  LayerLines lines;
  if (p.has_train_net_param()) {
    log::Info("Creating training net specified in train_net_param.");
    net = p.train_net_param();
  } else if (p.has_train_net()) {
    log::Info(Concat("Creating training net from train_net file: ", p.train_net()));
    net = ReadNetFile(p.train_net(), &lines);
  } else if (p.has_net_param()) {
    log::Info("Creating training net specified in net_param.");
    net = p.net_param();
  } else {
    log::Info(Concat("Creating training net from net file: ", p.net()));
    net = ReadNetFile(p.net(), &lines);
  }
  // From lowest to highest priority: the default, the net's own state, the solver's.
  NetState state;
  state.set_phase(TRAIN);
  state.MergeFrom(net.state());
  state.MergeFrom(p.train_state());
  *net.mutable_state() = state;
  ApplyDefaults(&net);
  NetOptions options = OptionsFor(device);
  options.lines = lines;
  net_ = std::make_unique<Net>(net, options);
  CAFFE_CHECK(
      !net_->layers().empty(), NetLabel(net_->name()),
      " has no layer in phase TRAIN, so that there is nothing to train; see its include and "
      "exclude rules");
}

void Solver::MakeTestNet(const NetParameter& net, const std::string& source, Device* device,
                         const LayerLines& lines) {
  const int id = static_cast<int>(test_nets_.size());
  NetParameter own = net;
  NetState state;
  state.set_phase(TEST);
  state.MergeFrom(net.state());
  if (param_->test_state_size()) state.MergeFrom(param_->test_state(id));
  *own.mutable_state() = state;
  ApplyDefaults(&own);
  log::Info(Concat("Creating test net (#", id, ") specified by ", source));
  NetOptions options = OptionsFor(device);
  options.lines = lines;
  test_nets_.push_back(std::make_unique<Net>(own, options));
  test_nets_.back()->set_debug_info(param_->debug_info());
}

void Solver::InitTestNets(Device* device) {
  const SolverParameter& p = *param_;
  const bool has_generic = p.has_net() || p.has_net_param();
  const int given = p.test_net_param_size() + p.test_net_size();
  const int total = p.test_iter_size();
  CAFFE_CHECK(has_generic ? total >= given : total == given,
              "test_iter must be given once for every test net; there are ", given,
              " test nets and ", total, " test_iter");
  const int count = has_generic ? total : given;
  CAFFE_CHECK(p.test_state_size() == 0 || p.test_state_size() == count,
              "test_state must be given for no test net or for all; there are ", count,
              " test nets and ", p.test_state_size(), " test_state");
  for (int i = 0; i < total; ++i) {
    CAFFE_CHECK(p.test_iter(i) > 0, "test_iter must be positive; that of test net ", i, " is ",
                p.test_iter(i), "; without test_iter and test nets there are no tests");
  }
  if (count == 0) return;
  CAFFE_CHECK(p.test_interval() > 0, "test_interval must be positive where there is a test net; ",
              "it is ", p.test_interval());
  for (const NetParameter& net : p.test_net_param()) MakeTestNet(net, "test_net_param", device);
  for (const std::string& file : p.test_net()) {
    LayerLines lines;
    const NetParameter net = ReadNetFile(file, &lines);
    MakeTestNet(net, "test_net file: " + file, device, lines);
  }
  while (static_cast<int>(test_nets_.size()) < count) {
    if (p.has_net_param()) {
      MakeTestNet(p.net_param(), "net_param", device);
    } else {
      LayerLines lines;
      const NetParameter net = ReadNetFile(p.net(), &lines);
      MakeTestNet(net, "net file: " + p.net(), device, lines);
    }
  }
}

double Solver::Rate() const { return LearningRate(*param_, rate_policy_, iter_); }

bool Solver::DisplaysNow() const { return param_->display() && iter_ % param_->display() == 0; }

SolverAction Solver::NextRequest() {
  const SolverAction own = action_ ? action_() : SolverAction::kNone;
  if (ranks() == 1) return own;
  const std::string first = communicator_->Broadcast(std::string(1, static_cast<char>(own)));
  return static_cast<SolverAction>(first.at(0));
}

bool Solver::AnswerRequests() {
  for (;;) {
    const SolverAction request = NextRequest();
    if (request == SolverAction::kNone) break;
    if (request == SolverAction::kSnapshot) TrySnapshot();
    if (request == SolverAction::kStop) {
      stop_ = true;
      break;  // the request may persist: do not ask again
    }
  }
  return stop_;
}

void Solver::Step(int64_t iterations) {
  Solver* const self = this;
  TellingRanks([&] {
    NamingMemory("the solver of " + NetLabel(net_->name()), [&] {
      Iterate({&self, 1}, iterations);
    });
  });
}

void Solver::TellingRanks(const std::function<void()>& work) {
  if (ranks() == 1) return work();
  try {
    work();
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    communicator_->Abort(error.what());
    throw;
  } catch (...) {
    communicator_->Abort("it was interrupted");
    throw;
  }
}

void Solver::StepTogether(const std::vector<Solver*>& replicas, int64_t iterations) {
  CAFFE_CHECK(!replicas.empty(), "StepTogether needs at least one solver");
  Solver& first = *replicas[0];
  std::vector<Net*> nets;
  for (Solver* one : replicas) {
    const auto check = [&](const char* name, int64_t value, int64_t expected) {
      CAFFE_CHECK(value == expected, "the solver of ", NetLabel(one->net_->name()), ", replica ",
                  nets.size(), ": ", name, " is ", value, "; that of replica 0 is ", expected);
    };
    check("iter_size", one->param_->iter_size(), first.param_->iter_size());
    check("the iteration", one->iter_, first.iter_);
    nets.push_back(one->net());
  }
  if (!first.replicas_ || first.replicas_->nets() != nets) {
    first.replicas_ = std::make_unique<Replicas>(nets);
  }
  NamingMemory("the solver of " + NetLabel(first.net_->name()),
               [&] { Iterate(replicas, iterations); });
}

void Solver::SetCommunicator(Communicator* communicator, int64_t bucket_bytes) {
  CheckReplicas(*net_, *param_, communicator);
  communicator_ = communicator;
  net_->SetReplica({communicator->rank(), communicator->size()});
  TakeParametersOfRank0(true);
  updater_->SetReplicas(communicator->size());
  if (param_->shard_updates() && ranks() > 1) updater_->ShareUpdates(communicator);
  if (param_->sync_statistics()) {
    for (LayerBase* layer : Replicas::Layers(*net_)) {
      if (auto* const one = dynamic_cast<HasStatistics*>(layer)) one->JoinStatistics(communicator);
    }
  }
  // Without layer_wise_reduce all gradients of a type are one bucket.
  if (!param_->layer_wise_reduce()) bucket_bytes = INT64_MAX;
  TrainingTail tail;
  const std::vector<GradientBucket> buckets = updater_->Buckets(bucket_bytes);
  for (size_t i = 0; i < buckets.size(); ++i) {
    const GradientBucket& bucket = buckets[i];
    const bool last = i + 1 == buckets.size();
    tail.reductions.push_back({bucket.members, [this, bucket, communicator, last] {
                                 reduces_ = true;
                                 updater_->Reduce(bucket, communicator);
                                 if (!last) return;
                                 communicator->Finish();
                                 reduces_ = false;
                               }});
  }
  tail.entries.push_back([this] { RunUpdate(); });
  net_->SetTrainingTail(std::move(tail));
  communicator->SetLastWords(HowToResume());
  if (ranks() > 1) {
    log::Info(Concat(ranks(), " ranks: an update is by ", JointBatch(), " items (batch size ",
                     BatchSize(*net_), ", iter_size ", param_->iter_size(), ")"));
  }
}

int64_t Solver::JointBatch() const {
  const int replicas = net_->layers()[0]->context().replica.ranks;
  return BatchSize(*net_) * param_->iter_size() * replicas;
}

std::vector<double> Solver::JointMeans(const std::vector<double>& own) const {
  if (ranks() == 1) return own;
  std::vector<double> means = SumOverRanks(communicator_, own);
  for (double& mean : means) mean /= ranks();
  return means;
}

void Solver::TakeParametersOfRank0(bool all) {
  if (ranks() == 1) return;
  for (size_t i = 0; i < net_->learnable_params().size(); ++i) {
    if (!all && net_->params_lr()[i] != 0) continue;
    BlobBase& blob = *net_->learnable_params()[i];
    const auto bytes = static_cast<size_t>(blob.bytes());
    std::string values;
    if (rank() == 0) values.assign(static_cast<const char*>(blob.host_data()), bytes);
    values = communicator_->Broadcast(values);
    if (rank() != 0) std::memcpy(blob.mutable_host_data(), values.data(), bytes);
  }
}

int64_t Solver::BeginSteps(int64_t iterations) {
  if (iterations > 0) net_->CheckTrainable();
  losses_->Reset();
  displayed_at_ = std::chrono::steady_clock::now();
  displayed_iter_ = iter_;
  stop_ = false;
  // The net's forecast leaves room for the history, which the first update fills.
  const Device* const device = net_->device();
  int64_t history = 0;
  for (const auto& blob : updater_->history()) {
    if (updater_->shares_updates()) break;  // each rank has a part of it already
    const SyncedMemory& memory = *blob->data_memory();
    // On the CPU memory is taken when it is written.
    const bool taken =
        device->host_accessible() ? memory.version() != 0 : memory.buffer() != nullptr;
    if (!taken) history += blob->bytes();
  }
  return history;
}

void Solver::Iterate(std::span<Solver* const> replicas, int64_t iterations) {
  const Solver& first = *replicas[0];
  const int64_t end = first.iter_ + iterations;
  std::list<MemoryReservation> reserved;
  for (Solver* one : replicas) {
    const int64_t history = one->BeginSteps(iterations);
    reserved.emplace_back(one->net_->device(), history, "the solver's history");
  }
  while (first.iter_ < end) {
    for (Solver* one : replicas) {
      if (!one->BeginIteration()) return;
    }
    const bool at_once = std::all_of(replicas.begin(), replicas.end(),
                                     [](const Solver* one) { return one->UpdatesAtOnce(); });
    RunPasses(replicas, at_once);
    reserved.clear();
    bool stop = false;
    for (Solver* one : replicas) stop = one->EndIteration(at_once) || stop;
    if (stop) break;
  }
}

bool Solver::BeginIteration() {
  const SolverParameter& p = *param_;
  updater_->ClearDiffs();
  if (p.test_interval() && iter_ % p.test_interval() == 0 &&
      (iter_ > 0 || p.test_initialization())) {
    TestAll();
    if (stop_) return false;
  }
  for (Callback* callback : callbacks_) callback->OnStart();
  net_->set_debug_info(p.debug_info() && DisplaysNow());
  return true;
}

void Solver::RunPasses(std::span<Solver* const> replicas, bool at_once) {
  const int count = replicas[0]->param_->iter_size();
  for (int i = 0; i < count; ++i) {
    const FreesMemory frees(replicas);
    auto to = IterationEnd::kBackward;
    if (i + 1 == count) to = at_once ? IterationEnd::kTail : IterationEnd::kReductions;
    for (Solver* one : replicas) {
      if (to != IterationEnd::kTail) continue;
      one->net_->FollowDefaultDevice();
      one->PrepareUpdate();
    }
    replicas.size() == 1 ? replicas[0]->net_->Iterate(to) : replicas[0]->replicas_->Iterate(to);
    for (Solver* one : replicas) one->losses_->Record();
  }
}

bool Solver::EndIteration(bool at_once) {
  if (at_once) {
    FinishUpdate();
  } else {
    if (DisplaysNow()) Display();
    for (Callback* callback : callbacks_) callback->OnGradientsReady();
    ApplyUpdate();
  }
  if (param_->snapshot() && iter_ % param_->snapshot() == 0) {
    TrySnapshot();
    net_->CheckData();
  }
  return AnswerRequests();
}

void Solver::Display() {
  // Waits for the device, so the time below is right.
  const double loss = JointMeans({SmoothedLoss()})[0];
  const auto now = std::chrono::steady_clock::now();
  const float seconds = std::chrono::duration<float>(now - displayed_at_).count();
  const float speed = static_cast<float>(iter_ - displayed_iter_) / (seconds > 0 ? seconds : 1);
  log::Info(Concat("Iteration ", iter_, " (", speed, " iter/s, ", seconds, "s/", param_->display(),
                   " iters), loss = ", static_cast<float>(loss)));
  LogOutputs(*net_, "Train", JointMeans(OutputValues(*net_)));
  WarnOfLostScores(*net_);
  displayed_at_ = now;
  displayed_iter_ = iter_;
}

double Solver::SmoothedLoss() {
  const double loss = losses_->Mean();
  CheckNumbers(loss);
  return loss;
}

void Solver::CheckNumbers(double loss) {
  const int64_t skips = updater_->SkippedSteps();
  const bool constant = !updater_->adapts_loss_scale();
  if (constant && skips > 0 && !warned_of_skips_) {
    warned_of_skips_ = true;
    log::Warning(Concat(
        skips, " of ", iter_, " updates were left out because gradients were not finite: the ",
        "constant loss_scale of ", param_->has_loss_scale() ? param_->loss_scale() : 1,
        " is too large, or the loss itself is not finite. Give a smaller loss_scale, or "
        "loss_scale: 0, ",
        "which adapts it"));
  }
  if (std::isfinite(loss) || warned_of_loss_) return;
  warned_of_loss_ = true;
  const std::string scale =
      !constant ? "" : Concat(" the constant loss_scale (", param_->loss_scale(), ");");
  log::Warning(Concat(
      "Iteration ", iter_, ": the loss is ", loss, ". Lower base_lr (", param_->base_lr(),
      "), or set CAFFE_DEBUG=nan, which ends with an error that ",
      "names the first layer and blob that is not finite. Other causes:",
      param_->has_loss_scale() ? scale : "", " NaN, infinity or very large values in the data"));
}

void Solver::WarnOfLostScores(const Net& net) {
  if (warned_of_scores_) return;
  const std::string warning = TakeLostScores(net);
  warned_of_scores_ = !warning.empty();
  if (warned_of_scores_) log::Warning(Concat("Iteration ", iter_, ": ", warning));
}

bool Solver::UpdatesAtOnce() const {
  return !DisplaysNow() && std::none_of(callbacks_.begin(), callbacks_.end(),
                                        [](Callback* one) { return one->looks_at_gradients(); });
}

void Solver::PrepareUpdate() {
  updater_->SetDevice(net_->device());
  updater_->SetIteration(Rate(), iter_);
}

void Solver::RunUpdate() {
  net_->TakeViews();
  try {
    updater_->Update();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(Concat(error.what(), "; the solver's history needs ", history_bytes(),
                             " bytes, net ", net_->name(), " ", net_->memory_needs().ToString()));
  }
}

void Solver::ApplyUpdate() {
  PrepareUpdate();
  net_->RunTail();
  FinishUpdate();
}

void Solver::FinishUpdate() {
  const double rate = Rate();
  const bool displays = DisplaysNow();
  if (rate_policy_ == RatePolicy::kMultistep) {
    const int step = LearningRateStep(*param_, rate_policy_, iter_);
    if (step != learning_rate_step_) {
      log::Info(Concat("MultiStep Status: Iteration ", iter_, ", step = ", step));
    }
    learning_rate_step_ = step;
  }
  if (displays) log::Info(Concat("Iteration ", iter_, ", lr = ", static_cast<float>(rate)));
  if (displays) DisplayUpdate();
  ++iter_;
}

int64_t Solver::history_bytes() const {
  int64_t bytes = 0;
  for (const auto& blob : updater_->history()) bytes += blob->bytes();
  return bytes;
}

void Solver::DisplayUpdate() {
  const double clip = updater_->clip_gradients();
  if (clip >= 0) {
    const float norm = updater_->GradientNorm();
    if (norm > clip) {
      log::Info(Concat("Gradient clipping: scaling down gradients (L2 norm ", norm, " > ", clip,
                       ") by scale factor ", static_cast<float>(clip / norm)));
    }
  }
  const int64_t skips = updater_->SkippedSteps();
  if (skips > displayed_skips_) {
    log::Info(Concat("Loss scale: ", net_->step_state().Get(StepState::kLossScale), "; ",
                     skips - displayed_skips_,
                     " updates left out since the last display, because gradients overflowed"));
    displayed_skips_ = skips;
  }
}

void Solver::Solve(const std::string& resume) {
  TellingRanks([&] { SolveAll(resume); });
}

void Solver::SolveAll(const std::string& resume) {
  const SolverParameter& p = *param_;
  if (p.snapshot_after_train() && rank() == 0) {
    CheckSnapshotCanBeWritten();
    CheckSnapshotCanBeRead();
  }
  log::Info(Concat("Solving ", net_->name()));
  log::Info(Concat("Learning Rate Policy: ", p.lr_policy()));
  stop_ = false;
  if (!resume.empty()) {
    log::Info(Concat("Restoring previous solver status from ", resume));
    Restore(resume);
  }
  Step(std::max<int64_t>(0, p.max_iter() - iter_));
  // Not if the last iteration wrote one.
  const bool due = p.snapshot_after_train() && (!p.snapshot() || iter_ % p.snapshot() != 0);
  if (due || failed_snapshot_iter_ == iter_) LastSnapshot();
  net_->CheckData();
  if (stop_) {
    log::Info("Optimization stopped early.");
    return;
  }
  if (DisplaysNow()) {
    Solver* const self = this;
    const FreesMemory frees({&self, 1});
    net_->Forward();
    for (int i = 0; i < p.iter_size(); ++i) losses_->Record();  // a whole iteration's
    const double loss = JointMeans({SmoothedLoss()})[0];
    log::Info(Concat("Iteration ", iter_, ", loss = ", static_cast<float>(loss)));
  } else {
    SmoothedLoss();  // warns if the loss is not finite
  }
  if (p.test_interval() && iter_ % p.test_interval() == 0) TestAll();
  log::Info("Optimization Done.");
}

void Solver::TestAll() {
  for (int i = 0; i < static_cast<int>(test_nets_.size()) && !stop_; ++i) Test(i);
}

std::vector<double> Solver::Test(int test_net) {
  CAFFE_CHECK(test_net >= 0 && test_net < static_cast<int>(test_nets_.size()), "there is no test ",
              "net ", test_net, "; there are ", test_nets_.size());
  log::Info(Concat("Iteration ", iter_, ", Testing net (#", test_net, ")"));
  Net& net = *test_nets_[test_net];
  // The thread's device may have changed since the last pass of either net.
  net_->FollowDefaultDevice();
  net.FollowDefaultDevice();
  TakeParametersOfRank0(false);
  net.ShareTrainedLayersWith(*net_);
  if (net.is_pseudo()) net.CopyRangesFrom(*net_);
  const int iterations = param_->test_iter(test_net);
  std::vector<double> sums;
  double loss = 0;
  // Each rank runs one of `sharing` batches; in the last round, some repeat the batch of rank 0.
  for (int i = 0, sharing = 0; i < iterations; i += sharing) {
    sharing = std::min(ranks(), iterations - i);
    const bool counts = rank() < sharing;
    if (ranks() > 1) net.SetReplica({counts ? rank() : 0, sharing});
    if (AnswerRequests()) {
      log::Info("Test interrupted.");
      return {};
    }
    net.Forward();
    if (param_->test_compute_loss() && counts) loss += net.Loss();
    const std::vector<double> values = OutputValues(net);
    if (!AllFinite(values)) net.CheckData();
    sums.resize(std::max(sums.size(), values.size()), 0);
    for (size_t j = 0; j < values.size() && counts; ++j) sums[j] += values[j];
    for (Callback* callback : callbacks_) callback->OnTest(test_net, i + sharing, iterations);
  }
  WarnOfLostScores(net);
  if (ranks() > 1) {
    sums.push_back(loss);
    sums = SumOverRanks(communicator_, sums);
    loss = sums.back();
    sums.pop_back();
  }
  if (param_->test_compute_loss()) {
    log::Info(Concat("Test loss: ", static_cast<float>(loss / iterations)));
  }
  for (double& sum : sums) sum /= iterations;
  LogOutputs(net, "Test", sums);
  // The next update changes all parameters. A run that frees memory keeps no copy of them for
  // reads.
  if (frees_memory_) net.ExpectForward(true);
  return sums;
}

}  // namespace caffe
