// An image file, JPEG or PNG, whatever it says about its size.
#include "caffe/data/image.hpp"

#include <cstdlib>
#include <random>

#include "data/test_images.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// Small limits, so that they are reached. They are read at the first image of the process.
constexpr int kMostPixels = 1 << 16;
const bool limited =
    setenv("CAFFE_MAX_PIXELS", "65536", 0) == 0 && setenv("CAFFE_MAX_SCANS", "20", 0) == 0;

void CheckImage(const Image& image) {
  const size_t pixels = static_cast<size_t>(image.height) * image.width;
  if (pixels == 0 || pixels > kMostPixels) Fault("an image of a size that is refused");
  if (image.pixels.size() != pixels * image.channels) Fault("pixels that do not fit the size");
}

void Decode(std::string_view bytes) {
  for (const std::optional<bool> color : {std::optional<bool>(), {true}, {false}}) {
    const Image image = DecodeImage(bytes, "an image", color);
    CheckImage(image);
    if (color && image.channels != (*color ? 3 : 1)) Fault("other channels than wanted");
    const Image resized = ResizeBilinear(image, 1 + image.height / 2, 1 + image.width % 64);
    CheckImage(resized);
    if (image.channels == 4) continue;
    const std::string png = EncodeImage(resized, ImageFormat::kPng);
    if (DecodeImage(png, "the image", {}).pixels != resized.pixels) Fault("a PNG of other pixels");
    CheckImage(DecodeImage(EncodeImage(resized, ImageFormat::kJpeg), "the image", {}));
  }
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const int channels : {1, 3}) {
    const Image image = TestImage(9, 17, channels);
    const std::string name = channels == 1 ? "gray" : "color";
    seeds.push_back({name + ".jpg", EncodeImage(image, ImageFormat::kJpeg)});
    seeds.push_back({name + ".png", EncodeImage(image, ImageFormat::kPng)});
    seeds.push_back({name + "_stored.png", PngOf(image)});
  }
  return seeds;
}

std::vector<std::string> Words() {
  return {"\xff\xc0", "\xff\xc1", "\xff\xc2", "\xff\xc4", "\xff\xc9", "\xff\xca", "\xff\xda",
          "\xff\xdb", "\xff\xdd", "\xff\xd9", "\xff\xe1", "\xff\xee", "Exif",     "Adobe",
          "IHDR",     "PLTE",     "IDAT",     "IEND",     "tRNS",     "gAMA",     "iCCP",
          "zTXt",     "iTXt",     "sPLT",     "sRGB",     "cHRM",     "hIST",     "eXIf"};
}

// Changes a chunk of a PNG file, or adds one; checksums remain right, without which nothing is
// read.
std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  constexpr size_t kHead = 8;
  if (FormatOf(bytes) != ImageFormat::kPng) return "";
  std::minstd_rand random(seed);
  const auto draw = [&](size_t count) { return random() % count; };
  std::vector<std::pair<std::string, std::string>> chunks;
  for (size_t at = kHead; at + 12 <= bytes.size();) {
    size_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
    size = std::min(size, bytes.size() - at - 12);
    chunks.emplace_back(bytes.substr(at + 4, 4), bytes.substr(at + 8, size));
    at += 12 + size;
  }
  if (chunks.empty()) return "";
  auto& [kind, data] = chunks[draw(chunks.size())];
  switch (draw(4)) {
    case 0: {
      const std::vector<std::string> words = Words();
      kind = words[words.size() - 1 - draw(12)];
      break;
    }
    case 1: chunks.insert(chunks.begin() + draw(chunks.size()), chunks[draw(chunks.size())]); break;
    default:
      for (size_t i = 0; i <= draw(3) && !data.empty(); ++i) {
        static constexpr char kSpecial[] = {0, 1, 2, 3, 4, 6, 8, 16, 127, -1};
        data[draw(data.size())] =
            draw(2) == 0 ? kSpecial[draw(sizeof(kSpecial))] : static_cast<char>(random());
      }
  }
  std::string changed(bytes.substr(0, kHead));
  for (const auto& [name, content] : chunks) changed += PngChunk(name, content);
  return changed.size() <= most ? changed : "";
}

const Registration registration(
    {.name = "image", .run = Decode, .seeds = Seeds, .words = Words, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
