#pragma once

#include <string>
#include <string_view>

namespace caffe {

// Drops those fields of a binary NetParameter's layers whose number another Caffe uses for a type
// that cannot be parsed here: Intel's engine (149, a string; here affinity_param). Returns "" if
// the bytes are not a sequence of fields or if there is nothing to drop.
std::string DropForeignLayerFields(std::string_view net);

}  // namespace caffe
