// Convolutions whose passes are computed by the libraries that are fastest for them.
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/tuning.hpp"
#include "library/library_support.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

using test::AllDevices;
using test::Array;
using test::Values;

using Passes = std::set<std::string>;

// The behaviour of the rows of a test.
struct Plan {
  std::map<std::string, Passes> slow;             // by row
  std::set<std::string> broken, refusing;         // rows that cannot be made, and whose calls fail
  std::vector<std::string> calls;                 // "row pass"
  std::map<std::string, unsigned char> prepared;  // what a row fills its prepared weights with
};

// The choices between libraries for convolutions since the first `known`, or those between pieces
// of a batch; libraries that choose among their algorithms report, too.
std::vector<TunedChoice> Choices(size_t known, bool pieces = false) {
  std::vector<TunedChoice> choices = TunedChoices();
  choices.erase(choices.begin(), choices.begin() + static_cast<ptrdiff_t>(known));
  std::erase_if(choices, [&](const TunedChoice& one) {
    const bool in_pieces = one.operation.find(", pieces of ") != std::string::npos;
    return one.library != "convolution" || in_pieces != pieces;
  });
  return choices;
}

ConvDescriptor Descriptor() {
  ConvDescriptor d;
  d.batch = 2;
  d.in_channels = 3;
  d.out_channels = 4;
  d.geometry.input = {6, 5};
  d.geometry.kernel = {3, 2};
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.backward_data = d.backward_weights = true;
  return d;
}

std::unique_ptr<ConvOp> Own(Device* device, const ConvDescriptor& d) {
  return Multiplexer::ConvolutionBy(device->host_accessible() ? "native" : "generated", device, d);
}

class PlannedConv final : public ConvOp {
 public:
  PlannedConv(Device* device, const ConvDescriptor& d, std::string name, Plan* plan)
      : ConvOp(d), device_(device), name_(std::move(name)), plan_(*plan), op_(Own(device, d)) {
    own_bytes_ = op_->prepared_bytes();
  }
  const char* library() const override { return name_.c_str(); }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t prepared_bytes() const override { return own_bytes_ + kMark; }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    op_->Prepare(weights, prepared + kMark);
    device_->Fill(prepared, plan_.prepared[name_], kMark);
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    ConvArguments a = given;
    a.prepared = Begin("forward", given.prepared);
    op_->Forward(a);
  }
  void DoBackwardData(const ConvGradients& given) override {
    ConvGradients g = given;
    g.prepared = Begin("data", given.prepared);
    op_->BackwardData(g);
  }
  void DoBackwardWeights(const ConvGradients& given) override {
    ConvGradients g = given;
    g.prepared = Begin("weights", given.prepared);
    op_->BackwardWeights(g);
  }
  void DoBackwardBias(const ConvGradients& given) override {
    ConvGradients g = given;
    g.prepared = Begin("bias", given.prepared);
    op_->BackwardBias(g);
  }

 private:
  static constexpr int64_t kMark = 256;

  DevicePtr Begin(const std::string& pass, DevicePtr prepared) {
    if (plan_.refusing.count(name_)) throw LibraryRefusal("not today");
    plan_.calls.push_back(name_ + " " + pass);
    if (plan_.slow[name_].count(pass)) {
      device_->Synchronize();
      // Longer than the turns that other processes take on a busy core.
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
    }
    unsigned char mark = 0;
    device_->Download(&mark, prepared, 1);
    EXPECT_EQ(mark, plan_.prepared[name_]) << name_ << " got the weights of another row";
    return own_bytes_ > 0 ? prepared + kMark : DevicePtr{};
  }

  Device* device_;
  const std::string name_;
  Plan& plan_;
  std::unique_ptr<ConvOp> op_;
  int64_t own_bytes_ = 0;
};

std::vector<ConvLibrary> Rows(const std::vector<std::string>& names, Plan* plan) {
  std::vector<ConvLibrary> rows;
  for (const std::string& name : names) {
    plan->prepared[name] = static_cast<unsigned char>(rows.size() + 1);
    ConvLibrary row;
    row.name = name;
    row.supports = [](Device*, const ConvDescriptor&) { return true; };
    row.make = [name, plan](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
      if (plan->broken.count(name)) CAFFE_THROW("row ", name, " cannot be made");
      return std::make_unique<PlannedConv>(device, d, name, plan);
    };
    rows.push_back(std::move(row));
  }
  return rows;
}

// The results of all passes: y, x_diff, w_diff, b_diff.
std::vector<std::vector<double>> AllPasses(Device* device, ConvOp* op) {
  const ConvDescriptor& d = op->descriptor();
  const int64_t x_count = d.batch * d.in_channels * d.geometry.input_count();
  const int64_t y_count = d.batch * d.out_channels * d.geometry.output_count();
  const Array x(device, kFloat, Values(x_count, 1)), w(device, kFloat, Values(d.weight_count(), 2));
  const Array b(device, kFloat, Values(d.out_channels, 3)), y(device, kFloat, Values(y_count, 4));
  const Array dy(device, kFloat, Values(y_count, 5)), dx(device, kFloat, Values(x_count, 6));
  const Array dw(device, kFloat, Values(d.weight_count(), 7));
  const Array db(device, kFloat, Values(d.out_channels, 8));
  test::Memory memory(device, op);
  op->Forward(memory(ConvArguments{x, w, {}, b, y}));
  const ConvGradients g = memory(ConvGradients{x, w, {}, dy, dx, dw, db});
  op->BackwardBias(g);
  op->BackwardWeights(g);
  op->BackwardData(g);
  return {y.Read(), dx.Read(), dw.Read(), db.Read()};
}

std::unique_ptr<ConvOp> Make(Device* device, const std::vector<ConvLibrary>& rows) {
  ConvDescriptor d = Descriptor();
  d.Normalize();
  return MakeMeasured(device, d, rows, rows);
}

TEST(MeasuredConvolutionTest, EachPassIsComputedByTheFastestRow) {
  for (Device* device : AllDevices()) {
    Plan plan;
    plan.slow["early"] = {"data"};
    plan.slow["late"] = {"forward", "weights"};
    const auto rows = Rows({"early", "late"}, &plan);
    const auto op = Make(device, rows);
    plan.calls.clear();
    EXPECT_EQ(AllPasses(device, op.get()), AllPasses(device, Own(device, op->descriptor()).get()));
    EXPECT_EQ(plan.calls, (std::vector<std::string>{"early forward", "early bias", "early weights",
                                                    "late data"}))
        << device->info().id;
    EXPECT_STREQ(op->library(), "early");
  }
}

TEST(MeasuredConvolutionTest, AChoiceIsMeasuredOnce) {
  for (Device* device : AllDevices()) {
    Plan plan;
    plan.slow["tardy"] = {"forward", "data", "weights"};
    const auto rows = Rows({"tardy", "quick"}, &plan);
    Make(device, rows);
    plan.calls.clear();
    const size_t before = TunedChoices().size();
    const auto op = Make(device, rows);
    EXPECT_TRUE(plan.calls.empty()) << device->info().id;
    const auto choices = Choices(before);
    ASSERT_EQ(choices.size(), 3);
    for (const TunedChoice& choice : choices) {
      EXPECT_EQ(choice.configuration, "quick");
      EXPECT_EQ(choice.measured, 0);
    }
  }
}

TEST(MeasuredConvolutionTest, RowsThatFailAreReplaced) {
  for (Device* device : AllDevices()) {
    Plan plan;
    plan.broken = {"missing"};
    plan.slow["spare"] = {"forward", "data", "weights"};
    const auto rows = Rows({"missing", "eager", "spare"}, &plan);
    const auto op = Make(device, rows);
    EXPECT_STREQ(op->library(), "eager") << device->info().id;
    plan.refusing = {"eager"};
    plan.broken = {};
    plan.calls.clear();
    const auto expected = AllPasses(device, Own(device, op->descriptor()).get());
    EXPECT_EQ(AllPasses(device, op.get()), expected) << device->info().id;
    for (const std::string& call : plan.calls) {
      EXPECT_EQ(call.substr(0, call.find(' ')), "missing") << "the first of all rows takes over";
    }
    for (const char* name : {"missing", "eager", "spare"}) ForgetRefusals(name);
  }
}

// A setting measures what each device has, the CPU and OpenCL included.
TEST(MeasuredConvolutionTest, ASettingMeasuresOnEveryDevice) {
  ConvDescriptor d = Descriptor();
  d.Normalize();
  for (Device* device : AllDevices()) {
    if (Multiplexer::ConvolutionLibraries(device, d).size() < 2) continue;
    const auto expected = AllPasses(device, Multiplexer::Convolution(device, d).get());
    const TuneExhaustively again;  // not what an earlier process measured
    const size_t known = TunedChoices().size();
    const ScopedVariable setting("CAFFE_LIBRARY", "conv=measured");
    const auto op = Multiplexer::Convolution(device, d);
    const std::vector<TunedChoice> choices = Choices(known);
    EXPECT_GE(choices.size(), 3) << device->info().id << ": a choice for each pass";
    for (const TunedChoice& choice : choices) {
      EXPECT_EQ(choice.device, device->info().id);
      EXPECT_GT(choice.measured, 1) << choice.operation;
    }
    const auto results = AllPasses(device, op.get());
    for (size_t i = 0; i < expected.size(); ++i) {
      test::ExpectNear(results[i], expected[i], 1e-3, Concat(device->info().id, " array ", i));
    }
  }
}

// `caffe tune` measures how many images are computed at a time; later runs use the result.
TEST(MeasuredConvolutionTest, PiecesOfABatchOnOpenCl) {
  ConvDescriptor d = Descriptor();
  d.batch = 7;
  d.backward_data = d.backward_weights = false;
  d.Normalize();
  for (Device* device : AllDevices()) {
    if (device->backend() != "opencl") continue;
    const auto run = [&](ConvOp* op) {
      const Array x(device, kFloat, Values(d.batch * d.in_channels * d.geometry.input_count(), 1)),
          w(device, kFloat, Values(d.weight_count(), 2)), b(device, kFloat, Values(4, 3)),
          y(device, kFloat, Values(d.batch * 4 * d.geometry.output_count(), 4)),
          workspace(device, kFloat, std::vector<double>(op->workspace_bytes() / 4 + 1));
      ConvArguments a{x, w, {}, b, y};
      a.workspace = workspace;
      op->Forward(a);
      return y.Read();
    };
    const std::vector<double> expected = run(Own(device, d).get());
    std::string fastest;
    for (const bool measures : {true, false}) {
      std::optional<TuneExhaustively> exhaustively;
      if (measures) exhaustively.emplace();
      const size_t known = TunedChoices().size();
      const auto op = Own(device, d);
      const std::vector<TunedChoice> found = Choices(known, true);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].measured, measures ? 3 : 0);  // 7, 3 and 1 images
      if (measures) fastest = found[0].configuration;
      EXPECT_EQ(found[0].configuration, fastest);
      EXPECT_NE(fastest.find(", pieces of "), std::string::npos) << fastest;
      EXPECT_EQ(run(op.get()), expected) << fastest;
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const int64_t images : {7, 3, 1}) {
        const std::string name = Concat("pieces of ", images, images == 1 ? " image" : " images");
        if (fastest.ends_with(name)) least = images;
      }
      // The workspace holds the columns of as many images.
      const int64_t columns = least * d.depth() * d.geometry.output_count() * 4;
      EXPECT_GE(op->workspace_bytes(), columns);
      EXPECT_LT(op->workspace_bytes(), 2 * columns + 4096);
    }
  }
}

}  // namespace
}  // namespace caffe
