#include "check_replicas.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/has_records.hpp"

namespace caffe {
namespace {

// "layer 'conv1', blob conv1_blobs_0, float 20 1 5 5 (500)".
std::string Describe(const Net& net, const BlobBase& parameter) {
  std::string layer;
  for (size_t i = 0; i < net.layers().size() && layer.empty(); ++i) {
    const auto& blobs = net.layers()[i]->blobs();
    const bool own = std::any_of(blobs.begin(), blobs.end(),
                                 [&](const auto& blob) { return blob.get() == &parameter; });
    if (own) layer = Concat("layer '", net.layer_names()[i], "', ");
  }
  return Concat(layer, "blob ", parameter.name(), ", ", parameter.type().name(), " ",
                parameter.shape_string());
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A setting `field: "…"` of a text is left out: files may have other paths on other machines.
void Drop(const std::string& field, std::string* text) {
  const std::string head = field + ": \"";
  for (size_t at = text->find(head); at != text->npos; at = text->find(head, at)) {
    size_t end = at + head.size();
    while (end < text->size() && (*text)[end] != '"') end += (*text)[end] == '\\' ? 2 : 1;
    text->erase(at, end + 1 - at);
  }
}

std::string SolverLines(SolverParameter solver) {
  solver.clear_solver_mode();
  solver.clear_device_id();
  solver.clear_net();
  solver.clear_net_param();
  solver.clear_train_net();
  solver.clear_train_net_param();
  solver.clear_test_net();
  solver.clear_snapshot_prefix();
  solver.clear_weights();
  std::string lines;
  for (const std::string& line : Lines(solver.DebugString())) lines += "setting " + line + "\n";
  return lines;
}

std::string NetLines(const Net& net) {
  std::string lines;
  for (size_t i = 0; i < net.layers().size(); ++i) {
    const std::string label = "layer '" + net.layer_names()[i] + "'";
    LayerParameter layer = net.layers()[i]->layer_param();
    layer.clear_blobs();
    std::string text = layer.ShortDebugString();
    for (const char* field : {"source", "root_folder", "mean_file"}) Drop(field, &text);
    lines += label + ": " + text + "\n";
    if (const auto* data = dynamic_cast<const HasRecords*>(net.layers()[i].get())) {
      lines += Concat(label, " reads ", data->records(), " records\n");
    }
  }
  NetRunState state;
  net.WriteRunState(&state);
  for (const LayerRunState& layer : state.layer()) {
    lines += Concat("layer '", layer.name(), "' has the seed ", layer.seed(), "\n");
  }
  return lines;
}

}  // namespace

void CheckReplicas(const Net& net, const SolverParameter& solver, Communicator* communicator) {
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    return i < lines.size() ? lines[i] : "none";
  };
  // Calls report(i, own, first) for the first line that differs.
  const auto compare = [&](const std::string& text, const auto& report) {
    const std::vector<std::string> first = Lines(communicator->Broadcast(text)), own = Lines(text);
    for (size_t i = 0; i < std::max(first.size(), own.size()); ++i) {
      if (line(first, i) != line(own, i)) report(i, line(own, i), line(first, i));
    }
  };
  std::string parameters;
  for (const BlobBase* blob : net.learnable_params()) parameters += Describe(net, *blob) + "\n";
  compare(parameters, [&](size_t i, const std::string& own, const std::string& first) {
    CAFFE_THROW(NetLabel(net.name()), ": replica ", communicator->rank(),
                " has other parameters than replica 0: parameter ", i, " is ", own,
                "; that of replica 0 is ", first);
  });
  compare(SolverLines(solver) + NetLines(net),
          [&](size_t, const std::string& own, const std::string& first) {
            const bool seed = own.find("has the seed") != own.npos && solver.random_seed() < 0;
            CAFFE_THROW(NetLabel(net.name()), ": replica ", communicator->rank(),
                        " differs from replica 0: ", own, "; replica 0: ", first,
                        seed ? "; give all replicas one random_seed" : "");
          });
  communicator->AllGather("");  // no rank goes on before all have compared
}

}  // namespace caffe
