#include "caffe/io/hdf5_file.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "caffe/core/error.hpp"
#include "io/temporary_folder.hpp"
#include "support/in_child.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string MakeFile(const std::string& path) {
  std::vector<float> floats(24);
  std::iota(floats.begin(), floats.end(), 0.5f);
  const std::vector<double> doubles{1.0 / 3, -2};
  Hdf5Writer file(path);
  file.Write("/a/b/floats", {2, 3, 4}, floats.data());
  file.Write("doubles", {2}, doubles.data());
  file.Write("scalar", {}, doubles.data());
  file.WriteInteger("integer", -7);
  file.WriteString("text", "some text");
  file.WriteBytes("bytes", std::string("\0\xff\1", 3));
  file.MakeGroup("/a/empty");
  file.MakeGroup("/a");  // is there
  file.Commit();
  return path;
}

TEST(Hdf5FileTest, WhatWasWrittenComesBack) {
  const TemporaryFolder folder;
  const Hdf5Reader file(MakeFile(folder / "a.h5"));
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(file.Children("/"),
            std::vector<std::string>({"a", "bytes", "doubles", "integer", "scalar", "text"}));
  EXPECT_EQ(file.Children("/a"), std::vector<std::string>({"b", "empty"}));
  EXPECT_TRUE(file.Has("/a/b/floats"));
  EXPECT_TRUE(file.Has("doubles"));
  EXPECT_FALSE(file.Has("/a/c/floats"));
  EXPECT_FALSE(file.Has("/doubles/x"));
  EXPECT_TRUE(file.IsGroup("/a/b"));
  EXPECT_FALSE(file.IsGroup("/doubles"));
  EXPECT_EQ(file.ShapeOf("/a/b/floats"), Shape({2, 3, 4}));
  EXPECT_EQ(file.ShapeOf("scalar"), Shape());
  EXPECT_TRUE(file.IsDouble("doubles"));
  EXPECT_FALSE(file.IsDouble("/a/b/floats"));
  EXPECT_FALSE(file.IsDouble("integer"));
  std::vector<float> floats(24), expected(24);
  std::iota(expected.begin(), expected.end(), 0.5f);
  file.Read("/a/b/floats", floats.data());
  EXPECT_EQ(floats, expected);
  double doubles[2];
  file.Read("doubles", doubles);
  EXPECT_EQ(doubles[0], 1.0 / 3);
  float narrow[2];
  file.Read("doubles", narrow);
  EXPECT_EQ(narrow[0], 1.f / 3);
  EXPECT_EQ(file.ReadInteger("integer"), -7);
  EXPECT_EQ(file.ReadString("text"), "some text");
  EXPECT_EQ(file.ReadBytes("bytes"), std::string("\0\xff\1", 3));
}

TEST(Hdf5FileTest, ErrorsNameFileAndDataset) {
  const TemporaryFolder folder;
  const std::string path = MakeFile(folder / "a.h5");
  const auto open_error = [](const std::string& name) {
    return ErrorOf([&] { Hdf5Reader file(name); });
  };
  EXPECT_TRUE(Holds(open_error(folder / "none"), "File not found: " + folder / "none"));
  EXPECT_TRUE(Holds(open_error(folder.path().string()), "is a folder"));
  EXPECT_TRUE(Holds(open_error(folder.Put("text", "no HDF5")), "text is not an HDF5 file"));
  EXPECT_TRUE(Holds(open_error(folder.Put("empty", "")), "empty is not an HDF5 file"));
  const std::string whole = folder.Get("a.h5");
  EXPECT_TRUE(Holds(open_error(folder.Put("cut", whole.substr(0, whole.size() / 2))), "cut ("));
  const Hdf5Reader file(path);
  float value;
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Read("other", &value); }), path + ": no dataset 'other'"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Read("text", &value); }),
                    "'text' holds neither integers nor floating-point numbers"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.ReadString("doubles"); }), "'doubles' is not text"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.ReadInteger("doubles"); }), "is not a single integer"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Children("/c"); }), "no group '/c'"));
}

// Every kind of damage is at most an error.
TEST(Hdf5FileTest, DamagedFilesDoNoHarm) {
  const TemporaryFolder folder;
  MakeFile(folder / "a.h5");
  const std::string whole = folder.Get("a.h5");
  for (size_t i = 8; i < whole.size(); i += 37) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 0xff);
    const std::string path = folder.Put("bad.h5", bad);
    ErrorOf([&] {
      const Hdf5Reader file(path);
      file.Children("/");
      std::vector<float> floats(ShapeCount(file.ShapeOf("/a/b/floats")) == 24 ? 24 : 0);
      if (!floats.empty()) file.Read("/a/b/floats", floats.data());
    });
  }
}

TEST(Hdf5FileTest, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  folder.Put("a.h5", "older");
  {
    Hdf5Writer file(folder / "a.h5");
    file.WriteInteger("x", 1);
  }
  EXPECT_EQ(folder.Get("a.h5"), "older");
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_THROW(Hdf5Writer(folder / "none/a.h5"), Error);
  Hdf5Writer twice(folder / "b.h5");
  twice.WriteInteger("x", 1);
  EXPECT_TRUE(Holds(ErrorOf([&] { twice.WriteInteger("x", 1); }), "dataset 'x'"));
}

TEST(Hdf5FileTest, ThreadsTakeTurns) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&folder, t] {
      for (int i = 0; i < 5; ++i) {
        const Hdf5Reader file(MakeFile(folder / ("t" + std::to_string(t))));
        EXPECT_EQ(file.ReadInteger("integer"), -7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Hdf5FileTest, AChildReadsFilesThatAThreadOfItsParentWasReading) {
  const TemporaryFolder folder;
  const std::string path = MakeFile(folder / "a.h5");
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) Hdf5Reader(path).ReadInteger("integer");
  });
  for (int i = 0; i < 20 && !testing::Test::HasFailure(); ++i) {
    EXPECT_EQ(InChild([&] { return Hdf5Reader(path).ReadInteger("integer") == -7 ? 3 : 1; }), 3);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace caffe
