#include "caffe/data/gzip_file.hpp"

#include <gtest/gtest.h>

#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// "Cortado\n" as gzip -n writes it.
const std::string kGzip(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x73\xce\x2f\x2a\x49\x4c\xc9\xe7\x02\x00\x42\xa1\x82"
    "\x3b\x08\x00\x00\x00",
    28);

TEST(GzipFileTest, PlainAndCompressed) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadGzipFile(folder.Put("plain", "Cortado\n")), "Cortado\n");
  EXPECT_EQ(ReadGzipFile(folder.Put("one", kGzip)), "Cortado\n");
  EXPECT_EQ(ReadGzipFile(folder.Put("two", kGzip + kGzip)), "Cortado\nCortado\n");
}

TEST(GzipFileTest, Errors) {
  const TemporaryFolder folder;
  for (size_t size : {2, 10, 20, 27}) {
    EXPECT_TRUE(Holds(ErrorOf([&] { ReadGzipFile(folder.Put("cut", kGzip.substr(0, size))); }),
                      "damaged or cut off"))
        << size;
  }
  std::string flipped = kGzip;
  flipped[12] ^= 0x10;
  EXPECT_TRUE(
      Holds(ErrorOf([&] { ReadGzipFile(folder.Put("flipped", flipped)); }), "damaged or cut off"));
  EXPECT_NE(ErrorOf([&] { ReadGzipFile(folder / "missing"); }), "");
}

}  // namespace
}  // namespace caffe
