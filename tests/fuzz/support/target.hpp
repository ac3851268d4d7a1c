#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "caffe/core/error.hpp"

// A fuzz target is one file of tests/fuzz that registers itself. tools/fuzz.sh links it with
// libFuzzer, and replay_test.cpp runs all of them over what is known, with the normal compiler.
namespace caffe::fuzz {

struct Input {
  std::string name;  // of the file that --write-seeds writes
  std::string bytes;
};

struct Target {
  const char* name;  // that of its file
  // Reads the bytes as a user's data. It may throw caffe::Error, which is how bad data is refused.
  // It ends the process (a signal, another exception, Fault) if a promise is broken.
  void (*run)(std::string_view bytes);
  // Sound inputs, made by the project's own writers and from its own files.
  std::vector<Input> (*seeds)();
  // Words that inputs hold; may be null.
  std::vector<std::string> (*words)() = nullptr;
  // Changes an input where its structure allows it, to at most `most` bytes; null: libFuzzer's own
  // mutations.
  std::string (*mutate)(std::string_view bytes, size_t most, uint32_t seed) = nullptr;
};

// All targets of this program, by name.
std::vector<Target>& Targets();

struct Registration {
  explicit Registration(const Target& target) { Targets().push_back(target); }
};

// Runs the target; true if the input was taken, false if it was refused with caffe::Error.
bool Run(const Target& target, std::string_view bytes);

// Ends the process with a text: a promise is broken. The process ends, because the input is kept.
[[noreturn]] void Fault(const std::string& text);

// A file of the project, by its path in the repository.
std::string RepositoryFile(const std::string& path);
// Whether the repository has this folder.
bool HasFolder(const std::string& path);
// The files of a folder of the repository, and of the folders in it, whose names end so, as inputs.
std::vector<Input> RepositoryFiles(const std::string& folder, std::string_view end);

// A private folder, empty when the process starts and removed when it ends.
const std::string& Folder();
// A file of that folder with this content; returns its path. A later call overwrites it.
std::string WriteInput(const std::string& name, std::string_view bytes);
// The content of a file that a target wrote.
std::string ReadInput(const std::string& path);

}  // namespace caffe::fuzz
