#pragma once

#include <string>
#include <vector>

namespace caffe {

// The instruction level in use: the highest one that the processor has and the library was built
// for, or that of CAFFE_CPU_LEVEL. Throws on an unknown level and on one that the processor lacks.
const std::string& HostLevel();
// The same as a number, for choices in every call.
enum class InstructionLevel { kV2, kV3, kV4, kNeon };
InstructionLevel HostLevelNumber();
// All levels that the library was built for and this processor can run, lowest first.
std::vector<std::string> HostLevels();
// Sets the level of programs that are built from now on; for tests that compare levels, and the
// self-test.
void SetHostLevel(const std::string& level);

}  // namespace caffe
