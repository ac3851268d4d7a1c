#pragma once

namespace caffe {

class LayerBase;

// Called in a catch block: throws the current exception again. The errors of a blob or a device get the
// layer's name in front.
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
