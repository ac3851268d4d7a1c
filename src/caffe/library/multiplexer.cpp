#include "caffe/library/multiplexer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// Rows that were added, each in front of those before it.
std::vector<GemmLibrary>& AddedGemms() {
  static auto* const rows = new std::vector<GemmLibrary>;
  return *rows;
}
std::vector<ConvLibrary>& AddedConvs() {
  static auto* const rows = new std::vector<ConvLibrary>;
  return *rows;
}

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
  std::vector<GemmLibrary> table = Table(device, descriptor);
  table.insert(table.begin(), AddedGemms().begin(), AddedGemms().end());
  for (const GemmLibrary& row : table) {
    if (!row.supports(device, descriptor)) continue;
    rows.insert(preferred == row.name ? rows.begin() : rows.end(), row);
  }
  CAFFE_CHECK(known, "CAFFE_LIBRARY: there is no library ", preferred);
  CAFFE_CHECK(!rows.empty(), device->info().id, " cannot multiply matrices");
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

std::unique_ptr<ConvOp> MakeQuantized(Device* device, const ConvDescriptor& d) {
  return device->host_accessible() ? MakeHostQuantizedConvolution(device, d)
                                   : MakeDeviceQuantizedConvolution(device, d);
}

// The row of a library that multiplies. What it refuses of the products on a device, `others` compute.
ConvLibrary ByProducts(const GemmLibrary& row, const std::vector<GemmLibrary>& others) {
  const auto make = [=](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    if (d.quantized()) return MakeQuantized(device, d);
    if (device->host_accessible()) {
      const bool openblas = std::string_view(row.name) == OpenBlasGemms().library;
      return MakeHostConvolution(device, d, openblas ? OpenBlasGemms() : NativeGemms());
    }
    return MakeDeviceConvolution(device, d, [=](const GemmDescriptor& g) {
      std::vector<GemmLibrary> rows{row};
      for (const GemmLibrary& other : others) {
        if (other.supports(device, g)) rows.push_back(other);
      }
      return MakeWithFallback(device, g, std::move(rows));
    });
  };
  return {row.name, nullptr, make};
}

// The rows that do it, the preferred one first. `fallback`: those of products on a device hand on to
// the next what they refuse.
std::vector<ConvLibrary> ConvolutionCandidates(Device* device, const ConvDescriptor& d,
                                               bool fallback = true) {
  std::string preferred = Preferred("conv");
  if (preferred.empty()) preferred = Preferred("gemm");
  std::vector<GemmLibrary> products = Candidates(device, Inner(d), preferred);
  if (device->host_accessible()) {
    std::erase_if(products, [](const GemmLibrary& row) {
      const std::string_view name = row.name;
      // The images go to threads of ours, from where only some builds can be called.
      return !(name == OpenBlasGemms().library && OpenBlasGemms().nestable) &&
             name != NativeGemms().library;
    });
  }
  std::vector<ConvLibrary> rows;
  for (size_t i = 0; i < products.size(); ++i) {
    rows.push_back(
        ByProducts(products[i], fallback ? std::vector(products.begin() + i + 1, products.end())
                                         : std::vector<GemmLibrary>()));
  }
  if (SupportsWinograd(device, d)) {
    const bool first = preferred == kWinograd || (preferred.empty() && PrefersWinograd(d));
    rows.insert(first ? rows.begin() : rows.end(),
                {kWinograd, &SupportsWinograd, &MakeWinogradConvolution});
  }
  if (SupportsDepthwise(device, d)) {
    const bool first = preferred == kDepthwise || preferred.empty();
    rows.insert(first ? rows.begin() : rows.end(),
                {kDepthwise, &SupportsDepthwise, &MakeDepthwiseConvolution});
  }
  for (const ConvLibrary& row : AddedConvs()) {
    if (row.supports(device, d)) rows.insert(rows.begin(), row);
  }
  return rows;
}

template <class Row>
const Row& Named(const std::vector<Row>& rows, const std::string& name, Device* device,
                 const std::string& what) {
  for (const Row& row : rows) {
    if (name == row.name) return row;
  }
  CAFFE_THROW(device->info().id, ": the library ", name, " is not there or does not support ",
              what);
}

template <class Row> std::vector<std::string> Names(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace

void AddLibrary(const GemmLibrary& library) { AddedGemms().insert(AddedGemms().begin(), library); }

void AddLibrary(const ConvLibrary& library) { AddedConvs().push_back(library); }

void RemoveLibrary(const std::string& name) {
  std::erase_if(AddedGemms(), [&](const GemmLibrary& row) { return name == row.name; });
  std::erase_if(AddedConvs(), [&](const ConvLibrary& row) { return name == row.name; });
  ForgetRefusals(name);
}

std::unique_ptr<GemmOp> Multiplexer::Gemm(Device* device, const GemmDescriptor& descriptor) {
  descriptor.Check();
  return MakeWithFallback(device, descriptor, Candidates(device, descriptor, Preferred("gemm")));
}

std::unique_ptr<ConvOp> Multiplexer::Convolution(Device* device, const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.Normalize();
  return MakeWithFallback(device, d, ConvolutionCandidates(device, d));
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
  return Named(Candidates(device, descriptor, ""), library, device, descriptor.name())
      .make(device, descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::ConvolutionBy(const std::string& library, Device* device,
                                                   const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.Normalize();
  return Named(ConvolutionCandidates(device, d, false), library, device, d.name()).make(device, d);
}

}  // namespace caffe
