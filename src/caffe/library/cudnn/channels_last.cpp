#include "caffe/library/cudnn/channels_last.hpp"

#include <algorithm>

#include "caffe/device/program_builder.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe::cudnn {
namespace {

constexpr int64_t kVector = 8;        // channels that engines for 16 bits read at once
constexpr int64_t kMostFolded = 128;  // channels of a folded image

bool Few(const ConvDescriptor& d) {
  return d.y_layout == Layout::kNHWC && d.in != kFloat && d.group == 1 && d.in_channels < kVector;
}

bool AllOnes(const Shape& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; });
}

bool Folds(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  return Few(d) && g.axes() <= 2 && !AllOnes(g.stride) && AllOnes(g.dilation) &&
         ShapeCount(g.stride) * d.in_channels <= kMostFolded;
}

// A value of the last but `back` axis; `other` if there are not as many axes.
int64_t FromEnd(const Shape& values, size_t back, int64_t other) {
  return back < values.size() ? values[values.size() - 1 - back] : other;
}

constexpr std::initializer_list<const char*> kWeightNames{
    "channels", "padded", "fold_h", "fold_w", "kernel_h", "kernel_w", "folded_h", "folded_w"};

// The program for constants, given by name.
std::shared_ptr<Program> Build(Device* device, const TypeTriple& types,
                               const KernelArguments& values,
                               std::initializer_list<const char*> names) {
  ProgramBuilder builder(device, "channels last");
  builder.Types(types).Body("conv/channels_last");
  size_t i = 0;
  for (const char* name : names) builder.Fold(name, values[i++].integer);
  return builder.Build();
}

}  // namespace

ConvDescriptor ChannelsLast::FormOf(const ConvDescriptor& d) {
  ConvDescriptor form = d;
  if (!Few(d)) return form;
  const ConvGeometry& g = d.geometry;
  if (Folds(d)) {
    form.in_channels = ShapeCount(g.stride) * d.in_channels;
    const Shape output = g.output();
    for (int i = 0; i < g.axes(); ++i) {
      form.geometry.kernel[i] = (g.kernel[i] + g.stride[i] - 1) / g.stride[i];
      form.geometry.input[i] = output[i] + form.geometry.kernel[i] - 1;
      form.geometry.stride[i] = 1;
      form.geometry.pad[i] = 0;
    }
  }
  form.in_channels = RoundUp(form.in_channels, kVector);
  form.x_layout = Layout::kNHWC;
  // Kernels count elements in 32 bits.
  const int64_t images =
      std::max(d.in_channels * g.input_count(), form.in_channels * form.geometry.input_count());
  return d.batch * images <= INT32_MAX ? form : d;
}

bool ChannelsLast::ReadsCOrder(const ConvDescriptor& d) {
  return d.x_layout == Layout::kNCHW && Few(d) && !d.backward_data &&
         FormOf(d).x_layout == Layout::kNHWC;
}

ChannelsLast::ChannelsLast(Device* device, const ConvDescriptor& d)
    : d_(d),
      form_(FormOf(d)),
      changes_images_(form_.in_channels != d.in_channels),
      // With one tap or one channel both orders of weights are the same.
      changes_weights_(changes_images_ ||
                       (d.y_layout == Layout::kNHWC && d.geometry.kernel_count() > 1 &&
                        d.in_channels > d.group)) {
  const ConvGeometry &g = d.geometry, &f = form_.geometry;
  const bool folds = f.stride != g.stride;
  const auto fold = [&](size_t back) { return folds ? FromEnd(g.stride, back, 1) : 1; };
  const auto pad = [&](size_t back) { return folds ? FromEnd(g.pad, back, 0) : 0; };
  const int64_t channels = d.in_channels / d.group, padded = form_.in_channels / d.group;
  // Without a fold all axes but the last are one, and in NCHW one channel has all taps.
  const bool in_c_order = d.x_layout == Layout::kNCHW;
  const int64_t in_w = FromEnd(g.input, 0, 1), out_w = FromEnd(f.input, 0, 1);
  image_ = {folds ? FromEnd(g.input, 1, 1) : g.input_count() / in_w,
            in_w,
            d.in_channels,
            form_.in_channels,
            fold(1),
            fold(0),
            pad(1),
            pad(0),
            folds ? FromEnd(f.input, 1, 1) : f.input_count() / out_w,
            out_w,
            in_c_order ? g.input_count() : 1,
            in_c_order ? 1 : d.in_channels};
  if (d.y_layout == Layout::kNCHW) {
    const int64_t taps = channels * g.kernel_count();
    weights_ = {1, 1, 1, 1, 1, taps, 1, taps};
  } else if (folds) {
    weights_ = {channels,
                padded,
                fold(1),
                fold(0),
                FromEnd(g.kernel, 1, 1),
                FromEnd(g.kernel, 0, 1),
                FromEnd(f.kernel, 1, 1),
                FromEnd(f.kernel, 0, 1)};
  } else {
    weights_ = {channels, padded, 1, 1, 1, g.kernel_count(), 1, g.kernel_count()};
  }
  if (changes_images_) {
    const auto program = Build(device, TypeTriple::Equal(d.in), image_,
                               {"in_h", "in_w", "channels", "padded", "fold_h", "fold_w", "pad_h",
                                "pad_w", "out_h", "out_w", "channel_stride", "position_stride"});
    fold_ = program->CreateKernel("fold_input");
    unfold_ = program->CreateKernel("unfold_input");
  }
  if (changes_weights_) {
    fold_weights_ =
        Build(device, TypeTriple::Equal(d.in), weights_, kWeightNames)->CreateKernel("fold_filter");
  }
}

void ChannelsLast::MakeAddition(Device* device, DataType type) {
  add_ = Build(device, {kFloat, type, kFloat}, weights_, kWeightNames)
             ->CreateKernel("add_filter_gradient");
}

int64_t ChannelsLast::image_bytes() const {
  return form_.batch * form_.in_channels * form_.geometry.input_count() *
         static_cast<int64_t>(form_.in.bytes());
}

void ChannelsLast::FoldImages(DevicePtr x, DevicePtr folded) {
  const int64_t rows = form_.batch * form_.geometry.input_count();
  KernelArguments arguments{rows};
  arguments.append(image_.begin(), image_.end());
  arguments.append({x, folded});
  fold_->Launch(LaunchRange(rows, form_.in_channels), arguments);
}

void ChannelsLast::UnfoldImages(DevicePtr folded, DevicePtr x) {
  const int64_t rows = d_.batch * d_.geometry.input_count();
  KernelArguments arguments{rows};
  arguments.append(image_.begin(), image_.end());
  arguments.append({folded, x});
  unfold_->Launch(LaunchRange(rows, d_.in_channels), arguments);
}

void ChannelsLast::FoldWeights(DevicePtr weights, DevicePtr folded) {
  const int64_t padded = weights_[1].integer;
  const int64_t rows = d_.out_channels * weights_[6].integer * weights_[7].integer;
  KernelArguments arguments{rows};
  arguments.append(weights_.begin(), weights_.end());
  arguments.append({weights, folded});
  fold_weights_->Launch(LaunchRange(rows, padded), arguments);
}

void ChannelsLast::AddGradient(DevicePtr folded, DevicePtr w_diff) {
  const int64_t rows = d_.out_channels * weights_[0].integer;
  const int64_t taps = weights_[4].integer * weights_[5].integer;
  KernelArguments arguments{rows};
  arguments.append(weights_.begin(), weights_.end());
  arguments.append({folded, w_diff});
  add_->Launch(LaunchRange(rows, taps), arguments);
}

}  // namespace caffe::cudnn
