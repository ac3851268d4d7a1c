#include "fuzz/support/target.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace caffe::fuzz {

namespace fs = std::filesystem;

std::vector<Target>& Targets() {
  static std::vector<Target> targets;
  return targets;
}

bool Run(const Target& target, std::string_view bytes) {
  try {
    target.run(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Fault(const std::string& text) {
  std::fprintf(stderr, "fault: %s\n", text.c_str());
  std::abort();
}

std::string ReadInput(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Fault("no file " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string RepositoryFile(const std::string& path) {
  return ReadInput((fs::path(CAFFE_SOURCE_DIR) / path).string());
}

bool HasFolder(const std::string& path) {
  return fs::is_directory(fs::path(CAFFE_SOURCE_DIR) / path);
}

std::vector<Input> RepositoryFiles(const std::string& folder, std::string_view end) {
  std::vector<Input> inputs;
  const fs::path root(CAFFE_SOURCE_DIR);
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string path = fs::relative(entry.path(), root).string();
    if (!entry.is_regular_file() || !path.ends_with(end)) continue;
    std::string name = path;
    std::ranges::replace(name, '/', '_');
    inputs.push_back({name, RepositoryFile(path)});
  }
  std::ranges::sort(inputs, {}, &Input::name);
  return inputs;
}

const std::string& Folder() {
  struct Own {
    std::string path;
    Own() {
      // In memory where that exists: a disk limits the number of cases.
      const char* base = std::getenv("TMPDIR");
      if (!base || !*base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
      path = std::string(base) + "/caffe-fuzz-XXXXXX";
      if (!mkdtemp(path.data())) Fault("cannot make a folder in " + std::string(base));
    }
    ~Own() {
      std::error_code error;
      fs::remove_all(path, error);
    }
  };
  static const Own own;
  return own.path;
}

std::string WriteInput(const std::string& name, std::string_view bytes) {
  const std::string path = Folder() + "/" + name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) Fault("cannot write " + path);
  return path;
}

}  // namespace caffe::fuzz
