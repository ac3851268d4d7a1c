#pragma once

#include <string>

namespace caffe {

class NetParameter;
class SolverParameter;

// Nets and solvers written in older formats, brought to the present one. `source` (a path) appears
// in log lines and errors. Nets inside nets (mixture of experts) are upgraded too.
//
// Order: V0 layers -> V1 layers -> transformation fields of V1 data layers -> V2 layers ->
// input fields -> BatchNorm's parameter settings.
bool NetNeedsUpgrade(const NetParameter& net);
void UpgradeNetAsNeeded(const std::string& source, NetParameter* net);

// `layers { layer { … } }`. Padding layers are folded into the convolution or pooling after them.
// A field that does not suit its layer is logged and dropped; an unknown type is an error.
bool NetNeedsV0ToV1Upgrade(const NetParameter& net);
void UpgradeV0Net(NetParameter* net);

// scale, mean_file, crop_size and mirror of V1 data layers move to transform_param.
bool NetNeedsDataUpgrade(const NetParameter& net);
void UpgradeNetDataTransformation(NetParameter* net);

// `layers` with enumerated types. Throws if the net has `layer` as well.
bool NetNeedsV1ToV2Upgrade(const NetParameter& net);
void UpgradeV1Net(NetParameter* net);

// `input` with input_shape or input_dim becomes an Input layer, the first; without a shape (as in
// old weight files) it is dropped.
bool NetNeedsInputUpgrade(const NetParameter& net);
void UpgradeNetInput(NetParameter* net);

// BatchNorm's three blobs are statistics: a solver must leave them alone.
bool NetNeedsBatchNormUpgrade(const NetParameter& net);
void UpgradeNetBatchNorm(NetParameter* net);

// solver_type -> type, device -> device_id, and the nets inside. Throws if both a field and its
// successor are given and contradict each other.
void UpgradeSolverAsNeeded(const std::string& source, SolverParameter* solver);

// Unset: the solver's path without extension. A folder: the solver's name in it.
void UpgradeSnapshotPrefix(const std::string& source, SolverParameter* solver);

// Nets that are not found from the working directory but next to the solver file get that path.
void ResolveNetPaths(const std::string& source, SolverParameter* solver);

}  // namespace caffe
