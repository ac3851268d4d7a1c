#pragma once

#include <string>

#include "caffe/layer/layer_types.hpp"

namespace caffe {

class NetParameter;

// Reads and upgrades the net of a prototxt. Errors about unknown fields also list layers of unknown
// types. `lines` is for NetOptions::lines; with it, unknown fields of layers that the net's state
// may leave out are errors when the net is made.
NetParameter ReadNetFile(const std::string& path, LayerLines* lines = nullptr);

// The same for programs that use phase TEST: a layer that this phase leaves out and that has
// unknown fields is dropped.
NetParameter ReadTestNetFile(const std::string& path);

// NetOptions::python_layers is false: throws if a layer that the net's state keeps, also of a
// nested net, has type Python. The message names the layer and its module.
void RefusePythonLayers(const NetParameter& net);
// The same for phase TEST.
void RefusePythonLayersInTest(NetParameter net);

}  // namespace caffe
