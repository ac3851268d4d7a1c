#pragma once

#include <string>
#include <vector>

// Layers may have one name. In files, and in calls of users, the first layer of a name is the first
// one that has it, and so on.
namespace caffe {

// The names without repetitions: the second "conv" becomes "conv#2", the third one "conv#3". A
// number is left out if that name is in the list already.
std::vector<std::string> UniqueNames(const std::vector<std::string>& names);

// For each name the position of the same name in `others`: the first "conv" has the first one, the
// second "conv" the second one, … -1: there is none.
std::vector<int> MatchInOrder(const std::vector<std::string>& names,
                              const std::vector<std::string>& others);

}  // namespace caffe
