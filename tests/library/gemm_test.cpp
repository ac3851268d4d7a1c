#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/native/row_steps.hpp"
#include "caffe/library/tuning.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

int64_t SizeA(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_a() + (d.trans_a ? d.k : d.m) * d.row_a();
}
int64_t SizeB(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_b() + (d.trans_b ? d.n : d.k) * d.row_b();
}
int64_t SizeC(const GemmDescriptor& d) {
  return (d.batch - 1) * d.batch_stride_c() + d.m * d.row_c();
}

// The definition, in double.
void Reference(const GemmDescriptor& d, const std::vector<double>& a, const std::vector<double>& b,
               const std::vector<double>& bias, double alpha, double beta, std::vector<double>* c) {
  for (int64_t s = 0; s < d.batch; ++s) {
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < d.k; ++p) {
          const int64_t at_a = d.trans_a ? p * d.row_a() + i : i * d.row_a() + p;
          const int64_t at_b = d.trans_b ? j * d.row_b() + p : p * d.row_b() + j;
          sum += a[s * d.batch_stride_a() + at_a] * b[s * d.batch_stride_b() + at_b];
        }
        double& target = (*c)[s * d.batch_stride_c() + i * d.row_c() + j];
        double value = alpha * sum + (beta == 0 ? 0 : beta * target);
        if (d.epilogue.bias == Epilogue::Bias::kPerRow) value += bias[i];
        if (d.epilogue.bias == Epilogue::Bias::kPerColumn) value += bias[j];
        target = test::Stages(d.epilogue, value);
      }
    }
  }
}

void Check(GemmDescriptor d, double alpha, double beta) {
  d.epilogue.bias_type = d.in == kDouble ? kDouble : kFloat;
  const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2), c = Values(SizeC(d), 3);
  const bool rows = d.epilogue.bias == Epilogue::Bias::kPerRow;
  const auto bias = Values(rows ? d.m : d.n, 4);
  auto expected = c;
  Reference(d, a, b, bias, alpha, beta, &expected);
  for (Device* device : AllDevices()) {
    if (d.in == kDouble && !device->info().fp64) continue;
    for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
      auto op = Multiplexer::GemmBy(library, device, d);
      EXPECT_EQ(op->library(), library);
      // C begins behind the buffer's start, so that offsets matter.
      auto shifted = c;
      shifted.insert(shifted.begin(), 64, 7.0);
      const Array da(device, d.in, a), db(device, d.in, b), dc(device, d.out, shifted);
      const Array dbias(device, d.epilogue.bias_type, bias);
      const DevicePtr target =
          static_cast<DevicePtr>(dc) + 64 * static_cast<int64_t>(d.out.bytes());
      const bool has_bias = d.epilogue.bias != Epilogue::Bias::kNone;
      test::Run(*op, device, {da, db, target, has_bias ? dbias : DevicePtr{}, alpha, beta});
      auto actual = dc.Read();
      for (int i = 0; i < 64; ++i) EXPECT_EQ(actual[i], 7.0);
      actual.erase(actual.begin(), actual.begin() + 64);
      test::ExpectNear(actual, expected, test::Tolerance(device, library, d.out),
                       device->info().id + " " + library + " " + d.name());
      // Prepared weights give the same bits.
      for (const auto weights : {GemmDescriptor::Weights::kA, GemmDescriptor::Weights::kB}) {
        GemmDescriptor constant = d;
        constant.constant = weights;
        const bool shared =
            weights == GemmDescriptor::Weights::kA ? !d.batch_stride_a() : !d.batch_stride_b();
        if (d.batch > 1 && !shared) continue;
        auto prepared = Multiplexer::GemmBy(library, device, constant);
        if (prepared->prepared_bytes() == 0) continue;
        const Array again(device, d.out, c);
        test::Run(*prepared, device, {da, db, again, has_bias ? dbias : DevicePtr{}, alpha, beta});
        EXPECT_EQ(again.Read(), actual) << library << " " << constant.key();
      }
    }
  }
}

GemmDescriptor Product(int64_t m, int64_t n, int64_t k, bool trans_a = false,
                       bool trans_b = false) {
  GemmDescriptor d;
  d.m = m;
  d.n = n;
  d.k = k;
  d.trans_a = trans_a;
  d.trans_b = trans_b;
  return d;
}

struct TypePair {
  DataType in, out;
};
const TypePair kPairs[] = {{kFloat, kFloat}, {kDouble, kDouble},     {kHalf, kHalf},
                           {kHalf, kFloat},  {kBfloat16, kBfloat16}, {kBfloat16, kFloat}};

TEST(GemmTest, ComputesAProductByHand) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 1, 1};
  for (Device* device : AllDevices()) {
    auto op = Multiplexer::Gemm(device, Product(2, 2, 3));
    const Array da(device, kFloat, a), db(device, kFloat, b), dc(device, kFloat, {9, 9, 9, 9});
    test::Run(*op, device, {da, db, dc});
    EXPECT_EQ(dc.Read(), (std::vector<double>{4, 5, 10, 11})) << device->info().id;
  }
}

TEST(GemmTest, ShapesAndTransposes) {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 10, 37},   {5, 1, 3},     {20, 57, 25},
                               {33, 65, 17}, {64, 128, 64}, {130, 70, 300}};
  for (const auto& shape : shapes) {
    for (int t = 0; t < 4; ++t) Check(Product(shape[0], shape[1], shape[2], t & 1, t & 2), 1, 0);
  }
}

// Large enough for the largest tile of the generated kernel, with parts that stick out.
TEST(GemmTest, LargeTiles) {
  Check(Product(1400, 1300, 33), 1, 0);
  Check(Product(1400, 1300, 33, true, true), 1, 1);
  GemmDescriptor d = Product(1408, 1408, 32, false, true);
  d.in = d.out = kHalf;
  Check(d, 1, 0);
}

TEST(GemmTest, Factors) {
  Check(Product(19, 23, 31), 0.5, 0);
  Check(Product(19, 23, 31), 1, 1);
  Check(Product(65, 23, 300, true, false), -2, 0.25);
}

// Matrices that begin somewhere in a buffer, as parameters do, of shapes that need no copy
// elsewhere.
TEST(GemmTest, OperandsBehindTheStartOfABuffer) {
  for (const TypePair& pair : kPairs) {
    for (const int64_t size : {37, 256}) {
      GemmDescriptor d = Product(size, size, size);
      d.in = pair.in;
      d.out = pair.out;
      const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2), c = Values(SizeC(d), 3);
      auto expected = c;
      Reference(d, a, b, {}, 1, 1, &expected);
      for (Device* device : AllDevices()) {
        if (d.in == kDouble && !device->info().fp64) continue;
        for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
          // A library that chooses its algorithms by measurement reads the second one's choice.
          const auto op = Multiplexer::GemmBy(library, device, d);
          const auto again = Multiplexer::GemmBy(library, device, d);
          for (const int64_t before : {0, 1, 3}) {
            const auto shifted = [before](std::vector<double> values) {
              values.insert(values.begin(), before, 7.0);
              return values;
            };
            const Array da(device, d.in, shifted(a)), db(device, d.in, shifted(b));
            const Array dc(device, d.out, shifted(c));
            const auto at = [before](DevicePtr start, DataType type) {
              return start + before * static_cast<int64_t>(type.bytes());
            };
            try {
              test::Run(*op, device, {at(da, d.in), at(db, d.in), at(dc, d.out), {}, 1, 1});
            } catch (const LibraryRefusal&) {  // then the next library computes it
              EXPECT_EQ(library, "matrix");
              EXPECT_GT(before, 0);
              continue;
            }
            const std::string name = device->info().id + " " + library + " " + d.name();
            test::ExpectNear(dc.Read(), shifted(expected), test::Tolerance(device, library, d.out),
                             name);
            const Array same(device, d.out, shifted(c));
            test::Run(*again, device, {at(da, d.in), at(db, d.in), at(same, d.out), {}, 1, 1});
            EXPECT_EQ(same.Read(), dc.Read()) << name;
          }
        }
      }
    }
  }
}

// CLBlast needs more room for copies where a matrix is behind the start of its buffer; small
// products need none. One operator computes with both.
TEST(GemmTest, LargeOperandsBehindTheStartOfABuffer) {
  const GemmDescriptor d = Product(1024, 1024, 1024);
  const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2);
  std::vector<double> expected(d.m);
  for (int64_t i = 0; i < d.m; ++i) {
    for (int64_t p = 0; p < d.k; ++p) expected[i] += a[i * d.k + p] * b[p * d.n + 77];
  }
  for (Device* device : AllDevices()) {
    for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
      const auto op = Multiplexer::GemmBy(library, device, d);
      for (const int64_t before : {0, 1, 0}) {
        std::vector<double> shifted = b;
        shifted.insert(shifted.begin(), before, 7.0);
        const Array da(device, kFloat, a), db(device, kFloat, shifted);
        const Array dc(device, kFloat, std::vector<double>(SizeC(d)));
        test::Run(*op, device,
                  {da, static_cast<DevicePtr>(db) + before * int64_t{sizeof(float)}, dc});
        const auto c = dc.Read();
        std::vector<double> column;
        for (int64_t i = 0; i < d.m; ++i) column.push_back(c[i * d.n + 77]);
        test::ExpectNear(column, expected, test::Tolerance(kFloat),
                         device->info().id + " " + library);
      }
    }
  }
}

// The native product is compiled once per instruction level.
TEST(GemmTest, InstructionLevels) {
  Device* cpu = Runtime::Get().cpu();
  const std::string before = HostLevel();
  for (const std::string& level : HostLevels()) {
    SetHostLevel(level);
    for (const DataType type : {kFloat, kDouble}) {
      for (const int64_t m : {3, 31, 150}) {
        for (int t = 0; t < 4; ++t) {
          GemmDescriptor d = Product(m, 71, 280, t & 1, t & 2);
          d.in = d.out = type;
          const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2), c = Values(SizeC(d), 3);
          auto expected = c;
          Reference(d, a, b, {}, 2, 0.5, &expected);
          const Array da(cpu, type, a), db(cpu, type, b), dc(cpu, type, c);
          test::Run(*Multiplexer::GemmBy("native", cpu, d), cpu, {da, db, dc, {}, 2, 0.5});
          test::ExpectNear(dc.Read(), expected, test::Tolerance(type), level + " " + d.name());
        }
      }
    }
  }
  SetHostLevel(before);
}

// OpenBLAS knows processors by their model: for a new one it must not stay with code without AVX.
TEST(GemmTest, OpenBlasUsesTheInstructionsOfTheProcessor) {
  Device* cpu = Runtime::Get().cpu();
  GemmDescriptor d;
  d.m = d.n = d.k = 64;
  const auto libraries = Multiplexer::GemmLibraries(cpu, d);
  const auto name =
      reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (std::find(libraries.begin(), libraries.end(), "openblas") == libraries.end() || !name) {
    GTEST_SKIP() << "without OpenBLAS";
  }
  if (std::getenv("OPENBLAS_CORETYPE") || (HostLevel() != "v3" && HostLevel() != "v4")) {
    GTEST_SKIP() << "the code for Prescott is right, or the user's choice";
  }
  Multiplexer::GemmBy("openblas", cpu, d);
  EXPECT_NE(name(), std::string("Prescott"));
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

// Few rows of A, many of B: parts of vectors, of blocks of rows and of threads' shares.
TEST(GemmTest, FewRows) {
  Device* cpu = Runtime::Get().cpu();
  const std::string before = HostLevel();
  for (const std::string& level : HostLevels()) {
    SetHostLevel(level);
    for (const TypePair& pair : kPairs) {
      for (const int64_t m : {1, 2, 3, 5, 8, 9, 48, 49}) {
        for (const int64_t n : {1, 7, 333}) {
          GemmDescriptor d = Product(m, n, n == 333 ? 1001 : 13, false, true);
          d.in = pair.in;
          d.out = pair.out;
          const auto libraries = Multiplexer::GemmLibraries(cpu, d);
          const bool widens = d.in != kHalf || level == "v3" || level == "v4";
          const bool few = m <= (d.in == kFloat ? 8 : 48) && d.in != kDouble;
          EXPECT_EQ(libraries[0] == "rows", few && widens) << d.name();
          const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2), c = Values(SizeC(d), 3);
          auto expected = c;
          Reference(d, a, b, {}, 2, 0.5, &expected);
          const Array da(cpu, d.in, a), db(cpu, d.in, b), dc(cpu, d.out, c);
          test::Run(*Multiplexer::GemmBy(libraries[0], cpu, d), cpu, {da, db, dc, {}, 2, 0.5});
          test::ExpectNear(dc.Read(), expected, test::Tolerance(d.out), level + " " + d.name());
        }
      }
    }
  }
  SetHostLevel(before);
}

// Some rows of B in a type of users are widened at a time; a small B is prepared as float.
TEST(GemmTest, FewRowsOfATypeOfUsers) {
  Device* cpu = Runtime::Get().cpu();
  for (const std::string type : {"fp8_e4m3", "float10"}) {
    for (const int64_t m : {1, 3, 8, 9}) {
      for (const int64_t k : {64, 1001}) {
        GemmDescriptor d = Product(m, 1200, k, false, true);
        d.in = DataTypeByName(type);
        d.out = kFloat;
        d.ldb = k + 3;
        d.epilogue.bias = Epilogue::Bias::kPerColumn;
        d.epilogue.stages = {kPlainReLU};
        const auto libraries = Multiplexer::GemmLibraries(cpu, d);
        EXPECT_EQ(libraries[0] == "rows", m <= 8 && k == 1001) << d.name();
        const Array a(cpu, d.in, Values(SizeA(d), 1)), b(cpu, d.in, Values(SizeB(d), 2));
        const auto bias = Values(d.n, 4);
        const Array c(cpu, kFloat, std::vector<double>(SizeC(d), 7)), dbias(cpu, kFloat, bias);
        auto expected = c.Read();
        Reference(d, a.Read(), b.Read(), bias, 2, 0, &expected);
        test::Run(*Multiplexer::GemmBy(libraries[0], cpu, d), cpu, {a, b, c, dbias, 2, 0});
        test::ExpectNear(c.Read(), expected, test::Tolerance(kFloat), d.name());
      }
    }
  }
}

// Each code of bfloat16, against the formula of the layers.
TEST(GemmTest, ClippedCodesOfBfloat16) {
  const std::string before = HostLevel();
  for (const std::string& level : HostLevels()) {
    SetHostLevel(level);
    for (const double high : {0.0, 6.0, std::numeric_limits<double>::infinity()}) {
      std::vector<uint16_t> codes(1 << 16);
      for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
      uint16_t high_code;
      ConvertElements(kDouble, &high, kBfloat16, &high_code, 1);
      HostRowSteps().clip_bfloat16(codes.data(), static_cast<long>(codes.size()), high_code);
      size_t wrong = 0;
      for (size_t i = 0; i < codes.size(); ++i) {
        const uint16_t code = static_cast<uint16_t>(i);
        double value;
        ConvertElements(kBfloat16, &code, kDouble, &value, 1);
        const uint16_t expected = value < 0 ? 0 : value > high ? high_code : code;
        wrong += codes[i] != expected;
      }
      EXPECT_EQ(wrong, 0u) << level << " " << high;
    }
  }
  SetHostLevel(before);
}

TEST(GemmTest, BetaZeroDoesNotReadTheTarget) {
  const double nan = std::nan("");
  for (Device* device : AllDevices()) {
    const GemmDescriptor d = Product(3, 3, 2);
    for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
      const Array a(device, kFloat, Values(6, 1)), b(device, kFloat, Values(6, 2));
      const Array c(device, kFloat, std::vector<double>(9, nan));
      test::Run(*Multiplexer::GemmBy(library, device, d), device, {a, b, c});
      for (double value : c.Read()) EXPECT_FALSE(std::isnan(value)) << library;
    }
  }
}

TEST(GemmTest, LeadingDimensionsAndBatches) {
  GemmDescriptor d = Product(13, 21, 18);
  d.lda = 20;
  d.ldb = 30;
  d.ldc = 25;
  Check(d, 1, 0.5);
  d.batch = 3;
  Check(d, 1, 1);
  d.stride_a = GemmDescriptor::kShared;
  d.stride_c = 400;
  Check(d, 1, 0);
  d.trans_b = true;
  d.stride_b = 700;
  Check(d, 1, 0);
}

TEST(GemmTest, TypesAndEpilogues) {
  for (const TypePair& pair : kPairs) {
    for (const auto bias :
         {Epilogue::Bias::kNone, Epilogue::Bias::kPerRow, Epilogue::Bias::kPerColumn}) {
      for (const bool relu : {false, true}) {
        GemmDescriptor d = Product(35, 41, 29, true, true);
        d.in = pair.in;
        d.out = pair.out;
        d.epilogue.bias = bias;
        if (relu) d.epilogue.stages = {kPlainReLU};
        Check(d, 0.5, 0);
        d.trans_a = d.trans_b = false;
        d.batch = 2;
        d.ldc = 48;
        d.stride_c = 35 * 48 + 16;
        Check(d, 1, 1);
      }
    }
  }
}

TEST(GemmTest, ReluKeepsWhatIsNoNumber) {
  for (const TypePair& pair : kPairs) {
    for (const auto bias :
         {Epilogue::Bias::kNone, Epilogue::Bias::kPerRow, Epilogue::Bias::kPerColumn}) {
      GemmDescriptor d = Product(35, 41, 29);
      d.in = pair.in;
      d.out = pair.out;
      d.epilogue.bias = bias;
      d.epilogue.bias_type = d.in == kDouble ? kDouble : kFloat;
      d.epilogue.stages = {kPlainReLU};
      auto a = Values(SizeA(d), 1);
      a[3 * d.k + 7] = std::nan("");  // so row 3 of C
      const auto b = Values(SizeB(d), 2), offsets = Values(41, 3);
      for (Device* device : AllDevices()) {
        if (d.in == kDouble && !device->info().fp64) continue;
        const Array da(device, d.in, a), db(device, d.in, b);
        const Array dbias(device, d.epilogue.bias_type, offsets);
        for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
          const Array dc(device, d.out, std::vector<double>(SizeC(d)));
          const bool has_bias = bias != Epilogue::Bias::kNone;
          test::Run(*Multiplexer::GemmBy(library, device, d), device,
                    {da, db, dc, has_bias ? dbias : DevicePtr{}, 1, 0});
          const std::vector<double> c = dc.Read();
          size_t wrong = 0;
          for (size_t i = 0; i < c.size(); ++i) {
            wrong += static_cast<int64_t>(i) / d.n == 3 ? !std::isnan(c[i]) : !(c[i] >= 0);
          }
          EXPECT_EQ(wrong, 0u) << device->info().id << " " << library << " " << d.name();
        }
      }
    }
  }
}

// More than one widened slice along k.
TEST(GemmTest, LongSumsOfHalfKinds) {
  for (const DataType type : {kHalf, kBfloat16}) {
    GemmDescriptor d = Product(300, 2500, 1700, false, true);
    d.in = type;
    d.out = kFloat;
    // The reference would take long for all of C: compare one column.
    const auto a = Values(SizeA(d), 1), b = Values(SizeB(d), 2);
    Device* cpu = Runtime::Get().cpu();
    const Array da(cpu, type, a), db(cpu, type, b);
    for (const DataType out : {kFloat, type}) {
      d.out = out;
      for (const std::string& library : Multiplexer::GemmLibraries(cpu, d)) {
        const Array dc(cpu, out, std::vector<double>(SizeC(d)));
        test::Run(*Multiplexer::GemmBy(library, cpu, d), cpu, {da, db, dc});
        const auto c = dc.Read();
        std::vector<double> actual, expected;
        for (int64_t i = 0; i < d.m; ++i) {
          double sum = 0;
          for (int64_t p = 0; p < d.k; ++p) sum += a[i * d.k + p] * b[2345 * d.k + p];
          expected.push_back(sum);
          actual.push_back(c[i * d.n + 2345]);
        }
        test::ExpectNear(actual, expected, test::Tolerance(out), library + " " + d.name());
      }
    }
  }
}

// Sums of 16 products that exceed the numbers of half, where later products make the whole small
// again, infinities, and NaN.
TEST(GemmTest, ShortSumsInHalfKeepLargeValues) {
  GemmDescriptor d;
  d.in = d.out = kHalf;
  d.m = d.n = 5;
  d.k = 40;
  std::vector<double> a(d.m * d.k, 0.0), b(d.k * d.n, 512.0);
  for (int64_t k = 0; k < d.k; ++k) {
    a[k] = k < 20 ? 1000 : -1000;     // 10 million, and back to 0
    a[d.k + k] = k < 20 ? 6 : -5.75;  // 2560
    a[2 * d.k + k] = k == 33 ? INFINITY : 1000;
    a[3 * d.k + k] = k == 3 ? NAN : 1;
    a[4 * d.k + k] = 0x1p-20;
  }
  for (Device* device : AllDevices()) {
    for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
      if (library == "clblast_half") continue;  // its sums are half
      const Array da(device, kHalf, a), db(device, kHalf, b);
      const Array dc(device, kHalf, std::vector<double>(d.m * d.n, 7.0));
      test::Run(*Multiplexer::GemmBy(library, device, d), device, {da, db, dc});
      const auto c = dc.Read();
      for (int64_t j = 0; j < d.n; ++j) {
        const std::string name = device->info().id + " " + library;
        EXPECT_EQ(c[j], 0) << name;
        EXPECT_EQ(c[d.n + j], 2560) << name;
        EXPECT_EQ(c[2 * d.n + j], INFINITY) << name;
        EXPECT_TRUE(std::isnan(c[3 * d.n + j])) << name;
        EXPECT_EQ(c[4 * d.n + j], 40 * 0x1p-11) << name;
      }
    }
  }
}

// `caffe tune` measures the sizes of tiles, and what it finds is used later.
TEST(GemmTest, TilesOnOpenClAreMeasured) {
  GemmDescriptor d;
  d.m = 70;
  d.n = 90;
  d.k = 33;
  for (Device* device : AllDevices()) {
    if (device->backend() != "opencl") continue;
    const auto choices = [&] {
      const size_t known = TunedChoices().size();
      Multiplexer::GemmBy("generated", device, d);
      std::vector<TunedChoice> found = TunedChoices();
      found.erase(found.begin(), found.begin() + static_cast<ptrdiff_t>(known));
      return found;
    };
    std::string fastest;
    {
      const TuneExhaustively exhaustively;
      const auto found = choices();
      ASSERT_EQ(found.size(), 1);
      EXPECT_EQ(found[0].measured, 3);
      fastest = found[0].configuration;
      EXPECT_TRUE(fastest.starts_with("tiles of ")) << fastest;
    }
    const auto later = choices();
    ASSERT_EQ(later.size(), 1);
    EXPECT_EQ(later[0].measured, 0);
    EXPECT_EQ(later[0].configuration, fastest);
  }
}

// The libraries for products on OpenCL are compared; on processors only by `caffe tune`.
TEST(MultiplexerTest, ProductsOnOpenClAreMeasured) {
  GemmDescriptor d;
  d.m = d.n = d.k = 1024;
  for (Device* device : AllDevices()) {
    if (device->backend() != "opencl" || device->info().matrix) continue;
    const TuneExhaustively exhaustively;
    const size_t known = TunedChoices().size();
    const auto op = Multiplexer::Gemm(device, d);
    bool compared = false;
    for (size_t i = known; i < TunedChoices().size(); ++i) {
      const TunedChoice choice = TunedChoices()[i];
      if (choice.library != "product") continue;
      compared = true;
      EXPECT_GE(choice.measured, 2);
      EXPECT_EQ(choice.configuration, op->library());
    }
    EXPECT_TRUE(compared) << device->info().id;
  }
}

TEST(GemmTest, RefusesWhatItCanNotDo) {
  Device* cpu = Runtime::Get().cpu();
  EXPECT_THROW(Multiplexer::Gemm(cpu, Product(0, 1, 1)), Error);
  GemmDescriptor d = Product(4, 4, 4);
  d.lda = 3;
  EXPECT_THROW(Multiplexer::Gemm(cpu, d), Error);
  d = Product(4, 4, 4);
  d.out = kHalf;
  EXPECT_THROW(Multiplexer::Gemm(cpu, d), Error);
  EXPECT_THROW(Multiplexer::GemmBy("cublas", cpu, Product(4, 4, 4)), Error);
}

TEST(MultiplexerTest, EveryDeviceHasALibraryOfOurOwn) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      GemmDescriptor d = Product(4, 4, 4);
      d.in = d.out = type;
      const auto libraries = Multiplexer::GemmLibraries(device, d);
      const std::string own = device->host_accessible() ? "native" : "generated";
      EXPECT_EQ(std::count(libraries.begin(), libraries.end(), own), 1) << device->info().id;
    }
  }
}

TEST(MultiplexerTest, TheEnvironmentMovesALibraryToTheFront) {
  Device* cpu = Runtime::Get().cpu();
  EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(4, 4, 4))->library(), "openblas");
  setenv("CAFFE_LIBRARY", "conv=openblas,gemm=native", 1);
  EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(4, 4, 4))->library(), "native");
  setenv("CAFFE_LIBRARY", "gemm=generated", 1);  // not for the CPU: passed over
  EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(4, 4, 4))->library(), "openblas");
  setenv("CAFFE_LIBRARY", "gemm=nothing", 1);
  EXPECT_THROW(Multiplexer::Gemm(cpu, Product(4, 4, 4)), Error);
  setenv("CAFFE_LIBRARY", "norm=native", 1);
  EXPECT_THROW(Multiplexer::Gemm(cpu, Product(4, 4, 4)), Error);
  unsetenv("CAFFE_LIBRARY");
}

TEST(MultiplexerTest, ConstantWeightsArePackedForFewRows) {
  Device* cpu = Runtime::Get().cpu();
  const auto chosen = [&](int64_t rows, int64_t columns, bool constant) {
    GemmDescriptor d = Product(rows, columns, 64, false, true);
    if (constant) d.constant = GemmDescriptor::Weights::kB;
    return std::string(Multiplexer::Gemm(cpu, d)->library());
  };
  EXPECT_EQ(chosen(16, 512, true), "packed");
  EXPECT_EQ(chosen(32, 32, true), "packed");
  EXPECT_EQ(chosen(33, 512, true), "openblas");
  EXPECT_EQ(chosen(16, 10, true), "openblas");
  EXPECT_EQ(chosen(16, 512, false), "openblas");
}

// A product is one call, and one launch where its library has no epilogue; nothing waits.
TEST(GemmTest, Counters) {
  for (Device* device : AllDevices()) {
    GemmDescriptor d = Product(40, 30, 20);
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
      auto op = Multiplexer::GemmBy(library, device, d);
      const Array a(device, kFloat, Values(800, 1)), b(device, kFloat, Values(600, 2));
      const Array c(device, kFloat, Values(1200, 3)), bias(device, kFloat, Values(40, 4));
      test::Memory memory(device, op.get());
      const GemmArguments arguments = memory(GemmArguments{a, b, c, bias});
      device->ResetCounters();
      op->Run(arguments);
      const DeviceCounters counters = device->counters();
      EXPECT_EQ(counters.library_calls, library == "generated" ? 0 : 1) << library;
      EXPECT_EQ(counters.launches, 1) << library;
      EXPECT_EQ(counters.syncs + counters.allocations + counters.builds, 0) << library;
    }
  }
}

}  // namespace
}  // namespace caffe
