#include "caffe/calibration/random_batch.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/net/net.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

// Random numbers with a mean and a deviation. A part of them is repeated: making all of them would
// take longer than a forward.
class RandomNumbers {
 public:
  RandomNumbers() : numbers_(1 << 18) {
    std::mt19937 random(2);
    std::normal_distribution<double> normal;
    for (double& number : numbers_) number = normal(random);
  }
  void Fill(BlobBase* blob, double mean, double deviation) const {
    std::vector<double> part = numbers_;
    const double scale = blob->type().is_scaled() ? blob->range().scale : 1;
    for (double& number : part) number = (mean + deviation * number) / scale;
    char* target = static_cast<char*>(blob->mutable_host_data());
    for (int64_t done = 0; done < blob->count();) {
      const int64_t count = std::min<int64_t>(blob->count() - done, std::ssize(part));
      ConvertElements(kDouble, part.data(), blob->type(), target, count);
      target += blob->type().FileBytes(count);
      done += count;
    }
  }

 private:
  std::vector<double> numbers_;
};

// See ObserveMissingRanges: `observe` runs the float net.
bool ObserveInFloat(Net* net, bool random_weights,
                    const std::function<void(Net* observer)>& observe) {
  if (!net->lacks_ranges()) return false;
  const auto known = net->Ranges();
  NetParameter file;
  {
    const std::unique_ptr<Net> observer = TestNet(InFloat(WithInputs(*net)), net->device());
    if (random_weights) {
      FillWeightsAtRandom(observer.get());
    } else {
      net->ToProto(&file);
      observer->CopyTrainedLayersFrom(file);
    }
    observe(observer.get());
    observer->ToProto(&file);
  }
  auto* const quantizers = file.mutable_quantizer();
  quantizers->erase(
      std::remove_if(quantizers->begin(), quantizers->end(),
                     [&](const QuantizerParameter& one) { return known.count(one.name()) > 0; }),
      quantizers->end());
  net->CopyTrainedLayersFrom(file);
  return true;
}

}  // namespace

void FillInputsAtRandom(Net* net) {
  const RandomNumbers random;
  for (BlobBase* blob : net->input_blobs()) {
    if (blob->num_axes() > 1 && blob->type().is_float()) random.Fill(blob, 0, 0.5);
  }
}

// Scales, shifts and statistics of channels are near 1, other weights keep the size of the sums.
void FillWeightsAtRandom(Net* net) {
  const RandomNumbers random;
  for (const auto& layer : net->layers()) {
    const LayerFacts facts = layer->Facts();
    for (const auto& blob : layer->blobs()) {
      if (facts.affine || facts.normalized) {
        random.Fill(blob.get(), 1, 0.02);
      } else if (blob->num_axes() > 1) {
        const double inputs =
            static_cast<double>(blob->count()) / static_cast<double>(blob->shape(0));
        random.Fill(blob.get(), 0, std::sqrt(2 / std::max(inputs, 1.0)));
      } else {
        random.Fill(blob.get(), 0, 0.1);
      }
    }
  }
}

void ObserveRandomBatch(Net* net) {
  net->set_observe(true);
  FillInputsAtRandom(net);
  net->Forward();
}

bool ObserveMissingRanges(Net* net, const std::function<void(Net* observer)>& forward) {
  return ObserveInFloat(net, false, [&](Net* observer) {
    observer->set_observe(true);
    forward(observer);
  });
}

bool ObserveMissingRanges(Net* net, bool random_weights) {
  if (!ObserveInFloat(net, random_weights, ObserveRandomBatch)) return false;
  log::Warning(Concat(NetLabel(net->name()), ": blobs of codes without a range have that of one ",
                      "random batch", random_weights ? " and of random weights" : "",
                      ", which a float net computed; the outputs mean nothing"));
  return true;
}

}  // namespace caffe
