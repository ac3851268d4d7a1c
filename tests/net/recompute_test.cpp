// Random nets with random marks `recompute: true` train with the bits of the nets without marks.
#include <cmath>
#include <cstdlib>
#include <random>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "net/random_training_net.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

struct Trained {
  Numbers losses;
  std::vector<Numbers> gradients, weights;  // of each parameter, after the steps
};

Trained Train(const NetParameter& net, DataType type, int steps) {
  SolverParameter parameter;
  ParseTextProto(
      "base_lr: 0.05 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 "
      "snapshot_after_train: false loss_scale: 1",
      "solver", &parameter);
  *parameter.mutable_net_param() = net;
  parameter.mutable_net_param()->set_data_type(static_cast<DataTypeProto>(type.info().proto));
  parameter.set_data_type(parameter.net_param().data_type());
  Solver solver(parameter, Runtime::Get().cpu());
  solver.set_frees_memory(true);
  Trained result;
  for (int step = 0; step < steps; ++step) {
    FillTrainingNet(solver.net(), 10 + 20 * step);
    solver.Step(1);
    result.losses.push_back(solver.SmoothedLoss());
  }
  for (const BlobBase* blob : solver.net()->learnable_params()) {
    result.gradients.push_back(blob->DiffAsDouble());
    result.weights.push_back(blob->DataAsDouble());
  }
  return result;
}

// The same bits: NaN equals NaN.
bool Same(const Numbers& a, const Numbers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// The difference; empty if there is none.
std::string Difference(const Trained& marked, const Trained& plain) {
  if (!Same(marked.losses, plain.losses)) return "the loss";
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    if (!Same(marked.gradients[i], plain.gradients[i])) return Concat("gradient ", i);
    if (!Same(marked.weights[i], plain.weights[i])) return Concat("parameter ", i);
  }
  return "";
}

// The names of marked layers.
std::string Marks(const NetParameter& net) {
  std::string names;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.recompute()) names += " " + layer.name();
  }
  return names;
}

// Net `seed` with random marks: all layers, or some.
void Compare(uint64_t seed) {
  const NetParameter plain = ParseNet(RandomTrainingNet(seed).text());
  std::mt19937_64 random(seed);
  const DataType type = seed % 3 == 0 ? kDouble : kFloat;
  const Trained expected = Train(plain, type, 2);
  NetParameter marked = plain;
  const uint64_t of = 1 + random() % 3;  // one in `of`
  for (LayerParameter& layer : *marked.mutable_layer()) {
    if (layer.type() != "Input") layer.set_recompute(random() % of == 0);
  }
  std::string what = Difference(Train(marked, type, 2), expected);
  if (what.empty()) return;
  // Leave out the marks that are not needed.
  for (LayerParameter& layer : *marked.mutable_layer()) {
    if (!layer.recompute()) continue;
    layer.clear_recompute();
    const std::string without = Difference(Train(marked, type, 2), expected);
    if (without.empty()) {
      layer.set_recompute(true);
    } else {
      what = without;
    }
  }
  ADD_FAILURE() << "net " << seed << ": " << what << " differs with recompute: true of"
                << Marks(marked) << "\n"
                << plain.DebugString();
}

// CAFFE_RANDOM_NETS nets, or 300 and one that was found among more: a segment reads a blob that
// another one computes again.
TEST(RecomputeTest, RandomMarksChangeNoBit) {
  const char* const given = std::getenv("CAFFE_RANDOM_NETS");
  const int nets = given ? std::atoi(given) : 300;
  for (int net = 0; net < nets; ++net) Compare(net);
  if (!given) Compare(3417);
}

}  // namespace
}  // namespace caffe
