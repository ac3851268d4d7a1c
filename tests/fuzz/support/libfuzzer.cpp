// The entry points of libFuzzer for the one target that is linked with it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fuzz/support/target.hpp"

namespace {

const caffe::fuzz::Target& Only() {
  const auto& targets = caffe::fuzz::Targets();
  if (targets.size() != 1) caffe::fuzz::Fault("a fuzz target must be linked alone");
  return targets.front();
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) caffe::fuzz::Fault("cannot write " + path.string());
}

// Quotes a word for a dictionary of libFuzzer.
std::string Quoted(const std::string& word) {
  std::string text = "\"";
  for (const unsigned char c : word) {
    char code[8];
    const bool plain = c >= 32 && c < 127 && c != '"' && c != '\\';
    std::snprintf(code, sizeof(code), plain ? "%c" : "\\x%02X", c);
    text += code;
  }
  return text + "\"\n";
}

}  // namespace

// `fuzz_<target> --write-seeds FOLDER DICTIONARY` writes the seeds and the dictionary, and ends.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const caffe::fuzz::Target& target = Only();
  if (*argc != 4 || std::strcmp((*argv)[1], "--write-seeds") != 0) return 0;
  const std::filesystem::path folder = (*argv)[2];
  std::filesystem::create_directories(folder);
  for (const auto& seed : target.seeds()) WriteFile(folder / seed.name, seed.bytes);
  std::string words;
  if (target.words) {
    for (const std::string& word : target.words()) words += Quoted(word);
  }
  WriteFile((*argv)[3], words);
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  caffe::fuzz::Run(Only(), {reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  const caffe::fuzz::Target& target = Only();
  // One input in four is changed blindly, so that damage outside the structure is seen, too.
  if (!target.mutate || seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string changed =
      target.mutate({reinterpret_cast<const char*>(data), size}, most, seed);
  if (changed.size() > most || changed.empty()) return LLVMFuzzerMutate(data, size, most);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
