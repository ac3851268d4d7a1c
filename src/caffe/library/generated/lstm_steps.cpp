#include "caffe/library/generated/lstm_steps.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kItems = 256;          // of a group with matrix units
constexpr int64_t kWarps = kItems / 32;  // each has a part of the depth
constexpr int64_t kPlainUnits = 8;       // of a group without matrix units, in one pass

// The registers in which an item keeps weights, for sums of `depth` elements; see step_sums.h.
int64_t Registers(const LstmDescriptor& d, int64_t depth, int64_t columns) {
  const int64_t chunk = 64 / static_cast<int64_t>(d.type.bytes());
  return Ceil(depth, chunk * kWarps) * columns / 8 * 4;
}

// The bytes of the sums of all warps in local memory.
int64_t SumBytes(int64_t rows, int64_t columns) {
  return kWarps * rows * (columns + (columns % 32 == 0 ? 8 : 0)) * 4;
}

// The array of LstmSteps::turn_ of a device.
std::shared_ptr<DeviceArray> TurnOf(Device* device) {
  static std::mutex mutex;
  static auto* const all = new std::map<Device*, std::weak_ptr<DeviceArray>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<DeviceArray>& known = (*all)[device];
  std::shared_ptr<DeviceArray> turn = known.lock();
  if (!turn) known = turn = std::make_shared<DeviceArray>(device, 4, "turns of LSTM");
  return turn;
}

}  // namespace

std::optional<LstmSteps::Division> LstmSteps::ForMatrixUnits(Device* device,
                                                             const LstmDescriptor& d) {
  constexpr int64_t kMostRegisters = 64, kMostSumBytes = 48 << 10;
  const DeviceInfo& info = device->info();
  const int64_t whole = 16 / static_cast<int64_t>(d.type.bytes());
  if (MatrixUnits(device) == 0 || d.type == kDouble || info.group_items() < kItems) return {};
  if (d.hidden % whole != 0 || d.items == 0) return {};
  // Up to so many groups read at the same time without slowing each other down: on an H100, 32
  // sequences of 512 units in half took 2.9 us a step with 128 groups, and 2.5 with 64.
  constexpr int64_t kFewGroups = 64;
  std::optional<Division> best;
  int64_t least = 0;
  for (const int64_t units : {8, 16}) {
    for (const int64_t rows : {16, 32}) {
      Division one{true, units, rows, Ceil(d.hidden, units)};
      const int64_t blocks = Ceil(d.items, rows);
      // All groups run at the same time, since they wait for each other.
      one.row_groups = std::min<int64_t>(blocks, info.compute_units / one.parts);
      // An item has the units of a word.
      if (one.row_groups == 0 || units * rows > kItems * whole / 4) continue;
      if (Registers(d, d.hidden, 4 * units) > kMostRegisters) continue;
      if (Registers(d, 4 * d.hidden, units) > kMostRegisters) continue;
      if (SumBytes(rows, 4 * units) > kMostSumBytes) continue;
      // The rows that are read in a step.
      const int64_t cost =
          Ceil(blocks, one.row_groups) * rows * std::max(kFewGroups, one.parts * one.row_groups);
      if (best && cost >= least) continue;
      best = one;
      least = cost;
    }
  }
  return best;
}

bool LstmSteps::Prefers(Device* device, const LstmDescriptor& d) {
  // More rows keep all compute units busy by products of single steps, too.
  constexpr int64_t kMostRows = 128;
  const auto division = ForMatrixUnits(device, d);
  return division &&
         Ceil(Ceil(d.items, division->rows), division->row_groups) * division->rows <= kMostRows;
}

LstmSteps::LstmSteps(Device* device, const LstmDescriptor& d)
    : LstmSteps(device, d,
                ForMatrixUnits(device, d).value_or(
                    Division{false, std::min(kPlainUnits, device->info().group_items())})) {}

LstmSteps::LstmSteps(Device* device, const LstmDescriptor& d, const Division& division)
    : LstmOp(d), device_(device), division_(division) {
  forward_ = MakeKernel("lstm_steps_forward");
  if (division_.units_multiply) turn_ = TurnOf(device);
  if (!d.trains) return;
  backward_ = MakeKernel("lstm_steps_backward");
  GemmDescriptor weights;
  weights.in = d.type;
  weights.out = d.master();
  weights.trans_a = true;
  weights.m = 4 * d.hidden;
  weights.n = d.hidden;
  weights.k = d.steps * d.items;
  weights_ = Multiplexer::Gemm(device, weights);
  carried_at_ = layout_.Add(d.state_count() * static_cast<int64_t>(d.master().bytes()));
  product_at_ = layout_.Add(weights_->workspace_bytes());
}

std::unique_ptr<Kernel> LstmSteps::MakeKernel(const char* name) {
  const LstmDescriptor& d = descriptor_;
  const std::string body =
      Concat("neuron/", std::string(name) == "lstm_steps_forward" ? "lstm_steps" : name);
  ProgramBuilder builder(device_, name);
  builder.Types({d.master(), d.type, d.type})
      .Define("MATRIX_UNITS", division_.units_multiply ? 1 : 0)
      .Define("UNITS_MULTIPLY", division_.units_multiply ? 1 : 0)
      .Define("ELEMENT_BYTES", static_cast<int64_t>(d.type.bytes()))
      .Define("BFLOAT", d.type == kBfloat16)
      .Define("HIDDEN", d.hidden)
      .Define("UNITS", division_.units)
      .Define("ROWS", division_.rows > 0 ? std::to_string(division_.rows) : "(GROUP / UNITS)")
      .Body(body);
  auto kernel = builder.GroupKernel(name);
  const int64_t fewest = division_.units_multiply ? kItems : division_.units;
  CAFFE_CHECK(kernel->group() >= fewest, device_->info().id, ": ", name, " runs with groups of ",
              kernel->group(), " work items; it needs ", fewest);
  return kernel;
}

LaunchGroups LstmSteps::Groups(const Kernel& kernel) const {
  LaunchGroups groups;
  groups.groups = {division_.parts, division_.row_groups, 1};
  if (division_.row_groups == 0) {
    groups.groups[1] = Ceil(descriptor_.items, kernel.group() / division_.units);
  }
  groups.local = {kernel.group(), 1, 1};
  return groups;
}

void LstmSteps::Unwrite(DevicePtr array, int64_t count) const {
  if (!division_.units_multiply) return;
  device_->Fill(array, 0xff, count * static_cast<int64_t>(descriptor_.type.bytes()));
}

void LstmSteps::Forward(const LstmArguments& a) {
  const LstmDescriptor& d = descriptor_;
  if (d.items == 0) return;
  Unwrite(a.h, d.steps * d.state_count());
  const LaunchGroups groups = Groups(*forward_);
  forward_->LaunchInGroups(
      groups, {d.steps, d.items, groups.groups[0], groups.groups[1], d.trains ? 1 : 0, a.gates,
               a.cont, a.h_first, a.c_first, a.weights, d.trains ? a.hidden_gates : a.h_last,
               d.trains ? a.c : a.c_last, a.h, a.h_last, a.c_last, turn()});
}

void LstmSteps::DoBackward(const LstmGradients& g) {
  const LstmDescriptor& d = descriptor_;
  const LstmArguments& a = g.values;
  if (d.items == 0) return;
  Unwrite(g.gates_diff, 4 * d.steps * d.state_count());
  const LaunchGroups groups = Groups(*backward_);
  const bool first = static_cast<bool>(g.h_first_diff);
  // Arrays that are not written: any other one stands for them.
  backward_->LaunchInGroups(groups, {d.steps,
                                     d.items,
                                     groups.groups[0],
                                     groups.groups[1],
                                     first ? 1 : 0,
                                     a.gates,
                                     a.cont,
                                     a.h_first,
                                     a.c_first,
                                     a.weights,
                                     a.hidden_gates,
                                     a.c,
                                     a.h,
                                     g.h_diff,
                                     g.h_last_diff,
                                     g.c_last_diff,
                                     g.gates_diff,
                                     first ? g.h_first_diff : g.scaled_h,
                                     first ? g.c_first_diff : g.scaled_h,
                                     g.scaled_h,
                                     g.workspace + carried_at_,
                                     turn()});
  if (!g.w_diff) return;
  GemmArguments product{g.gates_diff, g.scaled_h, g.w_diff};
  product.beta = 1;
  if (weights_->workspace_bytes() > 0) product.workspace = g.workspace + product_at_;
  weights_->Run(product);
}

LstmLibrary LstmStepsLibrary() {
  LstmLibrary row;
  row.name = "generated";
  row.place = &OnDevices;
  row.supports = [](Device*, const LstmDescriptor&) { return true; };
  row.prefers = &LstmSteps::Prefers;
  row.make = [](Device* device, const LstmDescriptor& d) {
    return std::make_unique<LstmSteps>(device, d);
  };
  return row;
}

}  // namespace caffe
