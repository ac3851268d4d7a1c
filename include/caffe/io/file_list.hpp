#pragma once

#include <string>
#include <vector>

namespace caffe {

// The files of a list with commas between them, as the flag -weights and the field `weights` of a
// solver take it. A comma may be part of a name: a name that exists is taken whole, the longest one
// first. Blanks around a name are left out unless they are part of a name that exists.
std::vector<std::string> FilesInList(const std::string& list);

}  // namespace caffe
