#include "caffe/solver/solver.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/progress_bar.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/parallel/ranks.hpp"
#include "caffe/solver/signal_handler.hpp"
#include "caffe/solver/train_progress.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::Solver;

// Ctrl-C while a solver trains: the iteration is finished, so that a snapshot includes it, and
// training stops. A second Ctrl-C stops training at once. Outside training Ctrl-C interrupts at
// once.
class Interruption {
 public:
  // Called without the GIL, between the layers of a pass and between iterations.
  void Check() {
    try {
      CheckSignals();
    } catch (const py::error_already_set& error) {
      if (!training_ || pending_) throw;
      const InPython python;
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      pending_.emplace(error);
    }
  }

  // Runs `train` and returns the KeyboardInterrupt that ended it, if there was exactly one.
  template <class Train> std::optional<py::error_already_set> Answer(const Train& train) {
    const bool before = std::exchange(training_, true);
    try {
      train();
      // Signals that arrived since the last check are raised here and not between two calls of
      // step.
      const InPython python;
      if (!pending_ && PyErr_CheckSignals() != 0) throw py::error_already_set();
    } catch (const py::error_already_set& error) {
      training_ = before;
      const bool second = std::exchange(pending_, std::nullopt).has_value();
      const InPython python;
      // A callback or a Python layer was interrupted: that iteration is lost, earlier ones are not.
      if (!second && error.matches(PyExc_KeyboardInterrupt)) return error;
      throw;
    } catch (...) {
      training_ = before;
      pending_.reset();
      throw;
    }
    training_ = before;
    return std::exchange(pending_, std::nullopt);
  }

  caffe::SolverAction action() const {
    return pending_ ? caffe::SolverAction::kStop : caffe::SolverAction::kNone;
  }

 private:
  bool training_ = false;
  std::optional<py::error_already_set> pending_;
};

// SIGTERM and SIGHUP while solvers train, in any thread: as the command answers them, unless the
// script has a handler for them or they are ignored (nohup).
class TrainingSignals {
 public:
  TrainingSignals() {
    const std::lock_guard lock(All().mutex);
    if (All().trainings++ == 0) {
      using caffe::SolverAction;
      All().handler.emplace(SolverAction::kNone, SolverAction::kSnapshot, SolverAction::kStop,
                            caffe::SignalHandler::Process::kOfOthers);
    }
    terminations_ = All().terminations;
    hangups_ = All().hangups;
  }
  ~TrainingSignals() {
    const std::lock_guard lock(All().mutex);
    if (--All().trainings == 0) All().handler.reset();
  }
  TrainingSignals(const TrainingSignals&) = delete;
  TrainingSignals& operator=(const TrainingSignals&) = delete;

  caffe::SolverAction Poll() {
    const std::lock_guard lock(All().mutex);
    Look();
    if (All().terminations != terminations_) return caffe::SolverAction::kStop;
    return std::exchange(hangups_, All().hangups) != All().hangups ? caffe::SolverAction::kSnapshot
                                                                   : caffe::SolverAction::kNone;
  }
  bool terminated() { return Poll() == caffe::SolverAction::kStop; }

 private:
  struct State {
    std::mutex mutex;
    int trainings = 0;
    std::optional<caffe::SignalHandler> handler;
    int64_t terminations = 0, hangups = 0;  // every training answers each of them
  };
  static State& All() {
    static auto* const state = new State;
    return *state;
  }
  static void Look() {
    for (;;) {
      const caffe::SolverAction action = All().handler->Poll();
      if (action == caffe::SolverAction::kNone) return;
      ++(action == caffe::SolverAction::kStop ? All().terminations : All().hangups);
    }
  }

  int64_t terminations_ = 0, hangups_ = 0;
};

// Ends the process after SIGTERM: in the main thread by SystemExit with the status 143, so that
// `finally` and `with` blocks run; in another one, where SystemExit would end the thread only, by
// the signal itself.
[[noreturn]] void EndAfterTerminate() {
  const py::module_ threading = py::module_::import("threading");
  if (!threading.attr("current_thread")().is(threading.attr("main_thread")())) ::raise(SIGTERM);
  PyErr_SetObject(PyExc_SystemExit, py::int_(128 + SIGTERM).ptr());
  throw py::error_already_set();
}

// Calls the Python callbacks, answers Ctrl-C between passes, shows progress, and lets waiting
// threads use the nets.
class PythonCallback final : public Solver::Callback {
 public:
  PythonCallback(std::shared_ptr<NetLock> lock, Interruption* interruption)
      : lock_(std::move(lock)), interruption_(interruption) {}
  void OnStart() override {
    interruption_->Check();
    if (progress) progress->OnStart();
    lock_->Yield([this] { interruption_->Check(); });
    Call(starts);
  }
  void OnGradientsReady() override { Call(gradients); }
  bool looks_at_gradients() const override { return !gradients.empty(); }
  void OnTest(int test_net, int done, int of) override {
    if (progress) progress->OnTest(test_net, done, of);
  }

  std::vector<py::function> starts, gradients;
  std::optional<caffe::TrainProgress> progress;

 private:
  static void Call(const std::vector<py::function>& functions) {
    if (functions.empty()) return;
    const InPython python;
    const std::vector<py::function> kept = functions;  // a callback may add others
    for (const py::function& function : kept) CallPython(function, py::tuple());
  }

  const std::shared_ptr<NetLock> lock_;
  Interruption* const interruption_;
};

// The calls that resume from a solverstate. Without the GIL.
std::string ResumeLine(const std::string& state) {
  const InPython python;
  const std::string quoted = py::repr(PathObject(state)).cast<std::string>();
  return caffe::Concat("solver.solve(", quoted, "), or solver.restore(", quoted,
                       ") and solver.step(n)");
}

struct PythonSolver;

// All solvers that exist; protected by the GIL.
std::set<const PythonSolver*>& solvers() {
  static auto* const all = new std::set<const PythonSolver*>;
  return *all;
}

// A base, so that it is destroyed after the solver.
struct WithCommunicator {
  std::unique_ptr<caffe::Communicator> communicator;
};

// The solver class of Python. Name is SGD, Nesterov, …; the parameter's type selects the rule.
struct PythonSolver : WithCommunicator, Solver {
  PythonSolver(const caffe::SolverParameter& parameter, bool python_layers)
      : Solver(parameter, nullptr, python_layers) {
    AddCallback(&callback);
    net()->SetReplica(SolverReplica());
    SetActionFunction([this] {
      const caffe::SolverAction action = interruption.action();
      return action == caffe::SolverAction::kNone && signals ? signals->Poll() : action;
    });
    SetResumeLine([](const std::string& state) { return ResumeLine(state); });
    const InPython python;
    for (const caffe::Net* one : nets()) CheckNames(*one);
    for (caffe::Net* one : nets()) {
      one->set_interruption([this] { interruption.Check(); });
      AddNet(*one, lock);
    }
    lock->AddFiles({parameter.net(), parameter.train_net()});
    lock->AddFiles({parameter.test_net().begin(), parameter.test_net().end()});
    for (const std::string& list : parameter.weights()) lock->AddFiles(caffe::FilesInList(list));
    solvers().insert(this);
  }
  // Virtual, so that Python sees the derived class.
  virtual ~PythonSolver() {
    const InPython python;
    solvers().erase(this);
    for (caffe::Net* one : nets()) RemoveNet(*one);
  }

  std::vector<caffe::Net*> nets() {
    std::vector<caffe::Net*> all = {net()};
    for (const auto& test_net : test_nets()) all.push_back(test_net.get());
    return all;
  }

  const std::shared_ptr<NetLock> lock = std::make_shared<NetLock>("the solver");
  Interruption interruption;
  TrainingSignals* signals = nullptr;  // while it trains
  PythonCallback callback{lock, &interruption};
};

PythonSolver& Initialized(PythonSolver& solver) {
  if (!solvers().contains(&solver)) {
    throw py::type_error("this solver was not made: call its class's __init__ first");
  }
  return solver;
}

const PythonSolver& Initialized(const PythonSolver& solver) {
  return Initialized(const_cast<PythonSolver&>(solver));
}

template <int Tag> struct TypedSolver final : PythonSolver { using PythonSolver::PythonSolver; };

caffe::SolverParameter Settings(const py::object& given) {
  caffe::SolverParameter parameter;
  if (IsMessage(given)) {
    parameter = ToSolverParameter(given);
  } else {
    parameter = caffe::ReadSolverParameter(ToFile(given, "the solver"));
  }
  if (parameter.random_seed() < 0) {
    const int64_t seed = NextSeed();
    if (seed >= 0) parameter.set_random_seed(seed);
  }
  return parameter;
}

const char* const kTypes[] = {"SGD", "Nesterov", "Adam", "AdaGrad", "RMSProp", "AdaDelta"};

template <int Tag> void BindTyped(py::module_& module) {
  py::class_<TypedSolver<Tag>, PythonSolver>(
      module, (std::string(kTypes[Tag]) + "Solver").c_str(),
      "A caffe.Solver with this update rule; the type in the settings is ignored.")
      .def(py::init([](const py::object& given, bool python_layers) {
             caffe::SolverParameter parameter = Settings(given);
             parameter.set_type(kTypes[Tag]);
             const WithoutGil release;
             return std::make_unique<TypedSolver<Tag>>(parameter, python_layers);
           }),
           py::arg("solver"), py::arg("python_layers") = true);
}

std::unique_ptr<PythonSolver> MakeSolver(const caffe::SolverParameter& parameter, bool layers) {
  const std::string& type = parameter.type();
  if (type == kTypes[0]) return std::make_unique<TypedSolver<0>>(parameter, layers);
  if (type == kTypes[1]) return std::make_unique<TypedSolver<1>>(parameter, layers);
  if (type == kTypes[2]) return std::make_unique<TypedSolver<2>>(parameter, layers);
  if (type == kTypes[3]) return std::make_unique<TypedSolver<3>>(parameter, layers);
  if (type == kTypes[4]) return std::make_unique<TypedSolver<4>>(parameter, layers);
  if (type == kTypes[5]) return std::make_unique<TypedSolver<5>>(parameter, layers);
  return std::make_unique<PythonSolver>(parameter,
                                        layers);  // throws an error that lists the known types
}

std::unique_ptr<PythonSolver> GetSolver(const py::object& given, bool python_layers) {
  const caffe::SolverParameter parameter = Settings(given);
  const WithoutGil release;
  return MakeSolver(parameter, python_layers);
}

void SyncViews(PythonSolver& solver) {
  for (caffe::Net* net : solver.nets()) net->SyncViews();
}

// With None the progress bar is shown if standard error is a terminal.
bool WantsProgress(const py::object& progress) {
  if (progress.is_none()) return caffe::ProgressBar::Wanted();
  if (!py::isinstance<py::bool_>(progress)) {
    throw py::type_error("progress is " + Described(progress) + ", not True, False or None");
  }
  return progress.cast<bool>();
}

// Scripts that call step(1) thousands of times get no bar, unless one call takes longer.
constexpr std::chrono::milliseconds kProgressDelay{500};

// Writes a snapshot after Ctrl-C, unless the solver has just written one; returns a text that says
// how to resume.
std::string SnapshotAfterInterruption(PythonSolver& solver, bool written) {
  const std::string stopped = caffe::Concat("training stopped at iteration ", solver.iter());
  try {
    if (!written) {
      solver.net()->TakeViews();
      caffe::NamingMemory("the snapshot", [&] { solver.Snapshot(); });
    }
  } catch (const caffe::Error& error) {
    return caffe::Concat(stopped, " without a snapshot: ", error.what(),
                         "; until this process ends solver.net has the weights");
  }
  return caffe::Concat(stopped, "; to resume: ", ResumeLine(solver.last_snapshot()));
}

// Runs `train` with a progress bar up to iteration `last`. Returns the KeyboardInterrupt, if any.
template <class Train>
std::optional<py::error_already_set> RunInterruptibly(PythonSolver& solver, int64_t last,
                                                      bool shows, const Train& train) {
  struct Progress {
    explicit Progress(std::optional<caffe::TrainProgress>* bar) : bar(bar) {}
    ~Progress() { bar->reset(); }
    std::optional<caffe::TrainProgress>* const bar;
  } progress(&solver.callback.progress);
  if (shows) progress.bar->emplace(&solver, last, kProgressDelay);
  return solver.interruption.Answer(train);
}

// Step and Solve: after Ctrl-C or SIGTERM a snapshot is written before the exception is raised.
void Train(PythonSolver& solver, const py::object& progress, bool solves, int64_t iterations,
           const std::function<void()>& train) {
  const bool shows = WantsProgress(progress);
  std::string message;
  bool terminated = false;
  const std::optional<py::error_already_set> interrupt =
      [&]() -> std::optional<py::error_already_set> {
    const Computing computing(*Initialized(solver).net());
    struct Signals : TrainingSignals {
      explicit Signals(PythonSolver* solver) : solver(solver), outer(solver->signals) {
        solver->signals = this;
      }
      ~Signals() { solver->signals = outer; }
      PythonSolver* const solver;
      TrainingSignals* const outer;  // of a step whose callback calls step
    } signals(&solver);
    const caffe::SolverParameter& parameter = solver.param();
    const int64_t begin = solver.iter();
    bool returned = false;
    std::optional<py::error_already_set> stopped_by;
    try {
      stopped_by =
          RunInterruptibly(solver, solves ? parameter.max_iter() : begin + iterations, shows, [&] {
            train();
            returned = true;
          });
    } catch (const caffe::Error& error) {
      terminated = signals.terminated();
      if (!terminated) throw;
      message = error.what();
    }
    terminated = terminated || signals.terminated();
    if (message.empty() && (stopped_by || terminated)) {
      const bool regular = solver.iter() > begin && parameter.snapshot() > 0 &&
                           solver.iter() % parameter.snapshot() == 0;
      const bool last = solves && returned && parameter.snapshot_after_train();
      const bool written = (regular || last) && solver.last_snapshot_iter() == solver.iter();
      message = SnapshotAfterInterruption(solver, written);
    }
    SyncViews(solver);
    return stopped_by;
  }();
  if (!interrupt && !terminated) return;
  py::print(message, py::arg("file") = py::module_::import("sys").attr("stderr"));
  if (terminated) EndAfterTerminate();
  throw py::error_already_set(*interrupt);
}

double Step(PythonSolver& solver, const py::object& given, const py::object& progress) {
  const int64_t iterations = ToInteger(given, "step: the number of iterations");
  if (iterations < 0) {
    throw py::value_error(caffe::Concat("step: ", iterations, " iterations; give 0 or more"));
  }
  double loss = 0;
  Train(solver, progress, false, iterations, [&] {
    solver.Step(iterations);
    loss = solver.SmoothedLoss();
  });
  return loss;
}

void Solve(PythonSolver& solver, const py::object& resume, const py::object& progress) {
  const std::string path = resume.is_none() ? "" : ToFile(resume, "solve");
  Train(solver, progress, true, 0, [&] { solver.Solve(path); });
}

PythonNccl JoinNccl(PythonSolver& solver, const std::string& name) {
  const caffe::Replica replica = solver.net()->layers()[0]->context().replica;
  if (replica.ranks == 1) return {};
  const Computing computing(*Initialized(solver).net());
  CAFFE_CHECK(!solver.communicator, "caffe.NCCL: the solver has one already");
  caffe::Net& net = *solver.net();
  net.FollowDefaultDevice();
  solver.communicator = caffe::JoinProcesses(name, replica.ranks, replica.rank, net.device());
  try {
    solver.SetCommunicator(solver.communicator.get());
  } catch (const std::exception& error) {
    solver.communicator->Abort(error.what());
    throw;
  }
  return {};
}

// caffe.train. Returns the last solverstate.
py::object TrainOn(const py::object& given, const py::object& devices, const py::object& snapshot,
                   bool python_layers) {
  const caffe::SolverParameter parameter = Settings(given);
  const std::string resume = snapshot.is_none() ? "" : ToFile(snapshot, "train: the snapshot");
  std::vector<caffe::Device*> chosen;
  if (devices.is_none()) {
    chosen.push_back(caffe::Runtime::Get().default_device());
  } else {
    for (const py::handle& one : devices) {
      chosen.push_back(ToDevice(py::reinterpret_borrow<py::object>(one), "train"));
    }
    if (chosen.empty()) throw py::value_error("train: devices is empty");
  }
  Interruption interruption;
  std::string last;
  std::optional<py::error_already_set> interrupt;
  {
    const WithoutGil release;
    const auto train = [&](caffe::Communicator* communicator, caffe::Device* device) {
      const bool first = communicator->rank() == 0;
      caffe::SolverParameter own = parameter;
      own.set_random_seed(caffe::JointSeed(communicator, own.random_seed()));
      Solver solver(own, device, python_layers);
      solver.set_frees_memory(true);
      if (first) {
        solver.SetActionFunction([&] {
          interruption.Check();
          return interruption.action();
        });
      }
      solver.SetResumeLine([](const std::string& state) {
        return caffe::Concat("caffe.train(…, snapshot='", state, "')");
      });
      solver.SetCommunicator(communicator);
      if (!resume.empty()) solver.Restore(resume);
      solver.Solve();
      if (first) last = solver.last_snapshot();
    };
    interrupt = interruption.Answer([&] {
      const caffe::JobRank job = caffe::RankInJob();
      if (job.ranks > 1) {
        caffe::RunInJob(chosen[job.local_rank % chosen.size()], train);
      } else {
        caffe::RunRanks(chosen, train);
      }
    });
  }
  if (interrupt) throw py::error_already_set(*interrupt);
  if (last.empty()) return py::none();
  return PathObject(last);
}

// Changes base_lr so that base_lr times the policy's factor is `rate`.
void SetRate(PythonSolver& solver, double rate) {
  if (!(rate >= 0) || std::isinf(rate)) {
    throw py::value_error(caffe::Concat("lr is ", rate, "; a learning rate is 0 or more"));
  }
  const std::lock_guard lock(*Initialized(solver).lock);
  auto& parameter = const_cast<caffe::SolverParameter&>(solver.param());
  const float before = parameter.base_lr();
  parameter.set_base_lr(1);
  const double factor = solver.Rate();
  parameter.set_base_lr(before);
  if (factor == 0 && rate != 0) {
    throw py::value_error(caffe::Concat(
        "lr: policy ", parameter.lr_policy(), " makes the rate 0 at iteration ", solver.iter(),
        " for every base_lr; change solver.param (lr_policy, power, max_iter)"));
  }
  parameter.set_base_lr(static_cast<float>(factor == 0 ? 0 : rate / factor));
}

}  // namespace

void BindSolver(py::module_& module) {
  py::class_<PythonSolver>(
      module, "Solver",
      "Trains a net. Created by caffe.get_solver, or as caffe.SGDSolver,\n"
      "AdamSolver, … from a prototxt or a SolverParameter. If several threads\n"
      "use a solver and its nets, one runs at a time.")
      .def_property_readonly(
          "net",
          [](const py::object& self) {
            return NetObject(*Initialized(self.cast<PythonSolver&>()).net(), self);
          },
          "The net that is trained, a caffe.Net.")
      .def_property(
          "frees_memory", [](PythonSolver& solver) { return Initialized(solver).frees_memory(); },
          [](PythonSolver& solver, bool value) { Initialized(solver).set_frees_memory(value); },
          "Whether step() and solve() free data and gradients of blobs after their last use, "
          "bool,\n"
          "as the command caffe train does. False: the blobs of net can be read after a step.")
      .def_property_readonly(
          "memory",
          [](PythonSolver& solver) {
            const caffe::MemoryNeeds needs = Initialized(solver).net()->memory_needs();
            py::dict memory = MemoryDict(needs);
            memory["history"] = solver.history_bytes();
            memory["total"] = needs.total() + solver.history_bytes();
            return memory;
          },
          "Bytes that training needs on the device of the net: those of net.memory and of the\n"
          "solver's history, a dict of int. Test nets are not included.")
      .def_property_readonly(
          "test_nets",
          [](const py::object& self) {
            py::list nets;
            for (const auto& net : Initialized(self.cast<PythonSolver&>()).test_nets()) {
              nets.append(NetObject(*net, self));
            }
            return nets;
          },
          "The test nets, a list of caffe.Net; each test copies the weights to them.")
      .def_property_readonly(
          "iter", [](const PythonSolver& solver) { return Initialized(solver).iter(); },
          "The number of finished iterations, int.")
      .def_property_readonly(
          "max_iter",
          [](const PythonSolver& solver) { return Initialized(solver).param().max_iter(); },
          "The iteration at which solve() ends, int.")
      .def_property_readonly(
          "type", [](const PythonSolver& solver) { return Initialized(solver).type(); },
          "The update rule, str: SGD, Adam, …")
      .def_property_readonly(
          "param", [](const PythonSolver& solver) { return &Initialized(solver).param(); },
          py::return_value_policy::reference_internal,
          "The settings, a caffe.SolverParameter. Changes of base_lr, lr_policy and its\n"
          "parameters, display, snapshot and max_iter take effect at once.")
      .def("step", &Step, py::arg("iterations"), py::arg("progress") = py::none(),
           "Trains for `iterations` (0 or more) and returns the smoothed loss, float: the mean of\n"
           "the last average_loss iterations of this call; 0.0 for step(0).\n\n"
           "progress: True draws a progress bar on standard error, False does not. None draws it\n"
           "if standard error is a terminal and the call takes longer than half a second.\n\n"
           "Ctrl-C finishes the iteration, writes a snapshot if snapshot_prefix can be written,\n"
           "prints how to resume and raises KeyboardInterrupt. A second Ctrl-C ends at once,\n"
           "without a snapshot. SIGTERM does the same and raises SystemExit with status 143; in\n"
           "another thread than the main one it then ends the process. SIGHUP writes a snapshot.\n"
           "Signals for which the script has a handler, or that are ignored, are left alone.\n\n"
           "ValueError for a negative number, RuntimeError for errors of layers.")
      .def("solve", &Solve, py::arg("resume") = py::none(), py::arg("progress") = py::none(),
           "Trains up to max_iter, with the tests and snapshots of the settings, from the current\n"
           "iteration or from that of `resume`, a solverstate's path. For progress and Ctrl-C see\n"
           "step.")
      .def(
          "restore",
          [](PythonSolver& solver, const py::object& given) {
            const std::string path = ToFile(given, "restore");
            const Computing computing(*Initialized(solver).net());
            caffe::NamingMemory(path, [&] { solver.Restore(path); });
            SyncViews(solver);
          },
          py::arg("path"),
          "Resumes from a solverstate: iteration, weights, history, positions in the data.\n\n"
          "The weights are those next to the solverstate, else those of the path that it has.\n"
          "RuntimeError if a file cannot be read or does not fit, or if the weights were not\n"
          "written with the solverstate; nothing has changed then.")
      .def(
          "snapshot",
          [](PythonSolver& solver) {
            {
              const Computing computing(*Initialized(solver).net());
              solver.net()->TakeViews();
              caffe::NamingMemory("the snapshot", [&] { solver.Snapshot(); });
            }
            return PathObject(solver.last_snapshot());
          },
          "Writes <snapshot_prefix>_iter_<iteration>.caffemodel and .solverstate, and returns the\n"
          "path of the latter, str.\n\n"
          "RuntimeError without a snapshot_prefix, or if the files cannot be written.")
      .def(
          "apply_update",
          [](PythonSolver& solver) {
            const Computing computing(*Initialized(solver).net());
            solver.ApplyUpdate();
            SyncViews(solver);
          },
          "Updates the parameters by the gradients in their diffs, and counts an iteration.")
      .def_property(
          "lr", [](const PythonSolver& solver) { return Initialized(solver).Rate(); }, &SetRate,
          "The learning rate of the current iteration, float.\n\n"
          "Setting it changes param.base_lr so that the current iteration has this rate; "
          "lr_policy\n"
          "continues from it. ValueError for negative rates and if the policy's factor is 0.")
      .def(
          "share_weights",
          [](PythonSolver& solver, caffe::Net& net) {
            const std::lock_guard lock(*LockOf(net));
            Initialized(solver).lock->WaitUntilIdle();
            net.ShareTrainedLayersWith(*solver.net());
          },
          py::arg("net"),
          "Makes a net share the memory of the parameters of the trained net's layers with the\n"
          "same names.")
      .def(
          "add_callback",
          [](PythonSolver& solver, const py::function& on_start,
             const py::function& on_gradients_ready) {
            Initialized(solver).lock->WaitUntilIdle();
            solver.callback.starts.push_back(on_start);
            solver.callback.gradients.push_back(on_gradients_ready);
          },
          py::arg("on_start"), py::arg("on_gradients_ready"),
          "Calls on_start() before the forward of every iteration, on_gradients_ready() between\n"
          "backward and update. An exception ends step and solve.")
      .def(
          "add_callback", [](PythonSolver&, const PythonNccl&) {}, py::arg("nccl"),
          "Kept for scripts of BVLC Caffe; has no effect: caffe.NCCL(solver, uid) is enough.");
  py::class_<PythonNccl>(
      module, "NCCL",
      "Makes a solver one of those that train together: processes of one machine\n"
      "that a script starts, such as BVLC Caffe's train.py.")
      .def(py::init([](PythonSolver& solver, const py::object& uid) {
             const std::string name = py::isinstance<py::bytes>(uid)
                                          ? uid.cast<std::string>()
                                          : py::str(uid).cast<std::string>();
             return JoinNccl(solver, name);
           }),
           py::arg("solver"), py::arg("uid"),
           "From now on gradients are summed over all set_solver_count() processes that give this\n"
           "uid, and weights are those of rank 0. Waits for all of them. Set the count and the\n"
           "rank before the solver is made. RuntimeError if the solvers are not replicas.")
      .def(
          "bcast", [](const PythonNccl&) {},
          "Kept for scripts of BVLC Caffe; has no effect: the constructor has done this.")
      .def_static(
          "new_uid",
          [] {
            std::random_device device;
            char text[40];
            std::snprintf(text, sizeof(text), "%08x%08x%08x%08x", device(), device(), device(),
                          device());
            return py::bytes(text);
          },
          "A new name of a group of processes, bytes.");
  module.def(
      "train", &TrainOn, py::arg("solver"), py::arg("devices") = py::none(),
      py::arg("snapshot") = py::none(), py::arg("python_layers") = true,
      "Trains on several devices at a time, with a thread and a net for each: gradients are\n"
      "summed, and each reads its share of the data in batches of batch_size.\n\n"
      "devices: names or numbers, as for set_device, or caffe.Devices. In a process that\n"
      "mpirun or srun started, the one of its rank on its machine is used, and all processes\n"
      "train together. snapshot: a solverstate from which training goes on, also with\n"
      "another number of devices. Returns the path of the last solverstate, or None.\n"
      "RuntimeError that names the rank that failed.");
  BindTyped<0>(module);
  BindTyped<1>(module);
  BindTyped<2>(module);
  BindTyped<3>(module);
  BindTyped<4>(module);
  BindTyped<5>(module);
  module.def("get_solver", &GetSolver, py::arg("solver"), py::arg("python_layers") = true,
             "Creates a solver of the type in the settings: a prototxt's path, a\n"
             "caffe.SolverParameter or a caffe_pb2.SolverParameter. RuntimeError if the settings\n"
             "are invalid.");
  module.def("get_solver_from_file", &GetSolver, py::arg("path"), py::arg("python_layers") = true,
             "The OpenCL fork's name of get_solver.");
}
