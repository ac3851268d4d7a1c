#include "caffe/library/convolution.hpp"

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

std::string Times(const Shape& shape) {
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

}  // namespace

std::string ConvDescriptor::name() const {
  std::string text = in.name();
  if (!(in == out)) text += "/" + out.name();
  text += Concat(" ", batch, "x", in_channels, "x", Times(geometry.input), " -> ", out_channels,
                 " ", Times(geometry.kernel));
  if (!geometry.stride.empty()) text += "/" + Times(geometry.stride);
  text += Concat(" group ", group);
  if (has_private_layout()) {
    text += Concat(" ", LayoutName(x_layout), "/", LayoutName(y_layout));
    if (y_pitch) text += Concat(" pitch ", y_pitch);
  }
  if (row_groups) text += Concat(" row groups ", row_groups);
  if (sums) text += " sums";
  return text;
}

std::string ConvDescriptor::key() const {
  std::string key = Concat(name(), " ", forward, backward_data, backward_weights, " ",
                           workspace_limit, epilogue.name());
  for (const Shape* shape : {&geometry.stride, &geometry.pad, &geometry.dilation}) {
    for (const int64_t value : *shape) key += Concat(" ", value);
  }
  return key;
}

void ConvDescriptor::Normalize() {
  geometry.Normalize();
  CAFFE_CHECK(batch > 0 && in_channels > 0 && out_channels > 0 && group > 0, "convolution ", name(),
              ": batch, channels and group must be positive");
  CAFFE_CHECK(in_channels % group == 0, "convolution ", name(), ": ", in_channels,
              " input channels are not divisible by group ", group);
  CAFFE_CHECK(out_channels % group == 0, "convolution ", name(), ": ", out_channels,
              " output channels are not divisible by group ", group);
  if (y_pitch == out_channels) y_pitch = 0;
  CAFFE_CHECK(y_pitch == 0 || (y_layout == Layout::kNHWC && y_pitch > out_channels &&
                               !backward_data && !backward_weights && !epilogue.sum()),
              "convolution ", name(),
              ": a pitch is at least the number of channels, and belongs to ",
              "forward passes in NHWC without a residual");
  CAFFE_CHECK(row_groups >= 0 && (row_groups == 0 || (!backward_data && !backward_weights)),
              "convolution ", name(), ": groups of rows belong to forward passes");
  if (epilogue.slopes != Epilogue::Bias::kNone) epilogue.slopes = Epilogue::Bias::kPerRow;
  epilogue.Check("convolution " + name(), in);
  CAFFE_CHECK(
      !sums || (in == kQuant8 && depth() <= kNarrowDepth && !row_groups && epilogue.stages.empty()),
      "convolution ", name(), ": sums are those of codes of 8 bits, at most ", kNarrowDepth,
      " products each, and nothing follows them");
  if (quantized()) {
    CAFFE_CHECK(
        in == out && epilogue.bias != Epilogue::Bias::kNone && !backward_data && !backward_weights,
        "convolution ", name(), ": quantized types are equal, have a bias and no gradients");
    return;
  }
  CAFFE_CHECK(in == out || (out == kFloat && in.is_float() && !(in == kDouble)), "convolution ",
              name(), ": sums of type ", in.name(), " cannot be stored as ", out.name());
  CAFFE_CHECK(in == out || (!backward_data && !backward_weights), "convolution ", name(),
              ": backward passes need equal types");
}

void ConvOp::CheckMemory(DevicePtr prepared, DevicePtr workspace) const {
  CAFFE_CHECK(prepared || prepared_bytes() == 0, "convolution ", descriptor_.name(), ": ",
              library(), " computes with prepared weights; call Prepare first");
  CheckWorkspace(workspace);
}

void ConvOp::CheckWorkspace(DevicePtr workspace) const {
  CAFFE_CHECK(workspace || workspace_bytes() == 0, "convolution ", descriptor_.name(), ": ",
              library(), " needs ", workspace_bytes(), " bytes of workspace");
}

// Throws, before threads begin, if an image or a group of a packed type begins in the middle of a
// byte.
void ConvOp::CheckParts(DevicePtr images, int64_t channels, int64_t positions) const {
  if (descriptor_.batch > 1) (void)(images + channels * positions);
  if (descriptor_.group > 1) (void)(images + channels / descriptor_.group * positions);
}

void ConvOp::Forward(const ConvArguments& arguments) {
  CAFFE_CHECK(descriptor_.forward, "convolution ", descriptor_.name(),
              " was not made for a forward pass");
  CAFFE_CHECK(descriptor_.quantized() == (arguments.quant != nullptr), "convolution ",
              descriptor_.name(), ": QuantArguments belong to quantized types, and to these only");
  const char* missing =
      descriptor_.epilogue.Missing(arguments.epilogue, descriptor_.quantized(),
                                   arguments.quant && arguments.quant->negative_multiplier);
  CAFFE_CHECK(!missing, "convolution ", descriptor_.name(), ": the array of the ", missing,
              " is missing");
  CAFFE_CHECK(static_cast<bool>(arguments.offsets) == (descriptor_.row_groups > 0), "convolution ",
              descriptor_.name(), ": offsets belong to groups of rows, and to these only");
  arguments.y.CheckWritable();
  if (arguments.x.packed) {
    CheckParts(arguments.x, descriptor_.in_channels, descriptor_.geometry.input_count());
  }
  if (arguments.y.packed) {
    CheckParts(arguments.y, descriptor_.out_channels, descriptor_.geometry.output_count());
  }
  DoForward(arguments);
}

void ConvOp::BackwardData(const ConvGradients& gradients) {
  CAFFE_CHECK(descriptor_.backward_data, "convolution ", descriptor_.name(),
              " was not made for gradients of data");
  // A Deconvolution in a packed type.
  if (gradients.x_diff.packed) {
    CheckParts(gradients.x_diff, descriptor_.in_channels, descriptor_.geometry.input_count());
  }
  if (gradients.y_diff.packed) {
    CheckParts(gradients.y_diff, descriptor_.out_channels, descriptor_.geometry.output_count());
  }
  DoBackwardData(gradients);
}

void ConvOp::BackwardWeights(const ConvGradients& gradients) {
  CAFFE_CHECK(descriptor_.backward_weights, "convolution ", descriptor_.name(),
              " was not made for gradients of weights");
  DoBackwardWeights(gradients);
}

void ConvOp::BackwardBias(const ConvGradients& gradients) {
  CAFFE_CHECK(descriptor_.backward_weights, "convolution ", descriptor_.name(),
              " was not made for gradients of weights");
  DoBackwardBias(gradients);
}

}  // namespace caffe
