#pragma once

#include <string>

namespace caffe {

class NetParameter;
class PoolingParameter;
class SolverParameter;

// Upgrades nets and solvers from older formats to the current one. `source` (a path) appears in log
// lines and errors. Nets inside nets (mixture of experts) are upgraded, too.
//
// Order: V0 layers -> V1 layers -> transformation fields of V1 data layers -> V2 layers ->
// input fields -> BatchNorm's parameter settings -> lists of pooling.
bool NetNeedsUpgrade(const NetParameter& net);
void UpgradeNetAsNeeded(const std::string& source, NetParameter* net);

// `layers { layer { … } }`. Padding layers are folded into the convolution or pooling after them.
// A field that does not belong to its layer is logged and dropped; an unknown type is an error.
bool NetNeedsV0ToV1Upgrade(const NetParameter& net);
void UpgradeV0Net(NetParameter* net);

// scale, mean_file, crop_size and mirror of V1 data layers move to transform_param.
bool NetNeedsDataUpgrade(const NetParameter& net);
void UpgradeNetDataTransformation(NetParameter* net);

// `layers` with enumerated types. Throws if the net has `layer` as well.
bool NetNeedsV1ToV2Upgrade(const NetParameter& net);
void UpgradeV1Net(NetParameter* net);

// Converts `input` with input_shape or input_dim to an Input layer, the first one; without a shape
// (as in old weight files) it is dropped.
bool NetNeedsInputUpgrade(const NetParameter& net);
void UpgradeNetInput(NetParameter* net);

// BatchNorm's three blobs are statistics: a solver must not change them.
bool NetNeedsBatchNormUpgrade(const NetParameter& net);
void UpgradeNetBatchNorm(NetParameter* net);

// A kernel_size, stride or pad of pooling that is a list (its _nd field) becomes the plain field if
// it has one value, and the _h and _w fields if it has two. Other lists stay; the layer refuses
// them.
void UpgradePooling(PoolingParameter* pooling);

// solver_type -> type, device -> device_id, and the nets inside. Throws if a field and its
// successor are both given and contradict each other.
void UpgradeSolverAsNeeded(const std::string& source, SolverParameter* solver);

// Unset: the solver's path without extension. A folder: the solver's name in that folder.
void UpgradeSnapshotPrefix(const std::string& source, SolverParameter* solver);

// Nets that exist next to the solver file but not relative to the working directory get that path.
void ResolveNetPaths(const std::string& source, SolverParameter* solver);

}  // namespace caffe
