#include "commands/data_tool.hpp"

#include <iostream>

#include "caffe/core/error.hpp"
#include "caffe/core/log_settings.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "commands/flags.hpp"
#include "commands/results.hpp"
#include "commands/version.hpp"

namespace caffe {
namespace {

bool IsSwitch(const std::string& value) { return value == "true" || value == "false"; }

std::string Usage(const ToolCommand& command) {
  std::string usage = "usage: " + command.name;
  for (const auto& [flag, value] : command.flags) {
    usage += " [--" + flag + (IsSwitch(value) ? "" : "=" + value) + "]";
  }
  for (const std::string& name : command.positional) usage += " " + name;
  return usage;
}

// Sorts the arguments into flags and positional ones, and checks the number of the latter.
ToolCommand Parse(const ToolCommand& command, const std::vector<std::string>& arguments) {
  ToolCommand parsed = command;
  std::vector<FlagSpec> known;
  for (const auto& [flag, value] : command.flags) known.push_back({flag, IsSwitch(value)});
  for (const log::SettingName& setting : log::SettingNames()) {
    known.push_back({setting.name, setting.boolean});
  }
  RewrittenFlags rewritten;
  try {
    rewritten = RewriteFlags(arguments, known);
  } catch (const Error& error) {
    CAFFE_THROW(error.what(), "; ", Usage(command));
  }
  for (const std::string& flag : rewritten.flags) {  // --name=value
    const size_t equal = flag.find('=');
    const std::string name = flag.substr(2, equal - 2), value = flag.substr(equal + 1);
    if (command.flags.count(name) > 0) {
      parsed.flags[name] = value;
    } else {
      log::Set(name, value);
    }
  }
  parsed.positional = rewritten.positional;
  size_t needed = 0;
  for (const std::string& name : command.positional) needed += name[0] != '[';
  const size_t given = parsed.positional.size();
  CAFFE_CHECK(given >= needed && given <= command.positional.size(), given,
              " arguments are given; ", Usage(command));
  return parsed;
}

// Prints what --help or --version asks for; false if no argument does.
bool PrintsHelp(const ToolCommand& command, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      std::cout << command.summary << "\n"
                << Usage(command) << "\n`caffe help` lists the flags of the log.\n";
      return true;
    }
    if (argument == "--version" || argument == "-version") {
      std::cout << command.name << " " << kVersion << "\n";
      return true;
    }
  }
  return false;
}

}  // namespace

int RunTool(int argc, char** argv, ToolCommand command,
            const std::function<void(const ToolCommand&)>& run) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  log::SetProgram(command.name);
  try {
    NamingMemory("its input", [&] {
      if (!PrintsHelp(command, arguments)) run(Parse(command, arguments));
    });
    CheckStandardOutput();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << command.name << ": " << Printable(error.what()) << std::endl;
    return 1;
  }
}

}  // namespace caffe
