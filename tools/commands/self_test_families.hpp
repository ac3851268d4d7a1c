#pragma once

#include <string>
#include <vector>

namespace caffe {

// A net of one layer or a few between the input x (and x2, and labels below 4) and the blob y.
struct SelfTestFamily {
  std::string name;
  std::string shape;  // of x
  std::string layers;
  bool quantized = false;  // runs in codes, too
  bool gradient = true;
  bool second = false;  // reads x2, of the shape of x
  bool labels = false;  // reads `label`, one for each item of the first axis
  bool rois = false;    // reads `rois`, regions of the images
  // Libraries compute a value from those of its neighbours, too: Winograd's convolution, products.
  bool spreads = false;
  // Float kinds run in phase TEST, where layers are joined, and not in TRAIN.
  bool inference = false;
  std::string label_shape = "shape { dim: 5 }";
  std::string libraries;  // the libraries that come first, in the form of CAFFE_LIBRARY
};
std::vector<SelfTestFamily> SelfTestFamilyTable();

// A net that a solver trains: layers between the inputs x and t and the blob y.
struct SelfTestTraining {
  std::string name;
  std::string rule;  // the type of the solver
  std::string x_shape, t_shape;
  std::string layers;
};
std::vector<SelfTestTraining> SelfTestTrainings();

}  // namespace caffe
