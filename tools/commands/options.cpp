#include "commands/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "commands/flags.hpp"

namespace caffe {
namespace {

// Flags of glog. Scripts give them; the log always goes to standard error.
const std::vector<FlagSpec>& LogFlags() {
  static const std::vector<FlagSpec> flags{{"logtostderr", true},
                                           {"alsologtostderr", true},
                                           {"colorlogtostderr", true},
                                           {"log_prefix", true},
                                           {"stderrthreshold"},
                                           {"minloglevel"},
                                           {"log_dir"},
                                           {"v"},
                                           {"vmodule"},
                                           {"max_log_size"},
                                           {"logbufsecs"}};
  return flags;
}

// What is wrong with a count, as CLI11 wants it; empty: nothing.
std::string Positive(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value > 0) return "";
  return "'" + text + "' is not a positive whole number";
}

struct Parser {
  Options options;
  std::string stage;
  int minloglevel = 0;
  CLI::App app;

  Parser() {
    app.set_help_flag();
    app.add_option("--solver", options.solver, "train: the solver, a prototxt")->type_name("FILE");
    app.add_option("--model", options.model, "test, time: the net, a prototxt")->type_name("FILE");
    app.add_option("--weights", options.weights,
                   "weights: caffemodels, also in HDF5, separated by commas; the last one counts")
        ->type_name("FILE");
    app.add_option("--snapshot", options.snapshot, "train: the solverstate to resume from")
        ->type_name("FILE");
    app.add_option("--gpu", options.gpu,
                   "the device: a number or name as device_query prints them, or cpu, or all; "
                   "unset: as the solver says, else the best device")
        ->type_name("DEVICE");
    app.add_option("--phase", options.phase, "time: TRAIN (default) or TEST")
        ->type_name("PHASE")
        ->check(CLI::IsMember({"TRAIN", "TEST"}));
    app.add_option("--level", options.level, "level of the net's state");
    app.add_option("--stage", stage, "stages of the net's state, separated by commas")
        ->type_name("LIST");
    app.add_option("--iterations", options.iterations, "test, time: how many (default 50)")
        ->check(Positive);
    const CLI::IsMember actions({"snapshot", "stop", "none"});
    app.add_option("--sigint_effect", options.sigint_effect,
                   "train: on SIGINT snapshot, stop (default) or none")
        ->type_name("ACTION")
        ->check(actions);
    app.add_option("--sighup_effect", options.sighup_effect,
                   "train: on SIGHUP snapshot (default), stop or none")
        ->type_name("ACTION")
        ->check(actions);
    app.add_option("--lt", options.lt, "time: a line for each layer (default; --nolt: none)");
    app.add_option("--self_test,--self-test", options.self_test,
                   "device_query: compare every kernel family in every type with the CPU");
    app.add_option("--json", options.json, "time, device_query, layers: JSON on standard output");
    app.add_option("--progress", options.progress,
                   "train, test: a progress bar on a terminal (default; --noprogress: none)");
    app.add_option("--help", options.help, "this text");
    app.add_option("--version", options.version, "the version");
    app.add_option("--minloglevel", minloglevel)->group("");
    for (const FlagSpec& flag : LogFlags()) {
      if (flag.name != "minloglevel") app.add_option("--" + flag.name)->group("");
    }
  }
};

bool IsBoolean(const std::string& name) {
  static const std::set<std::string> names{"lt",       "json", "self_test", "self-test",
                                           "progress", "help", "version"};
  return names.count(name) > 0;
}

std::vector<FlagSpec> KnownFlags() {
  std::vector<FlagSpec> known = LogFlags();
  Parser parser;
  for (const CLI::Option* option : parser.app.get_options()) {
    const std::string name = option->get_lnames().front();
    const bool has = std::any_of(known.begin(), known.end(),
                                 [&](const FlagSpec& flag) { return flag.name == name; });
    if (!has) known.push_back({name, IsBoolean(name)});
  }
  known.push_back({"h", true});
  return known;
}

}  // namespace

Options ParseOptions(const std::vector<std::string>& arguments) {
  RewrittenFlags rewritten = RewriteFlags(arguments, KnownFlags());
  Parser parser;
  for (std::string& flag : rewritten.flags) {
    if (flag == "--h=true") flag = "--help=true";
  }
  // A later flag wins, as with gflags.
  std::set<std::string> seen;
  std::vector<std::string> flags;  // last one first, which is what CLI11 wants
  for (size_t i = rewritten.flags.size(); i-- > 0;) {
    const std::string& flag = rewritten.flags[i];
    if (!seen.insert(flag.substr(0, flag.find('='))).second) continue;
    if (flag.ends_with("=")) continue;  // an empty value is the default
    flags.push_back(flag);
  }
  try {
    parser.app.parse(flags);
  } catch (const CLI::ParseError& error) {
    throw Error(error.what());
  }
  std::istringstream stages(parser.stage);
  for (std::string stage; std::getline(stages, stage, ',');) {
    if (!stage.empty()) parser.options.stages.push_back(stage);
  }
  if (parser.minloglevel > 0) {
    log::SetLevel(parser.minloglevel == 1 ? log::Level::kWarning : log::Level::kError);
  }
  if (!rewritten.positional.empty()) {
    parser.options.command = rewritten.positional.front();
    parser.options.arguments.assign(rewritten.positional.begin() + 1, rewritten.positional.end());
  }
  return parser.options;
}

std::string FlagHelp() {
  Parser parser;
  std::string text;
  for (const CLI::Option* option : parser.app.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string name = option->get_lnames().front();
    std::string head = "  -" + name;
    const std::string type = option->get_type_name();
    if (!IsBoolean(name)) head += " " + type.substr(0, type.find(':'));
    head.resize(std::max<size_t>(head.size() + 1, 24), ' ');
    text += head + option->get_description() + "\n";
  }
  return text;
}

}  // namespace caffe
