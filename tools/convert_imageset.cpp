// The images of a list -> a database of Datum, key %08d_<path>: index in the list, path.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/random.hpp"
#include "caffe/core/shape.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/image.hpp"
#include "caffe/data/image_list.hpp"
#include "caffe/data/parallel.hpp"
#include "caffe/io/file.hpp"
#include "commands/data_tool.hpp"

namespace caffe {
namespace {

constexpr int64_t kReport = 1000;  // images between two log lines

struct Options {
  std::string root;
  bool color = true, encoded = false;
  ImageFormat format = ImageFormat::kNone;  // kNone: the format of each file
  int height = 0, width = 0;                // 0: the size of each image
};

// The result of reading one image.
struct Result {
  Datum datum;
  Shape shape;
  std::string error;  // the reason if the image could not be read
};

bool IsSet(const ToolCommand& command, const std::string& flag) {
  return command.flags.at(flag) == "true";
}

int Edge(const ToolCommand& command, const std::string& flag) {
  const std::string& text = command.flags.at(flag);
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  CAFFE_CHECK(error == std::errc() && stop == text.data() + text.size() && value >= 0, "flag --",
              flag, " is '", text, "'; it must be a number of pixels, or 0 for the image's own");
  return value;
}

ImageFormat FormatNamed(const std::string& type) {
  if (type.empty()) return ImageFormat::kNone;
  if (type == "png") return ImageFormat::kPng;
  CAFFE_CHECK(type == "jpg" || type == "jpeg", "flag --encode_type is '", type,
              "'; it must be jpg, jpeg or png");
  return ImageFormat::kJpeg;
}

Options ReadOptions(const ToolCommand& command) {
  Options options;
  options.root = command.positional[0];
  options.color = !IsSet(command, "gray");
  options.format = FormatNamed(command.flags.at("encode_type"));
  options.encoded = IsSet(command, "encoded") || options.format != ImageFormat::kNone;
  options.height = Edge(command, "resize_height");
  options.width = Edge(command, "resize_width");
  CAFFE_CHECK((options.height == 0) == (options.width == 0),
              "flags --resize_height and --resize_width must be set at the same time; they are ",
              options.height, " and ", options.width);
  if (options.height > 0) {
    CheckImageSize("an image of --resize_height and --resize_width", options.height, options.width);
  }
  return options;
}

// Shuffles in an order that depends only on the length of the list (Fisher and Yates).
void Shuffle(std::vector<ImageEntry>* entries) {
  for (uint64_t i = entries->size() - 1; i > 0; --i) {
    const auto random = Philox(i, 0);
    std::swap((*entries)[i], (*entries)[(uint64_t{random[0]} << 32 | random[1]) % (i + 1)]);
  }
}

// Whether a Data layer would decode the file to this image. It would not if Exif rotates the image
// or if the file has other channels.
bool Holds(const std::string& file, const std::string& name, const Image& image) {
  const Image stored = DecodeImage(file, name, std::nullopt);
  return stored.channels == image.channels && stored.height == image.height &&
         stored.width == image.width && stored.pixels == image.pixels;
}

void ReadRecord(const ImageEntry& entry, const Options& options, Result* result) {
  const std::string path = options.root + entry.path;
  std::string file = ReadFile(path);
  Image image = DecodeImage(file, path, options.color);
  const bool resize = options.height > 0;
  if (resize) image = ResizeBilinear(image, options.height, options.width);
  result->shape = {image.channels, image.height, image.width};
  if (options.encoded) {
    const ImageFormat own = FormatOf(file);
    const ImageFormat format = options.format == ImageFormat::kNone ? own : options.format;
    const bool copy = !resize && format == own && Holds(file, path, image);
    result->datum.set_data(copy ? std::move(file) : EncodeImage(image, format));
    result->datum.set_encoded(true);
  } else {
    SetPixels(image, &result->datum);
  }
  result->datum.set_label(entry.label);
}

void Convert(const ImageEntry& entry, const Options& options, Result* result) {
  try {
    ReadRecord(entry, options, result);
  } catch (const Error& error) {
    result->error = error.what();
  }
}

void ConvertList(const ToolCommand& command) {
  const Options options = ReadOptions(command);
  const std::string& list = command.positional[1];
  std::vector<ImageEntry> entries = ReadImageList(list);
  if (IsSet(command, "shuffle")) {
    log::Info("Shuffling data");
    Shuffle(&entries);
  }
  log::Info(Concat("A total of ", entries.size(), " images."));
  if (options.encoded && !IsSet(command, "encoded")) {
    log::Info("encode_type is given: images are stored encoded.");
  }
  const auto database = CreateDatabase(command.flags.at("backend"), command.positional[2]);
  const bool check_size = IsSet(command, "check_size");
  const int threads = DataThreads();
  const auto total = static_cast<int64_t>(entries.size());
  int64_t count = 0;
  Shape first;
  for (int64_t begin = 0; begin < total; begin += 4 * threads) {
    // A small batch, because all its pixels are in memory.
    std::vector<Result> results(std::min<int64_t>(4 * threads, total - begin));
    RunInParallel(threads, static_cast<int64_t>(results.size()),
                  [&](int64_t i) { Convert(entries[begin + i], options, &results[i]); });
    for (size_t i = 0; i < results.size(); ++i) {
      const ImageEntry& entry = entries[begin + i];
      const Result& result = results[i];
      if (!result.error.empty()) {
        log::Error(
            Concat(list, ", line ", entry.line, ": ", result.error, "; the image is skipped"));
        continue;
      }
      if (first.empty()) first = result.shape;
      CAFFE_CHECK(!check_size || result.shape == first, list, ", line ", entry.line,
                  ": the shape of ", entry.path, " is ", ShapeString(result.shape),
                  ", but that of the first image is ", ShapeString(first),
                  "; --resize_height and --resize_width make them equal");
      char index[24];
      std::snprintf(index, sizeof(index), "%08lld", static_cast<long long>(begin + i));
      database->Put(Concat(index, "_", entry.path), result.datum);
      if (++count % kReport == 0) log::Info(Concat("Processed ", count, " files."));
    }
  }
  CAFFE_CHECK(count > 0, list, ": no image could be read; paths are appended to '", options.root,
              "'");
  database->Finish();
  if (count % kReport != 0) log::Info(Concat("Processed ", count, " files."));
  const int64_t skipped = total - count;
  if (skipped > 0) {
    log::Warning(Concat(skipped, " of ", total, total == 1 ? " image" : " images",
                        skipped == 1 ? " was skipped" : " were skipped"));
  }
}

}  // namespace
}  // namespace caffe

int main(int argc, char** argv) {
  return caffe::RunTool(
      argc, argv,
      {"convert_imageset",
       "Writes the images (JPEG, PNG) of a list of lines \"path label\" to a database.\n"
       "  root_folder   is prepended to each path\n"
       "  shuffle       stores them in a random order, always the same for a list\n"
       "  gray          stores 1 channel, not 3\n"
       "  resize_…      resizes all images to this height and width; 0: keeps their size\n"
       "  encoded       stores files, unchanged if possible, instead of pixels\n"
       "  encode_type   jpg or png; default: the format of each file\n"
       "  check_size    fails if an image does not have the size of the first\n"
       "Images that cannot be read are skipped; the last line counts them.",
       {"root_folder", "list_file", "output_db"},
       {{"backend", "lmdb"},
        {"check_size", "false"},
        {"encode_type", ""},
        {"encoded", "false"},
        {"gray", "false"},
        {"resize_height", "0"},
        {"resize_width", "0"},
        {"shuffle", "false"}}},
      caffe::ConvertList);
}
