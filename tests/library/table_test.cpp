// A new library is a row: for products, convolutions and pooling alike.
#include "caffe/library/table.hpp"

#include <algorithm>
#include <cstdlib>

#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

constexpr char kName[] = "small";
bool refuses = false;
int calls = 0;

// Counts a call, or refuses it.
void Call() {
  if (refuses) throw LibraryRefusal("not today");
  ++calls;
}

std::string Own(Device* device) { return device->host_accessible() ? "native" : "generated"; }

class SmallGemm final : public GemmOp {
 public:
  SmallGemm(Device* device, const GemmDescriptor& d)
      : GemmOp(d), op_(Multiplexer::GemmBy(Own(device), device, d)) {}
  const char* library() const override { return kName; }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }

 protected:
  void DoRun(const GemmArguments& arguments) override {
    Call();
    op_->Run(arguments);
  }

 private:
  std::unique_ptr<GemmOp> op_;
};

class SmallConv final : public ConvOp {
 public:
  SmallConv(Device* device, const ConvDescriptor& d)
      : ConvOp(d), op_(Multiplexer::ConvolutionBy(Own(device), device, d)) {}
  const char* library() const override { return kName; }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    Call();
    op_->Forward(arguments);
  }

 private:
  std::unique_ptr<ConvOp> op_;
};

class SmallPool final : public PoolOp {
 public:
  SmallPool(Device* device, const PoolDescriptor& d)
      : PoolOp(d), op_(Multiplexer::PoolingBy(Own(device), device, d)) {}
  const char* library() const override { return kName; }

 protected:
  void DoForward(const PoolArguments& arguments) override {
    Call();
    op_->Forward(arguments);
  }
  void DoBackward(const PoolArguments& arguments) override {
    Call();
    op_->Backward(arguments);
  }

 private:
  std::unique_ptr<PoolOp> op_;
};

// The three operations, so that each test is one text for all of them.
struct Gemms {
  using D = GemmDescriptor;
  using Op = GemmOp;
  using Small = SmallGemm;
  static constexpr char kOperation[] = "gemm";
  static D Descriptor() {
    D d;
    d.m = d.n = d.k = 4;
    return d;
  }
  static auto Make(Device* device) { return Multiplexer::Gemm(device, Descriptor()); }
  static auto Names(Device* device) { return Multiplexer::GemmLibraries(device, Descriptor()); }
  static std::vector<double> Run(Op& op, Device* device) {
    const Array a(device, kFloat, Values(16, 1)), b(device, kFloat, Values(16, 2));
    const Array c(device, kFloat, Values(16, 3));
    test::Run(op, device, {a, b, c});
    return c.Read();
  }
};

struct Convs {
  using D = ConvDescriptor;
  using Op = ConvOp;
  using Small = SmallConv;
  static constexpr char kOperation[] = "conv";
  static D Descriptor() {
    D d;
    d.in_channels = 2;
    d.out_channels = 3;
    d.geometry.input = {5, 5};
    d.geometry.kernel = {3, 3};
    return d;
  }
  static auto Make(Device* device) { return Multiplexer::Convolution(device, Descriptor()); }
  static auto Names(Device* device) {
    return Multiplexer::ConvolutionLibraries(device, Descriptor());
  }
  static std::vector<double> Run(Op& op, Device* device) {
    const Array x(device, kFloat, Values(50, 1)), w(device, kFloat, Values(54, 2));
    const Array y(device, kFloat, Values(27, 3));
    test::Memory memory(device, &op);
    op.Forward(memory(ConvArguments{x, w, {}, {}, y}));
    return y.Read();
  }
};

struct Pools {
  using D = PoolDescriptor;
  using Op = PoolOp;
  using Small = SmallPool;
  static constexpr char kOperation[] = "pool";
  static D Descriptor() {
    D d;
    d.planes = 3;
    d.height = {6, 3, 2, 2, 0};
    d.width = {8, 4, 2, 2, 0};
    return d;
  }
  static auto Make(Device* device) { return Multiplexer::Pooling(device, Descriptor()); }
  static auto Names(Device* device) { return Multiplexer::PoolingLibraries(device, Descriptor()); }
  static std::vector<double> Run(Op& op, Device* device) {
    const Array x(device, kFloat, Values(144, 1)), y(device, kFloat, Values(36, 2));
    const Array mask(device, kFloat, Values(36, 3));
    PoolArguments arguments;
    arguments.x = x;
    arguments.y = y;
    arguments.mask = mask;
    op.Forward(arguments);
    return y.Read();
  }
};

template <class Operation> Library<typename Operation::D, typename Operation::Op> Row() {
  using D = typename Operation::D;
  return {kName, nullptr, [](Device*, const D&) { return true; },
          [](Device* device, const D& d) -> std::unique_ptr<typename Operation::Op> {
            return std::make_unique<typename Operation::Small>(device, d);
          }};
}

class TableTest : public testing::Test {
 protected:
  void SetUp() override {
    refuses = false;
    calls = 0;
  }
  void TearDown() override {
    unsetenv("CAFFE_LIBRARY");
    RemoveLibrary(kName);
  }
};

template <class Operation> void CheckAnAddedRowComputes() {
  for (Device* device : AllDevices()) {
    const auto expected = Operation::Run(*Operation::Make(device), device);
    const auto before = Operation::Names(device);
    EXPECT_EQ(std::count(before.begin(), before.end(), Own(device)), 1);
    AddLibrary(Row<Operation>());
    EXPECT_EQ(Operation::Names(device)[0], kName);
    const auto op = Operation::Make(device);
    EXPECT_STREQ(op->library(), kName);
    calls = 0;
    EXPECT_EQ(Operation::Run(*op, device), Operation::Run(*Operation::Make(device), device));
    EXPECT_EQ(calls, 2);
    test::ExpectNear(Operation::Run(*op, device), expected, 1e-6, device->info().id);
    RemoveLibrary(kName);
    EXPECT_EQ(Operation::Names(device), before);
  }
}

template <class Operation> void CheckTheNextRowComputesWhatItRefuses() {
  for (Device* device : AllDevices()) {
    const auto expected = Operation::Run(*Operation::Make(device), device);
    AddLibrary(Row<Operation>());
    refuses = true;
    const auto op = Operation::Make(device);
    testing::internal::CaptureStderr();
    EXPECT_EQ(Operation::Run(*op, device), expected);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(kName), std::string::npos);
    EXPECT_STRNE(op->library(), kName);
    // It is not asked again.
    EXPECT_STRNE(Operation::Make(device)->library(), kName);
    RemoveLibrary(kName);
    refuses = false;
  }
}

template <class Operation> void CheckTheSettingNamesTheFirstRow() {
  Device* cpu = Runtime::Get().cpu();
  AddLibrary(Row<Operation>());
  setenv("CAFFE_LIBRARY", Concat(Operation::kOperation, "=native").c_str(), 1);
  EXPECT_STREQ(Operation::Make(cpu)->library(), "native");
  EXPECT_EQ(Operation::Names(cpu)[1], kName);
  setenv("CAFFE_LIBRARY", Concat(Operation::kOperation, "=", kName).c_str(), 1);
  EXPECT_STREQ(Operation::Make(cpu)->library(), kName);
  setenv("CAFFE_LIBRARY", Concat(Operation::kOperation, "=missing").c_str(), 1);
  EXPECT_THROW(Operation::Make(cpu), Error);
  unsetenv("CAFFE_LIBRARY");
  RemoveLibrary(kName);
}

// Where a row is not preferred, the others are tried first; a setting goes before that.
template <class Operation> void CheckARowThatIsNotPreferredComesLast() {
  Device* cpu = Runtime::Get().cpu();
  auto row = Row<Operation>();
  row.prefers = [](Device*, const typename Operation::D&) { return false; };
  AddLibrary(row);
  // Behind the rows that are preferred, `native` among them.
  const std::vector<std::string> names = Operation::Names(cpu);
  EXPECT_LT(std::find(names.begin(), names.end(), "native"),
            std::find(names.begin(), names.end(), kName));
  setenv("CAFFE_LIBRARY", Concat(Operation::kOperation, "=", kName).c_str(), 1);
  EXPECT_EQ(Operation::Names(cpu)[0], kName);
  unsetenv("CAFFE_LIBRARY");
  RemoveLibrary(kName);
}

TEST_F(TableTest, AnAddedRowComputes) {
  CheckAnAddedRowComputes<Gemms>();
  CheckAnAddedRowComputes<Convs>();
  CheckAnAddedRowComputes<Pools>();
}

TEST_F(TableTest, TheNextRowComputesWhatItRefuses) {
  CheckTheNextRowComputesWhatItRefuses<Gemms>();
  CheckTheNextRowComputesWhatItRefuses<Convs>();
  CheckTheNextRowComputesWhatItRefuses<Pools>();
}

TEST_F(TableTest, TheSettingNamesTheFirstRow) {
  CheckTheSettingNamesTheFirstRow<Gemms>();
  CheckTheSettingNamesTheFirstRow<Convs>();
  CheckTheSettingNamesTheFirstRow<Pools>();
}

TEST_F(TableTest, ARowThatIsNotPreferredComesLast) {
  CheckARowThatIsNotPreferredComesLast<Gemms>();
  CheckARowThatIsNotPreferredComesLast<Convs>();
  CheckARowThatIsNotPreferredComesLast<Pools>();
}

// A library for products computes the convolutions of devices, too.
TEST_F(TableTest, ConvolutionsOnDevicesUseALibraryForProducts) {
  refuses = false;
  AddLibrary(Row<Gemms>());
  for (Device* device : AllDevices()) {
    calls = 0;
    Convs::Run(*Convs::Make(device), device);
    EXPECT_EQ(calls > 0, !device->host_accessible()) << device->info().id;
  }
  RemoveLibrary(kName);
}

// The layout is that of the first row, also if that row does not support the other layout.
TEST_F(TableTest, TheFirstRowGivesTheLayout) {
  Device* cpu = Runtime::Get().cpu();
  const auto layout = [&] { return Multiplexer::PreferredLayout(cpu, Convs::Descriptor()); };
  EXPECT_EQ(layout(), Layout::kNCHW);
  for (const bool nhwc_alone : {false, true}) {
    for (const bool prefers : {false, true}) {
      auto row = Row<Convs>();
      row.supports = [=](Device*, const ConvDescriptor& d) {
        return !nhwc_alone || d.x_layout == Layout::kNHWC;
      };
      row.prefers_nhwc = [=](Device*, const ConvDescriptor&) { return prefers; };
      AddLibrary(row);
      EXPECT_EQ(layout(), prefers ? Layout::kNHWC : Layout::kNCHW) << nhwc_alone;
      setenv("CAFFE_LIBRARY", "conv=native", 1);
      EXPECT_EQ(layout(), Layout::kNCHW);
      setenv("CAFFE_LIBRARY", Concat("conv=", kName).c_str(), 1);
      EXPECT_EQ(layout(), prefers ? Layout::kNHWC : Layout::kNCHW) << nhwc_alone;
      unsetenv("CAFFE_LIBRARY");
      RemoveLibrary(kName);
    }
  }
}

TEST_F(TableTest, ALibraryThatIsNotThereIsAnError) {
  Device* cpu = Runtime::Get().cpu();
  EXPECT_THROW(Multiplexer::PoolingBy("generated", cpu, Pools::Descriptor()), Error);
  EXPECT_THROW(Multiplexer::ConvolutionBy("winograd", cpu, Convs::Descriptor()), Error);
}

}  // namespace
}  // namespace caffe
