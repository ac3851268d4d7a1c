#pragma once

#include <string>
#include <vector>

namespace caffe {

// A flag of a program.
struct FlagSpec {
  std::string name;
  bool boolean = false;
};

// A command line in gflags' spellings, rewritten for a parser that accepts only --name=value:
//   -name value, --name value, -name=value, --name=value       -> --name=value
//   -name, --name (boolean)                                     -> --name=true
//   --noname, -noname (boolean)                                 -> --name=false
//   --flagfile=PATH: the lines of a file, one flag each; empty lines and lines with # are skipped;
//     several files are separated by commas
//   --: all later arguments are positional
struct RewrittenFlags {
  std::vector<std::string> flags;
  std::vector<std::string> positional;
};

// Flags may stand before and after positional arguments; - and _ in their names are equivalent. A
// number such as -1 is a value, not a flag. Throws for an unknown flag, naming the nearest known
// one, for a missing value, and for an unreadable flagfile.
RewrittenFlags RewriteFlags(const std::vector<std::string>& arguments,
                            const std::vector<FlagSpec>& known);

}  // namespace caffe
