#include <algorithm>
#include <iostream>

#include "caffe/core/error.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "commands/cache.hpp"
#include "commands/commands.hpp"
#include "commands/printable_output.hpp"
#include "commands/results.hpp"
#include "commands/version.hpp"

namespace caffe {
namespace {

struct Command {
  const char* name;
  int (*run)(const Options& options);  // null: Run handles it
  bool takes_arguments;
  const char* summary;
  const char* usage;
  const char* details;
};

constexpr Command kCommands[] = {
    {"train", TrainCommand, false, "train or finetune a model",
     "-solver FILE [-snapshot FILE | -weights FILE,...] [flags]",
     "Trains the net that the solver names. On SIGINT and SIGTERM it writes a snapshot, prints "
     "the\n"
     "command that resumes, and exits with 128 + the signal's number (130, 143).\n"},
    {"test", TestCommand, false, "score a model",
     "-model FILE -weights FILE,... [-iterations N] [--json] [flags]",
     "Prints the mean of each output of the TEST phase over N batches.\n"},
    {"time", TimeCommand, false, "benchmark a model, layer by layer",
     "-model FILE [-iterations N] [-phase TEST] [-plan] [--json] [flags]",
     "Prints the time of forward and backward, whole and of each layer or step, and the memory.\n"},
    {"tune", TuneCommand, false, "measure all algorithms of the libraries for a model",
     "-model FILE [-weights FILE,...] [-train] [-gpu DEVICE] [-iterations N] [flags]",
     "Measures every algorithm that cuDNN and cuBLASLt have for the operations of a net, on\n"
     "OpenCL libraries, tiles and pieces of a batch, and keeps the fastest ones in the program\n"
     "cache, where later runs find them. Prints the steps of a\n"
     "forward with their times, and the choices.\n"},
    {"transform", TransformCommand, false, "rewrite a trained model: strip, fold, round",
     "-model FILE -weights FILE,... -passes LIST -out PREFIX [-shape N,C,H,W] [-type TYPE] "
     "[-levels N] [-libraries FILES] [flags]",
     "Writes PREFIX.prototxt and PREFIX.caffemodel. The passes run in the given order:\n"
     "  strip             keep what inference needs\n"
     "  fold              BatchNorm, Scale and Bias into the weights before them\n"
     "  constants         compute constant layers once, join linear layers\n"
     "  casts             remove pairs of Quantizer layers that cancel\n"
     "  all               strip,fold,constants,casts\n"
     "  duplicates        layers that compute the same become one, equal parameters are shared\n"
     "  strides           move strides of 1x1 convolutions to the layers before them\n"
     "  round             store weights as half, bfloat16 or a type such as fp8_e4m3\n"
     "  round_levels      float weights of at most -levels different values, which compress well\n"
     "  quantize_weights  store weights as codes of int8 or int16\n"
     "Passes of your own come from the libraries of -libraries.\n"
     "Prints what each pass did, and how far the outputs of both nets differ for random inputs.\n"},
    {"quantize", QuantizeCommand, false, "calibrate a float model and store it in a narrow type",
     "-model FILE -weights FILE -type int8|int16|half|bfloat16 -out PREFIX [-images LIST -mean "
     "NUMBERS] [flags]",
     "Writes PREFIX.caffemodel (narrow weights and ranges), PREFIX.prototxt (the model with "
     "types),\n"
     "PREFIX.json and PREFIX.html (a report with histograms), and prints a table of the layers.\n"
     "Data come from the model's own data layers, or from a list of images for a deploy net.\n"},
    {"classify", ClassifyCommand, false, "name what images show, with probabilities",
     "-model FILE -weights FILE,... -images IMAGES -mean NUMBERS [-labels FILE] [-type TYPE] "
     "[-sheet FILE] [--json] [flags]",
     "Prints the best classes of each image with their probabilities. Images are prepared as by\n"
     "caffe quantize. An image that cannot be read is reported, and the others are classified.\n"
     "-sheet draws the images with their classes into one picture.\n"},
    {"benchmark", BenchmarkCommand, false, "compare nets, types, devices and batch sizes",
     "-models LIST [-types LIST] [-devices LIST] [-batches LIST] [-seconds S] [-plain] "
     "[-out PREFIX] [--json] [flags]",
     "Measures time, memory and the size of the caffemodel of each combination, and prints a "
     "report in\n"
     "Markdown. With -out, PREFIX.md, PREFIX.json and PREFIX.svg are complete after every cell; "
     "Ctrl-C\n"
     "writes what there is. A cell that fails has the reason.\n"},
    {"moe-init", MoeInitCommand, false, "start the experts of MOE layers from a dense net",
     "-model FILE -weights FILE -out PREFIX [-noise 0.01] [-seed N] [flags]",
     "Writes PREFIX.caffemodel for a model with MOE layers: layers take the weights of the layer "
     "of\n"
     "the same name in the dense net, and so does each layer of each expert, with small random\n"
     "changes. Prints a row for each layer.\n"},
    {"device_query", DeviceQueryCommand, true, "print the devices of this machine",
     "[-gpu DEVICE] [--self-test [TYPE...]] [--json]",
     "Prints name, driver and capabilities of each device; with --self-test a row with pass or "
     "FAIL\n"
     "for each family of kernels and type (float half bfloat16 double quant8 quant16), and exit\n"
     "status 1 if one failed.\n"},
    {"layers", LayersCommand, true, "print the catalogue of layers", "[NAME...] [--json]",
     "Prints bottoms, tops, types and a summary of every layer, or of those that are named.\n"},
    {"cache", nullptr, true, "list, verify or prune the cache of compiled programs", "", ""},
    {"version", nullptr, false, "print the version", "", ""},
    {"help", nullptr, true, "print this text, or the help of COMMAND", "", ""},
};

const Command* Find(const std::string& name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

[[noreturn]] void Unknown(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const Command& command : kCommands) {
    names.push_back(command.name);
    all += (all.empty() ? "" : " ") + names.back();
  }
  const std::string nearest = NearName(name, names);
  CAFFE_THROW("Unknown action: ", name, nearest.empty() ? "" : "; did you mean " + nearest + "?",
              " (known: ", all, ")");
}

constexpr char kSpellings[] =
    "\nFlags are written -name value, --name=value, -name, --noname, or in a file:"
    " --flagfile=FILE\n";

void PrintHelp() {
  std::cout << "usage: caffe <command> <flags>\n\ncommands:\n";
  for (const Command& command : kCommands) {
    std::string head = Concat("  ", command.name);
    head.resize(18, ' ');
    std::cout << head << command.summary << "\n";
  }
  std::cout << "\n`caffe help COMMAND` or `caffe COMMAND --help` prints the flags of a command.\n"
            << kSpellings << "Flags of the log, for every command and the data tools:\n"
            << LogFlagHelp() << std::flush;
}

void PrintHelp(const Command& command) {
  if (!command.run) {
    if (std::string(command.name) == "cache") {
      CacheCommand({"--help"});
    } else {
      PrintHelp();
    }
    return;
  }
  std::cout << "usage: caffe " << command.name << " " << command.usage << "\n\n"
            << command.details << "\nflags:\n"
            << FlagHelp(command.name) << kSpellings << "`caffe help` lists those of the log.\n"
            << std::flush;
}

int Run(const std::vector<std::string>& arguments, const std::string& program) {
  // `cache` parses its own flags.
  if (!arguments.empty() && arguments[0] == "cache") {
    return CacheCommand({arguments.begin() + 1, arguments.end()});
  }
  // -v without a value means version, not the verbosity of the log.
  const bool asks_version = arguments.size() == 1 && arguments[0] == "-v";
  Options options = asks_version ? Options() : ParseOptions(arguments);
  SetLog(options);
  options.program = program;
  if (asks_version || options.version || options.command == "version") {
    std::cout << "caffe " << kVersion << std::endl;
    return 0;
  }
  const bool about = options.command == "help" && !options.arguments.empty();
  const std::string name = about ? options.arguments[0] : options.command;
  const Command* command = name.empty() ? Find("help") : Find(name);
  if (!command) Unknown(name);
  if (about || options.help || !command->run) {
    PrintHelp(*command);
    return 0;
  }
  CAFFE_CHECK(command->takes_arguments || options.arguments.empty(), name,
              ": unexpected argument '", options.arguments.empty() ? "" : options.arguments[0],
              "'");
  CAFFE_CHECK(!options.strict || !options.weights.empty() || name == "train", name,
              ": -strict compares the files of -weights with the net, and none is given");
  return command->run(options);
}

}  // namespace

int CaffeMain(const std::vector<std::string>& arguments, const std::string& program) {
  const PrintableOutput output(&std::cout);
  try {
    const int status = NamingMemory(arguments.empty() ? program : arguments[0],
                                    [&] { return Run(arguments, program); });
    CheckStandardOutput();
    return status;
  } catch (const std::exception& error) {
    std::cerr << "caffe: " << Printable(error.what()) << std::endl;
    return 1;
  }
}

}  // namespace caffe
