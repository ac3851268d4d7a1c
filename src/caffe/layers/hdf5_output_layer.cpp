#include "caffe.pb.h"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Writes its bottoms to an HDF5 file, as float (double for double).
// bottom 0, bottom 1: datasets "data" and "label", with equal first extents. No top and no
// gradient.
// hdf5_output_param: file_name. The first forward writes the file; a second forward is an error,
//   because the datasets exist already.
// Types: float kinds.
class HDF5Output : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  LayerFacts Facts() const override;

 private:
  bool written_ = false;
};

template <class Dtype, class MItype, class MOtype>
using HDF5OutputLayer = Layer<Dtype, MItype, MOtype, HDF5Output>;

void HDF5Output::LayerSetUp(const BlobVec&, const BlobVec&) {
  const std::string& path = layer_param().hdf5_output_param().file_name();
  CAFFE_CHECK(!path.empty(), Where(), ": hdf5_output_param has no file_name");
  try {
    Hdf5Writer probe(path);  // tests that the file can be written; removed again without a commit
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

void HDF5Output::Reshape(const BlobVec& bottom, const BlobVec&) {
  for (const BlobBase* blob : bottom) {
    CAFFE_CHECK(blob->num_axes() > 0 && blob->shape(0) == bottom[0]->shape(0), Where(), ": blob ",
                blob->name(), " of shape ", blob->shape_string(),
                " does not have as many items as ", bottom[0]->name(), " of shape ",
                bottom[0]->shape_string());
  }
}

void HDF5Output::Forward(const BlobVec& bottom, const BlobVec&) {
  const std::string& path = layer_param().hdf5_output_param().file_name();
  CAFFE_CHECK(!written_, Where(), ": ", path,
              " already has the first batch; the layer can write only one");
  try {
    Hdf5Writer file(path);
    for (size_t i = 0; i < bottom.size(); ++i) {
      const char* name = i == 0 ? "data" : "label";
      const BlobBase& blob = *bottom[i];
      if (blob.type() == kDouble) {
        file.Write(name, blob.shape(), static_cast<const double*>(blob.host_data()));
      } else {
        const std::vector<double> wide = blob.DataAsDouble();
        const std::vector<float> values(wide.begin(), wide.end());
        file.Write(name, blob.shape(), values.data());
      }
    }
    file.Commit();
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
  written_ = true;
}

LayerFacts HDF5Output::Facts() const {
  LayerFacts facts;
  facts.host = true;
  return facts;
}

}  // namespace

void RegisterHDF5OutputLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.min_top = traits.max_top = 0;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {0, 1};
  traits.backward = false;
  traits.summary = "writes a batch to an HDF5 file";
  registry.Add<HDF5OutputLayer>("HDF5Output", traits);
}

}  // namespace caffe
