#include "host_compiler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/host_level.hpp"
#include "trusted_path.hpp"

extern char** environ;

namespace caffe {
namespace {

namespace fs = std::filesystem;

// A folder that is removed with its files. Code is loaded from it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string why;
    path_ = MakeTemporaryFolder("caffe-text", &why);
    CAFFE_CHECK(!path_.empty(), "there is no folder for what a compiler makes; set TMPDIR to a ",
                "folder that only you can write:\n", why);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  errno = 0;
  file << text;
  CAFFE_CHECK(file.flush(), "cannot write ", path.string(), ": ", std::strerror(errno),
              "; make room there, or set TMPDIR to another folder that only you can write");
}

// Runs a command without a shell; its messages go to `log`, and its temporary files to `folder`.
// The exit status; -1 if there is no such command.
int Run(std::vector<std::string> command, const fs::path& log, const fs::path& folder) {
  std::vector<char*> arguments, variables;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string temporary = "TMPDIR=" + folder.string();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).substr(0, 7) != "TMPDIR=") variables.push_back(*variable);
  }
  variables.insert(variables.end(), {temporary.data(), nullptr});
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

// CAFFE_CXX alone, or the usual names.
std::vector<std::string> Compilers() {
  const char* chosen = std::getenv("CAFFE_CXX");
  if (chosen && *chosen) return {chosen};
  return {"c++", "g++", "clang++"};
}

}  // namespace

std::string HostCompilerOptions() {
  // Results do not depend on the level.
  const std::string& level = HostLevel();
  const std::string instructions = level == "v2"   ? "-msse4.2"
                                   : level == "v3" ? "-mavx2"
                                   : level == "v4"
                                       ? "-mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl "
                                         "-mprefer-vector-width=512"
                                       : "";
  return "-O3 -fopenmp-simd -ffp-contract=off -fno-trapping-math -fno-math-errno -fPIC -shared "
         "-Werror=return-type " +
         instructions;
}

std::optional<HostLibrary> CompileHostLibrary(const std::string& source,
                                              const std::string& options) {
  const TemporaryFolder folder;
  const fs::path text = folder / "text.cpp", library = folder / "text.so", log = folder / "log";
  Write(text, source);
  for (const std::string& compiler : Compilers()) {
    std::vector<std::string> command{compiler};
    std::istringstream words(options);
    for (std::string word; words >> word;) command.push_back(word);
    command.insert(command.end(), {"-o", library.string(), text.string()});
    const int status = Run(command, log, folder.path());
    if (status < 0) continue;
    HostLibrary made;
    made.compiler = compiler;
    made.compiled = status == 0;
    made.log = Contents(log);
    if (made.compiled) made.bytes = Contents(library);
    return made;
  }
  return std::nullopt;
}

std::string HostCompilerName() { return Compilers()[0]; }

DynamicLibrary OpenHostLibrary(const std::string& bytes, const std::string& what) {
  const TemporaryFolder folder;
  const fs::path path = folder / "text.so";
  Write(path, bytes);
  std::string why;
  const auto opened = DynamicLibrary::Open({path.string()}, &why);
  CAFFE_CHECK(opened, what, ": cannot load what a compiler made of its texts: ", why);
  return *opened;
}

}  // namespace caffe
