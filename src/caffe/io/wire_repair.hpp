#pragma once

#include <string>
#include <string_view>

namespace caffe {

// A binary NetParameter without those fields of its layers that another Caffe uses for something
// that does not parse here: Intel's engine (149, a string; here affinity_param). Empty if the bytes
// are no sequence of fields or there is nothing to drop.
std::string DropForeignLayerFields(std::string_view net);

}  // namespace caffe
