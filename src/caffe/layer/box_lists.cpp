#include "caffe/layer/box_lists.hpp"

#include <algorithm>
#include <bit>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

std::unique_ptr<Kernel> ListKernel(Device* device, const std::string& kernel) {
  return ProgramBuilder(device, "box_lists").Body("box/lists").Build()->CreateKernel(kernel);
}

}  // namespace

void BoxLists::Place(Device* device, const std::string& name) {
  for (Buffer& buffer : buffers_) {
    PlaceBlob(&buffer.keys, kFloat, device, {0}, name + " scores");
    PlaceBlob(&buffer.ids, kFloat, device, {0}, name + " candidates");  // holds i32 bits
    PlaceBlob(&buffer.counts, kFloat, device, {0}, name + " counts");   // holds i32 bits
  }
  merge_ = ListKernel(device, "box_merge");
}

void BoxLists::Reshape(int64_t rows, int64_t runs, int64_t stride) {
  rows_ = rows;
  runs_ = runs;
  stride_ = stride;
  for (Buffer& buffer : buffers_) {
    buffer.keys->Reshape({rows, runs * stride});
    buffer.ids->Reshape({rows, runs * stride});
    buffer.counts->Reshape({rows, runs});
  }
}

void BoxLists::MergeFrom(BoxLists& from, int64_t limit) {
  const int64_t chunks = Blocks(row_stride());
  const Buffer* source = &from.buffers_[from.current_];
  if (&from != this) current_ = 1;
  for (int64_t width = 1; width < runs_; width *= 2) {
    const Buffer& to = buffers_[1 - current_];
    merge_->Launch(LaunchRange::WithCost(rows_ * chunks, kBlock),
                   {rows_ * chunks, chunks, kBlock, runs_, stride_, width, limit,
                    source->keys->Data(), source->ids->Data(), source->counts->Data(),
                    to.keys->MutableData(), to.ids->MutableData(), to.counts->MutableData()});
    source = &to;
    current_ = 1 - current_;
  }
}

void BoxSuppression::Place(Device* device, const std::string& name) {
  kept_.Place(device, name + " kept");
  best_.Place(device, name + " best");
  PlaceBlob(&shares_, kFloat, device, {0}, name + " shares");    // holds i32 bits
  PlaceBlob(&offsets_, kFloat, device, {0}, name + " offsets");  // holds i32 bits
  suppress_ = ListKernel(device, "box_suppress");
  count_ = ListKernel(device, "box_shares");
  add_ = ListKernel(device, "box_offsets");
  rows_ = ListKernel(device, "box_rows");
  no_rows_ = ListKernel(device, "box_no_rows");
  regions_ = ListKernel(device, "box_regions");
}

void BoxSuppression::Reshape(int64_t images, const Setting& setting) {
  images_ = images;
  setting_ = setting;
  const int64_t blocks = std::max<int64_t>(1, BoxLists::Blocks(setting.limit));
  const int64_t stride = blocks * BoxLists::kBlock;
  kept_.Reshape(images, setting.lists, stride);
  if (setting.keep >= 0) best_.Reshape(images, setting.lists, stride);
  shares_->Reshape({images * setting.lists});
  offsets_->Reshape({images * setting.lists + 1});
}

void BoxSuppression::Launch(BoxLists* from, const BlobBase& boxes) {
  const Setting& s = setting_;
  const int64_t rows = images_ * s.lists;
  // The best of a single list are its first ones.
  const bool chooses = s.keep >= 0 && s.lists > 1;
  const int64_t limit = s.keep >= 0 ? std::min(s.limit, s.keep) : s.limit;
  kept_.Begin();
  if (rows > 0) {
    suppress_->Launch(
        LaunchRange::WithCost(rows, s.limit * 16),
        {rows, s.lists, s.priors, s.box_classes, from->row_stride(), kept_.stride(), limit,
         s.threshold, s.eta, s.pixel, boxes.Data(), from->keys().Data(), from->ids().Data(),
         from->counts().Data(), from->runs(), kept_.keys().MutableData(), kept_.ids().MutableData(),
         kept_.counts().MutableData()});
  }
  const BlobBase* shares = &kept_.counts();
  if (chooses) {
    best_.MergeFrom(kept_, s.keep);
    count_->Launch(LaunchRange::WithCost(rows, s.keep),
                   {rows, s.lists, s.priors, best_.row_stride(), best_.ids().Data(),
                    best_.counts().Data(), best_.runs(), shares_->MutableData()});
    shares = shares_.get();
  }
  add_->Launch(1, {1, rows, shares->Data(), offsets_->MutableData()});
}

int64_t BoxSuppression::Count() {
  const float* offsets = As<float>(*offsets_).cpu_data();
  return std::bit_cast<int32_t>(offsets[offsets_->count() - 1]);
}

void BoxSuppression::WriteNothing(BlobBase* top) {
  top->Reshape({1, 1, images_, 7});
  if (images_ > 0) no_rows_->Launch(images_ * 7, {images_, top->MutableData()});
}

void BoxSuppression::Write(const BlobBase& boxes, BlobBase* top) {
  const Setting& s = setting_;
  const int64_t count = Count(), rows = images_ * s.lists;
  if (count == 0) return WriteNothing(top);
  top->Reshape({1, 1, count, 7});
  rows_->Launch(
      LaunchRange::WithCost(rows, 64),
      {rows, s.lists, s.priors, s.box_classes, kept_.stride(), s.first_label, boxes.Data(),
       kept_.keys().Data(), kept_.ids().Data(), offsets_->Data(), top->MutableData()});
}

void BoxSuppression::WriteRegions(const BlobBase& boxes, BlobBase* regions, BlobBase* scores) {
  const int64_t count = Count();
  regions->Reshape({count, 5});
  if (scores) scores->Reshape({count, 1});
  if (count == 0) return;
  const KernelArgument region = regions->MutableData();
  regions_->Launch(images_, {images_, setting_.priors, kept_.stride(), scores != nullptr,
                             boxes.Data(), kept_.keys().Data(), kept_.ids().Data(),
                             offsets_->Data(), region, scores ? scores->MutableData() : region});
}

}  // namespace caffe
