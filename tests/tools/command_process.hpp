#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

extern char** environ;

namespace caffe {

// `caffe` in a process of its own; it is killed at the latest with this object.
class CommandProcess {
 public:
  // Standard output and standard error are appended to the file `log`.
  CommandProcess(const std::vector<std::string>& arguments, const std::string& log);
  ~CommandProcess() { Kill(); }
  CommandProcess(const CommandProcess&) = delete;
  CommandProcess& operator=(const CommandProcess&) = delete;

  bool Runs();
  void Send(int signal);
  // Whether it was still there to be killed.
  bool Kill();
  // Its exit status; -1 if a signal ended it or it did not start.
  int Wait();
  // The signal that ended it; 0: none.
  int ended_by() const;

 private:
  pid_t child_ = -1;
  int status_ = 0x100;  // as of exit(1)
};

inline CommandProcess::CommandProcess(const std::vector<std::string>& arguments,
                                      const std::string& log) {
  std::vector<std::string> words = {CAFFE_BINARY_DIR "/tools/caffe"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&files, descriptor, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0666);
  }
  if (posix_spawn(&child_, words[0].c_str(), &files, nullptr, pointers.data(), environ) != 0) {
    child_ = -1;
  }
  posix_spawn_file_actions_destroy(&files);
}

inline bool CommandProcess::Runs() {
  if (child_ > 0 && waitpid(child_, &status_, WNOHANG) == child_) child_ = -1;
  return child_ > 0;
}

inline void CommandProcess::Send(int signal) {
  if (child_ > 0) kill(child_, signal);
}

inline bool CommandProcess::Kill() {
  if (child_ <= 0) return false;
  kill(child_, SIGKILL);
  Wait();
  return ended_by() == SIGKILL;
}

inline int CommandProcess::Wait() {
  if (child_ > 0) waitpid(child_, &status_, 0);
  child_ = -1;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
}

inline int CommandProcess::ended_by() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }

}  // namespace caffe
