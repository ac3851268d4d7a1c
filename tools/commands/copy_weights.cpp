#include "commands/copy_weights.hpp"

#include "caffe/io/file_list.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

void CopyWeights(const Options& options, Net* net) {
  WeightsOptions settings;
  settings.map = options.map_weights;
  if (options.strict) settings.missing = MissingWeights::kRefuse;
  net->CopyTrainedLayersFrom(FilesInList(options.weights), settings);
}

}  // namespace caffe
