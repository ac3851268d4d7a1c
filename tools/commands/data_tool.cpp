#include "commands/data_tool.hpp"

#include <iostream>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

std::string Usage(const ToolCommand& command) {
  std::string usage = "usage: " + command.name;
  for (const auto& [flag, value] : command.flags) usage += " [--" + flag + "=" + value + "]";
  for (const std::string& name : command.positional) usage += " " + name;
  return usage;
}

// The arguments in their places; the number of positional ones is checked.
ToolCommand Parse(const ToolCommand& command, const std::vector<std::string>& arguments) {
  ToolCommand parsed = command;
  parsed.positional.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      parsed.positional.push_back(argument);
      continue;
    }
    const size_t begin = argument.starts_with("--") ? 2 : 1, equal = argument.find('=');
    const std::string flag = argument.substr(begin, equal - begin);
    CAFFE_CHECK(parsed.flags.count(flag), "unknown flag ", argument, "; ", Usage(command));
    CAFFE_CHECK(equal != std::string::npos || i + 1 < arguments.size(), "flag ", argument,
                " has no value; ", Usage(command));
    parsed.flags[flag] = equal == std::string::npos ? arguments[++i] : argument.substr(equal + 1);
  }
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
