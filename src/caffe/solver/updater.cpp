#include "caffe/solver/updater.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

// For the sum of squares: most partial sums.
constexpr int64_t kMaxSums = 65536, kMaxGroups = 2048;
// Consecutive elements that one item adds up on the host. Elements that a work group of a device
// adds up at least.
constexpr int64_t kHostUnit = 4096, kGroupUnit = 1024;

// Elements of an update that one item takes: on the host a block, which has one pair of
// multipliers.
int64_t UpdateUnit(const Device& device) {
  return device.has_groups() ? 1 : ParameterArena::kBlock;
}

// Partial sums of `count` elements.
int64_t Sums(const Device& device, int64_t count) {
  if (!device.has_groups()) return std::min(kMaxSums, (count + kHostUnit - 1) / kHostUnit);
  return std::min(kMaxGroups, (count + kGroupUnit - 1) / kGroupUnit);
}

}  // namespace

Updater::Updater(const SolverParameter& parameter, const LearnableParameters& learnable,
                 StepState* step_state, Device* device, bool narrow_gradients)
    : rule_(FindUpdateRule(parameter.type())),
      beta1_(parameter.momentum()),
      beta2_(parameter.momentum2()),
      clip_(parameter.clip_gradients()),
      window_(parameter.loss_scale_window()),
      step_state_(step_state),
      device_(device),
      arena_(learnable, device) {
  if (rule_.check) rule_.check(parameter);
  constants_ = rule_.constants(parameter);
  CAFFE_CHECK(parameter.iter_size() > 0, "iter_size must be positive; it is ",
              parameter.iter_size());
  iter_size_ = parameter.iter_size();
  SetReplicas(1);
  const std::string& kind = parameter.regularization_type();
  CAFFE_CHECK(kind == "L1" || kind == "L2", "Unknown regularization type: ", kind,
              " (known: L1, L2)");
  (kind == "L1" ? l1_ : l2_) = parameter.weight_decay();

  adapts_ = parameter.has_loss_scale() ? parameter.loss_scale() == 0 : narrow_gradients;
  CAFFE_CHECK(!adapts_ || window_ > 0, "loss_scale_window must be positive; it is ", window_);
  const double scale = adapts_                      ? parameter.loss_scale_init()
                       : parameter.has_loss_scale() ? parameter.loss_scale()
                                                    : 1.0;
  CAFFE_CHECK(scale > 0, "the loss scale must be positive; it is ", scale);
  checks_ = adapts_ || narrow_gradients || scale != 1;
  SetLossScale(scale, 0);

  states_.resize(arena_.parts().size());
  for (int state = 0; state < rule_.states; ++state) {
    std::vector<std::shared_ptr<BlobBase>> blobs;
    for (const BlobBase* parameter_blob : learnable.blobs) {
      blobs.push_back(MakeBlob(parameter_blob->type(), device, parameter_blob->shape(),
                               "history of " + parameter_blob->name()));
    }
    for (size_t part = 0; part < states_.size(); ++part) {
      states_[part].push_back(arena_.ArrayOf(arena_.parts()[part], blobs, "solver history"));
    }
    history_.insert(history_.end(), blobs.begin(), blobs.end());
  }
  MakePrograms();
}

Updater::~Updater() = default;

void Updater::SetReplicas(int replicas) { normalize_ = 1.0 / (int64_t{iter_size_} * replicas); }

void Updater::Reduce(const GradientBucket& bucket, Communicator* communicator) {
  ParameterArena::Part& part = arena_.parts()[bucket.part];
  const DevicePtr array = part.diff.ReadAndWrite(bucket.begin, bucket.end);
  const int64_t count = (bucket.end - bucket.begin) / static_cast<int64_t>(part.type.bytes());
  communicator->AllReduceSum(device_, array, count, part.type);
}

void Updater::SetLossScale(double scale, int good_steps) {
  step_state_->Set(StepState::kLossScale, static_cast<float>(scale));
  step_state_->Set(StepState::kClip, static_cast<float>(1 / scale));
  step_state_->Set(StepState::kGoodSteps, static_cast<float>(good_steps));
  step_state_->Set(StepState::kSkip, 0);
}

int64_t Updater::SkippedSteps() const {
  return checks_ ? static_cast<int64_t>(step_state_->Get(StepState::kSkippedSteps)) : 0;
}

void Updater::MakePrograms() {
  const bool needs_norm = clip_ >= 0 || checks_;
  programs_.clear();
  int64_t items = 0;
  for (const ParameterArena::Part& part : arena_.parts()) {
    Program program;
    program.update = ProgramBuilder(device_, rule_.body)
                         .Types(part.type)
                         .Fold("unit", UpdateUnit(*device_))
                         .Body("solver/" + rule_.body)
                         .Build()
                         ->CreateKernel(rule_.body + "_update");
    if (needs_norm) {
      ProgramBuilder builder(device_, "gradient");
      builder.Types(part.type);
      program.squares =
          device_->has_groups()
              ? builder.Body("solver/gradient_groups").GroupKernel("gradient_squares_groups")
              : builder.Body("solver/gradient").Build()->CreateKernel("gradient_squares");
      items += Sums(*device_, part.count);
    }
    programs_.push_back(std::move(program));
  }
  if (!needs_norm) return;
  ProgramBuilder decide(device_, "decide");
  decide_ = device_->has_groups()
                ? decide.Body("solver/decide_groups").GroupKernel("gradient_decide_groups")
                : decide.Body("solver/decide").Build()->CreateKernel("gradient_decide");
  squares_ = std::make_unique<Blob<float>>(device_, Shape{items});
  squares_->set_name("sums of squared gradients");
}

void Updater::SetDevice(Device* device) {
  if (device == device_) return;
  device_ = device;
  arena_.SetDevice(device);
  for (const auto& blob : history_) blob->SetDevice(device);
  MakePrograms();
}

void Updater::Decide() {
  int64_t items = 0;
  const DevicePtr sums = squares_->mutable_device_data();
  constexpr int64_t kBytes = sizeof(float);
  for (size_t i = 0; i < programs_.size(); ++i) {
    ParameterArena::Part& part = arena_.parts()[i];
    const int64_t own = Sums(*device_, part.count);
    const DevicePtr diff = part.diff.Read(), to = sums + items * kBytes;
    if (!device_->has_groups()) {
      programs_[i].squares->Launch(own, {own, part.count, kHostUnit, diff, to});
    } else {
      programs_[i].squares->LaunchInGroups({{own, 1, 1}, {programs_[i].squares->group(), 1, 1}},
                                           {own, part.count, diff, to});
    }
    items += own;
  }
  KernelArguments arguments;
  if (!device_->has_groups()) arguments.push_back(1);
  arguments.append({items, sums, step_state_->mutable_reals(), clip_, static_cast<int>(checks_),
                    static_cast<int>(adapts_), window_});
  if (device_->has_groups()) {
    decide_->LaunchInGroups({{1, 1, 1}, {decide_->group(), 1, 1}}, arguments);
  } else {
    decide_->Launch(1, arguments);
  }
}

void Updater::SetIteration(double rate, int64_t iteration) {
  step_state_->Set(StepState::kRate, static_cast<float>(rate));
  if (rule_.bias_correction) {
    const double t = static_cast<double>(iteration + 1);
    step_state_->Set(StepState::kCorrection, static_cast<float>(std::sqrt(1 - std::pow(beta2_, t)) /
                                                                (1 - std::pow(beta1_, t))));
  }
}

void Updater::Update() {
  if (decide_) Decide();
  const DevicePtr reals = step_state_->reals();
  const int64_t unit = UpdateUnit(*device_);
  for (size_t i = 0; i < programs_.size(); ++i) {
    ParameterArena::Part& part = arena_.parts()[i];
    const int64_t items = part.count / unit;
    KernelArguments arguments{items, unit, part.data.ReadAndWrite(), part.diff.ReadAndWrite()};
    for (ArenaArray& state : states_[i]) arguments.push_back(state.ReadAndWrite());
    arguments.push_back(reals);
    arguments.push_back(part.multipliers->device_data());
    for (double value : {l2_, l1_, normalize_}) arguments.push_back(value);
    for (double constant : constants_) arguments.push_back(constant);
    programs_[i].update->Launch({items, unit}, arguments);
  }
}

}  // namespace caffe
