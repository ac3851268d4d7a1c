#include "commands/data_tool.hpp"

#include <iostream>

#include "caffe/core/error.hpp"
#include "commands/flags.hpp"

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

// The arguments in their places; the number of positional ones is checked.
ToolCommand Parse(const ToolCommand& command, const std::vector<std::string>& arguments) {
  ToolCommand parsed = command;
  std::vector<FlagSpec> known;
  for (const auto& [flag, value] : command.flags) known.push_back({flag, IsSwitch(value)});
  RewrittenFlags rewritten;
  try {
    rewritten = RewriteFlags(arguments, known);
  } catch (const Error& error) {
    CAFFE_THROW(error.what(), "; ", Usage(command));
  }
  for (const std::string& flag : rewritten.flags) {  // --name=value
    const size_t equal = flag.find('=');
    parsed.flags[flag.substr(2, equal - 2)] = flag.substr(equal + 1);
  }
  parsed.positional = rewritten.positional;
  size_t needed = 0;
  for (const std::string& name : command.positional) needed += name[0] != '[';
  const size_t given = parsed.positional.size();
  CAFFE_CHECK(given >= needed && given <= command.positional.size(), given,
              " arguments are given; ", Usage(command));
  return parsed;
}

}  // namespace

int RunTool(int argc, char** argv, ToolCommand command,
            const std::function<void(const ToolCommand&)>& run) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const std::string& argument : arguments) {
    if (argument != "--help" && argument != "-help" && argument != "-h") continue;
    std::cout << command.summary << "\n" << Usage(command) << "\n";
    return 0;
  }
  try {
    run(Parse(command, arguments));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << command.name << ": " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace caffe
