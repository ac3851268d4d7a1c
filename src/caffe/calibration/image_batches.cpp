#include "caffe/calibration/image_batches.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/image.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/text_lines.hpp"

namespace caffe {
namespace {

std::optional<int> LabelOf(const std::string& text) {
  int label = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, label);
  if (error != std::errc() || stop != end) return std::nullopt;
  return label;
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Whether a file begins as an image; false for a pipe, of which nothing is read.
bool IsImage(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string head(8, '\0');
  InputFile file(path);
  head.resize(file.Read(head.data(), head.size()));
  return FormatOf(head) != ImageFormat::kNone;
}

std::vector<std::string> ImagesOfFolder(const std::string& folder) {
  std::vector<std::string> images;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string extension = entry.path().extension().string();
    for (char& letter : extension) {
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    const bool known = extension == ".jpg" || extension == ".jpeg" || extension == ".png";
    if (known && !entry.is_directory()) images.push_back(entry.path().string());
  }
  CAFFE_CHECK(!images.empty(), folder, ": the folder has no files *.jpg, *.jpeg or *.png");
  std::sort(images.begin(), images.end());
  return images;
}

}  // namespace

ImageBatches::ImageBatches(const ImageBatchOptions& options, std::string blob, const Shape& shape)
    : options_(options), blob_(std::move(blob)), shape_(shape) {
  CAFFE_CHECK(shape_.size() == 4 && (shape_[1] == 1 || shape_[1] == 3), "images need an input of ",
              "shape (images, 1 or 3 channels, height, width), but blob ", blob_, " has shape ",
              ShapeString(shape_));
  CAFFE_CHECK(!options_.mean.empty(), "-mean is missing: give the mean of each channel that the ",
              "net was trained with, such as -mean 104,117,123, or -mean 0");
  const auto channels = static_cast<size_t>(shape_[1]);
  if (options_.mean.size() == 1) options_.mean.resize(channels, options_.mean[0]);
  CAFFE_CHECK(options_.mean.size() == channels, "-mean has ", options_.mean.size(),
              " numbers, but blob ", blob_, " has ", channels, " channels");
  FindItems();
}

void ImageBatches::FindItems() {
  const std::vector<std::string> names = FilesInList(options_.list);
  if (names.size() < 2 && !IsFolder(options_.list) && !IsImage(options_.list)) {
    ReadList();
  } else {
    CAFFE_CHECK(options_.root.empty(), "-root ", options_.root,
                " is the folder of a list's paths, ", "but ", options_.list, " is not a list");
    for (const std::string& name : names) {
      if (!IsFolder(name)) {
        items_.push_back({name, std::nullopt, ""});
        continue;
      }
      for (const std::string& image : ImagesOfFolder(name)) {
        items_.push_back({image, std::nullopt, ""});
      }
    }
  }
  const auto count = static_cast<int64_t>(items_.size());
  const int64_t first = std::clamp<int64_t>(options_.first, 0, count);
  std::vector<ImageItem> front, rest;
  for (int64_t i = 0, taken = 0; i < count; ++i) {
    const bool take = taken < first && i >= taken * count / first;
    taken += take;
    (take ? front : rest).push_back(items_[i]);
  }
  items_ = std::move(front);
  items_.insert(items_.end(), rest.begin(), rest.end());
}

void ImageBatches::ReadList() {
  size_t labels = 0;
  for (const auto& [line, number] : ReadTextLines(options_.list)) {
    ImageItem entry{line, std::nullopt, ""};
    const size_t blank = line.find_last_of(" \t");
    if (blank != std::string::npos) {
      entry.label = LabelOf(line.substr(blank + 1));
      if (entry.label) entry.path = line.substr(0, line.find_last_not_of(" \t", blank) + 1);
    }
    labels += entry.label.has_value();
    items_.push_back(entry);
  }
  CAFFE_CHECK(!items_.empty(), options_.list, ": the list has no images");
  labelled_ = labels > 0;
  if (labelled_ && labels < items_.size()) {
    log::Warning(Concat(options_.list, ": ", items_.size() - labels, " of ", items_.size(),
                        " lines have no label; these images do not count for top-1"));
  }
}

int64_t ImageBatches::unreadable() const {
  return std::count_if(items_.begin(), items_.end(),
                       [](const ImageItem& item) { return !item.error.empty(); });
}

std::string ImageBatches::PathOf(const ImageItem& item) const {
  if (options_.root.empty()) return item.path;
  return options_.root + (options_.root.ends_with("/") ? "" : "/") + item.path;
}

bool ImageBatches::Load(ImageItem* item, std::vector<float>* values, Shape* shape) const {
  if (!item->error.empty()) return false;
  const auto channels = static_cast<int>(shape_[1]);
  auto height = static_cast<int>(shape_[2]), width = static_cast<int>(shape_[3]);
  const std::string path = PathOf(*item);
  Image image;
  try {
    image = DecodeImage(ReadFile(path), path, channels == 3);
    if (options_.keep_sizes) {
      height = image.height;
      width = image.width;
    } else if (!options_.crop_centre) {
      if (image.height != height || image.width != width)
        image = ResizeBilinear(image, height, width);
    } else if (image.height < height || image.width < width) {
      const double factor = std::max(static_cast<double>(height) / image.height,
                                     static_cast<double>(width) / image.width);
      const int64_t high = std::max<int64_t>(height, std::lround(image.height * factor)),
                    wide = std::max<int64_t>(width, std::lround(image.width * factor));
      CheckImageSize(path + ", enlarged to cover the input,", high, wide);
      image = ResizeBilinear(image, static_cast<int>(high), static_cast<int>(wide));
    }
  } catch (const Error& error) {
    log::Warning(Concat("leaving out an image: ", error.what()));
    item->error = error.what();
    return false;
  }
  *shape = {1, channels, height, width};
  const int top = (image.height - height) / 2, left = (image.width - width) / 2;
  for (int c = 0; c < channels; ++c) {
    const int source = options_.rgb ? channels - 1 - c : c;
    for (int y = 0; y < height; ++y) {
      const uint8_t* row =
          image.pixels.data() + (static_cast<size_t>(y + top) * image.width + left) * channels;
      for (int x = 0; x < width; ++x) {
        values->push_back((static_cast<float>(row[x * channels + source]) - options_.mean[c]) *
                          options_.scale);
      }
    }
  }
  return true;
}

bool ImageBatches::Read(int64_t index, Batch* batch) {
  const int64_t most = batch_size(), begin = index * most, end = std::min(begin + most, images());
  if (begin >= images()) return false;
  std::vector<float>& values = batch->values[blob_];
  Shape shape;
  values.clear();
  batch->labels.clear();
  batch->items = 0;
  items_of_batch_.clear();
  for (int64_t i = begin; i < end; ++i) {
    if (!Load(&items_[i], &values, &shape)) continue;
    ++batch->items;
    items_of_batch_.push_back(i);
    if (labelled_) batch->labels.push_back(static_cast<float>(items_[i].label.value_or(-1)));
  }
  if (batch->items == 0) return true;
  // The rest repeats the images, so that it does not change what is observed.
  const size_t given = values.size(), size = given / batch->items;
  for (size_t i = given; i < size * most; ++i) values.push_back(values[i - given]);
  shape[0] = most;
  batch->shapes[blob_] = shape;
  batch->images = true;
  return true;
}

}  // namespace caffe
