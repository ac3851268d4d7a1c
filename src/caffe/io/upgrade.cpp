#include "caffe/io/upgrade.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"

namespace caffe {
namespace {

bool NeedsBatchNormUpgrade(const LayerParameter& layer) {
  return layer.type() == "BatchNorm" && layer.param_size() == 3 &&
         std::ranges::any_of(layer.param(), [](const ParamSpec& param) {
           return !param.has_lr_mult() || param.lr_mult() != 0 || !param.has_decay_mult() ||
                  param.decay_mult() != 0;
         });
}

// `file` if it exists in the working directory, else the path next to `source` if that exists, else
// `file`.
std::string ResolvePath(const std::string& source, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (file.empty() || fs::path(file).is_absolute() || fs::exists(file, error)) return file;
  const fs::path beside = fs::path(source).parent_path() / file;
  if (!fs::exists(beside, error)) return file;
  log::Info(
      Concat(source, ": ", file, " is not in the working directory; using ", beside.string()));
  return beside.string();
}

using PoolingSetter = void (PoolingParameter::*)(uint32_t);

// Moves a list of one or two values to the fields that these functions set. A value beyond 32 bits
// becomes the largest, which the layer refuses.
void Join(google::protobuf::RepeatedField<uint64_t>* list, PoolingParameter* p,
          PoolingSetter set_both, PoolingSetter set_h, PoolingSetter set_w) {
  const auto value = [&](int i) {
    return static_cast<uint32_t>(
        std::min<uint64_t>(list->Get(i), std::numeric_limits<uint32_t>::max()));
  };
  if (list->size() == 1) {
    (p->*set_both)(value(0));
  } else {
    (p->*set_h)(value(0));
    (p->*set_w)(value(1));
  }
  list->Clear();
}

void Step(const std::string& source, const std::string& what, NetParameter* net,
          bool (*needed)(const NetParameter&), void (*upgrade)(NetParameter*)) {
  if (!needed(*net)) return;
  log::Info(
      Concat("Attempting to upgrade input file specified using deprecated ", what, ": ", source));
  upgrade(net);
  log::Info(Concat("Successfully upgraded file specified using deprecated ", what));
}

}  // namespace

bool NetNeedsInputUpgrade(const NetParameter& net) { return net.input_size() > 0; }

void UpgradeNetInput(NetParameter* net) {
  const int inputs = net->input_size();
  const int shapes = net->input_shape_size(), dims = net->input_dim_size();
  if (shapes > 0 || dims > 0) {
    CAFFE_CHECK(shapes > 0 ? shapes == inputs : dims == 4 * inputs, "the net has ", inputs,
                " input(s), but ",
                shapes > 0 ? Concat(shapes, " input_shape")
                           : Concat(dims, " input_dim; each input takes four"));
    LayerParameter layer;
    layer.set_name("input");
    layer.set_type("Input");
    *layer.mutable_top() = net->input();
    for (int i = 0; i < inputs; ++i) {
      BlobShape* shape = layer.mutable_input_param()->add_shape();
      if (shapes > 0) {
        shape->CopyFrom(net->input_shape(i));
      } else {
        for (int axis = 0; axis < 4; ++axis) shape->add_dim(net->input_dim(4 * i + axis));
      }
    }
    net->add_layer()->Swap(&layer);
    for (int i = net->layer_size() - 1; i > 0; --i) net->mutable_layer()->SwapElements(i, i - 1);
  }
  net->clear_input();
  net->clear_input_shape();
  net->clear_input_dim();
}

bool NetNeedsBatchNormUpgrade(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), NeedsBatchNormUpgrade);
}

void UpgradeNetBatchNorm(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (!NeedsBatchNormUpgrade(layer)) continue;
    for (ParamSpec& param : *layer.mutable_param()) {
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
}

void UpgradePooling(PoolingParameter* p) {
  const auto joinable = [](const auto& list, bool plain, bool h, bool w) {
    return (list.size() == 1 || list.size() == 2) && !plain && !h && !w;
  };
  if (joinable(p->kernel_size_nd(), p->has_kernel_size(), p->has_kernel_h(), p->has_kernel_w())) {
    Join(p->mutable_kernel_size_nd(), p, &PoolingParameter::set_kernel_size,
         &PoolingParameter::set_kernel_h, &PoolingParameter::set_kernel_w);
  }
  if (joinable(p->stride_nd(), p->has_stride(), p->has_stride_h(), p->has_stride_w())) {
    Join(p->mutable_stride_nd(), p, &PoolingParameter::set_stride, &PoolingParameter::set_stride_h,
         &PoolingParameter::set_stride_w);
  }
  if (joinable(p->pad_nd(), p->has_pad(), p->has_pad_h(), p->has_pad_w())) {
    Join(p->mutable_pad_nd(), p, &PoolingParameter::set_pad, &PoolingParameter::set_pad_h,
         &PoolingParameter::set_pad_w);
  }
}

bool NetNeedsUpgrade(const NetParameter& net) {
  return NetNeedsV0ToV1Upgrade(net) || NetNeedsDataUpgrade(net) || NetNeedsV1ToV2Upgrade(net) ||
         NetNeedsInputUpgrade(net) || NetNeedsBatchNormUpgrade(net);
}

void UpgradeNetAsNeeded(const std::string& source, NetParameter* net) {
  try {
    Step(source, "V0LayerParameter", net, NetNeedsV0ToV1Upgrade, UpgradeV0Net);
    Step(source, "transformation parameters", net, NetNeedsDataUpgrade,
         UpgradeNetDataTransformation);
    Step(source, "V1LayerParameter", net, NetNeedsV1ToV2Upgrade, UpgradeV1Net);
    Step(source, "input fields", net, NetNeedsInputUpgrade, UpgradeNetInput);
    Step(source, "batch norm parameters", net, NetNeedsBatchNormUpgrade, UpgradeNetBatchNorm);
  } catch (...) {
    RethrowIn(source);
  }
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.has_pooling_param()) UpgradePooling(layer.mutable_pooling_param());
    if (!layer.has_moe_param()) continue;
    MOEParameter* moe = layer.mutable_moe_param();
    if (moe->has_gating_net()) UpgradeNetAsNeeded(source, moe->mutable_gating_net());
    for (NetParameter& expert : *moe->mutable_expert_net()) UpgradeNetAsNeeded(source, &expert);
  }
}

void UpgradeSolverAsNeeded(const std::string& source, SolverParameter* solver) {
  if (solver->has_solver_type()) {
    static constexpr const char* kTypes[] = {"SGD",     "Nesterov", "AdaGrad",
                                             "RMSProp", "AdaDelta", "Adam"};
    CAFFE_CHECK(!solver->has_type(), source,
                ": both solver_type and type are given; keep type (a string)");
    const std::string what = "'solver_type' field (enum)";
    log::Info(
        Concat("Attempting to upgrade input file specified using deprecated ", what, ": ", source));
    solver->set_type(kTypes[solver->solver_type()]);
    solver->clear_solver_type();
    log::Info(Concat("Successfully upgraded file specified using deprecated ", what,
                     " to 'type' field (string)."));
  }
  if (solver->has_device()) {
    CAFFE_CHECK(!solver->has_device_id() || solver->device_id() == solver->device(), source,
                ": device ", solver->device(), " and device_id ", solver->device_id(),
                " contradict each other");
    if (solver->device() >= 0) solver->set_device_id(static_cast<int>(solver->device()));
    solver->clear_device();
  }
  if (solver->has_net_param()) UpgradeNetAsNeeded(source, solver->mutable_net_param());
  if (solver->has_train_net_param()) UpgradeNetAsNeeded(source, solver->mutable_train_net_param());
  for (NetParameter& net : *solver->mutable_test_net_param()) UpgradeNetAsNeeded(source, &net);
}

void UpgradeSnapshotPrefix(const std::string& source, SolverParameter* solver) {
  namespace fs = std::filesystem;
  const fs::path path(source);
  std::error_code error;
  if (!solver->has_snapshot_prefix()) {
    solver->set_snapshot_prefix(fs::path(path).replace_extension().string());
  } else if (fs::is_directory(solver->snapshot_prefix(), error)) {
    solver->set_snapshot_prefix((fs::path(solver->snapshot_prefix()) / path.stem()).string());
  }
}

void ResolveNetPaths(const std::string& source, SolverParameter* solver) {
  if (solver->has_net()) solver->set_net(ResolvePath(source, solver->net()));
  if (solver->has_train_net()) solver->set_train_net(ResolvePath(source, solver->train_net()));
  for (std::string& net : *solver->mutable_test_net()) net = ResolvePath(source, net);
}

}  // namespace caffe
