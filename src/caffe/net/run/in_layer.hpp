#pragma once

namespace caffe {

class LayerBase;

// Call this in a catch block: rethrows the current exception, with the layer's name before the
// message of an error of a blob or a device.
[[noreturn]] void RethrowWithLayer(const LayerBase& layer);

// Runs `work` of a layer; its errors name the layer.
template <class Work> void InLayer(const LayerBase& layer, const Work& work) {
  try {
    work();
  } catch (...) {
    RethrowWithLayer(layer);
  }
}

}  // namespace caffe
