// A solver state, binary or HDF5, for a fixed solver. After an error the solver is what it was: its
// iteration, its weights, its history and the positions of its layers.
#include <filesystem>

#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/solver/solver.hpp"
#include "fuzz/support/fixed_net.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

class Fixed {
 public:
  static Fixed& Get() {
    static auto* const fixed = new Fixed;
    return *fixed;
  }

  // The state after three iterations, in both formats; its weights are beside it.
  const std::string& binary() const { return binary_; }
  const std::string& hdf5() const { return hdf5_; }

  void Run(std::string_view bytes) {
    const std::string before = Bits();
    const std::string path = WriteInput("solver/input.solverstate", bytes);
    try {
      solver_->Restore(path);
    } catch (const Error&) {
      if (Bits() != before) Fault("a state that was refused changed the solver");
      throw;
    }
    if (solver_->iter() < 0) Fault("the iteration is negative");
    solver_->Restore(sound_);
    if (Bits() != before) Fault("the solver does not take its own state back");
  }

 private:
  Fixed() {
    std::filesystem::create_directories(Folder() + "/solver");
    SolverParameter parameter;
    ParseTextProto(R"(
        type: "Adam" base_lr: 0.01 lr_policy: "step" stepsize: 2 gamma: 0.5 random_seed: 7
        loss_scale: 0
        net_param {
          layer { name: "data" type: "DummyData" top: "x" top: "t"
                  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 }
                                     data_filler { type: "gaussian" }
                                     data_filler { type: "constant" value: 2 } } }
          layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
                  inner_product_param { num_output: 2 weight_filler { type: "gaussian" } } }
          layer { name: "drop" type: "Dropout" bottom: "y" top: "y" }
          layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" } })",
                   "solver", &parameter);
    parameter.set_snapshot_prefix(Folder() + "/solver/sound");
    solver_ = std::make_unique<Solver>(parameter, Runtime::Get().cpu());
    solver_->Step(3);
    solver_->Snapshot();
    sound_ = Folder() + "/solver/sound_iter_3.solverstate";
    binary_ = ReadInput(sound_);
    SolverState state;
    ReadBinaryProto(sound_, &state);
    WriteSolverStateHdf5(Folder() + "/solver/sound.h5", state);
    hdf5_ = ReadInput(Folder() + "/solver/sound.h5");
    solver_->Restore(sound_);
  }

  std::string Bits() const {
    std::string bits = std::to_string(solver_->iter()) + WeightBytes(*solver_->net());
    for (const auto& blob : solver_->updater().history()) {
      bits.append(static_cast<const char*>(blob->host_data()), static_cast<size_t>(blob->bytes()));
    }
    NetRunState state;
    solver_->net()->WriteRunState(&state);
    const StepState& reals = solver_->net()->step_state();
    return bits + state.SerializeAsString() + std::to_string(reals.Get(StepState::kLossScale)) +
           std::to_string(reals.Get(StepState::kGoodSteps)) + solver_->last_snapshot();
  }

  std::unique_ptr<Solver> solver_;
  std::string sound_, binary_, hdf5_;
};

void Restore(std::string_view bytes) { Fixed::Get().Run(bytes); }

std::vector<Input> Seeds() {
  return {{"binary", Fixed::Get().binary()}, {"hdf5", Fixed::Get().hdf5()}};
}

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  return MutateBytes(SolverState(), bytes, most, seed);
}

const Registration registration(
    {.name = "solverstate", .run = Restore, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
