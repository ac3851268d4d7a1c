#include <algorithm>
#include <functional>
#include <string_view>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/onednn/bfloat16_time.hpp"
#include "caffe/library/onednn/convolution.hpp"
#include "caffe/library/onednn/onednn_call.hpp"
#include "caffe/library/onednn/problem.hpp"

namespace caffe {
namespace {

// Reference code, and columns with a product, which others do better.
bool Slow(const char* implementation) {
  const std::string_view name = implementation;
  return name.starts_with("ref") || name.find("gemm:") != name.npos;
}

// oneDNN 2.6 leaves gradients of weights unwritten if a tap of a window sees padding only. Its
// compiler writes code for each tap and each column of padding: a padding of 65536 takes minutes.
bool WindowsFit(const ConvGeometry& g) {
  constexpr int64_t kMostCode = 256;
  for (int i = 0; i < g.axes(); ++i) {
    if ((g.kernel[i] - 1) * g.dilation[i] >= g.input[i]) return false;
    if (std::max({g.kernel[i], g.pad[i], g.stride[i]}) > kMostCode) return false;
  }
  return true;
}

// oneDNN computes with extents, rounded up to its blocks, and with the sizes of weights in 32 bits.
bool ExtentsFit(const ConvDescriptor& d) {
  constexpr int64_t kLargest = int64_t{1} << 30;
  const ConvGeometry& g = d.geometry;
  const auto fit = [](const Shape& extents) {
    return std::ranges::all_of(extents, [](int64_t extent) { return extent <= kLargest; });
  };
  return fit({d.batch, d.in_channels, d.out_channels}) && fit(g.padded()) && fit(g.output()) &&
         fit(g.stride) && fit(g.pad) && fit(g.dilation) && d.weight_count() <= kLargest;
}

// oneDNN 2.6.3 on AVX-512: gradients of weights of points with a stride have other values in some
// calls, if several threads compute them in NHWC.
bool GradientsRepeat(const ConvDescriptor& d) {
  const auto is_one = [](int64_t extent) { return extent == 1; };
  const ConvGeometry& g = d.geometry;
  return !d.backward_weights || !std::ranges::all_of(g.kernel, is_one) ||
         std::ranges::all_of(g.stride, is_one);
}

bool Supports(const ConvDescriptor& d, bool widens) {
  if (widens && onednn::Inner(d.in) == onednn::Element::f32) return false;
  if (d.quantized() || d.in == kDouble) return false;
  // Rows are converted by parts, which would begin in the middle of a byte.
  if (d.in.is_packed() || d.out.is_packed()) return false;
  if (d.geometry.axes() > 3 || d.workspace_limit > 0 || onednn::Level() != HostLevel())
    return false;
  if (!WindowsFit(d.geometry) || !ExtentsFit(d) || !GradientsRepeat(d)) return false;
  const auto lock = onednn::Making();
  try {
    const auto inner = widens ? onednn::Element::f32 : onednn::Inner(d.in);
    const onednn::Plans plans = onednn::PlanAll(d, onednn::Problem(d, inner));
    return !(plans.forward && Slow(plans.forward->impl_info_str())) &&
           !(plans.data && Slow(plans.data->impl_info_str())) &&
           !(plans.weights && Slow(plans.weights->impl_info_str()));
  } catch (const dnnl::error&) {
    return false;
  }
}

// Multiplications of a forward pass.
double Products(const ConvDescriptor& d) {
  return static_cast<double>(d.batch * d.geometry.output_count()) *
         static_cast<double>(d.weight_count());
}

int64_t Elements(const ConvDescriptor& d) {
  return d.batch *
         (d.in_channels * d.geometry.input_count() + d.out_channels * d.geometry.output_count());
}

// Below this many products a call of oneDNN costs more than it gains.
constexpr int64_t kFewProducts = 2 << 20;
// The products for each element of x and y that pay for its conversion to kNHWC and back.
constexpr int64_t kPaysConversion = 64;

// Winograd's algorithm needs far fewer products, where it is preferred.
bool WinogradIsFaster(Device* device, ConvDescriptor d) {
  static const ConvLibrary winograd = WinogradLibrary();
  d.x_layout = d.y_layout = Layout::kNCHW;
  return winograd.Supports(device, d) && winograd.prefers(device, d);
}

constexpr int64_t kFewChannels = 32;

// Whether widened operands take less time. Widening costs about as much as kWidening products of
// float for each element, and weights that are read for few positions take twice the time.
bool WideIsFaster(const ConvDescriptor& d) {
  constexpr double kWidening = 15;
  if (onednn::Inner(d.in) != onednn::Element::bf16) return false;
  const double gain = onednn::Bfloat16Time() - 1;
  return gain * Products(d) > kWidening * static_cast<double>(Elements(d) + d.weight_count());
}

bool Prefers(Device* device, const ConvDescriptor& d) {
  if (d.has_private_layout()) return true;
  if (d.backward_data || d.backward_weights || WinogradIsFaster(device, d)) return false;
  return Products(d) >
         static_cast<double>(std::max(2 * kFewProducts, kPaysConversion * Elements(d)));
}

// Without conversions it is faster than the others, except for few products. Depthwise convolutions
// take a third of the time of our own kernels, whatever their size is. With few channels, as in
// LeNet, the layers after it take longer in NHWC than is gained.
bool PrefersNhwc(Device* device, const ConvDescriptor& d) {
  if (d.out_channels < kFewChannels) return false;
  if (d.backward_data || d.backward_weights || WinogradIsFaster(device, d)) return false;
  return (d.group > 1 && d.group == d.in_channels) || Products(d) > kFewProducts;
}

}  // namespace

ConvLibrary OneDnnLibrary(bool widens) {
  using namespace std::placeholders;
  ConvLibrary row;
  row.name = widens ? onednn::kWideRow : onednn::kRow;
  row.place = &OnHost;
  row.supports = std::bind(&Supports, _2, widens);
  row.make = std::bind(&onednn::MakeConvolution, _1, _2, widens);
  row.prefers = [widens](Device* device, const ConvDescriptor& d) {
    return Prefers(device, d) && WideIsFaster(d) == widens;
  };
  row.prefers_nhwc = &PrefersNhwc;
  row.knows_pitch = true;
  return row;
}

}  // namespace caffe
