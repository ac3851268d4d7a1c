#include "caffe/layer/code_deconvolution.hpp"

#include <array>
#include <utility>

#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

// The three axes of the kernel; missing ones stand before the others.
std::array<int64_t, CodeDeconvolution::kMaxAxes> Axes(const Shape& values, size_t first,
                                                      int64_t missing) {
  std::array<int64_t, CodeDeconvolution::kMaxAxes> axes;
  axes.fill(missing);
  const size_t count = values.size() - first;
  for (size_t i = 0; i < count; ++i) axes[axes.size() - count + i] = values[first + i];
  return axes;
}

}  // namespace

CodeDeconvolution::CodeDeconvolution(const ConvSetup& setup, const BlobBase* weights,
                                     const BlobBase* bias,
                                     const QuantizedParameters::Options& options, DataType type,
                                     Device* device)
    : setup_(setup), type_(type) {
  QuantizedParameters::Source source;
  source.weights = weights;
  source.bias = bias;
  source.channels = setup.outputs;
  source.group = setup.group;
  source.outer = setup.channels / setup.group;
  source.options = options;
  parameters_ = QuantizedParameters(source, type, device);
  kernel_ = ProgramBuilder(device, "deconvolve")
                .Types(TypeTriple::Equal(type))
                .Body("quant/deconvolve")
                .Build()
                ->CreateKernel("deconvolve_codes");
}

void CodeDeconvolution::Prepare(const QuantRange& x, const QuantRange& y) {
  // The kernel subtracts the zero point of x, because not every tap meets an input: the bias has no
  // part for it.
  parameters_.SetRanges({x.scale, 0, x.observed}, y);
  parameters_.Refresh();
}

void CodeDeconvolution::Launch(const Shape& input, const Shape& output, KernelArgument x,
                               KernelArgument y) const {
  const size_t first = setup_.axis + 1;
  const auto in = Axes(input, first, 1), out = Axes(output, first, 1);
  const auto kernel = Axes(setup_.window.kernel, 0, 1), stride = Axes(setup_.window.stride, 0, 1),
             pad = Axes(setup_.window.pad, 0, 0), dilation = Axes(setup_.window.dilation, 0, 1);
  const QuantArguments quant = parameters_.arguments();
  const int64_t planes = ShapeCount(output, 0, static_cast<int>(first));
  const int64_t positions = out[0] * out[1] * out[2];
  KernelArguments arguments{
      planes, positions, setup_.outputs, setup_.group, setup_.channels / setup_.group,
      in[0],  in[1],     in[2],          out[1],       out[2]};
  for (const auto* list : {&kernel, &stride, &pad, &dilation}) {
    arguments.append(list->begin(), list->end());
  }
  arguments.append({x, KernelArgument(parameters_.codes().device_data(), WeightZero(type_)),
                    quant.bias, quant.multiplier, quant.shift, y});
  kernel_->Launch({planes, positions}, arguments);
}

}  // namespace caffe
