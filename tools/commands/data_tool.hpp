#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace caffe {

// A small tool's command line: flags (--backend=lmdb, -backend lmdb, -shuffle; see RewriteFlags)
// and the rest.
struct ToolCommand {
  std::string name;
  std::string summary;
  std::vector<std::string> positional;       // "[X]" may be left out; these come last
  std::map<std::string, std::string> flags;  // with their defaults; "true", "false": switches
};

// Parses, calls `run` with the same structure filled, and returns the exit status: 0, or 1 after an
// error, which is one line on standard error. --help prints usage and returns 0.
int RunTool(int argc, char** argv, ToolCommand command,
            const std::function<void(const ToolCommand&)>& run);

}  // namespace caffe
