// The command line of `caffe` and of the data tools, and flagfiles. Nothing runs.
#include <algorithm>

#include "caffe/core/log_settings.hpp"
#include "commands/flags.hpp"
#include "commands/options.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

constexpr std::string_view kFile = "FLAGFILE";  // stands for a path in arguments and in the file

std::string WithPath(std::string text, const std::string& path) {
  for (size_t at = text.find(kFile); at != text.npos; at = text.find(kFile, at + path.size())) {
    text.replace(at, kFile.size(), path);
  }
  return text;
}

// An argument in each line; the lines behind an empty one are a flagfile.
void Parse(std::string_view bytes) {
  const std::string path = Folder() + "/flags";
  const size_t cut = bytes.find("\n\n");
  WriteInput("flags", WithPath(std::string(cut == bytes.npos ? "" : bytes.substr(cut + 2)), path));
  std::vector<std::string> arguments;
  for (std::string_view rest = bytes.substr(0, cut); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    arguments.push_back(WithPath(std::string(rest.substr(0, end)), path));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Options options = ParseOptions(arguments);
  // The flags in one spelling, and the rest behind them, are read to the same options.
  std::vector<std::string> again = options.flags;
  again.push_back("--");
  if (!options.command.empty() || !options.arguments.empty()) again.push_back(options.command);
  again.insert(again.end(), options.arguments.begin(), options.arguments.end());
  const Options copy = ParseOptions(again);
  if (copy.flags != options.flags || copy.command != options.command ||
      copy.arguments != options.arguments || copy.log_settings != options.log_settings) {
    Fault("the options change");
  }
  for (const auto& [name, value] : options.log_settings) {
    if (name == "vmodule") log::Set(name, value);  // the only one with a syntax of its own
  }
  log::Set("vmodule", "");
}

std::vector<Input> Seeds() {
  return {
      {"train", "train\n-solver\ns.prototxt\n--weights=a,b\n-sigint_effect=stop\n--noprogress"},
      {"time",
       "time\n-model=m\n-gpu\n0\n-phase\nTEST\n-iterations=5\n-stage=a,b\n-level=-1\n--json"},
      {"quantize",
       "quantize\n-type=int8\n-mean=1,2\n-scale=0.5\n-held-out=3\n-max_drop=1e-3\n-bgr"},
      {"benchmark", "benchmark\n-models=a\n-batches=1,2\n-seconds=0.5\n-v=2\n-vmodule=a=1,b*=2"},
      {"file", "test\n--flagfile=FLAGFILE\n--\n-x\n\n# a comment\n-model=m\n  --iterations=3 \r\n"},
      {"files", "--flagfile\nFLAGFILE,FLAGFILE\n\n-nolt"}};
}

std::vector<std::string> Words() {
  std::vector<std::string> words{
      std::string(kFile), "\n--flagfile=FLAGFILE", "\n\n", "--", "-no", "="};
  for (const char* command : {"train", "test", "time", "quantize", "transform", "benchmark"}) {
    std::string help = FlagHelp(command);
    for (size_t at = help.find("  -"); at != help.npos; at = help.find("\n  -", at + 1)) {
      const size_t begin = help.find('-', at);
      words.push_back("\n" + help.substr(begin, help.find(' ', begin) - begin));
    }
  }
  for (const log::SettingName& setting : log::SettingNames()) words.push_back("\n-" + setting.name);
  return words;
}

const Registration registration({.name = "flags", .run = Parse, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
