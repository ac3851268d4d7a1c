#include <iostream>

#include "caffe/core/error.hpp"
#include "commands/cache.hpp"
#include "commands/commands.hpp"

namespace caffe {
namespace {

constexpr char kVersion[] = "caffe version " CAFFE_VERSION " (Cortado)";

constexpr char kHelp[] = R"(usage: caffe <command> <flags>

commands:
  train           train or finetune a model          caffe train -solver solver.prototxt
  test            score a model                      caffe test -model net.prototxt -weights w.caffemodel
  time            benchmark a model, layer by layer  caffe time -model net.prototxt
  device_query    print the devices of this machine
  layers          print the catalogue of layers
  cache           list, verify or prune the cache of compiled programs
  help            this text

flags, as -name value, --name=value, -name, --noname, or in a file: --flagfile=FILE
)";

struct Command {
  const char* name;
  int (*run)(const Options& options);
  bool takes_arguments;
};

constexpr Command kCommands[] = {{"train", TrainCommand, false},
                                 {"test", TestCommand, false},
                                 {"time", TimeCommand, false},
                                 {"device_query", DeviceQueryCommand, true},
                                 {"layers", LayersCommand, true}};

int Run(const std::vector<std::string>& arguments) {
  // It has flags of its own.
  if (!arguments.empty() && arguments[0] == "cache") {
    return CacheCommand({arguments.begin() + 1, arguments.end()});
  }
  const Options options = ParseOptions(arguments);
  if (options.version) {
    std::cout << kVersion << std::endl;
    return 0;
  }
  if (options.help || options.command.empty() || options.command == "help") {
    std::cout << kHelp << FlagHelp() << std::flush;
    return 0;
  }
  for (const Command& command : kCommands) {
    if (options.command != command.name) continue;
    CAFFE_CHECK(command.takes_arguments || options.arguments.empty(), options.command,
                ": unexpected argument '", options.arguments.empty() ? "" : options.arguments[0],
                "'");
    return command.run(options);
  }
  CAFFE_THROW("Unknown action: ", options.command,
              " (known: train test time device_query layers cache help)");
}

}  // namespace

int CaffeMain(const std::vector<std::string>& arguments) {
  try {
    return Run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "caffe: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace caffe
