// Replicas share out the items of their data layers, and draw random numbers of their own. The data
// layer is a new one, which this file adds.
#include <gtest/gtest.h>

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/source_layer.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/summing_communicator.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kItems = 22, kLength = 40;

// Item i is kLength times the number (i + 1) / 32, with the class i % 3.
class Counted final : public ItemSource {
 public:
  std::vector<int64_t> Groups() const override { return {kItems}; }
  std::vector<Shape> Shapes(int64_t) override { return {{kLength}, {}}; }
  void Read(const std::vector<BatchItem>& items, DataBatch* batch) override {
    const auto count = static_cast<int64_t>(items.size());
    (*batch)[0].Reshape({count, kLength});
    (*batch)[1].Reshape({count});
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = items[i].index;
      std::fill_n((*batch)[0].data<float>() + i * kLength, kLength, (1.f + index) / 32);
      (*batch)[1].data<float>()[i] = static_cast<float>(index % 3);
    }
  }
};

class CountedLayer final : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings ReadSettings() const override {
    Settings settings;
    settings.batch_size = layer_param().data_param().batch_size();
    settings.shuffle = true;
    settings.rand_skip = 5;
    return settings;
  }
  std::unique_ptr<ItemSource> Open(const BlobVec&) override { return std::make_unique<Counted>(); }
};

void AddCounted() {
  static const bool once = [] {
    LayerTraits traits;
    traits.min_bottom = traits.max_bottom = 0;
    traits.min_top = traits.max_top = 2;
    traits.data = true;
    traits.types = {kFloat};
    traits.backward_reads = Always({});
    LayerRegistry::Get().AddUntyped(
        "TestCounted", traits, [](const LayerParameter& parameter, const LayerContext& context) {
          return std::make_shared<CountedLayer>(parameter, context);
        });
    return true;
  }();
  static_cast<void>(once);
}

std::unique_ptr<Solver> Make(int batch, int iter_size = 1, const std::string& more = "",
                             bool drop = false, Device* device = Runtime::Get().cpu()) {
  AddCounted();
  const std::string dropout =
      "layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'drop' } "
      "layer { name: 'noise' type: 'DummyData' top: 'noise' dummy_data_param { "
      "  shape { dim: 9 } data_filler { type: 'gaussian' } } } "
      "layer { name: 'silence' type: 'Silence' bottom: 'noise' } ";
  SolverParameter parameter;
  ParseTextProto(
      Concat(
          "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 random_seed: 7 iter_size: ", iter_size,
          " snapshot_after_train: false ", more,
          " net_param { name: 'counted' layer { name: 'in' type: 'TestCounted' top: 'data' top: "
          "'label' data_param { batch_size: ",
          batch, " } } ", drop ? dropout : "", "layer { name: 'ip' type: 'InnerProduct' bottom: '",
          drop ? "drop" : "data",
          "' top: 'ip' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' "
          "} }"),
      "test", &parameter);
  return std::make_unique<Solver>(parameter, device);
}

std::vector<double> Values(Solver& solver, const std::string& blob) {
  return solver.net()->BlobByName(blob)->DataAsDouble();
}

// The indices of the items of the current batch.
std::vector<int64_t> Items(Solver& solver) {
  const std::vector<double> data = Values(solver, "data");
  std::vector<int64_t> items;
  for (size_t i = 0; i < data.size(); i += kLength) {
    items.push_back(static_cast<int64_t>(data[i] * 32) - 1);
  }
  return items;
}

std::vector<int64_t> NextItems(Solver* solver) {
  solver->net()->Forward();
  return Items(*solver);
}

TEST(ReplicaDataTest, RanksTakeTurnsInOneOrder) {
  const auto alone = Make(1);
  std::vector<int64_t> all;
  for (int i = 0; i < 72; ++i) all.push_back(NextItems(alone.get())[0]);
  std::vector<int64_t> epoch(all.begin(), all.begin() + kItems);
  EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  for (const int ranks : {1, 2, 3}) {
    SummingGroup group(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto solver = Make(4);
      solver->SetCommunicator(group.rank(rank));
      for (int batch = 0; batch < 6; ++batch) {
        std::vector<int64_t> expected;
        for (int i = 0; i < 4; ++i) expected.push_back(all[(4 * batch + i) * ranks + rank]);
        EXPECT_EQ(NextItems(solver.get()), expected) << rank << " of " << ranks;
      }
    }
  }
}

TEST(ReplicaDataTest, TwoReplicasTrainAsOneNetWithTwoBatches) {
  const auto whole = Make(1, 2), first = Make(1), second = Make(1);
  SummingGroup group(2);
  first->SetCommunicator(group.rank(0));
  second->SetCommunicator(group.rank(1));
  for (int iteration = 0; iteration < 30; ++iteration) {
    Solver::StepTogether({first.get(), second.get()}, 1);
    whole->Step(1);
    const auto& expected = whole->net()->learnable_params();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(first->net()->learnable_params()[i]->DataAsDouble(), expected[i]->DataAsDouble());
      ASSERT_EQ(second->net()->learnable_params()[i]->DataAsDouble(), expected[i]->DataAsDouble());
    }
  }
}

// The elements that Dropout sets to 0.
std::vector<bool> Mask(Solver& solver) {
  std::vector<bool> zero;
  for (const double value : Values(solver, "drop")) zero.push_back(value == 0);
  return zero;
}

TEST(ReplicaDataTest, InitialValuesAreEqualAndDrawsDiffer) {
  const auto alone = Make(2, 1, "", true), first = Make(2, 1, "", true),
             second = Make(2, 1, "", true);
  SummingGroup group(2);
  first->SetCommunicator(group.rank(0));
  second->SetCommunicator(group.rank(1));
  for (size_t i = 0; i < alone->net()->learnable_params().size(); ++i) {
    const std::vector<double> values = alone->net()->learnable_params()[i]->DataAsDouble();
    EXPECT_EQ(first->net()->learnable_params()[i]->DataAsDouble(), values);
    EXPECT_EQ(second->net()->learnable_params()[i]->DataAsDouble(), values);
  }
  for (int i = 0; i < 3; ++i) {
    for (const auto& solver : {&alone, &first, &second}) (*solver)->net()->Forward();
    EXPECT_EQ(Mask(*first), Mask(*alone));
    EXPECT_NE(Mask(*second), Mask(*alone));
    EXPECT_EQ(Values(*first, "noise"), Values(*alone, "noise"));
    EXPECT_NE(Values(*second, "noise"), Values(*alone, "noise"));
  }
}

TEST(ReplicaDataTest, ARecordedPassDrawsTheNumbersOfTheNewRank) {
  for (Device* device : TestDevices()) {
    const auto moved = Make(2, 1, "", true, device), fresh = Make(2, 1, "", true, device);
    moved->Step(4);
    for (const auto& solver : {&moved, &fresh}) (*solver)->net()->SetReplica({1, 2});
    moved->Step(1);
    fresh->Step(5);
    EXPECT_EQ(Mask(*moved), Mask(*fresh)) << device->info().id;
  }
}

TEST(ReplicaDataTest, EachRankContinuesFromTheSnapshotOfRank0) {
  const TemporaryFolder folder;
  const std::string prefix = "snapshot_prefix: '" + (folder / "s") + "'";
  const auto make = [&](SummingGroup* group) {
    std::vector<std::unique_ptr<Solver>> solvers;
    for (int rank = 0; rank < 2; ++rank) {
      solvers.push_back(Make(2, 1, prefix, true));
      solvers[rank]->SetCommunicator(group->rank(rank));
    }
    return solvers;
  };
  SummingGroup group(2), other(2);
  const auto whole = make(&group), resumed = make(&other);
  Solver::StepTogether({whole[0].get(), whole[1].get()}, 5);
  whole[0]->Snapshot();
  Solver::StepTogether({whole[0].get(), whole[1].get()}, 4);
  Solver::StepTogether({resumed[0].get(), resumed[1].get()}, 1);
  for (const auto& solver : resumed) solver->Restore(folder / "s_iter_5.solverstate");
  Solver::StepTogether({resumed[0].get(), resumed[1].get()}, 4);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(FirstDifference(StateOf(*resumed[rank], {"data", "drop", "noise"}),
                              StateOf(*whole[rank], {"data", "drop", "noise"})),
              "");
  }
  // Another number of ranks continues with the next item, too.
  const auto alone = Make(2, 1, prefix, true);
  alone->Restore(folder / "s_iter_5.solverstate");
  const auto reference = make(&group);
  for (const auto& solver : reference) solver->Restore(folder / "s_iter_5.solverstate");
  const std::vector<int64_t> expected{NextItems(reference[0].get())[0],
                                      NextItems(reference[1].get())[0]};
  EXPECT_EQ(NextItems(alone.get()), expected);
}

TEST(ReplicaDataTest, ARankThatIsNotOneIsAnError) {
  const auto solver = Make(1);
  for (const Replica wrong : {Replica{2, 2}, Replica{-1, 2}, Replica{0, 0}}) {
    EXPECT_TRUE(Holds(ErrorOf([&] { solver->net()->SetReplica(wrong); }), "counted: rank "));
  }
}

TEST(ReplicaDataTest, ADamagedPositionIsAnError) {
  const auto solver = Make(1);
  LayerBase& layer = *solver->net()->LayerByName("in");
  for (const std::vector<uint64_t>& values :
       {std::vector<uint64_t>{0, ~uint64_t{0}}, {uint64_t{1} << 62, 0}}) {
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.SetRunState(1, values); }), "the saved position is"));
  }
  EXPECT_THROW(layer.SetRunState(1, {}), Error);
  solver->net()->Forward();
}

}  // namespace
}  // namespace caffe
