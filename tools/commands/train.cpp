#include <csignal>
#include <filesystem>
#include <iostream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/parallel/ranks.hpp"
#include "caffe/solver/signal_handler.hpp"
#include "caffe/solver/solver.hpp"
#include "caffe/solver/train_progress.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/memory_line.hpp"
#include "commands/signal_actions.hpp"

namespace caffe {
namespace {

// Reports missing or invalid files before anything is built.
void CheckFiles(const SolverParameter& solver) {
  LayerLines lines;
  if (solver.has_net()) ReadNetFile(solver.net(), &lines);
  if (solver.has_train_net()) ReadNetFile(solver.train_net(), &lines);
  for (const std::string& net : solver.test_net()) ReadNetFile(net, &lines);
}

// The value, quoted for a shell. Bash and zsh read $'\\x1b' as the byte, which a terminal would
// obey.
std::string Quoted(const std::string& value) {
  const bool plain =
      !value.empty() &&
      value.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%") ==
          std::string::npos;
  if (plain) return value;
  if (Printable(value) != value || value.find_first_of("\n\t") != std::string::npos) {
    std::string quoted = "$'";
    for (const char c : value) {
      char code[8];
      const bool letter = c >= 32 && c < 127;
      std::snprintf(code, sizeof(code), letter ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
      quoted += (c == '\'' || c == '\\' ? "\\" : "") + std::string(code);
    }
    return quoted + "'";
  }
  std::string quoted = "'";
  for (char c : value) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// The command that resumes from the snapshot: the command that was typed, with another -snapshot.
std::string ResumeLine(const Options& options, const std::string& snapshot) {
  std::string line = Quoted(options.program) + " train";
  for (const std::string& flag : options.flags) {  // --name=value
    const size_t equal = flag.find('=');
    const std::string name = flag.substr(2, equal - 2), value = flag.substr(equal + 1);
    if (name == "snapshot" || name == "weights") continue;
    if (value == "true" || value == "false") {
      line += " " + flag;
    } else {
      line += " -" + name + " " + Quoted(value);
    }
  }
  return line + " -snapshot " + Quoted(snapshot);
}

// The number of test nets that the solver will make.
int TestNets(const SolverParameter& solver) {
  if (solver.has_net() || solver.has_net_param()) return solver.test_iter_size();
  return solver.test_net_size() + solver.test_net_param_size();
}

// -level and -stage are for all nets, besides the states in the solver.
void SetStates(const Options& options, SolverParameter* solver) {
  if (options.level == 0 && options.stages.empty()) return;
  std::vector<NetState*> states = {solver->mutable_train_state()};
  if (solver->test_state_size() == 0) {
    for (int i = 0; i < TestNets(*solver); ++i) solver->add_test_state();
  }
  for (NetState& state : *solver->mutable_test_state()) states.push_back(&state);
  for (NetState* state : states) {
    if (options.level != 0) state->set_level(options.level);
    for (const std::string& stage : options.stages) state->add_stage(stage);
  }
}

// Prints how to resume an interrupted training, at every level of the log.
void TellHowToResume(const Options& options, const Solver& solver, int signal) {
  std::string text = Concat("Training was stopped by ",
                            signal == SIGINT    ? "SIGINT"
                            : signal == SIGTERM ? "SIGTERM"
                                                : "SIGHUP",
                            " at iteration ", solver.iter(), ". ");
  const std::string& snapshot =
      solver.last_snapshot().empty() ? options.snapshot : solver.last_snapshot();
  if (snapshot.empty()) {
    text += "There is no snapshot to resume from: snapshot_after_train is false.\n";
  } else {
    text += "To resume from the last snapshot:\n  " + ResumeLine(options, snapshot) + "\n";
  }
  std::cerr << text << std::flush;
}

// The training of one rank; with a null communicator there are no others.
struct Training {
  const Options& options;
  const SolverParameter& parameter;
  SignalHandler* const signals;
  std::string last_snapshot = {};  // of rank 0

  void Run(Communicator* communicator, Device* device) {
    SolverParameter own = parameter;
    if (communicator) own.set_random_seed(JointSeed(communicator, own.random_seed()));
    const bool first = !communicator || communicator->rank() == 0;
    Solver solver(own, device);
    solver.set_frees_memory(true);
    if (first) solver.SetActionFunction([this] { return signals->Poll(); });
    solver.SetResumeLine([this](const std::string& state) { return ResumeLine(options, state); });
    if (communicator) solver.SetCommunicator(communicator);
    if (!options.snapshot.empty()) {
      log::Info("Resuming from " + options.snapshot);
      solver.Restore(options.snapshot);
    }
    std::unique_ptr<TrainProgress> progress;
    if (first && options.progress && ProgressBar::Wanted()) {
      progress = std::make_unique<TrainProgress>(&solver, solver.param().max_iter());
      solver.AddCallback(progress.get());
    }
    log::Info(MemoryLine(solver.net()->memory_needs(), solver.history_bytes()));
    log::Info("Starting Optimization");
    device->ResetPeak();
    try {
      solver.Solve();
    } catch (...) {
      if (first) last_snapshot = solver.last_snapshot();
      throw;
    }
    progress.reset();
    log::Info("Optimization Done.");
    log::Info(Concat("Memory: device peak ", GeneralText(MiB(device->bytes_peak()), 6),
                     " MiB, tests included"));
    if (first && signals->stopped_by() != 0) {
      TellHowToResume(options, solver, signals->stopped_by());
    }
  }
};

}  // namespace

int TrainCommand(const Options& options) {
  CAFFE_CHECK(!options.solver.empty(), "train: Need a solver definition to train: -solver FILE");
  CAFFE_CHECK(options.snapshot.empty() || options.weights.empty(),
              "train: Give a snapshot to resume training or weights to finetune but not both.");
  SolverParameter parameter = ReadSolverParameter(options.solver);
  CheckFiles(parameter);
  if (!options.snapshot.empty()) {
    CAFFE_CHECK(std::filesystem::exists(options.snapshot),
                "train: File not found: ", options.snapshot);
    parameter.clear_weights();
  }
  if (!options.weights.empty()) {
    parameter.clear_weights();
    parameter.add_weights(options.weights);
  }
  CAFFE_CHECK(!options.strict || parameter.weights_size() > 0,
              "train: -strict compares weights with the net, and none are given: -weights FILE");
  if (options.strict) parameter.set_strict_weights(true);
  SetStates(options, &parameter);
  const JobRank job = RankInJob();
  const std::vector<Device*> devices = ChooseDevices(options.gpu, parameter, job.ranks > 1);
  SignalHandler signals(ActionByName(options.sigint_effect), ActionByName(options.sighup_effect),
                        ActionByName(options.sigterm_effect));
  Training training{options, parameter, &signals};
  const auto train = [&](Communicator* communicator, Device* device) {
    training.Run(communicator, device);
  };
  try {
    if (job.ranks > 1) {
      RunInJob(devices[job.local_rank % devices.size()], train);
    } else if (devices.size() > 1) {
      RunRanks(devices, train);
    } else {
      train(nullptr, devices[0]);
    }
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception&) {
    if (devices.size() > 1 && !training.last_snapshot.empty()) {
      std::cerr << "To resume from the last snapshot:\n  "
                << ResumeLine(options, training.last_snapshot) << "\n";
    }
    throw;
  }
  return signals.stopped_by() == 0 ? 0 : 128 + signals.stopped_by();
}

}  // namespace caffe
