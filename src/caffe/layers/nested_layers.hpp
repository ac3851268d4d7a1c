#pragma once

#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"

namespace caffe {

// The layers of a nested net of a message, for a SubNet.
class NestedLayers {
 public:
  // Leaves out the layers that the rules for the phase of `outer` exclude, and Input layers. Sets
  // the data_type of the nested net, if it has one, in the layers that do not compute in `real`,
  // the type of the SubNet. Throws unless the tops of Input layers are as many as `inputs`, the
  // names under which the SubNet has them. `what` names the net in messages.
  NestedLayers(const NetParameter& net, const LayerParameter& outer, DataType real,
               const std::string& what, std::vector<std::string> inputs);

  // With "<prefix>/" before the names of layers, parameters and blobs.
  std::vector<LayerParameter> WithPrefix(const std::string& prefix) const;
  // The blobs that no layer reads, in alphabetical order; and the name that such a blob, or another
  // one, has with a prefix. Throws if the net has no such blob.
  const std::vector<std::string>& outputs() const { return outputs_; }
  std::string Blob(const std::string& blob, const std::string& prefix) const;
  // The last layer that writes a blob; null if there is none.
  const LayerParameter* Producer(const std::string& blob) const;
  const std::vector<LayerParameter>& layers() const { return layers_; }
  // Whether `other` has the same layers, but for names, learning rates and the shapes of inputs.
  bool EqualTo(const NestedLayers& other) const;
  // Whether layers share parameters by their names.
  bool SharesParameters() const;

 private:
  void SetTypes(const NetParameter& net, DataType real);

  std::string what_;
  std::vector<LayerParameter> layers_;
  std::vector<std::string> own_inputs_, inputs_, outputs_;
};

}  // namespace caffe
