// A solver's prototxt and the nets that it names: programs of the user, but an error must be one.
#include <google/protobuf/text_format.h>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/net_file.hpp"
#include "fuzz/support/field_words.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// Only a net beside the solver is read: a solver may name any file of the machine.
void ReadNamedNet(const std::string& path) {
  if (path == Folder() + "/named.prototxt") ReadNetFile(path);
}

// The bytes behind a line `----` are the net named.prototxt.
void ReadSolver(std::string_view bytes) {
  const size_t cut = bytes.find("\n----\n");
  WriteInput("named.prototxt", cut == bytes.npos ? "name: 'n'" : bytes.substr(cut + 6));
  const SolverParameter solver =
      ReadSolverParameter(WriteInput("solver.prototxt", bytes.substr(0, cut)));
  std::string text, again;
  google::protobuf::TextFormat::PrintToString(solver, &text);
  SolverParameter copy;
  try {
    ParseTextProto(text, "the text of the solver", &copy);
  } catch (const Error& error) {
    Fault("what was read cannot be read again: " + std::string(error.what()));
  }
  google::protobuf::TextFormat::PrintToString(copy, &again);
  if (text != again) Fault("the text of the solver changes: " + text + "\nand\n" + again);
  ParseSolverParameter(solver.SerializeAsString(), "the solver");
  ReadNamedNet(solver.net());
  ReadNamedNet(solver.train_net());
  for (const std::string& net : solver.test_net()) ReadNamedNet(net);
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds = RepositoryFiles("models", "solver.prototxt");
  seeds.push_back({"named",
                   "net: 'named.prototxt' base_lr: 0.1 lr_policy: 'step' stepsize: 3\n"
                   "solver_type: ADAM device: 1 snapshot_prefix: 'a/b,c'\n----\n"
                   "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }\n"});
  seeds.push_back({"inside",
                   "train_net_param { layers { type: RELU } } test_net: 'named.prototxt'\n"
                   "test_iter: [1, 2] test_state: { phase: TEST stage: 's' }\n"
                   "type: 'Adam' lr_policy: 'multistep' stepvalue: 1 stepvalue: 2\n"});
  return seeds;
}

std::vector<std::string> Words() {
  std::vector<std::string> words = FieldWords(*SolverParameter::descriptor());
  for (const char* word : {"named.prototxt", "\n----\n", "{ ", "} ", ": ", "\"", "-1", "nan"}) {
    words.push_back(word);
  }
  return words;
}

const Registration registration(
    {.name = "solver_text", .run = ReadSolver, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
