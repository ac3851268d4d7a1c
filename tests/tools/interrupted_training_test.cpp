#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"
#include "tools/command_process.hpp"

// `caffe train` in a process of its own that signals stop.
namespace caffe {
namespace {

class InterruptedTrainingTest : public testing::TestWithParam<int> {
 protected:
  // The processes log as they do by default.
  void SetUp() override {
    for (const char* variable : {"CAFFE_LOG", "GLOG_minloglevel", "GLOG_stderrthreshold"}) {
      unsetenv(variable);
    }
  }
  // Trains without end. `extent` squared is the number of parameters.
  std::string Solver(int extent, const std::string& more) const {
    const std::string net = Concat(
        "layer { name: 'data' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: "
        "1 "
        "dim: ",
        extent, " } shape { dim: 1 dim: ", extent,
        " } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'z' inner_product_param { "
        "num_output: ",
        extent,
        " } } layer { name: 'loss' type: 'EuclideanLoss' bottom: 'z' bottom: 'y' top: 'loss' }");
    folder_.Put("my net.prototxt", net);
    return folder_.Put("my solver.prototxt",
                       Concat("net: '", folder_ / "my net.prototxt", "' base_lr: 0.01 ",
                              "lr_policy: 'fixed' display: 1 max_iter: 100000000 type: 'Adam' ",
                              "snapshot_prefix: '", folder_ / "s", "' ", more));
  }
  std::string Log() const { return folder_.Get("log"); }
  static bool Soon(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool Trains(CommandProcess* command) const {
    return Soon([&] { return !command->Runs() || Holds(Log(), "] Iteration 2 ("); }) &&
           command->Runs();
  }
  // Whether the folder has a file whose name holds `part`.
  bool HasFile(const std::string& part) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().find(part) != std::string::npos) return true;
    }
    return false;
  }
  // The line after "To resume".
  std::string ResumeLine() const {
    const std::string log = Log(), before = "To resume from the last snapshot:\n  ";
    const size_t begin = log.find(before);
    if (begin == std::string::npos) return "";
    const size_t first = begin + before.size();
    return log.substr(first, log.find('\n', first) - first);
  }

  TemporaryFolder folder_;
};

const char* NameOf(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

TEST_P(InterruptedTrainingTest, WritesASnapshotAndPrintsTheLineThatResumes) {
  const int signal = GetParam();
  const std::string solver = Solver(8, "");
  CommandProcess command({"train", "-solver", solver, "--gpu=cpu", "--noprogress",
                          "-sighup_effect=stop", "-weights", ""},
                         folder_ / "log");
  ASSERT_TRUE(Trains(&command)) << Log();
  command.Send(signal);
  EXPECT_EQ(128 + signal, command.Wait()) << Log();
  EXPECT_TRUE(Holds(Log(), Concat("Training was stopped by ", NameOf(signal), " at iteration ")));
  EXPECT_TRUE(HasFile(".solverstate"));
  const std::string line = ResumeLine();
  EXPECT_TRUE(Holds(line, Concat(CAFFE_BINARY_DIR "/tools/caffe train -solver '", solver, "'")));
  EXPECT_TRUE(Holds(line, " -gpu cpu"));
  EXPECT_TRUE(Holds(line, " --progress=false"));

  // As printed it goes on from there, now to an end.
  const std::string stopped = line.substr(line.rfind("_iter_") + 6);
  const int64_t iteration = std::stoll(stopped);
  EXPECT_GT(iteration, 0);
  std::string text = folder_.Get("my solver.prototxt");
  text.replace(text.find("100000000"), 9, Concat(iteration + 3));
  folder_.Put("my solver.prototxt", text);
  EXPECT_EQ(0, std::system((line + " 2>" + (folder_ / "resumed")).c_str())) << line;
  const std::string resumed = folder_.Get("resumed");
  EXPECT_TRUE(Holds(resumed, Concat("] Iteration ", iteration, " (")));
  EXPECT_FALSE(Holds(resumed, "] Iteration 0 ("));
  EXPECT_FALSE(Holds(resumed, "To resume")) << "it has finished";
  EXPECT_TRUE(HasFile(Concat("s_iter_", iteration + 3, ".solverstate")));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedTrainingTest, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) { return NameOf(info.param); });

using InterruptionTest = InterruptedTrainingTest;

// The line does not depend on the level of the log, and names the newest file there is.
TEST_F(InterruptionTest, WithoutASnapshotAtTheEndAndWithoutLogLines) {
  const std::string solver = Solver(8, "snapshot: 1 snapshot_after_train: false");
  CommandProcess command({"train", "-solver", solver, "-gpu", "cpu", "-minloglevel=2"},
                         folder_ / "log");
  ASSERT_TRUE(Soon([&] { return HasFile("_iter_3.solverstate"); })) << Log();
  command.Send(SIGTERM);
  EXPECT_EQ(143, command.Wait());
  const std::string line = ResumeLine(), snapshot = line.substr(line.rfind(' ') + 1);
  EXPECT_TRUE(std::filesystem::exists(snapshot)) << line;
  EXPECT_TRUE(
      Holds(Log(), Concat("at iteration ", snapshot.substr(snapshot.rfind("_iter_") + 6, 1))));

  folder_.Put("log", "");
  Solver(8, "snapshot_after_train: false");
  CommandProcess none({"train", "-solver", solver, "-gpu", "cpu"}, folder_ / "log");
  ASSERT_TRUE(Trains(&none)) << Log();
  none.Send(SIGINT);
  EXPECT_EQ(130, none.Wait());
  EXPECT_TRUE(Holds(Log(), "There is no snapshot to resume from: snapshot_after_train is false."));
}

TEST_F(InterruptionTest, EffectsOfSigterm) {
  const std::string solver = Solver(8, "");
  CommandProcess command({"train", "-solver", solver, "-gpu=cpu", "-sigterm_effect", "snapshot"},
                         folder_ / "log");
  ASSERT_TRUE(Trains(&command)) << Log();
  command.Send(SIGTERM);
  ASSERT_TRUE(Soon([&] { return HasFile(".solverstate") && !HasFile(".tmp."); }));
  EXPECT_TRUE(command.Runs());
  EXPECT_FALSE(Holds(Log(), "SIGTERM: stopping"));
}

// While the last snapshot is written: SIGTERM waits for it, SIGINT does not.
TEST_F(InterruptionTest, ASecondSignalWhileTheSnapshotIsWritten) {
  const std::string solver = Solver(3000, "");
  for (int round = 0; round < 3; ++round) {
    CommandProcess command({"train", "-solver", solver, "-gpu=cpu"}, folder_ / "log");
    ASSERT_TRUE(Trains(&command)) << Log();
    command.Send(SIGTERM);
    ASSERT_TRUE(Soon([&] { return !command.Runs() || HasFile(".tmp."); }));
    for (int i = 0; i < 5; ++i) command.Send(SIGTERM);
    EXPECT_EQ(143, command.Wait()) << Log();
    EXPECT_TRUE(std::filesystem::exists(
        [](const std::string& line) { return line.substr(line.rfind(' ') + 1); }(ResumeLine())));
    EXPECT_FALSE(HasFile(".tmp."));
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("s_iter_")) {
        std::filesystem::remove(entry.path());
      }
    }
    folder_.Put("log", "");
  }
  bool ended = false;
  for (int round = 0; round < 10 && !ended; ++round) {
    CommandProcess command({"train", "-solver", solver, "-gpu=cpu"}, folder_ / "log");
    ASSERT_TRUE(Trains(&command)) << Log();
    command.Send(SIGINT);
    ASSERT_TRUE(Soon([&] { return !command.Runs() || HasFile(".tmp."); }));
    command.Send(SIGINT);
    EXPECT_TRUE(command.Wait() == 130 || command.ended_by() == SIGINT) << Log();
    EXPECT_TRUE(Holds(Log(), "SIGINT: stopping after this iteration."));
    ended = command.ended_by() == SIGINT;
    if (!ended) {
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        if (entry.path().filename().string().starts_with("s_iter_")) {
          std::filesystem::remove(entry.path());
        }
      }
    }
    folder_.Put("log", "");
  }
  ASSERT_TRUE(ended) << "never while a file was written";
  // A file that has its name is whole.
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".caffemodel")) continue;
    EXPECT_EQ(3000 * 3000, ReadNetParameterBinary(path).layer(1).blobs(0).data_size());
  }
}

// The text that `caffe` prints on a terminal.
std::string OnATerminal(const std::vector<std::string>& arguments,
                        const std::vector<std::pair<std::string, std::string>>& environment,
                        int* status) {
  std::vector<std::string> words = {CAFFE_BINARY_DIR "/tools/caffe"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(terminal, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  close(terminal);
  int result = 0;
  waitpid(child, &result, 0);
  *status = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
  return text;
}

TEST_F(InterruptionTest, ATerminalShowsTheBarWhateverTheLevelIs) {
  std::string text = Solver(8, "");
  std::string solver = folder_.Get("my solver.prototxt");
  solver.replace(solver.find("100000000"), 9, "40000");
  folder_.Put("my solver.prototxt", solver);
  int status = -1;
  text = OnATerminal({"train", "-solver", text, "-gpu", "cpu"},
                     {{"CAFFE_LOG", "warning"}, {"TERM", "xterm"}}, &status);
  EXPECT_EQ(0, status) << text;
  EXPECT_TRUE(Holds(text, "/40000  "));
  EXPECT_TRUE(Holds(text, " it/s"));
  EXPECT_TRUE(Holds(text, "ETA 0:0"));
  EXPECT_FALSE(Holds(text, "] Iteration"));
}

TEST_F(InterruptionTest, ATerminalShowsResultsOnce) {
  Solver(8, "");
  for (const char* level : {"info", "warning"}) {
    int status = -1;
    const std::string text =
        OnATerminal({"time", "-model", folder_ / "my net.prototxt", "-gpu", "cpu", "-iterations=1"},
                    {{"CAFFE_LOG", level}, {"TERM", "xterm"}}, &status);
    EXPECT_EQ(0, status) << text;
    const std::string line = "Average Forward pass: ";
    const size_t first = text.find(line);
    ASSERT_NE(std::string::npos, first) << text;
    EXPECT_EQ(std::string::npos, text.find(line, first + 1)) << text;
  }
}

}  // namespace
}  // namespace caffe
