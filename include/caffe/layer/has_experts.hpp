#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// A blob of an expert.
struct ExpertBlob {
  int expert = 0;
  std::string layer;  // its name in the expert net
  int index = 0;      // in the blobs of that layer
  std::shared_ptr<BlobBase> blob;
};

// A layer that contains expert nets.
class HasExperts {
 public:
  virtual ~HasExperts() = default;
  // Expert by expert, if the layer is in a net.
  virtual std::vector<ExpertBlob> ExpertBlobs() const = 0;
};

}  // namespace caffe
