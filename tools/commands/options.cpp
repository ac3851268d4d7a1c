#include "commands/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log_settings.hpp"
#include "commands/flags.hpp"

namespace caffe {
namespace {

// A CLI11 validator: the error message, or "" if the count is valid.
std::string Positive(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value > 0) return "";
  return "'" + text + "' is not a positive whole number";
}

std::string NotNegative(const std::string& text) {
  double value = -1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= 0 && std::isfinite(value)) return "";
  return "'" + text + "' is not a number of at least 0";
}

struct Parser {
  Options options;
  std::string stage;
  CLI::App app;

  // `commands` use the flag and list it in their help. See CheckUse for the others.
  template <class Value>
  CLI::Option* Add(const std::string& names, Value& value, const std::string& commands,
                   const std::string& description) {
    return app.add_option(names, value, description)->group(commands);
  }

  Parser() {
    app.set_help_flag();
    Add("--solver", options.solver, "train", "the solver, a prototxt")->type_name("FILE");
    Add("--model", options.model, "test time tune transform quantize classify moe-init",
        "the net, a prototxt")
        ->type_name("FILE");
    Add("--weights", options.weights,
        "train test time tune transform quantize classify moe-init benchmark",
        "caffemodels or HDF5 files, separated by commas (a name that exists is taken whole); later "
        "files replace weights of earlier ones")
        ->type_name("FILE");
    Add("--strict", options.strict,
        "train test time tune transform quantize classify moe-init benchmark",
        "with -weights: a layer with parameters that the files lack, and parameters that no layer "
        "takes, are errors");
    Add("--map_weights", options.map_weights, "test time classify",
        "use aligned weights of -weights in the file, which must not be changed or truncated "
        "meanwhile, instead of a copy");
    Add("--snapshot", options.snapshot, "train", "the solverstate to resume from")
        ->type_name("FILE");
    Add("--gpu", options.gpu, "train test time tune transform quantize classify device_query",
        "the device: a number or name as device_query prints them, or cpu, or all; default: as the "
        "solver says, else the best device")
        ->type_name("DEVICE");
    Add("--phase", options.phase, "time benchmark",
        "TRAIN (default of time) or TEST (default of benchmark)")
        ->type_name("PHASE")
        ->check(CLI::IsMember({"TRAIN", "TEST"}));
    Add("--level", options.level, "train test time tune", "level of the net's state")
        ->type_name("N");
    Add("--stage", stage, "train test time tune", "stages of the net's state, separated by commas")
        ->type_name("LIST");
    Add("--iterations", options.iterations, "test time tune quantize benchmark",
        "number of iterations (default 50); for quantize the batches to calibrate with (default "
        "10); for benchmark the times to measure, each of some passes (default: what fits into "
        "-seconds)")
        ->type_name("N")
        ->check(Positive);
    const CLI::IsMember actions({"snapshot", "stop", "none"});
    const auto action = [&](const std::string& flag, std::string& value,
                            const std::string& description) {
      Add(flag, value, "train", description)->type_name("ACTION")->check(actions);
    };
    action("--sigint_effect", options.sigint_effect,
           "on SIGINT (Ctrl-C): snapshot, stop (default: snapshot and stop) or none");
    action("--sigterm_effect", options.sigterm_effect,
           "on SIGTERM: snapshot, stop (default) or none");
    action("--sighup_effect", options.sighup_effect, "on SIGHUP: snapshot (default), stop or none");
    Add("--lt", options.lt, "time", "print a line for each layer (default; --nolt: none)");
    Add("--plan", options.plan, "time",
        "print a table of the steps of a forward: layers, library, types, workspace, bytes, "
        "operations, time");
    Add("--passes", options.passes, "transform", "names, separated by commas (default: all)")
        ->type_name("LIST");
    Add("--out", options.out, "transform quantize moe-init benchmark",
        "names of the results, without extension")
        ->type_name("PREFIX");
    Add("--type", options.type, "transform quantize classify",
        "for classify any type (default: that of the net); for quantize int8 (default), int16, "
        "half or bfloat16; for transform's round half "
        "(default), "
        "bfloat16 or a type such as fp8_e4m3, for its quantize_weights int8 (default) or int16")
        ->type_name("TYPE");
    Add("--levels", options.levels, "transform",
        "for round_levels: the most different values of a parameter (default 256)")
        ->type_name("N")
        ->check(Positive);
    Add("--libraries", options.libraries, "transform",
        "shared libraries with passes, separated by commas: see RegisterPass")
        ->type_name("FILES");
    Add("--shape", options.shape, "transform",
        "the shape of the inputs that replace data layers, such as 1,3,227,227")
        ->type_name("SHAPE");
    Add("--outputs", options.outputs, "transform",
        "for strip: the blobs to compute, separated by commas (default: outputs of the net and "
        "scores that losses read)")
        ->type_name("LIST");
    Add("--seed", options.seed, "transform moe-init", "of the random numbers (default 1)")
        ->type_name("N");
    Add("--noise", options.noise, "moe-init",
        "the standard deviation of the random change of an expert's weights, as a share of that of "
        "the weights (default 0.01)")
        ->type_name("X");
    Add("--method", options.method, "quantize",
        "how ranges are chosen: auto (default), min_max, percentile, mse, kl or margin; dynamic: "
        "from the values of each forward, without calibration data")
        ->type_name("METHOD");
    Add("--percentile", options.percentile, "quantize",
        "the percentage of values within the range, for -method percentile (default 99.99)")
        ->type_name("P");
    Add("--scales", options.scales, "quantize",
        "any (default), or power_of_two: ranges of blobs are widened until their scale is 2^k")
        ->type_name("S");
    Add("--images", options.images, "quantize classify",
        "a list with lines 'path label' or 'path', or folders and images, separated by commas")
        ->type_name("IMAGES");
    Add("--root", options.root, "quantize classify", "folder of the images' paths")
        ->type_name("DIR");
    Add("--mean", options.mean, "quantize classify",
        "subtracted from pixels: one number, or one for each channel: 104,117,123")
        ->type_name("NUMBERS");
    Add("--scale", options.scale, "quantize classify",
        "factor of pixels after the mean (default 1)")
        ->type_name("S");
    Add("--crop", options.crop, "quantize classify",
        "centre: crop the centre of images; none (default): resize them; "
        "keep: each image is a batch of its own size")
        ->type_name("CROP");
    Add("--bgr", options.bgr, "quantize classify", "channels are blue, green, red (default)");
    Add("--rgb", options.rgb, "quantize classify", "channels are red, green, blue");
    Add("--held_out", options.held_out, "quantize",
        "number of batches to compare with the float net (default: all images that are left; with "
        "data layers as many as calibrate)")
        ->type_name("N")
        ->check(Positive);
    Add("--max_drop", options.max_drop, "quantize",
        "percentage points of top-1 that may be lost: layers that hurt get wider types")
        ->type_name("POINTS")
        ->check(NotNegative);
    Add("--scores", options.scores, "quantize classify",
        "the blob with the scores of classes that count (default: what the last loss or Accuracy "
        "reads, else the last Softmax or output)")
        ->type_name("BLOB");
    Add("--rounding", options.rounding, "quantize",
        "nearest (default): the code of a weight; adaround: the one above or below it, so that the "
        "layer's sums on the calibration data change least")
        ->type_name("R");
    Add("--bias_correction", options.bias_correction, "quantize",
        "subtract the mean error of rounded weights from biases");
    Add("--tune_ranges", options.tune_ranges, "quantize",
        "make ranges narrower or wider as long as that lowers the noise of the scores");
    Add("--equalize", options.equalize, "quantize",
        "scale channels between layers with weights, so that they use the codes equally");
    Add("--labels", options.labels, "classify",
        "a text file with the name of a class in each line, such as synset_words.txt")
        ->type_name("FILE");
    Add("--top", options.top, "classify", "print so many classes of each image (default 5)")
        ->type_name("N")
        ->check(Positive);
    Add("--sheet", options.sheet, "classify",
        "draw the images and their best classes into this PNG file")
        ->type_name("FILE");
    Add("--models", options.models, "benchmark",
        "prototxts, or names of models/, separated by commas")
        ->type_name("LIST");
    Add("--types", options.types, "benchmark",
        "separated by commas (default: float,half,bfloat16,int16,int8)")
        ->type_name("LIST");
    Add("--devices", options.devices, "benchmark",
        "as device_query prints them, separated by commas (default: the best device)")
        ->type_name("LIST");
    Add("--batches", options.batches, "benchmark", "batch sizes, separated by commas (default 1)")
        ->type_name("LIST");
    Add("--seconds", options.seconds, "benchmark", "of measuring each cell (default 2)")
        ->type_name("S")
        ->check(CLI::PositiveNumber);
    Add("--plain", options.plain, "benchmark",
        "measure the memory with a memory of its own for each blob, too");
    Add("--accuracy", options.accuracy, "benchmark",
        "reports of quantize (PREFIX.json), separated by commas: their top-1 and agreement become "
        "columns")
        ->type_name("FILES");
    Add("--merge", options.merge, "benchmark",
        "JSON files of earlier runs, separated by commas, whose cells come first")
        ->type_name("FILES");
    Add("--train", options.train, "tune", "measure the passes of phase TRAIN, too");
    Add("--self_test,--self-test", options.self_test, "device_query",
        "compare every kernel family with the CPU, in every type or in the listed ones");
    Add("--families", options.families, "device_query",
        "of the self-test only these, separated by semicolons, such as 'LSTM;Pooling, MAX'")
        ->type_name("LIST");
    Add("--report", options.report, "device_query",
        "write what a report of a fault needs to this file: devices, drivers, limits, all rows; no "
        "paths")
        ->type_name("FILE");
    Add("--json", options.json,
        "test time transform quantize classify benchmark device_query layers",
        "print JSON on standard output");
    Add("--progress", options.progress, "train test quantize classify",
        "show a progress bar on a terminal (default; --noprogress: none)");
    Add("--help", options.help, "", "print this text");
    Add("--version", options.version, "", "print the version");
    for (const log::SettingName& setting : log::SettingNames()) {
      app.add_option("--" + setting.name)->group("");
    }
  }
};

bool IsBoolean(const std::string& name) {
  static const std::set<std::string> names{
      "lt",       "plan",        "train", "map_weights", "json", "self_test", "self-test",
      "strict",   "progress",    "help",  "version",     "bgr",  "rgb",       "bias_correction",
      "equalize", "tune_ranges", "plain"};
  return names.count(name) > 0;
}

std::vector<FlagSpec> KnownFlags() {
  std::vector<FlagSpec> known;
  for (const log::SettingName& setting : log::SettingNames()) {
    known.push_back({setting.name, setting.boolean});
  }
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

bool Uses(const CLI::Option& option, const std::string& command) {
  return (" " + option.get_group() + " ").find(" " + command + " ") != std::string::npos;
}

// BVLC's caffe accepts its own flags with every command. Others would be ignored in silence.
void CheckUse(const CLI::App& app, const std::string& command) {
  static const std::set<std::string> bvlc{"solver",     "model",         "weights",      "snapshot",
                                          "gpu",        "phase",         "level",        "stage",
                                          "iterations", "sigint_effect", "sighup_effect"};
  const std::vector<const CLI::Option*> all = app.get_options();
  if (std::none_of(all.begin(), all.end(),
                   [&](const CLI::Option* option) { return Uses(*option, command); })) {
    return;
  }
  for (const CLI::Option* option : all) {
    const std::string name = option->get_lnames().front();
    if (option->count() == 0 || option->get_group().empty() || bvlc.count(name)) continue;
    CAFFE_CHECK(Uses(*option, command), "caffe ", command, " does not use -", name,
                "; these commands do: ", option->get_group());
  }
}

std::string Line(const std::string& name, const std::string& value, const std::string& text) {
  std::string head = "  -" + name + (value.empty() ? "" : " " + value);
  head.resize(std::max<size_t>(head.size() + 1, 26), ' ');
  return head + text + "\n";
}

}  // namespace

Options ParseOptions(const std::vector<std::string>& arguments) {
  static const std::vector<FlagSpec> known = KnownFlags();
  RewrittenFlags rewritten = RewriteFlags(arguments, known);
  Parser parser;
  for (std::string& flag : rewritten.flags) {
    if (flag == "--h=true") flag = "--help=true";
  }
  // The last of repeated flags wins, as in gflags.
  std::set<std::string> seen;
  std::vector<std::string> flags;  // last one first, as CLI11 requires
  for (size_t i = rewritten.flags.size(); i-- > 0;) {
    const std::string& flag = rewritten.flags[i];
    if (!seen.insert(flag.substr(0, flag.find('='))).second) continue;
    if (flag.find('=') + 1 == flag.size()) continue;  // an empty value is the default
    flags.push_back(flag);
  }
  parser.options.flags = {flags.rbegin(), flags.rend()};
  try {
    parser.app.parse(flags);  // removes them from the list
  } catch (const CLI::ParseError& error) {
    throw Error(error.what());
  }
  parser.options.iterations_given = parser.app.get_option("--iterations")->count() > 0;
  std::istringstream stages(parser.stage);
  for (std::string stage; std::getline(stages, stage, ',');) {
    if (!stage.empty()) parser.options.stages.push_back(stage);
  }
  for (const log::SettingName& setting : log::SettingNames()) {
    const CLI::Option* option = parser.app.get_option("--" + setting.name);
    if (option->count() > 0) {
      parser.options.log_settings.emplace_back(setting.name, option->results().back());
    }
  }
  if (!rewritten.positional.empty()) {
    parser.options.command = rewritten.positional.front();
    parser.options.arguments.assign(rewritten.positional.begin() + 1, rewritten.positional.end());
    CheckUse(parser.app, parser.options.command);
  }
  return parser.options;
}

void SetLog(const Options& options) {
  for (const auto& [name, value] : options.log_settings) log::Set(name, value);
}

std::string FlagHelp(const std::string& command) {
  Parser parser;
  std::string text;
  for (const CLI::Option* option : parser.app.get_options()) {
    if (!Uses(*option, command)) continue;
    const std::string name = option->get_lnames().front();
    const std::string type = option->get_type_name();
    text += Line(name, IsBoolean(name) ? "" : type.substr(0, type.find(':')),
                 option->get_description());
  }
  return text;
}

std::string LogFlagHelp() {
  std::string text;
  for (const log::SettingName& setting : log::SettingNames()) {
    text += Line(setting.name, setting.boolean ? "" : "VALUE", setting.summary);
  }
  return text;
}

}  // namespace caffe
