#pragma once

#include <string>

#include "caffe/calibration/image_batches.hpp"
#include "commands/options.hpp"

namespace caffe {

// The flags that say how images become inputs of a net: -images, -root, -mean, -scale, -crop, -bgr
// and -rgb.

// Throws for values that do not exist or exclude each other.
void CheckImageFlags(const Options& options);
// Those of the flags without -images that were given, for messages; empty: none.
std::string GivenImageFlags(const Options& options);
ImageBatchOptions ImageSettings(const Options& options);
// Logs how many images could not be read, if there are some.
void WarnOfUnreadable(const ImageBatches& images);

}  // namespace caffe
