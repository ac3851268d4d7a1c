// A solver's prototxt: a program of the user, but an error must be one.
#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "fuzz/support/field_words.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

void ReadSolver(std::string_view bytes) {
  ReadSolverParameter(WriteInput("solver.prototxt", bytes));
}

std::vector<Input> Seeds() { return RepositoryFiles("models", "solver.prototxt"); }

std::vector<std::string> Words() { return FieldWords(*SolverParameter::descriptor()); }

const Registration registration(
    {.name = "solver_text", .run = ReadSolver, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
