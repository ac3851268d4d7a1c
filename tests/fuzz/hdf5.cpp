// An HDF5 file as weights, as a solver state and as the data of a layer.
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "fuzz/support/fixed_net.hpp"
#include "fuzz/support/target.hpp"
#include "io/foreign_hdf5.hpp"

namespace caffe::fuzz {
namespace {

// Whether the work ended without an error.
template <class Work> bool Taken(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void ReadData(const std::string& path) {
  const std::string list = WriteInput("hdf5_list.txt", path + "\n");
  const auto net = MakeNet(
      "layer { name: 'data' type: 'HDF5Data' top: 'data' top: 'label' "
      "hdf5_data_param { source: '" +
      list + "' batch_size: 3 } }");
  net->Forward();
}

void ReadHdf5(std::string_view bytes) {
  const std::string path = WriteInput("input.h5", bytes);
  const bool weights = Taken([&] { ReadNetHdf5(path); });
  const bool id = Taken([&] { ReadWeightsIdHdf5(path); });
  const bool state = Taken([&] { ReadSolverStateHdf5(path); });
  const bool data = Taken([&] { ReadData(path); });
  if (!weights && !id && !state && !data) throw Error("refused");
}

std::vector<Input> Seeds() {
  const std::string path = Folder() + "/seed.h5";
  std::vector<Input> seeds;
  const auto add = [&](const std::string& name) { seeds.push_back({name, ReadInput(path)}); };
  NetParameter net = NetFromText(
      "weights_id: 'an identity' quantizer { name: 'x' observed_min: -1 observed_max: 1 } "
      "layer { name: 'a' blobs { shape { dim: 2 dim: 3 } data: [1, 2, 3, 4, 5, 6] "
      "diff: [1, 2, 3, 4, 5, 6] } blobs { shape { dim: 2 } double_data: [1, 2] } } "
      "layer { name: 'b/c' blobs { shape { dim: 1 } data: 3 } } layer { name: 'd' }");
  WriteNetHdf5(path, net);
  add("weights");
  SolverState state;
  state.set_iter(3);
  state.set_learned_net("weights.caffemodel.h5");
  state.set_loss_scale(8);
  for (int i = 0; i < 2; ++i) *state.add_history() = net.layer(0).blobs(i);
  WriteSolverStateHdf5(path, state);
  add("state");
  const std::vector<float> values(24, 0.5f);
  {
    Hdf5Writer file(path);
    file.Write("data", {4, 2, 3}, values.data());
    file.Write("label", {4, 1}, values.data());
    file.Commit();
  }
  add("data");
  // As other programs store them.
  {
    ForeignHdf5 file(path);
    file.SetChunks({2, 3});
    H5Pset_shuffle(file.properties());
    H5Pset_deflate(file.properties(), 9);
    file.Values("data", {4, 3}, values);
    H5Pset_layout(file.properties(), H5D_COMPACT);
    file.Values("label", {4}, values, H5T_STD_I16BE);
  }
  add("chunks");
  {
    ForeignHdf5 file(path);
    file.VariableText("/cortado/weights_id", "a text of variable length");
    file.VariableText("/learned_net", "weights.caffemodel");
    file.SetChunks({2});
    file.Values("/store/1", {3}, values, H5T_IEEE_F64BE);
    file.SoftLink("/data/ip", "/store");
    file.HardLink("/history", "/store");
    file.Values("/iter", {1}, values);
  }
  add("links");
  return seeds;
}

std::vector<std::string> Words() {
  return {"data",    "diff",      "label",      "history", "iter", "current_step", "learned_net",
          "cortado", "quantizer", "weights_id", "state",   "SNOD", "TREE",         "HEAP",
          "GCOL",    "OHDR",      "OCHK",       "FRHP",    "BTHD", "FADB"};
}

const Registration registration({.name = "hdf5", .run = ReadHdf5, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
