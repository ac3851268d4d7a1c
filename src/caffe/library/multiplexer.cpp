#include "caffe/library/multiplexer.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// Of a forward pass of a convolution by cuDNN. Its fast algorithms for float need workspaces as large
// as several of the blobs.
constexpr int64_t kMostWorkspace = int64_t{224} << 20;
// By oneDNN: images that are widened or brought to another layout stay in the caches of two cores.
constexpr int64_t kMostHostWorkspace = 4 << 20;

// The product of a convolution on a device.
GemmDescriptor ProductOf(const ConvDescriptor& d) {
  GemmDescriptor product;
  product.m = d.out_channels / d.group;
  product.n = d.geometry.output_count();
  product.k = d.depth();
  product.batch = d.batch;
  product.stride_a = GemmDescriptor::kShared;
  product.in = d.in;
  product.out = d.out;
  return product;
}

using GemmRows = std::vector<GemmLibrary>;

// Convolutions on devices through the matrix products of a library. The rows of `behind` compute
// the products that the library refuses.
ConvLibrary ByColumns(const GemmLibrary& library,
                      const std::function<GemmRows(Device*, const GemmDescriptor&)>& behind) {
  ConvLibrary row;
  row.name = library.name;
  row.supports = [=](Device* device, const ConvDescriptor& d) {
    return !device->host_accessible() && !d.quantized() && library.supports(device, ProductOf(d));
  };
  row.make = [=](Device* device, const ConvDescriptor& d) {
    return MakeDeviceConvolution(device, d, [=](const GemmDescriptor& product) {
      GemmRows rows{library};
      for (const GemmLibrary& other : behind(device, product)) {
        if (other.name != library.name) rows.push_back(other);
      }
      return MakeWithFallback(device, product, std::move(rows));
    });
  };
  if (library.prefers) {
    row.prefers = [=](Device* device, const ConvDescriptor& d) {
      return library.prefers(device, ProductOf(d));
    };
  }
  return row;
}

GemmRows NoOthers(Device*, const GemmDescriptor&) { return {}; }
GemmRows AllProducts(Device* device, const GemmDescriptor& d);

// The tables, in order of preference. A row is skipped if its library is missing or does not
// support the descriptor on that device.
struct Tables {
  Table<GemmDescriptor, GemmOp> gemm{
      {RowsLibrary(), PackedLibrary(), OpenBlasLibrary(), NativeLibrary(), GemmlowpLibrary(),
       NativeQuantizedLibrary(), MatrixGemmLibrary(), CublasLtLibrary(), CublasLibrary(),
       ClBlastLibrary(), GeneratedLibrary(), GeneratedQuantizedLibrary()}};
  Table<ConvDescriptor, ConvOp> conv{
      {InPieces(OneDnnLibrary(false), kMostHostWorkspace),
       InPieces(OneDnnLibrary(true), kMostHostWorkspace), DepthwiseLibrary(), WinogradLibrary(),
       HostConvolutionLibrary("openblas", &OpenBlasGemms),
       HostConvolutionLibrary("native", &NativeGemms), GemmlowpConvolutionLibrary(),
       HostQuantizedConvolutionLibrary(), MatrixConvolutionLibrary(),
       InPieces(CudnnLibrary(), kMostWorkspace), ByColumns(CublasLtLibrary(), &AllProducts),
       ByColumns(CublasLibrary(), &AllProducts), ByColumns(ClBlastLibrary(), &AllProducts),
       ByColumns(GeneratedLibrary(), &AllProducts), DeviceQuantizedConvolutionLibrary(),
       SmallWindowsLibrary(&Multiplexer::Convolution)}};
  Table<PoolDescriptor, PoolOp> pool{
      {NativeChannelsLastPoolingLibrary(), NativePoolingLibrary(), GeneratedPoolingLibrary()}};

  const auto& Of(const GemmDescriptor&) const { return gemm; }
  const auto& Of(const ConvDescriptor&) const { return conv; }
  const auto& Of(const PoolDescriptor&) const { return pool; }
  static Tables& Get() {
    static auto* const tables = new Tables;
    return *tables;
  }
};

GemmRows AllProducts(Device* device, const GemmDescriptor& d) {
  return Tables::Get().gemm.Candidates(device, d, "");
}

const char* Operation(const GemmDescriptor&) { return "gemm"; }
const char* Operation(const ConvDescriptor&) { return "conv"; }
const char* Operation(const PoolDescriptor&) { return "pool"; }

// "gemm=generated,conv=native" -> the name for `operation`; empty if there is none.
std::string Setting(const std::string& operation) {
  const char* setting = std::getenv("CAFFE_LIBRARY");
  if (!setting) return "";
  std::stringstream items(setting);
  std::string item, found;
  while (std::getline(items, item, ',')) {
    const size_t equals = item.find('=');
    CAFFE_CHECK(equals != std::string::npos, "CAFFE_LIBRARY=", setting,
                ": expected operation=library, separated by commas");
    const std::string key = item.substr(0, equals), name = item.substr(equals + 1);
    const Tables& tables = Tables::Get();
    const bool known = key == "gemm"   ? tables.gemm.Has(name)
                       : key == "conv" ? tables.conv.Has(name)
                       : key == "pool" ? tables.pool.Has(name)
                                       : false;
    CAFFE_CHECK(key == "gemm" || key == "conv" || key == "pool", "CAFFE_LIBRARY=", setting,
                ": unknown operation ", key, "; the operations are gemm, conv and pool");
    CAFFE_CHECK(known, "CAFFE_LIBRARY=", setting, ": no library for ", key, " is called ", name);
    if (key == operation && found.empty()) found = name;
  }
  return found;
}

template <class D> std::string First(const D& descriptor) { return Setting(Operation(descriptor)); }
// Convolutions use the setting for products unless they have their own.
template <> std::string First(const ConvDescriptor&) {
  const std::string own = Setting("conv");
  return own.empty() ? Setting("gemm") : own;
}

// A library that computes a descriptor in layouts that no other one knows.
template <class Rows, class D> void AddConverting(const D&, const std::string&, Rows*) {}
template <class Rows>
void AddConverting(const ConvDescriptor& d, const std::string& first, Rows* rows) {
  if (!d.has_private_layout() || d.quantized() || d.row_groups > 0) return;
  const ConvLibrary row = ConvertingLibrary(&Multiplexer::Convolution);
  rows->insert(row.name == first ? rows->begin() : rows->end(), row);
}

// Gradients of half kinds in kNCHW, by a library that is faster in kNHWC.
template <class Rows, class D> void AddChannelsLast(Device*, const D&, const std::string&, Rows*) {}
template <class Rows>
void AddChannelsLast(Device* device, const ConvDescriptor& d, const std::string& first,
                     Rows* rows) {
  if (d.has_private_layout() || d.quantized() || d.in == kFloat || d.in == kDouble) return;
  if (d.row_groups > 0) return;
  if (device->host_accessible() || (!d.backward_data && !d.backward_weights)) return;
  if (Multiplexer::PreferredLayout(device, d) != Layout::kNHWC) return;
  const ConvLibrary row = ChannelsLastLibrary(&Multiplexer::Convolution);
  rows->insert(row.name == first ? rows->begin() : rows->end(), row);
}

// Groups of rows, by a library that knows them in kNHWC only.
template <class Rows, class D> void AddRowGroups(Device*, const D&, Rows*) {}
template <class Rows> void AddRowGroups(Device* device, const ConvDescriptor& d, Rows* rows) {
  ConvDescriptor last = d;
  last.x_layout = last.y_layout = Layout::kNHWC;
  const bool converts = d.x_layout != last.x_layout || d.y_layout != last.y_layout;
  if (d.row_groups == 0 || !rows->empty() || !converts || d.y_pitch > 0) return;
  if (Tables::Get().conv.Candidates(device, last, "").empty()) return;
  rows->push_back(ChannelsLastLibrary(&Multiplexer::Convolution));
}

// Empty only if the descriptor has groups of rows.
template <class D> auto Rows(Device* device, const D& d, const std::string& first) {
  auto rows = Tables::Get().Of(d).Candidates(device, d, first);
  AddConverting(d, first, &rows);
  AddChannelsLast(device, d, first, &rows);
  AddRowGroups(device, d, &rows);
  return rows;
}

template <class D> auto Candidates(Device* device, const D& d, const std::string& first) {
  auto rows = Rows(device, d, first);
  CAFFE_CHECK(!rows.empty(), device->info().id, ": no library computes ", Operation(d), " ",
              d.name());
  return rows;
}

template <class D> std::vector<std::string> Names(Device* device, const D& d) {
  std::vector<std::string> names;
  for (const auto& row : Candidates(device, d, First(d))) names.push_back(row.name);
  return names;
}

template <class D> auto Make(Device* device, const D& d) {
  return MakeWithFallback(device, d, Candidates(device, d, First(d)));
}

// The rows that are compared by measurement: those of vendors' libraries, the one that converts to
// kNHWC, and direct kernels. Products of a second library would rarely win.
std::vector<ConvLibrary> Compared(const std::vector<ConvLibrary>& rows) {
  std::vector<ConvLibrary> compared;
  for (const ConvLibrary& row : rows) {
    if (row.name == "cudnn" || row.name == "cublaslt" || row.name == "channels_last" ||
        row.name == "depthwise") {
      compared.push_back(row);
    }
  }
  return compared;
}

constexpr char kSmallWindows[] = "small_windows";
// A forward pass of fewer operations takes too little time to be worth measuring.
constexpr double kMeasuredProducts = 1e9;

double Products(const ConvDescriptor& d) {
  return static_cast<double>(d.batch * d.out_channels) * static_cast<double>(d.depth()) *
         static_cast<double>(d.geometry.output_count());
}

// The row that computes forward passes by small windows, if the convolution is large.
void AddSmallWindows(Device* device, const ConvDescriptor& d, std::vector<ConvLibrary>* rows,
                     std::vector<ConvLibrary>* all) {
  ConvDescriptor forward = d;
  forward.backward_data = forward.backward_weights = false;
  const ConvLibrary row = SmallWindowsLibrary(&Multiplexer::Convolution);
  if (rows->empty() || Products(d) < kMeasuredProducts || !row.supports(device, forward)) return;
  std::erase_if(*all, [](const ConvLibrary& other) { return other.name == kSmallWindows; });
  // Products of columns never win a forward pass that cuDNN computes.
  const bool trains = d.backward_data || d.backward_weights;
  if (!trains) rows->resize(1);
  rows->push_back(row);
  all->push_back(row);
}

// Whether the results are too few for all compute units, unless several of them share a depth, as in
// the library matrix.
bool HasFewResults(Device* device, const ConvDescriptor& d) {
  constexpr int64_t kResults = 64 * 64;  // of a work group
  return d.batch * d.out_channels * d.geometry.output_count() <
         device->info().compute_units * kResults;
}

// Forward passes on CUDA that are worth comparing with those by matrix units. cuDNN multiplies half
// kinds by them, too, but its engines do not fill few channels, and divide few results in fewer ways.
bool ComparesUnits(Device* device, const ConvDescriptor& d) {
  constexpr double kFewestProducts = 1e7;
  if (device->backend() != "cuda" || !device->info().matrix || !First(d).empty()) {
    return false;
  }
  const bool forward = d.forward && !d.backward_data && !d.backward_weights && d.row_groups == 0;
  constexpr int64_t kFewChannels = 64;  // of a group
  const bool half = d.in == kHalf || d.in == kBfloat16;
  const bool few =
      std::min(d.in_channels, d.out_channels) / d.group <= kFewChannels || HasFewResults(device, d);
  return forward && (d.in == kFloat || (half && few)) && Products(d) >= kFewestProducts;
}

// For arrays in kNCHW or in kNHWC: whether matrix units in kNHWC are faster than cuDNN in kNCHW.
bool UnitsAreFaster(Device* device, const ConvDescriptor& plain, const ConvDescriptor& nhwc) {
  if (!ComparesUnits(device, plain)) return false;
  if (!MatrixConvolutionLibrary().supports(device, nhwc)) return false;
  ConvLibrary before, units;
  before.name = Candidates(device, plain, "")[0].name;
  before.make = &Multiplexer::Convolution;
  if (before.name != "cudnn") return false;
  units.name = "matrix";
  units.make = [](Device* on, const ConvDescriptor& d) {
    ConvDescriptor last = d;
    last.y_layout = Layout::kNHWC;
    // Few channels are read as they are.
    constexpr int64_t kFewChannels = 4;
    last.x_layout = d.group == 1 && d.in_channels <= kFewChannels ? d.x_layout : last.y_layout;
    return MakeMatrixConvolution(on, last);
  };
  return FastestForward(device, plain, {before, units}) == units.name;
}

// The rows for arrays in kNHWC that are compared: empty if there is nothing to compare.
std::vector<ConvLibrary> ComparedUnits(Device* device, const ConvDescriptor& d,
                                       const std::vector<ConvLibrary>& all) {
  std::vector<ConvLibrary> rows;
  if (!ComparesUnits(device, d) || all[0].name != "cudnn") return rows;
  for (const ConvLibrary& row : all) {
    if (row.name == "cudnn" || row.name == "matrix" || row.name == "converted") rows.push_back(row);
  }
  const bool units = std::any_of(rows.begin(), rows.end(),
                                 [](const ConvLibrary& row) { return row.name == "matrix"; });
  return units ? rows : std::vector<ConvLibrary>();
}

template <class D> auto MakeBy(const std::string& library, Device* device, const D& d) {
  const auto rows = Candidates(device, d, library);
  CAFFE_CHECK(rows[0].name == library, device->info().id, ": the library ", library,
              " is not available or does not support ", d.name());
  return rows[0].make(device, d);
}

ConvDescriptor Normalized(ConvDescriptor d) {
  d.Normalize();
  return d;
}

}  // namespace

void AddLibrary(const GemmLibrary& library) {
  Tables::Get().gemm.Add(library);
  Tables::Get().conv.Add(ByColumns(library, &AllProducts));
}

void AddLibrary(const ConvLibrary& library) { Tables::Get().conv.Add(library); }

void AddLibrary(const PoolLibrary& library) { Tables::Get().pool.Add(library); }

void RemoveLibrary(const std::string& name) {
  Tables::Get().gemm.Remove(name);
  Tables::Get().conv.Remove(name);
  Tables::Get().pool.Remove(name);
  ForgetRefusals(name);
}

std::unique_ptr<GemmOp> Multiplexer::Gemm(Device* device, const GemmDescriptor& descriptor) {
  descriptor.Check();
  return Make(device, descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::Convolution(Device* device, const ConvDescriptor& descriptor) {
  const ConvDescriptor d = Normalized(descriptor);
  const std::string first = First(d);
  if (device->backend() == "cuda" && first.empty() && !d.has_private_layout() &&
      d.row_groups == 0) {
    auto all = Candidates(device, d, first), rows = Compared(all);
    AddSmallWindows(device, d, &rows, &all);
    const bool trains = d.backward_data || d.backward_weights;
    const bool compares = rows.size() > 1 && (trains || rows.back().name == kSmallWindows);
    // A row that was added before these is used without comparison.
    if (compares && rows[0].name == all[0].name) {
      return MakeMeasured(device, d, rows, all);
    }
  }
  if (d.y_layout == Layout::kNHWC && ComparesUnits(device, d)) {
    const auto all = Candidates(device, d, first), rows = ComparedUnits(device, d, all);
    if (!rows.empty()) return MakeMeasured(device, d, rows, all);
  }
  return Make(device, d);
}

Layout Multiplexer::PreferredLayout(Device* device, const ConvDescriptor& descriptor) {
  ConvDescriptor plain = Normalized(descriptor), nhwc;
  plain.x_layout = plain.y_layout = Layout::kNCHW;
  nhwc = plain;
  nhwc.x_layout = nhwc.y_layout = Layout::kNHWC;
  const bool last = Tables::Get().conv.PrefersNhwc(device, plain, nhwc, First(plain)) ||
                    UnitsAreFaster(device, plain, nhwc);
  return last ? Layout::kNHWC : Layout::kNCHW;
}

bool Multiplexer::KnowsLayouts(Device* device, const ConvDescriptor& descriptor,
                               bool* knows_pitch) {
  const ConvDescriptor d = Normalized(descriptor);
  const std::string first = First(d);
  const auto rows = Tables::Get().conv.Candidates(device, d, first);
  if (knows_pitch) *knows_pitch = !rows.empty() && rows[0].knows_pitch;
  if (rows.empty() || first.empty() || rows[0].name == first) return !rows.empty();
  // A library that the user wants and that knows C order only.
  ConvDescriptor plain = d;
  plain.x_layout = plain.y_layout = Layout::kNCHW;
  return Candidates(device, plain, first)[0].name != first;
}

bool Multiplexer::KnowsRowGroups(Device* device, const GemmDescriptor& descriptor) {
  descriptor.Check();
  return !Rows(device, descriptor, First(descriptor)).empty();
}

bool Multiplexer::KnowsRowGroups(Device* device, const ConvDescriptor& descriptor) {
  const ConvDescriptor d = Normalized(descriptor);
  return !Rows(device, d, First(d)).empty();
}

std::unique_ptr<PoolOp> Multiplexer::Pooling(Device* device, const PoolDescriptor& descriptor) {
  return Make(device, descriptor);
}

std::vector<std::string> Multiplexer::GemmLibraries(Device* device,
                                                    const GemmDescriptor& descriptor) {
  return Names(device, descriptor);
}

std::vector<std::string> Multiplexer::ConvolutionLibraries(Device* device,
                                                           const ConvDescriptor& descriptor) {
  return Names(device, Normalized(descriptor));
}

std::vector<std::string> Multiplexer::PoolingLibraries(Device* device,
                                                       const PoolDescriptor& descriptor) {
  return Names(device, descriptor);
}

std::unique_ptr<GemmOp> Multiplexer::GemmBy(const std::string& library, Device* device,
                                            const GemmDescriptor& descriptor) {
  descriptor.Check();
  return MakeBy(library, device, descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::ConvolutionBy(const std::string& library, Device* device,
                                                   const ConvDescriptor& descriptor) {
  const ConvDescriptor d = Normalized(descriptor);
  // Uses only the products of this library.
  for (const GemmLibrary& row : Tables::Get().gemm.Candidates(device, ProductOf(d), library)) {
    const ConvLibrary alone = ByColumns(row, &NoOthers);
    if (row.name == library && alone.supports(device, d)) return alone.make(device, d);
  }
  return MakeBy(library, device, d);
}

std::unique_ptr<PoolOp> Multiplexer::PoolingBy(const std::string& library, Device* device,
                                               const PoolDescriptor& descriptor) {
  return MakeBy(library, device, descriptor);
}

}  // namespace caffe
