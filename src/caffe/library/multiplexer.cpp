#include "caffe/library/multiplexer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// In order of preference. A row whose library is missing, or which does not support the descriptor
// on that device, is passed over.
std::vector<GemmLibrary> Table(Device* device, const GemmDescriptor& descriptor) {
  if (descriptor.quantized()) {
    return {device->host_accessible() ? NativeLibrary() : GeneratedLibrary()};
  }
  switch (device->backend()) {
    case Backend::kCpu: return {OpenBlasLibrary(), NativeLibrary()};
    case Backend::kCuda: return {CublasLibrary(), GeneratedLibrary()};
    case Backend::kOpenCl:
      // On processors CLBlast is no faster and takes 10 s and more to compile.
      // Of batches it makes copies that it allocates each time (on an H200 10 to 50 % slower).
      if (device->info().is_cpu_type || descriptor.batch > 1) {
        return {GeneratedLibrary(), ClBlastLibrary()};
      }
      return {ClBlastLibrary(), GeneratedLibrary()};
    case Backend::kNull: return {GeneratedLibrary()};
  }
  return {};
}

constexpr std::array kLibraries{"depthwise", "winograd", "openblas", "native",
                                "cublas",    "clblast",  "generated"};

// "gemm=generated,conv=native" -> the name behind `operation`; empty if there is none.
std::string Preferred(const std::string& operation) {
  const char* setting = std::getenv("CAFFE_LIBRARY");
  if (!setting) return "";
  std::stringstream items(setting);
  std::string item;
  while (std::getline(items, item, ',')) {
    const size_t equals = item.find('=');
    CAFFE_CHECK(equals != std::string::npos, "CAFFE_LIBRARY=", setting,
                ": expected operation=library, separated by commas");
    const std::string key = item.substr(0, equals);
    CAFFE_CHECK(key == "gemm" || key == "conv", "CAFFE_LIBRARY=", setting,
                ": no operation is "
                "called ",
                key, "; there are gemm and conv");
    if (key == operation) return item.substr(equals + 1);
  }
  return "";
}

// The rows that do it, the preferred one first.
std::vector<GemmLibrary> Candidates(Device* device, const GemmDescriptor& descriptor,
                                    const std::string& preferred) {
  std::vector<GemmLibrary> rows;
  const bool known = preferred.empty() ||
                     std::find(kLibraries.begin(), kLibraries.end(), preferred) != kLibraries.end();
  for (const GemmLibrary& row : Table(device, descriptor)) {
    if (!row.supports(device, descriptor)) continue;
    rows.insert(preferred == row.name ? rows.begin() : rows.end(), row);
  }
  CAFFE_CHECK(known, "CAFFE_LIBRARY: there is no library ", preferred);
  CAFFE_CHECK(!rows.empty(), device->info().id, " can not multiply matrices");
  return rows;
}

// Rows for convolutions alone.
constexpr const char* kWinograd = "winograd";
constexpr const char* kDepthwise = "depthwise";

// The product that decides about a convolution's library.
GemmDescriptor Inner(const ConvDescriptor& d) {
  GemmDescriptor inner;
  inner.m = d.out_channels / d.group;
  inner.n = d.geometry.output_count();
  inner.k = d.in_channels / d.group * d.geometry.kernel_count();
  inner.batch = d.batch;
  inner.stride_a = GemmDescriptor::kShared;
  inner.in = d.in;
  inner.out = d.out;
  if (d.quantized()) inner.epilogue.bias = Epilogue::Bias::kPerRow;
  return inner;
}

std::vector<GemmLibrary> ConvolutionCandidates(Device* device, const ConvDescriptor& d) {
  std::string preferred = Preferred("conv");
  if (preferred.empty()) preferred = Preferred("gemm");
  std::vector<GemmLibrary> rows = Candidates(device, Inner(d), preferred);
  // On the CPU the images go to threads of ours, from where only some builds can be called.
  if (device->host_accessible() && !OpenBlasGemms().nestable) {
    std::erase_if(rows, [](const GemmLibrary& row) {
      return std::string_view(row.name) == OpenBlasGemms().library;
    });
  }
  if (SupportsWinograd(device, d)) {
    const bool first = preferred == kWinograd || (preferred.empty() && PrefersWinograd(d));
    rows.insert(first ? rows.begin() : rows.end(), {kWinograd, nullptr, nullptr});
  }
  if (SupportsDepthwise(device, d)) {
    const bool first = preferred == kDepthwise || preferred.empty();
    rows.insert(first ? rows.begin() : rows.end(), {kDepthwise, nullptr, nullptr});
  }
  return rows;
}

std::unique_ptr<GemmOp> Make(const GemmLibrary& row, Device* device, const GemmDescriptor& d) {
  auto op = row.make(device, d);
  if (log::Topic("library")) {
    log::Info(Concat(device->info().id, ": ", op->library(), " computes ", d.name()));
  }
  return op;
}

std::unique_ptr<ConvOp> Make(const GemmLibrary& row, Device* device, const ConvDescriptor& d) {
  std::unique_ptr<ConvOp> op;
  if (d.quantized()) {
    op = device->host_accessible() ? MakeHostQuantizedConvolution(device, d)
                                   : MakeDeviceQuantizedConvolution(device, d);
  } else if (std::string_view(row.name) == kWinograd) {
    op = MakeWinogradConvolution(device, d);
  } else if (std::string_view(row.name) == kDepthwise) {
    op = MakeDepthwiseConvolution(device, d);
  } else if (!device->host_accessible()) {
    op = MakeDeviceConvolution(device, d, row);
  } else {
    const bool openblas = std::string_view(row.name) == OpenBlasGemms().library;
    op = MakeHostConvolution(device, d, openblas ? OpenBlasGemms() : NativeGemms());
  }
  if (log::Topic("library")) {
    log::Info(Concat(device->info().id, ": ", op->library(), " computes convolution ", d.name()));
  }
  return op;
}

const GemmLibrary& Named(const std::vector<GemmLibrary>& rows, const std::string& name,
                         Device* device, const std::string& what) {
  for (const GemmLibrary& row : rows) {
    if (name == row.name) return row;
  }
  CAFFE_THROW(device->info().id, ": the library ", name, " is not there or does not support ",
              what);
}

std::vector<std::string> Names(const std::vector<GemmLibrary>& rows) {
  std::vector<std::string> names;
  for (const GemmLibrary& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace

std::unique_ptr<GemmOp> Multiplexer::Gemm(Device* device, const GemmDescriptor& descriptor) {
  descriptor.Check();
  return Make(Candidates(device, descriptor, Preferred("gemm"))[0], device, descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::Convolution(Device* device, const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.Normalize();
  return Make(ConvolutionCandidates(device, d)[0], device, d);
}

std::vector<std::string> Multiplexer::GemmLibraries(Device* device,
                                                    const GemmDescriptor& descriptor) {
  return Names(Candidates(device, descriptor, Preferred("gemm")));
}

std::vector<std::string> Multiplexer::ConvolutionLibraries(Device* device,
                                                           const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.Normalize();
  return Names(ConvolutionCandidates(device, d));
}

std::unique_ptr<GemmOp> Multiplexer::GemmBy(const std::string& library, Device* device,
                                            const GemmDescriptor& descriptor) {
  descriptor.Check();
  return Make(Named(Candidates(device, descriptor, ""), library, device, descriptor.name()), device,
              descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::ConvolutionBy(const std::string& library, Device* device,
                                                   const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.Normalize();
  return Make(Named(ConvolutionCandidates(device, d), library, device, d.name()), device, d);
}

}  // namespace caffe
