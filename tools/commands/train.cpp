#include <filesystem>
#include <iostream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/signal_handler.hpp"
#include "caffe/solver/solver.hpp"
#include "commands/batch_size.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/progress_bar.hpp"
#include "commands/signal_actions.hpp"

namespace caffe {
namespace {

// Bad files are reported before anything is built.
void CheckFiles(const SolverParameter& solver) {
  if (solver.has_net()) ReadNetParameter(solver.net());
  if (solver.has_train_net()) ReadNetParameter(solver.train_net());
  for (const std::string& net : solver.test_net()) ReadNetParameter(net);
}

class TrainProgress : public Solver::Callback {
 public:
  explicit TrainProgress(Solver* solver)
      : solver_(solver),
        bar_(&std::cerr, solver->iter(), solver->param().max_iter(),
             BatchSize(*solver->net()) * solver->param().iter_size()) {}
  void OnStart() override { bar_.Show(solver_->iter()); }
  void OnTest(int, int done, int of) override {
    bar_.Show(solver_->iter(), Concat("testing ", done, "/", of));
  }

 private:
  Solver* solver_;
  ProgressBar bar_;
};

}  // namespace

int TrainCommand(const Options& options) {
  CAFFE_CHECK(!options.solver.empty(), "train: Need a solver definition to train: -solver FILE");
  CAFFE_CHECK(options.snapshot.empty() || options.weights.empty(),
              "train: Give a snapshot to resume training or weights to finetune but not both.");
  SolverParameter parameter = ReadSolverParameter(options.solver);
  CheckFiles(parameter);
  if (!options.snapshot.empty()) {
    CAFFE_CHECK(std::filesystem::exists(options.snapshot), "train: there is no file ",
                options.snapshot);
    parameter.clear_weights();
  }
  if (!options.weights.empty()) {
    parameter.clear_weights();
    parameter.add_weights(options.weights);
  }
  if (options.level != 0) parameter.mutable_train_state()->set_level(options.level);
  for (const std::string& stage : options.stages) {
    parameter.mutable_train_state()->add_stage(stage);
  }
  Device* device = ChooseDevice(options.gpu, &parameter);
  SignalHandler signals(ActionByName(options.sigint_effect), ActionByName(options.sighup_effect));

  Solver solver(parameter, device);
  solver.SetActionFunction([&signals] { return signals.Poll(); });
  if (!options.snapshot.empty()) {
    log::Info("Resuming from " + options.snapshot);
    solver.Restore(options.snapshot);
  }
  std::unique_ptr<TrainProgress> progress;
  if (options.progress && ProgressBar::Wanted()) {
    progress = std::make_unique<TrainProgress>(&solver);
    solver.AddCallback(progress.get());
  }
  log::Info("Starting Optimization");
  solver.Solve();
  log::Info("Optimization Done.");
  return 0;
}

}  // namespace caffe
