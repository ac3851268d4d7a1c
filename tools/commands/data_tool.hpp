#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace caffe {

// The command line of a small tool: flags (--backend=lmdb, -backend lmdb, -shuffle; see
// RewriteFlags) and positional arguments.
struct ToolCommand {
  std::string name;
  std::string summary;
  std::vector<std::string> positional;       // "[X]" is optional; optional ones come last
  std::map<std::string, std::string> flags;  // defaults; "true" or "false" makes a switch
};

// Parses, calls `run` with a filled ToolCommand, and returns the exit status: 0, or 1 after an
// error, which is one line on standard error. --help prints the usage and returns 0.
int RunTool(int argc, char** argv, ToolCommand command,
            const std::function<void(const ToolCommand&)>& run);

}  // namespace caffe
