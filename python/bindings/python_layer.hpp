#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"

// A layer written in Python: a subclass of caffe.Layer with setup, reshape, forward and backward,
// named by python_param. The Python object is also the layer's wrapper, so net.layers returns it.
// It accesses blobs through views of host memory, whatever the net's device is, and runs with the
// GIL.
class PythonLayer final : public caffe::LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const caffe::BlobVec& bottom, const caffe::BlobVec& top) override;
  void Reshape(const caffe::BlobVec& bottom, const caffe::BlobVec& top) override;
  // Calls reshape first, as BVLC does: data layers read their batch there.
  void Forward(const caffe::BlobVec& bottom, const caffe::BlobVec& top) override;
  void Backward(const caffe::BlobVec& top, const std::vector<bool>& propagate_down,
                const caffe::BlobVec& bottom) override;
  caffe::LayerFacts Facts() const override;

  // Adds a parameter of zeros; its learning rate is that of the layer's param entry.
  void AddBlob(const caffe::Shape& shape);

  // Creates an instance of the class that python_param names, as a layer that keeps the instance
  // alive.
  static std::shared_ptr<LayerBase> Create(const caffe::LayerParameter& parameter,
                                           const caffe::LayerContext& context);
  // Creates the C++ half of an instance, called from Create.
  static std::shared_ptr<LayerBase> MakeBase(const caffe::LayerParameter& parameter);

 private:
  // self.method(*arguments), with the GIL; an exception is prefixed with the layer's name.
  void Call(const char* method, const pybind11::tuple& arguments);
  pybind11::object self() { return pybind11::cast(static_cast<LayerBase*>(this)); }

  bool set_up_ = false;
};
