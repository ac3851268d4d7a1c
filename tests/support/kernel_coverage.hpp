#pragma once

#include <filesystem>
#include <string>

namespace caffe {

// Starts to note launches if the tests of this folder are to reach every kernel of some bodies.
void BeginKernelCoverage(const std::string& folder);

// After all tests of the folder have run in this process: kernels of its bodies that were launched in
// no type on a device, or on no device in one of their types (those of operators: nowhere); a line
// each, empty if nothing is missing.
std::string MissingLaunches(const std::string& folder);

// Where the tests of a folder run in several processes (shards): each forgets what it noted before,
// notes what it launched, and afterwards MissingLaunchesOfShards says the same of all of them together. It removes the notes. If
// some shards have not noted anything since the last time, `absent` says which.
void ForgetLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder,
                           int shard);
void NoteLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder, int shard);
std::string MissingLaunchesOfShards(const std::filesystem::path& notes, const std::string& folder,
                                    int shards, std::string* absent);

}  // namespace caffe
