#include "commands/image_flags.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

bool CropsCentre(const Options& options) {
  return options.crop == "centre" || options.crop == "center";
}

std::vector<float> Numbers(const Options& options, const std::string& flag,
                           const std::string& text) {
  std::vector<float> numbers;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const size_t first = part.find_first_not_of(" \t");
    part = part.substr(std::min(first, part.size()));
    part.resize(part.find_last_not_of(" \t") + 1);
    float number = 0;
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data(), end, number);
    CAFFE_CHECK(error == std::errc() && rest == end && std::isfinite(number), options.command, ": ",
                flag, " has '", part, "', which is not a number");
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void CheckImageFlags(const Options& options) {
  CAFFE_CHECK(!options.bgr || !options.rgb, options.command,
              ": give either -bgr or -rgb, not both");
  CAFFE_CHECK(options.crop.empty() || CropsCentre(options) || options.crop == "none" ||
                  options.crop == "keep",
              options.command, ": unknown -crop '", options.crop, "' (known: centre none keep)");
  CAFFE_CHECK(std::isfinite(options.scale) && options.scale != 0, options.command, ": -scale is ",
              options.scale, ", but it must be a number other than 0");
}

std::string GivenImageFlags(const Options& options) {
  std::string list;
  for (const std::string& flag : options.flags) {
    const std::string name = flag.substr(2, flag.find('=') - 2);
    for (const char* known : {"root", "mean", "scale", "crop", "bgr", "rgb"}) {
      if (name == known) list += (list.empty() ? "-" : ", -") + name;
    }
  }
  return list;
}

ImageBatchOptions ImageSettings(const Options& options) {
  ImageBatchOptions settings;
  settings.list = options.images;
  settings.root = options.root;
  settings.mean = Numbers(options, "-mean", options.mean);
  settings.scale = static_cast<float>(options.scale);
  settings.crop_centre = CropsCentre(options);
  settings.keep_sizes = options.crop == "keep";
  settings.rgb = options.rgb;
  return settings;
}

void WarnOfUnreadable(const ImageBatches& images) {
  if (images.unreadable() == 0) return;
  log::Warning(Concat(images.unreadable(), " of ", images.images(),
                      " images could not be read and were left out"));
}

}  // namespace caffe
