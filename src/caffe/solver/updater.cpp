#include "caffe/solver/updater.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

// For the sum of squares: most partial sums.
constexpr int64_t kMaxSums = 65536, kMaxGroups = 2048;
// Consecutive elements that one item adds up on the host. Elements that a work group of a device
// adds up at least.
constexpr int64_t kHostUnit = 4096, kGroupUnit = 1024;

// Elements of each rank that are sent at once: bounds the memory for those of all ranks.
constexpr int64_t kSentElements = int64_t{1} << 20;

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
  if (parameter.has_reduce_type()) {
    const DataTypeProto type = parameter.reduce_type();
    CAFFE_CHECK(type == CAFFE_FLOAT || type == CAFFE_HALF || type == CAFFE_BFLOAT16,
                "reduce_type is ", DataTypeProto_Name(type),
                "; it must be CAFFE_FLOAT, CAFFE_HALF or CAFFE_BFLOAT16");
    reduce_type_ = type == CAFFE_HALF ? kHalf : type == CAFFE_BFLOAT16 ? kBfloat16 : kFloat;
  }
  checks_ = adapts_ || narrow_gradients || scale != 1 || reduce_type_ == kHalf;
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
  if (!reduce_type_ || *reduce_type_ == part.type || communicator->size() == 1) {
    return communicator->AllReduceSum(device_, array, count, part.type);
  }
  Conversion& conversion = conversions_[static_cast<int>(bucket.part)];
  if (!conversion.there) {
    const auto make = [&](DataType from, DataType to) {
      return ProgramBuilder(device_, "convert")
          .Types({from == kDouble || to == kDouble ? kDouble : kFloat, from, to})
          .Body("quant/convert")
          .Build()
          ->CreateKernel("convert");
    };
    conversion = {make(part.type, *reduce_type_), make(*reduce_type_, part.type)};
  }
  const int64_t bytes = count * static_cast<int64_t>(reduce_type_->bytes());
  if (!narrow_ || narrow_->bytes() < bytes) {
    narrow_ = std::make_unique<DeviceBuffer>(device_, bytes, "gradients that are sent");
  }
  conversion.there->Launch(count,
                           {count, array.ReadOnly(), narrow_->pointer(), 1.0, 1.0, 0.0, 0.0});
  communicator->AllReduceSum(device_, narrow_->pointer(), count, *reduce_type_);
  communicator->Finish();
  conversion.back->Launch(count, {count, narrow_->pointer().ReadOnly(), array, 1.0, 1.0, 0.0, 0.0});
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
  for (const auto& states : share_states_) {
    for (const auto& state : states) state->SetDevice(device);
  }
  pieces_.reset();
  conversions_.clear();
  narrow_.reset();
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
  for (size_t i = 0; i < programs_.size(); ++i) {
    UpdatePart(i);
    if (sharing_) GatherPart(i);
  }
}

void Updater::UpdatePart(size_t index) {
  ParameterArena::Part& part = arena_.parts()[index];
  const Share share = sharing_ ? ShareOf(part, sharing_->rank()) : Share{0, part.count};
  const int64_t unit = UpdateUnit(*device_), items = share.count / unit;
  if (items == 0) return;
  const int64_t begin = share.begin * static_cast<int64_t>(part.type.bytes());
  KernelArguments arguments{items, unit, part.data.ReadAndWrite() + begin,
                            part.diff.ReadAndWrite() + begin};
  if (sharing_) {
    for (const auto& state : share_states_[index]) {
      arguments.push_back(state->mutable_device_data());
    }
  } else {
    for (ArenaArray& state : states_[index]) arguments.push_back(state.ReadAndWrite());
  }
  arguments.push_back(step_state_->reals());
  constexpr int64_t kPair = 2 * sizeof(float);
  arguments.push_back(part.multipliers->device_data() +
                      share.begin / ParameterArena::kBlock * kPair);
  for (double value : {l2_, l1_, normalize_}) arguments.push_back(value);
  for (double constant : constants_) arguments.push_back(constant);
  programs_[index].update->Launch({items, unit}, arguments);
}

int64_t Updater::LargestShare(const ParameterArena::Part& part) const {
  const int64_t blocks = part.count / ParameterArena::kBlock, ranks = sharing_->size();
  return (blocks + ranks - 1) / ranks * ParameterArena::kBlock;
}

Updater::Share Updater::ShareOf(const ParameterArena::Part& part, int rank) const {
  const int64_t largest = LargestShare(part), begin = std::min(rank * largest, part.count);
  return {begin, std::min(largest, part.count - begin)};
}

void Updater::GatherPart(size_t index) {
  ParameterArena::Part& part = arena_.parts()[index];
  const int ranks = sharing_->size();
  const int64_t item = static_cast<int64_t>(part.type.bytes()), largest = LargestShare(part);
  const int64_t most = std::min(largest, kSentElements);
  if (!pieces_ || pieces_->bytes() < most * ranks * item) {
    pieces_ = std::make_unique<DeviceBuffer>(device_, most * ranks * item, "updated parameters");
  }
  const DevicePtr data = part.data.ReadAndWrite(), pieces = pieces_->pointer();
  for (int64_t from = 0; from < largest; from += most) {
    const int64_t piece = std::min(most, largest - from);
    // Calls copy(rank's piece among all, the parameters themselves, its bytes).
    const auto each = [&](int rank, const auto& copy) {
      const Share share = ShareOf(part, rank);
      const int64_t count = std::clamp<int64_t>(share.count - from, 0, piece);
      if (count == 0) return;
      copy(pieces + rank * piece * item, data + (share.begin + from) * item, count * item);
    };
    each(sharing_->rank(), [&](DevicePtr own, DevicePtr parameters, int64_t bytes) {
      device_->Copy(own, parameters.ReadOnly(), bytes);
    });
    sharing_->AllGather(device_, pieces, piece * ranks, part.type);
    sharing_->Finish();
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == sharing_->rank()) continue;
      each(rank, [&](DevicePtr other, DevicePtr parameters, int64_t bytes) {
        device_->Copy(parameters, other.ReadOnly(), bytes);
      });
    }
  }
}

void Updater::ShareUpdates(Communicator* communicator) {
  sharing_ = communicator;
  share_states_.clear();
  for (size_t i = 0; i < arena_.parts().size(); ++i) {
    const ParameterArena::Part& part = arena_.parts()[i];
    const int64_t count = std::max<int64_t>(1, ShareOf(part, communicator->rank()).count);
    std::vector<std::shared_ptr<BlobBase>> states;
    for (int state = 0; state < rule_.states; ++state) {
      states.push_back(MakeBlob(part.type, device_, {count}, "a share of the solver history"));
      std::memset(states.back()->mutable_host_data(), 0,
                  static_cast<size_t>(states.back()->bytes()));
    }
    share_states_.push_back(std::move(states));
  }
}

// The history of a part in the layout of the arena, on the host, from and to the blobs of files.
template <class Copy> void Updater::VisitHistory(size_t part, int state, const Copy& copy) {
  const ParameterArena::Part& one = arena_.parts()[part];
  const size_t blobs = history_.size() / static_cast<size_t>(std::max(1, rule_.states));
  for (size_t m = 0; m < one.members.size(); ++m) {
    BlobBase& blob = *history_[static_cast<size_t>(state) * blobs + one.members[m]];
    copy(&blob, one.offsets[m]);
  }
}

void Updater::CollectHistory() {
  for (size_t p = 0; p < arena_.parts().size(); ++p) {
    const ParameterArena::Part& part = arena_.parts()[p];
    const size_t bytes = static_cast<size_t>(part.count) * part.type.bytes();
    for (int state = 0; state < rule_.states; ++state) {
      const BlobBase& own = *share_states_[p][state];
      const size_t used =
          static_cast<size_t>(ShareOf(part, sharing_->rank()).count) * part.type.bytes();
      const std::string text(static_cast<const char*>(own.host_data()), used);
      std::string all;
      for (const std::string& share : sharing_->AllGather(text)) all += share;
      CAFFE_CHECK(all.size() == bytes, "the shares of the history have ", all.size(), " bytes; ",
                  bytes, " were expected");
      VisitHistory(p, state, [&](BlobBase* blob, int64_t offset) {
        std::memcpy(blob->mutable_host_data(), all.data() + offset,
                    static_cast<size_t>(blob->bytes()));
      });
    }
  }
}

void Updater::TakeHistory() {
  for (size_t p = 0; p < arena_.parts().size(); ++p) {
    const ParameterArena::Part& part = arena_.parts()[p];
    const int64_t item = static_cast<int64_t>(part.type.bytes());
    const Share share = ShareOf(part, sharing_->rank());
    for (int state = 0; state < rule_.states; ++state) {
      std::string all(static_cast<size_t>(part.count * item), '\0');
      VisitHistory(p, state, [&](BlobBase* blob, int64_t offset) {
        std::memcpy(all.data() + offset, blob->host_data(), static_cast<size_t>(blob->bytes()));
      });
      std::memcpy(share_states_[p][state]->mutable_host_data(), all.data() + share.begin * item,
                  static_cast<size_t>(share.count * item));
    }
  }
}

}  // namespace caffe
