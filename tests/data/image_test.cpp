#include "caffe/data/image.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// 14 x 10 pixels, (18 x, 25 y, 3 x y) as red, green, blue.
const char* const kJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNy"
    "wtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT09PT09PT09PT09PT09PT0//wAARCAAKAA4DASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABQb/xA"
    "AiEAABAgQHAQAAAAAAAAAAAAACAAEEBREiAwYSITFBcZH/xAAVAQEBAAAAAAAAAAAAAAAAAAACBf/EABwRAAEDBQAA"
    "AAAAAAAAAAAAAAMAAQUCERITMf/aAAwDAQACEQMRAD8AnoKRVpYnobL7MFSFm9S0uEdrW+JvCEdZWtw3SnOfEOypro"
    "xUibi//9k=";
// The same with an Exif block whose orientation is a rotation by 90 degrees.
const char* const kTurnedJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDABsSFBcUER"
    "sXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/2wBDARweHigj"
    "KE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wAARCAAKAA"
    "4DAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABAX/xAAdEAACAQQDAAAAAAAAAAAAAAAAASECAwQRBRJB/8QA"
    "GAEAAwEBAAAAAAAAAAAAAAAAAgMFBAb/xAAbEQADAAMBAQAAAAAAAAAAAAAAAQMCESEEEv/aAAwDAQACEQMRAD8An2"
    "MHfglZfQMrj7XHrUoN4YpbyeilP0cFY6UQjPE5ubG0pdnAu/asqSfD/9k=";

// 16 x 16 gray pixels in several scans.
const char* const kProgressiveJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1"
    "tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/wgALCAAQABABAREA/8QAFwAAAwEAAAAAAAAAAAAAAAAAAQIEBf/aAAgBAQAA"
    "AAGU6S//xAAXEAADAQAAAAAAAAAAAAAAAAAAARIC/9oACAEBAAEFAoIIGso//8QAFxABAAMAAAAAAAAAAAAAAAAAAQ"
    "AQIf/aAAgBAQAGPwK9Qn//xAAYEAACAwAAAAAAAAAAAAAAAAAAARARYf/aAAgBAQABPyGexp5rP//aAAgBAQAAABAP"
    "/8QAGBABAAMBAAAAAAAAAAAAAAAAAQARYYH/2gAIAQEAAT8QMwzDMLJhdGNdn//Z";

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
  }
  return bytes;
}

std::vector<int> Pixel(const Image& image, int y, int x) {
  const auto at = image.pixels.begin() + (y * image.width + x) * image.channels;
  return {at, at + image.channels};
}

// Sums that any other pixel, or any other order, would change.
std::pair<int64_t, int64_t> Sums(const Image& image) {
  int64_t sum = 0, weighted = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    sum += image.pixels[i];
    weighted += image.pixels[i] * static_cast<int64_t>(i + 1);
  }
  return {sum, weighted};
}

// All expected values come from OpenCV (imdecode, resize).
TEST(ImageTest, DecodesJpegAsOpenCvDoes) {
  const Image color = DecodeImage(FromBase64(kJpeg), "a.jpg", true);
  ASSERT_EQ(color.height, 10);
  ASSERT_EQ(color.width, 14);
  ASSERT_EQ(color.channels, 3);
  EXPECT_EQ(Pixel(color, 0, 0), std::vector<int>({0, 0, 1}));
  EXPECT_EQ(Pixel(color, 0, 13), std::vector<int>({13, 9, 205}));
  EXPECT_EQ(Pixel(color, 9, 0), std::vector<int>({29, 209, 20}));
  EXPECT_EQ(Pixel(color, 3, 4), std::vector<int>({38, 75, 71}));
  EXPECT_EQ(Sums(color), std::pair(int64_t{42311}, int64_t{10926892}));
  const Image gray = DecodeImage(FromBase64(kJpeg), "a.jpg", false);
  ASSERT_EQ(gray.channels, 1);
  EXPECT_EQ(Pixel(gray, 3, 4), std::vector<int>({70}));
  EXPECT_EQ(Sums(gray), std::pair(int64_t{15278}, int64_t{1351145}));
}

TEST(ImageTest, TurnsAsExifSays) {
  const Image color = DecodeImage(FromBase64(kTurnedJpeg), "a.jpg", true);
  ASSERT_EQ(color.height, 14);
  ASSERT_EQ(color.width, 10);
  EXPECT_EQ(Pixel(color, 0, 0), std::vector<int>({6, 216, 9}));
  EXPECT_EQ(Pixel(color, 3, 4), std::vector<int>({40, 127, 47}));
  EXPECT_EQ(Sums(color), std::pair(int64_t{42345}, int64_t{10635832}));
  EXPECT_EQ(Sums(DecodeImage(FromBase64(kTurnedJpeg), "a.jpg", false)),
            std::pair(int64_t{15249}, int64_t{1204217}));
}

TEST(ImageTest, WithoutColorAJpegIsAsItIsStored) {
  const Image color = DecodeImage(FromBase64(kJpeg), "a.jpg", std::nullopt);
  ASSERT_EQ(color.channels, 3);
  EXPECT_EQ(Sums(color), std::pair(int64_t{42311}, int64_t{10926892}));
  // Not turned.
  const Image lying = DecodeImage(FromBase64(kTurnedJpeg), "a.jpg", std::nullopt);
  ASSERT_EQ(lying.height, 10);
  ASSERT_EQ(lying.width, 14);
  EXPECT_EQ(Pixel(lying, 3, 4), std::vector<int>({37, 74, 78}));
  EXPECT_EQ(Sums(lying), std::pair(int64_t{42345}, int64_t{10839151}));
  const std::string file = EncodeImage(TestImage(4, 5, 1), ImageFormat::kJpeg);
  EXPECT_EQ(DecodeImage(file, "a.jpg", std::nullopt).channels, 1);
  EXPECT_EQ(DecodeImage(file, "a.jpg", true).channels, 3);
}

// The expected values come from OpenCV's imdecode with IMREAD_UNCHANGED.
TEST(ImageTest, WithoutColorAPngIsAsItIsStored) {
  const struct {
    const char* file;
    int channels;
    int64_t sum, weighted;
  } cases[] = {
      // Red, green, blue and opacity.
      {"iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAYAAAC09K7GAAAAPklEQVR4nAEzAMz/AKwvdcBD+8NnCdMV8iRXRtgErF"
       "3FAaMs4kdyKpAn9fdkewIbRLkEGChYEvoSM5im1Yr/RecWgTi0T9AAAAAASUVORK5CYII=",
       4, 6313, 160760},
      // Gray and opacity.
      {"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAQAAAA3fa6RAAAAF0lEQVR4nGPsWz5J6uUPpo+V/zlf3wMANT0IAW3we5"
       "MAAAAASUVORK5CYII=",
       4, 2685, 37418},
      // A palette, without and with opacity.
      {"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACAgMAAADgGo6JAAAADFBMVEUKFB7IZDIHCAn/AICTieGxAAAADElEQVR4nG"
       "OQYDgCAAEQAN0R5Q8iAAAAAElFTkSuQmCC",
       3, 1227, 13450},
      {"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACAgMAAADgGo6JAAAADFBMVEUKFB7IZDIHCAn/AICTieGxAAAABHRSTlMAWv"
       "//bJ7fAwAAAAxJREFUeJxjkGA4AgABEADdEeUPIgAAAABJRU5ErkJggg==",
       4, 1917, 27007},
      // Gray, and colors, of which one is transparent.
      {"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAAAAAC4HznGAAAAAnRSTlMAA++anIIAAAAQSURBVHicY2RgZGRkZmQEAA"
       "ArAArgX+TNAAAAAElFTkSuQmCC",
       1, 15, 70},
      {"iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAABnRSTlMAAwAEAAVeZSESAAAAF0lEQVR4nGNkYGRiZm"
       "ZmZmZm4eTkhLAAAo4ASMA/XigAAAAASUVORK5CYII=",
       4, 1428, 21834}};
  for (const auto& c : cases) {
    const std::string file = FromBase64(c.file);
    const Image image = DecodeImage(file, "a.png", std::nullopt);
    EXPECT_EQ(image.channels, c.channels) << c.file;
    EXPECT_EQ(Sums(image), std::pair(c.sum, c.weighted)) << c.file;
    EXPECT_EQ(DecodeImage(file, "a.png", true).channels, 3);
    EXPECT_EQ(DecodeImage(file, "a.png", false).channels, 1);
  }
}

TEST(ImageTest, APngThatWasWrittenIsTheImage) {
  for (const int channels : {1, 3}) {
    const Image image = TestImage(37, 501, channels);
    const std::string file = EncodeImage(image, ImageFormat::kPng);
    EXPECT_EQ(FormatOf(file), ImageFormat::kPng);
    const Image back = DecodeImage(file, "a.png", std::nullopt);
    EXPECT_EQ(back.height, 37);
    EXPECT_EQ(back.width, 501);
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.pixels, image.pixels);
  }
}

// The expected values come from OpenCV's imencode and imdecode.
TEST(ImageTest, WritesJpegAsOpenCvDoes) {
  const auto again = [](const char* text, bool color) {
    const Image image = DecodeImage(FromBase64(text), "a.jpg", color);
    const std::string file = EncodeImage(image, ImageFormat::kJpeg);
    EXPECT_EQ(FormatOf(file), ImageFormat::kJpeg);
    return Sums(DecodeImage(file, "a.jpg", color));
  };
  EXPECT_EQ(again(kJpeg, true), std::pair(int64_t{42346}, int64_t{10965409}));
  EXPECT_EQ(again(kJpeg, false), std::pair(int64_t{15277}, int64_t{1351776}));
  EXPECT_EQ(again(kTurnedJpeg, true), std::pair(int64_t{42319}, int64_t{10622417}));
  EXPECT_EQ(again(kTurnedJpeg, false), std::pair(int64_t{15245}, int64_t{1204256}));
  // Longer than the buffer between the library and the string.
  const Image large = TestImage(200, 300, 3);
  const std::string file = EncodeImage(large, ImageFormat::kJpeg);
  EXPECT_GT(file.size(), size_t{3} << 14);
  EXPECT_EQ(DecodeImage(file, "a.jpg", true).width, 300);
}

TEST(ImageTest, ImagesThatNoFileHoldsAreErrors) {
  const auto error = [](const Image& image, ImageFormat format) {
    return ErrorOf([&] { EncodeImage(image, format); });
  };
  EXPECT_TRUE(Holds(error(TestImage(2, 2, 4), ImageFormat::kPng), "4 channels"));
  EXPECT_TRUE(Holds(error(Image(), ImageFormat::kJpeg), "an empty image"));
  EXPECT_TRUE(Holds(error(TestImage(2, 2, 1), ImageFormat::kNone), "without a format"));
  const std::string wide = error(TestImage(1, 70000, 1), ImageFormat::kJpeg);
  EXPECT_TRUE(Holds(wide, "cannot write an image of 1 x 70000 as JPEG: "));
  EXPECT_TRUE(Holds(wide, "65500"));
  EXPECT_TRUE(Holds(error(TestImage(1, 1000001, 1), ImageFormat::kPng),
                    "cannot write an image of 1 x 1000001 as PNG: "));
}

TEST(ImageTest, EveryOrientationIsAPermutation) {
  std::string bytes = FromBase64(kTurnedJpeg);
  const size_t tag = bytes.find(std::string("\x01\x12\x00\x03", 4));
  ASSERT_NE(tag, std::string::npos);
  const auto turned = [&](int orientation) {
    bytes[tag + 9] = static_cast<char>(orientation);
    return DecodeImage(bytes, "a.jpg", true);
  };
  const Image plain = turned(1);
  // Where the first two pixels of the file, and its last row's first, come to lie.
  const struct {
    int orientation, corner_y, corner_x, next_y, next_x, low_y, low_x;
  } cases[] = {{1, 0, 0, 0, 1, 9, 0},    {2, 0, 13, 0, 12, 9, 13}, {3, 9, 13, 9, 12, 0, 13},
               {4, 9, 0, 9, 1, 0, 0},    {5, 0, 0, 1, 0, 0, 9},    {6, 0, 9, 1, 9, 0, 0},
               {7, 13, 9, 12, 9, 13, 0}, {8, 13, 0, 12, 0, 13, 9}};
  for (const auto& c : cases) {
    const Image image = turned(c.orientation);
    ASSERT_EQ(image.height, c.orientation < 5 ? 10 : 14);
    EXPECT_EQ(Pixel(image, c.corner_y, c.corner_x), Pixel(plain, 0, 0)) << c.orientation;
    EXPECT_EQ(Pixel(image, c.next_y, c.next_x), Pixel(plain, 0, 1)) << c.orientation;
    EXPECT_EQ(Pixel(image, c.low_y, c.low_x), Pixel(plain, 9, 0)) << c.orientation;
  }
}

TEST(ImageTest, DecodesPng) {
  const Image color = TestImage(5, 7, 3), gray = TestImage(4, 3, 1);
  EXPECT_EQ(DecodeImage(PngOf(color), "a.png", true).pixels, color.pixels);
  EXPECT_EQ(DecodeImage(PngOf(gray), "a.png", false).pixels, gray.pixels);
  const Image widened = DecodeImage(PngOf(gray), "a.png", true);
  ASSERT_EQ(widened.channels, 3);
  for (int x = 0; x < 3; ++x) {
    EXPECT_EQ(Pixel(widened, 2, x), std::vector<int>(3, Pixel(gray, 2, x)[0]));
  }
  // 0.299 r + 0.587 g + 0.114 b of the pixel (blue 200, green 100, red 50).
  const Image one{1, 1, 3, {200, 100, 50}};
  EXPECT_EQ(Pixel(DecodeImage(PngOf(one), "a.png", false), 0, 0), std::vector<int>({96}));
}

TEST(ImageTest, BadFilesAreErrorsThatNameThem) {
  const auto error = [](const std::string& bytes) {
    return ErrorOf([&] { DecodeImage(bytes, "some/file", true); });
  };
  const std::string jpeg = FromBase64(kJpeg), png = PngOf(TestImage(5, 7, 3));
  EXPECT_TRUE(Holds(error(""), "some/file is empty"));
  EXPECT_TRUE(Holds(error("GIF89a"), "some/file is neither a JPEG nor a PNG file"));
  const std::string tiff("II*\0", 4);
  for (const auto& [bytes, format] :
       std::vector<std::pair<std::string, std::string>>{{"BM", "BMP"},
                                                        {"P6\n2 2\n255\n", "PNM (PBM, PGM or PPM)"},
                                                        {tiff, "TIFF"},
                                                        {"RIFF1234WEBPVP8", "WebP"}}) {
    EXPECT_EQ(ErrorOf([&, &text = bytes] { DecodeImage(text, "a b/x.y", true); }),
              "a b/x.y is neither a JPEG nor a PNG file, but a " + format + " file; convert it: " +
                  "python3 -c \"from PIL import Image; Image.open('a b/x.y').convert('RGB')" +
                  ".save('a b/x.png')\"");
  }
  EXPECT_TRUE(Holds(error("\xff\xd8\xff"), "some/file is not a complete JPEG file"));
  EXPECT_TRUE(Holds(error(png.substr(0, 8)), "some/file is not a complete PNG file"));
  for (const double part : {0.1, 0.5, 0.9}) {
    EXPECT_TRUE(Holds(error(jpeg.substr(0, static_cast<size_t>(part * jpeg.size()))),
                      "some/file is not a complete JPEG file"));
    EXPECT_TRUE(Holds(error(png.substr(0, static_cast<size_t>(part * png.size()))),
                      "some/file is not a complete PNG file"));
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { DecodeImage(jpeg.substr(0, 300), "some/file", std::nullopt); }),
                    "some/file is not a complete JPEG file"));
  // Every kind of damage is at most an error.
  for (const std::string& good : {jpeg, png, FromBase64(kTurnedJpeg)}) {
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (i % 3 ? 0xff : 0x10));
      error(bad);
    }
  }
  std::string wide = png;
  wide[16] = '\x7f';  // the width; its checksum does not fit any more
  EXPECT_TRUE(Holds(error(wide), "some/file is not a complete PNG file"));
}

// A file with another size in its header.
std::string JpegOfSize(std::string bytes, int height, int width) {
  size_t at = bytes.find("\xff\xc0");
  if (at == std::string::npos) at = bytes.find("\xff\xc2");
  for (const int extent : {height, width}) {
    bytes[at + 5] = static_cast<char>(extent >> 8);
    bytes[at + 6] = static_cast<char>(extent);
    at += 2;
  }
  return bytes;
}

// libjpeg would take 12 GiB for a progressive file before a line of pixels is read.
TEST(ImageTest, TheSizeOfAJpegIsCheckedBeforeItIsDecoded) {
  for (const char* file : {kJpeg, kProgressiveJpeg}) {
    const auto error = [&](int height, int width) {
      const std::string bytes = JpegOfSize(FromBase64(file), height, width);
      return ErrorOf([&] { DecodeImage(bytes, "some/file", true); });
    };
    EXPECT_EQ(error(65500, 65400),
              "some/file has 65500 x 65400 pixels; the limit is 268435456 pixels; "
              "CAFFE_MAX_PIXELS changes it");
    // Less than the limit, and far more than so few bytes can hold.
    EXPECT_TRUE(Holds(error(16000, 16000), "some/file is not a complete JPEG file: "));
    EXPECT_TRUE(Holds(error(16000, 16000), " bytes are too few for 16000 x 16000 pixels"));
  }
  EXPECT_EQ(DecodeImage(FromBase64(kProgressiveJpeg), "a.jpg", false).width, 16);
}

TEST(ImageTest, AJpegOfManyScansIsRefused) {
  const std::string file = FromBase64(kProgressiveJpeg);
  // The last scan, and the table before it.
  const size_t scan = file.rfind("\xff\xda"), end = file.size() - 2;
  const auto repeated = [&](int times) {
    std::string bytes = file.substr(0, end);
    for (int i = 0; i < times; ++i) bytes += file.substr(scan, end - scan);
    return bytes + file.substr(end);
  };
  EXPECT_EQ(DecodeImage(repeated(50), "a.jpg", false).width, 16);
  EXPECT_EQ(ErrorOf([&] { DecodeImage(repeated(150), "a.jpg", false); }),
            "a.jpg is not a complete JPEG file: it has more than 100 scans; "
            "CAFFE_MAX_SCANS changes the limit");
}

TEST(ImageTest, TheSizeOfAPngIsCheckedBeforeItIsDecoded) {
  const auto error = [](int height, int width) {
    std::string head =
        PngChunk("IHDR", BigEndian(width) + BigEndian(height) + std::string("\x08\x02\0\0\0", 5));
    const std::string file = "\x89PNG\r\n\x1a\n" + head + PngChunk("IDAT", "x");
    return ErrorOf([&] { DecodeImage(file, "some/file", true); });
  };
  for (const auto& [height, width] : {std::pair(100000, 100000), {1, 2000000000}}) {
    EXPECT_EQ(error(height, width),
              Concat("some/file has ", height, " x ", width, " pixels; the limit is 268435456 ",
                     "pixels; CAFFE_MAX_PIXELS changes it"));
  }
  EXPECT_TRUE(Holds(error(16000, 16000), "its bytes are too few for its pixels"));
  EXPECT_TRUE(Holds(error(2000000, 100), "its bytes are too few for its pixels"));
}

// A text may unpack to a thousand times its size, and a file may have many; libpng would keep them.
TEST(ImageTest, TextsOfAPngAreNotUnpacked) {
  const Image image = TestImage(4, 5, 3);
  const std::string text = "key" + std::string("\0\0", 2) + "no stream of zlib";
  const std::string file = PngOf(image);
  std::string chunks;
  for (int i = 0; i < 2000; ++i) chunks += PngChunk("zTXt", text);  // libpng keeps 1000 at most
  constexpr size_t kHead = 8 + 25;
  EXPECT_EQ(DecodeImage(file.substr(0, kHead) + chunks + file.substr(kHead), "a.png", true).pixels,
            image.pixels);
}

TEST(ImageTest, AnImageIsNotResizedBeyondTheLimit) {
  EXPECT_EQ(ErrorOf([] { ResizeBilinear(TestImage(2, 2, 1), 100000, 100000); }),
            "the resized image has 100000 x 100000 pixels; the limit is 268435456 pixels; "
            "CAFFE_MAX_PIXELS changes it");
}

TEST(ImageTest, ResizesAsOpenCvDoes) {
  const struct {
    int height, width, channels, to_height, to_width;
    std::vector<uint8_t> expected;
  } cases[] = {
      {6, 8, 3, 4, 5, {39,  32,  57,  118, 121, 181, 164, 87,  80,  93, 134, 181, 90,  154, 134,
                       173, 143, 144, 138, 116, 153, 164, 159, 128, 93, 91,  114, 148, 130, 86,
                       122, 195, 64,  176, 86,  149, 100, 103, 112, 99, 28,  156, 116, 67,  173,
                       122, 114, 150, 195, 62,  121, 100, 79,  160, 99, 177, 89,  173, 101, 125}},
      {5, 7, 1, 9, 4, {2,   20,  51, 99,  54,  81,  57,  123, 142, 182, 65,  162,
                       103, 185, 76, 191, 33,  164, 87,  216, 90,  111, 65,  137,
                       132, 79,  65, 73,  121, 135, 152, 67,  114, 168, 205, 64}},
      // Exactly half the size.
      {4,
       6,
       3,
       2,
       3,
       {49, 104, 101, 133, 88, 113, 129, 112, 165, 129, 96, 133, 133, 128, 129, 177, 136, 101}},
      {3, 5, 1, 3, 8, {0,   3,   7,   14,  23, 33, 45, 54,  80,  93,  112, 133,
                       157, 182, 209, 228, 20, 44, 78, 114, 151, 190, 88,  6}},
      {2, 3, 1, 1, 1, {30}}};
  for (const auto& c : cases) {
    const Image image = TestImage(c.height, c.width, c.channels);
    const Image resized = ResizeBilinear(image, c.to_height, c.to_width);
    EXPECT_EQ(resized.height, c.to_height);
    EXPECT_EQ(resized.width, c.to_width);
    EXPECT_EQ(resized.pixels, c.expected);
    EXPECT_EQ(ResizeBilinear(image, c.height, c.width).pixels, image.pixels);
  }
  EXPECT_THROW(ResizeBilinear(TestImage(2, 2, 1), 0, 3), Error);
  EXPECT_THROW(ResizeBilinear(Image(), 3, 3), Error);
}

TEST(ImageTest, PixelsOfARecordLieByChannel) {
  Datum datum;
  SetPixels({1, 2, 3, {1, 2, 3, 4, 5, 6}}, &datum);
  EXPECT_EQ(datum.channels(), 3);
  EXPECT_EQ(datum.height(), 1);
  EXPECT_EQ(datum.width(), 2);
  EXPECT_EQ(datum.data(), "\1\4\2\5\3\6");
}

}  // namespace
}  // namespace caffe
