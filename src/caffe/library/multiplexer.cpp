#include "caffe/library/multiplexer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/measured_gemm.hpp"
#include "caffe/library/native/host_gemm.hpp"

namespace caffe {
namespace {

// The workspace of a forward pass by cuDNN. Its fast algorithms for float need workspaces as large
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

template <class D> std::string First(const D& descriptor);
template <> std::string First(const ConvDescriptor& descriptor);
GemmRows NoOthers(Device*, const GemmDescriptor&) { return {}; }
std::unique_ptr<GemmOp> ChooseProduct(Device* device, const GemmDescriptor& d);

// Convolutions on devices through the matrix products of a library. The rows of `behind` compute
// the products that the library refuses. On OpenCL, each product is computed by the library that is
// fastest for it, unless `behind` is NoOthers or a setting names one.
ConvLibrary ByColumns(const GemmLibrary& library,
                      GemmRows (*behind)(Device*, const GemmDescriptor&)) {
  ConvLibrary row;
  row.name = library.name;
  row.place = &OnDevices;
  row.compared = library.compared;
  row.supports = [=](Device* device, const ConvDescriptor& d) {
    return !d.quantized() && library.Supports(device, ProductOf(d));
  };
  row.make = [=](Device* device, const ConvDescriptor& d) {
    return MakeDeviceConvolution(device, d, [=](const GemmDescriptor& product) {
      GemmRows rows{library};
      const bool fixed = behind == &NoOthers || !First(d).empty();
      if (library.compared_opencl && OnOpenCl(*device) && !fixed)
        return ChooseProduct(device, product);
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

GemmRows AllProducts(Device* device, const GemmDescriptor& d);

// The tables, in order of preference. A row is skipped if its library is missing or does not
// support the descriptor on that device.
struct Tables {
  Table<GemmDescriptor, GemmOp> gemm{{RowsLibrary(), PackedLibrary(), OpenBlasLibrary(),
                                      NativeLibrary(), GemmlowpLibrary(), NativeQuantizedLibrary(),
                                      MatrixGemmLibrary(), CublasLtLibrary(), CublasLibrary(),
                                      ClBlastLibrary(), GeneratedLibrary(), GeneratedHalfLibrary(),
                                      ClBlastHalfLibrary(), GeneratedQuantizedLibrary()}};
  Table<ConvDescriptor, ConvOp> conv{
      {InPieces(OneDnnLibrary(false), kMostHostWorkspace),
       InPieces(OneDnnLibrary(true), kMostHostWorkspace), DepthwiseLibrary(), WinogradLibrary(),
       HostConvolutionLibrary("openblas", &OpenBlasGemms),
       HostConvolutionLibrary("native", &NativeGemms), GemmlowpConvolutionLibrary(),
       HostQuantizedConvolutionLibrary(), MatrixConvolutionLibrary(),
       InPieces(CudnnLibrary(), kMostWorkspace), ByColumns(CublasLtLibrary(), &AllProducts),
       ByColumns(CublasLibrary(), &AllProducts), ByColumns(ClBlastLibrary(), &AllProducts),
       ByColumns(GeneratedLibrary(), &AllProducts), ByColumns(GeneratedHalfLibrary(), &AllProducts),
       ByColumns(ClBlastHalfLibrary(), &AllProducts), DeviceQuantizedConvolutionLibrary()}};
  Table<PoolDescriptor, PoolOp> pool{
      {NativeChannelsLastPoolingLibrary(), NativePoolingLibrary(), GeneratedPoolingLibrary()}};
  Table<LstmDescriptor, LstmOp> lstm{{LstmStepsLibrary(), LstmProductsLibrary()}};

  const auto& Of(const GemmDescriptor&) const { return gemm; }
  const auto& Of(const ConvDescriptor&) const { return conv; }
  const auto& Of(const PoolDescriptor&) const { return pool; }
  const auto& Of(const LstmDescriptor&) const { return lstm; }
  static Tables& Get() {
    static auto* const tables = new Tables;
    return *tables;
  }
};

GemmRows AllProducts(Device* device, const GemmDescriptor& d) {
  return Tables::Get().gemm.Candidates(device, d, "");
}

// The rows that compute a convolution by another one, behind those of the table.
constexpr std::array<ConvLibrary (*)(const ConvFactory& make), 3> kWrappers{
    &SmallWindowsLibrary, &ConvertingLibrary, &ChannelsLastLibrary};
// A wrapper may use another one: the operator that computes small windows may convert layouts.
constexpr int kMostWrappers = 3;
// A setting: measures all rows, on any device.
constexpr char kMeasured[] = "measured";

bool IsWrapper(const std::string& name) {
  return std::any_of(kWrappers.begin(), kWrappers.end(), [&](const auto wrapper) {
    return wrapper(&Multiplexer::Convolution).name == name;
  });
}

const char* Operation(const GemmDescriptor&) { return "gemm"; }
const char* Operation(const ConvDescriptor&) { return "conv"; }
const char* Operation(const PoolDescriptor&) { return "pool"; }
const char* Operation(const LstmDescriptor&) { return "lstm"; }

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
    const bool known = key == "gemm" ? tables.gemm.Has(name)
                       : key == "conv"
                           ? tables.conv.Has(name) || IsWrapper(name) || name == kMeasured
                       : key == "pool" ? tables.pool.Has(name)
                       : key == "lstm" ? tables.lstm.Has(name)
                                       : false;
    CAFFE_CHECK(key == "gemm" || key == "conv" || key == "pool" || key == "lstm",
                "CAFFE_LIBRARY=", setting, ": unknown operation ", key,
                "; the operations are gemm, conv, pool and lstm");
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

std::unique_ptr<ConvOp> Choose(Device* device, const ConvDescriptor& d, int depth);

template <class Rows, class D>
void AddWrappers(Device*, const D&, const std::string&, int, Rows*) {}
template <class Rows>
void AddWrappers(Device* device, const ConvDescriptor& d, const std::string& first, int depth,
                 Rows* rows) {
  if (depth == kMostWrappers) return;
  for (const auto wrapper : kWrappers) {
    const ConvLibrary row = wrapper(
        [depth](Device* on, const ConvDescriptor& inner) { return Choose(on, inner, depth + 1); });
    if (row.Supports(device, d)) {
      rows->insert(row.name == first ? rows->begin() : rows->end(), row);
    }
  }
}

// Empty only if the descriptor has groups of rows.
template <class D> auto Rows(Device* device, const D& d, const std::string& first, int depth = 0) {
  auto rows = Tables::Get().Of(d).Candidates(device, d, first);
  AddWrappers(device, d, first, depth, &rows);
  return rows;
}

template <class D>
auto Candidates(Device* device, const D& d, const std::string& first, int depth = 0) {
  auto rows = Rows(device, d, first, depth);
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

// A forward pass or a product of fewer operations takes too little time to be worth measuring.
constexpr double kMeasuredProducts = 1e9;

double Products(const GemmDescriptor& d) {
  return static_cast<double>(d.batch * d.m) * static_cast<double>(d.n) * static_cast<double>(d.k);
}
double Products(const ConvDescriptor& d) {
  return static_cast<double>(d.batch * d.out_channels) * static_cast<double>(d.depth()) *
         static_cast<double>(d.geometry.output_count());
}

using ConvRows = std::vector<ConvLibrary>;

// The rows whose time for arrays in kNCHW is measured: those that compute all passes while the net
// trains, and those that compute a large forward pass only beside the first one.
ConvRows Compared(Device* device, const ConvDescriptor& d, const ConvRows& all) {
  const bool trains = d.backward_data || d.backward_weights;
  ConvRows rows;
  for (const ConvLibrary& row : all) {
    if (row.compared && !row.forward_only && (trains || rows.empty())) rows.push_back(row);
  }
  // A row that was added before these is used without comparison.
  if (rows.empty() || rows[0].name != all[0].name) return {};
  ConvDescriptor forward = d;
  forward.backward_data = forward.backward_weights = false;
  if (Products(d) >= kMeasuredProducts) {
    for (const ConvLibrary& row : Rows(device, forward, "")) {
      if (row.compared && row.forward_only) rows.push_back(row);
    }
  }
  return rows;
}

// Whether the results are too few for all compute units, unless several of them share a depth, as
// in the library matrix.
bool HasFewResults(Device* device, const ConvDescriptor& d) {
  constexpr int64_t kResults = 64 * 64;  // of a work group
  return d.batch * d.out_channels * d.geometry.output_count() <
         device->info().compute_units * kResults;
}

// Forward passes that are worth comparing with those by matrix units. cuDNN multiplies half kinds
// by them, too, but its engines do not fill few channels, and divide few results in fewer ways.
bool ComparesUnits(Device* device, const ConvDescriptor& d) {
  constexpr double kFewestProducts = 1e7;
  if (!device->info().matrix || !First(d).empty()) return false;
  const bool forward = d.forward && !d.backward_data && !d.backward_weights && d.row_groups == 0;
  constexpr int64_t kFewChannels = 64;  // of a group
  const bool half = d.in == kHalf || d.in == kBfloat16;
  const bool few =
      std::min(d.in_channels, d.out_channels) / d.group <= kFewChannels || HasFewResults(device, d);
  return forward && (d.in == kFloat || (half && few)) && Products(d) >= kFewestProducts;
}

// For arrays in kNCHW or in kNHWC: whether matrix units in kNHWC are faster than a vendor's library
// in kNCHW.
bool UnitsAreFaster(Device* device, const ConvDescriptor& plain, const ConvDescriptor& nhwc) {
  if (!ComparesUnits(device, plain)) return false;
  const ConvLibrary matrix = MatrixConvolutionLibrary();
  if (!matrix.Supports(device, nhwc)) return false;
  const ConvLibrary first = Candidates(device, plain, "")[0];
  if (!first.compared_nhwc || first.matrix_units) return false;
  ConvLibrary before, units;
  before.name = first.name;
  before.make = &Multiplexer::Convolution;
  units.name = matrix.name;
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

// The rows for arrays in kNHWC that are compared: none if matrix units come first or cannot compute
// it.
ConvRows ComparedNhwc(const ConvRows& all) {
  ConvRows rows;
  for (const ConvLibrary& row : all) {
    if (row.compared_nhwc) rows.push_back(row);
  }
  const bool has_units =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.matrix_units; });
  return has_units && all[0].compared_nhwc && !all[0].matrix_units ? rows : ConvRows();
}

// The rows of `all` that are measured before one of them computes the convolution.
ConvRows RowsToMeasure(Device* device, const ConvDescriptor& d, const std::string& first,
                       const ConvRows& all) {
  if (first == kMeasured) return all;
  if (!first.empty() || d.row_groups > 0) return {};
  if (!d.has_private_layout()) return Compared(device, d, all);
  if (d.y_layout == Layout::kNHWC && ComparesUnits(device, d)) return ComparedNhwc(all);
  return {};
}

// Products on OpenCL: the libraries that are compared, if one of them comes first.
std::unique_ptr<GemmOp> ChooseProduct(Device* device, const GemmDescriptor& d) {
  const std::string first = First(d);
  GemmRows all = Candidates(device, d, first), rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows),
               [](const GemmLibrary& row) { return row.compared_opencl; });
  const bool compares = OnOpenCl(*device) && first.empty() && all[0].compared_opencl;
  if (compares && rows.size() > 1 && Products(d) >= kMeasuredProducts) {
    const std::string name = FastestProduct(device, d, rows);
    std::stable_partition(all.begin(), all.end(),
                          [&](const GemmLibrary& row) { return row.name == name; });
  }
  return MakeWithFallback(device, d, std::move(all));
}

std::unique_ptr<ConvOp> Choose(Device* device, const ConvDescriptor& d, int depth) {
  const std::string first = First(d);
  auto all = Candidates(device, d, first, depth);
  const ConvRows rows = RowsToMeasure(device, d, first, all);
  if (rows.size() < 2) return MakeWithFallback(device, d, std::move(all));
  for (const ConvLibrary& row : rows) {
    const auto same = [&](const ConvLibrary& other) { return other.name == row.name; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(row);
  }
  return MakeMeasured(device, d, rows, all);
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

bool OnHost(const Device& device) { return device.host_accessible(); }
bool OnDevices(const Device& device) { return device.has_groups(); }
bool OnCuda(const Device& device) { return device.backend() == "cuda"; }
bool OnOpenCl(const Device& device) { return device.backend() == "opencl"; }

bool HasRow(Device* device, const ConvDescriptor& d) {
  return !Tables::Get().conv.Candidates(device, d, "").empty();
}

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
  return ChooseProduct(device, descriptor);
}

std::unique_ptr<ConvOp> Multiplexer::Convolution(Device* device, const ConvDescriptor& descriptor) {
  return Choose(device, Normalized(descriptor), 0);
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

std::unique_ptr<LstmOp> Multiplexer::Lstm(Device* device, const LstmDescriptor& descriptor) {
  return Candidates(device, descriptor, First(descriptor))[0].make(device, descriptor);
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

std::vector<std::string> Multiplexer::LstmLibraries(Device* device,
                                                    const LstmDescriptor& descriptor) {
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
    if (row.name == library && alone.Supports(device, d)) return alone.make(device, d);
  }
  return MakeBy(library, device, d);
}

std::unique_ptr<PoolOp> Multiplexer::PoolingBy(const std::string& library, Device* device,
                                               const PoolDescriptor& descriptor) {
  return MakeBy(library, device, descriptor);
}

std::unique_ptr<LstmOp> Multiplexer::LstmBy(const std::string& library, Device* device,
                                            const LstmDescriptor& descriptor) {
  return MakeBy(library, device, descriptor);
}

}  // namespace caffe
