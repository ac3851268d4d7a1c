#include "caffe/library/fallback.hpp"

#include <algorithm>
#include <optional>

#include "caffe/core/out_of_memory.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

constexpr char kName[] = "refusing";

// The behaviour of the rows of this file. They compute by the device's own library until they
// refuse.
struct Behaviour {
  bool in_make = false, out_of_memory = false;
  int calls_before = 0;      // that compute
  bool writes = false;       // changes its output before it refuses
  bool says_so = true;       // in the refusal
  bool plain_error = false;  // an error other than a refusal
  int made = 0, calls = 0;
};
Behaviour behaviour;

void Refuse() {
  if (behaviour.plain_error) CAFFE_THROW("the device is lost");
  throw LibraryRefusal("code -2050", behaviour.writes && behaviour.says_so);
}

void Make() {
  ++behaviour.made;
  if (behaviour.out_of_memory) throw OutOfMemory("no room for copies");
  if (behaviour.in_make) CAFFE_THROW("code -99");
}

bool RefusesNow() { return ++behaviour.calls > behaviour.calls_before; }

std::string Own(Device* device) { return device->host_accessible() ? "native" : "generated"; }

void Fill(Device* device, DevicePtr target, int64_t bytes) { device->Fill(target, 0x3f, bytes); }

class RefusingGemm final : public GemmOp {
 public:
  RefusingGemm(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), op_(Multiplexer::GemmBy(Own(device), device, d)) {
    Make();
  }
  const char* library() const override { return kName; }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t prepared_bytes() const override { return op_->prepared_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override { op_->Prepare(weights, prepared); }

 protected:
  void DoRun(const GemmArguments& arguments) override {
    if (!RefusesNow()) return op_->Run(arguments);
    const GemmDescriptor& d = descriptor_;
    if (behaviour.writes)
      Fill(device_, arguments.c, d.m * d.n * static_cast<int64_t>(d.out.bytes()));
    Refuse();
  }

 private:
  Device* device_;
  std::unique_ptr<GemmOp> op_;
};

class RefusingConv final : public ConvOp {
 public:
  RefusingConv(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        op_(Multiplexer::ConvolutionBy(device->host_accessible() ? "native" : "generated", device,
                                       d)) {
    Make();
  }
  const char* library() const override { return kName; }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t prepared_bytes() const override { return op_->prepared_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override { op_->Prepare(weights, prepared); }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    RefusesNow() ? Refuse() : op_->Forward(arguments);
  }
  void DoBackwardData(const ConvGradients& gradients) override {
    RefusesNow() ? Refuse() : op_->BackwardData(gradients);
  }
  void DoBackwardWeights(const ConvGradients& gradients) override {
    RefusesNow() ? Refuse() : op_->BackwardWeights(gradients);
  }
  void DoBackwardBias(const ConvGradients& gradients) override {
    RefusesNow() ? Refuse() : op_->BackwardBias(gradients);
  }

 private:
  std::unique_ptr<ConvOp> op_;
};

GemmLibrary RefusingGemms() {
  return {kName, nullptr, [](Device*, const GemmDescriptor& d) { return !d.quantized(); },
          [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
            return std::make_unique<RefusingGemm>(device, d);
          }};
}

ConvLibrary RefusingConvs() {
  return {kName, nullptr, [](Device*, const ConvDescriptor& d) { return !d.quantized(); },
          [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
            return std::make_unique<RefusingConv>(device, d);
          }};
}

class FallbackTest : public testing::Test {
 protected:
  void SetUp() override { behaviour = {}; }
  void TearDown() override { RemoveLibrary(kName); }

  void Refuse(const Behaviour& how) {
    RemoveLibrary(kName);
    behaviour = how;
    AddLibrary(RefusingGemms());
  }
  static int64_t Warnings(const std::string& log) {
    int64_t lines = 0;
    for (size_t at = 0; at < log.size(); at = log.find('\n', at) + 1) lines += log[at] == 'W';
    return lines;
  }

  const GemmDescriptor product = [] {
    GemmDescriptor d;
    d.m = 9;
    d.n = 7;
    d.k = 5;
    return d;
  }();
  const std::vector<double> a = Values(45, 1), b = Values(35, 2), c = Values(63, 3);
};

std::vector<double> Product(const std::vector<double>& a, const std::vector<double>& b,
                            const std::vector<double>& c, double beta) {
  std::vector<double> result(63);
  for (int i = 0; i < 63; ++i) {
    result[i] = beta * c[i];
    for (int k = 0; k < 5; ++k) result[i] += a[i / 7 * 5 + k] * b[k * 7 + i % 7];
  }
  return result;
}

TEST_F(FallbackTest, TheNextRowComputesWhatARunRefuses) {
  for (Device* device : AllDevices()) {
    for (const double beta : {0.0, 1.0}) {
      for (const int before : {0, 2}) {
        Refuse({.calls_before = before});
        const Array da(device, kFloat, a), db(device, kFloat, b);
        auto op = Multiplexer::Gemm(device, product);
        EXPECT_STREQ(op->library(), kName);
        testing::internal::CaptureStderr();
        test::Memory memory(device, op.get());
        for (int call = 0; call < 4; ++call) {
          const Array dc(device, kFloat, c);
          GemmArguments arguments{da, db, dc};
          arguments.beta = beta;
          op->Run(memory(arguments));
          test::ExpectNear(dc.Read(), Product(a, b, c, beta), 1e-6, device->info().id);
        }
        const std::string log = testing::internal::GetCapturedStderr();
        EXPECT_STRNE(op->library(), kName);
        EXPECT_EQ(Warnings(log), 1) << log;
        for (const std::string& part :
             {device->info().id, std::string(kName), std::string("code -2050"), product.name(),
              std::string(op->library())}) {
          EXPECT_NE(log.find(part), std::string::npos) << part << " is not in " << log;
        }
        // It was asked once more than it computed, and is not asked again.
        EXPECT_EQ(behaviour.calls, before + 1);
        EXPECT_STREQ(Multiplexer::Gemm(device, product)->library(), op->library());
        EXPECT_EQ(behaviour.made, 1);
        GemmDescriptor other = product;
        other.ldc = 8;
        EXPECT_STREQ(Multiplexer::Gemm(device, other)->library(), kName);
      }
    }
  }
}

TEST_F(FallbackTest, TheNextRowIsMadeWhereOneCannotBe) {
  for (Device* device : AllDevices()) {
    Refuse({.in_make = true});
    testing::internal::CaptureStderr();
    auto op = Multiplexer::Gemm(device, product);
    EXPECT_EQ(Warnings(testing::internal::GetCapturedStderr()), 1);
    EXPECT_STRNE(op->library(), kName);
    Multiplexer::Gemm(device, product);
    EXPECT_EQ(behaviour.made, 1);
    // Room may be there the next time.
    Refuse({.out_of_memory = true});
    EXPECT_STRNE(Multiplexer::Gemm(device, product)->library(), kName);
    behaviour.out_of_memory = false;
    EXPECT_STREQ(Multiplexer::Gemm(device, product)->library(), kName);
  }
}

// A sum on top of an output that was half written would be wrong, and so would hiding another
// error.
TEST_F(FallbackTest, OutputsAreNotAddedToTwice) {
  Device* cpu = Runtime::Get().cpu();
  Refuse({.writes = true});
  const Array da(cpu, kFloat, a), db(cpu, kFloat, b), dc(cpu, kFloat, c);
  EXPECT_THROW(test::Run(*Multiplexer::Gemm(cpu, product), cpu, {da, db, dc, {}, 1, 1}),
               LibraryRefusal);
  test::Run(*Multiplexer::Gemm(cpu, product), cpu, {da, db, dc, {}, 1, 0});
  test::ExpectNear(dc.Read(), Product(a, b, c, 0), 1e-6, "overwritten");
  Refuse({.plain_error = true});
  EXPECT_THROW(test::Run(*Multiplexer::Gemm(cpu, product), cpu, {da, db, dc}), Error);
  EXPECT_EQ(behaviour.calls, 1);
  // A library that is requested by name has no fallback.
  Refuse({});
  EXPECT_THROW(test::Run(*Multiplexer::GemmBy(kName, cpu, product), cpu, {da, db, dc}),
               LibraryRefusal);
}

TEST_F(FallbackTest, TheLastRowsErrorIsThrown) {
  Device* cpu = Runtime::Get().cpu();
  Refuse({});
  const Array da(cpu, kFloat, a), db(cpu, kFloat, b), dc(cpu, kFloat, c);
  auto op = MakeWithFallback(cpu, product, {RefusingGemms(), RefusingGemms()});
  EXPECT_THROW(test::Run(*op, cpu, {da, db, dc}), LibraryRefusal);
  behaviour.in_make = true;
  GemmDescriptor other = product;
  other.ldc = 9;
  EXPECT_THROW(MakeWithFallback(cpu, other, {RefusingGemms(), RefusingGemms()}), Error);
}

// A call that works is one launch or library call still, and nothing else.
TEST_F(FallbackTest, ACallThatWorksCostsNothing) {
  for (Device* device : AllDevices()) {
    Refuse({.calls_before = 100});
    auto op = Multiplexer::Gemm(device, product);
    const Array da(device, kFloat, a), db(device, kFloat, b), dc(device, kFloat, c);
    test::Memory memory(device, op.get());
    const GemmArguments arguments = memory(GemmArguments{da, db, dc});
    device->ResetCounters();
    op->Run(arguments);
    const DeviceCounters counters = device->counters();
    EXPECT_EQ(counters.launches + counters.library_calls, 1);
    EXPECT_EQ(counters.syncs + counters.allocations + counters.builds + counters.copies, 0);
  }
}

struct Passes {
  std::vector<double> y, x_diff, w_diff, b_diff;
};

ConvDescriptor Conv(DataType type) {
  ConvDescriptor d;
  d.batch = 3;
  d.in_channels = 4;
  d.out_channels = 6;
  d.group = 2;
  d.geometry.input = {6, 5};
  d.geometry.kernel = {3, 3};
  d.geometry.pad = {1, 1};
  d.in = d.out = type;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.backward_data = d.backward_weights = true;
  d.workspace_limit = 4000;  // several chunks
  return d;
}

// Twice each, so that gradients of weights are added to what is there.
Passes AllPasses(ConvOp& op, Device* device) {
  const ConvDescriptor& d = op.descriptor();
  const Array x(device, d.in, Values(360, 1)), w(device, d.in, Values(108, 2));
  const Array bias(device, d.master(), Values(6, 3)), dy(device, d.out, Values(540, 4));
  const Array y(device, d.out, std::vector<double>(540)),
      dx(device, d.in, std::vector<double>(360));
  const Array dw(device, d.master(), Values(108, 5)), db(device, d.master(), Values(6, 6));
  test::Memory memory(device, &op);
  for (int i = 0; i < 2; ++i) {
    op.Forward(memory(ConvArguments{x, w, {}, bias, y}));
    const ConvGradients gradients = memory(ConvGradients{x, w, {}, dy, dx, dw, db});
    op.BackwardData(gradients);
    op.BackwardWeights(gradients);
    op.BackwardBias(gradients);
  }
  device->Synchronize();
  return {y.Read(), dx.Read(), dw.Read(), db.Read()};
}

void ExpectEqual(const Passes& actual, const Passes& expected, const Device* device, DataType type,
                 const std::string& what) {
  // On CUDA the next row may be one that stores gradients of weights in `type`.
  const bool rounds = device->backend() == "cuda";
  const double weights = std::max(1e-5, rounds ? test::Tolerance(type) : 0);
  test::ExpectNear(actual.y, expected.y, test::Tolerance(type), what + " forward");
  test::ExpectNear(actual.x_diff, expected.x_diff, test::Tolerance(type), what + " data");
  test::ExpectNear(actual.w_diff, expected.w_diff, weights, what + " weights");
  test::ExpectNear(actual.b_diff, expected.b_diff, 1e-5, what + " bias");
}

// At every call of every pass, by products (on devices) and by whole convolutions.
TEST_F(FallbackTest, ConvolutionsGoOnWhereALibraryRefuses) {
  for (Device* device : AllDevices()) {
    for (const DataType type : {kFloat, kHalf}) {
      const ConvDescriptor d = Conv(type);
      RemoveLibrary(kName);
      const Passes expected =
          AllPasses(*Multiplexer::ConvolutionBy(Own(device), device, d), device);
      for (int before = 0; before < 40; before += 3) {
        if (device->host_accessible()) break;
        Refuse({.calls_before = before});
        ExpectEqual(AllPasses(*Multiplexer::Convolution(device, d), device), expected, device, type,
                    Concat(device->info().id, " products, call ", before));
        if (behaviour.calls <= before) break;
      }
      for (int before = 0; before < 9; ++before) {
        RemoveLibrary(kName);
        behaviour = {.calls_before = before};
        AddLibrary(RefusingConvs());
        auto op = Multiplexer::Convolution(device, d);
        EXPECT_STREQ(op->library(), kName);
        testing::internal::CaptureStderr();
        ExpectEqual(AllPasses(*op, device), expected, device, type,
                    Concat(device->info().id, " convolution, call ", before));
        EXPECT_EQ(Warnings(testing::internal::GetCapturedStderr()), before < 8 ? 1 : 0);
        EXPECT_EQ(std::string(op->library()) == kName, before == 8);
      }
      RemoveLibrary(kName);
      behaviour = {.in_make = true};
      AddLibrary(RefusingConvs());
      ExpectEqual(AllPasses(*Multiplexer::Convolution(device, d), device), expected, device, type,
                  device->info().id + " convolution, not made");
    }
  }
}

}  // namespace
}  // namespace caffe
