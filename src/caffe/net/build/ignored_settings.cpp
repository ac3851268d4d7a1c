#include "ignored_settings.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/unknown_names.hpp"

namespace caffe {
namespace {

// Numbers as in `caffe device_query`. For the CPU the number is known without loading drivers.
int64_t NumberOf(const Device& device) {
  if (&device == Runtime::Get().cpu()) return -1;
  const std::vector<Device*>& devices = Runtime::Get().devices();
  const auto found = std::ranges::find(devices, &device);
  return found == devices.end() ? -1 : found - devices.begin();
}

bool Has(Autotune autotune) { return autotune != CAFFE_AUTOTUNE_DISABLED; }

}  // namespace

void WarnOfIgnoredSettings(const NetParameter& net, const Device& device) {
  const std::string name = NetLabel(net.name());
  std::map<int64_t, std::string> elsewhere;  // device -> layers
  std::string losses;
  bool autotune = Has(net.autotune());
  const auto append = [](const std::string& layer, std::string* list) {
    *list += (list->empty() ? "" : ", ") + layer;
  };
  for (const LayerParameter& layer : net.layer()) {
    autotune = autotune || Has(layer.autotune());
    if (layer.device() >= 0 && layer.device() != NumberOf(device)) {
      append(layer.name(), &elsewhere[layer.device()]);
    }
    if (layer.has_net_quantizer()) append(layer.name(), &losses);
  }
  if (autotune) {
    log::Warning(name +
                 ": autotune is ignored: kernels are chosen by device, type and shape "
                 "without timing them first; results are the same");
  }
  for (const auto& [number, layers] : elsewhere) {
    log::Warning(Concat(name, ": device ", number, " of layers ", layers,
                        " is ignored: all layers of a net run on one device, here ",
                        device.info().id,
                        ", which -gpu, set_device or the solver's device_id choose"));
  }
  if (!losses.empty()) {
    log::Warning(Concat(name, ": net_quantizer of layers ", losses,
                        " is ignored: losses are computed in float"));
  }
}

}  // namespace caffe
