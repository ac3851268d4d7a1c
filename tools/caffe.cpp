#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "commands/commands.hpp"

namespace {

// A thread of GCC's OpenMP that waits for work runs through a loop this many times before it
// sleeps. With the default, 300,000, it takes the cores that it waits for away from itself while
// other processes use them, too. The package of Python sets the same number.
constexpr const char* kRounds = "2000";

// OpenMP reads its variables when it is loaded, which is before main: the program starts once more.
void BoundWaiting(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", kRounds, 1) != 0) return;
  execv(program.c_str(), arguments);
  unsetenv("GOMP_SPINCOUNT");  // it could not be started; this one goes on
}

}  // namespace

int main(int argc, char** argv) {
  BoundWaiting(argv);
  return caffe::CaffeMain({argv + 1, argv + argc}, argv[0]);
}
