#include "caffe/layer/work.hpp"

namespace caffe {
namespace {

class LayerWork final : public Work {
 public:
  LayerWork(LayerBase* layer, const BlobVec& bottom, const BlobVec& top)
      : layer_(layer), bottom_(bottom), top_(top) {}
  void Prepare() override { layer_->PrepareParameters(); }
  void Run(DevicePtr) override { layer_->Forward(bottom_, top_); }

 private:
  LayerBase* layer_;
  BlobVec bottom_, top_;
};

}  // namespace

std::unique_ptr<Work> LayerBase::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                          const BlobVec& top) {
  CAFFE_CHECK(request.empty(), Where(), ": this layer cannot compute later layers");
  return std::make_unique<LayerWork>(this, bottom, top);
}

}  // namespace caffe
