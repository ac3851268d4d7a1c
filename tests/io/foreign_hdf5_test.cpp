// HDF5 files of strangers: they name no other file, and take no memory out of proportion.
#include "io/foreign_hdf5.hpp"

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "io/pipe.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

const std::vector<float> kSecret{1, 2, 3, 4, 5, 6, 7, 8};

// Each way in which '/data/ip/0' leads to another file, and the word of the error for it.
struct Way {
  const char* word;
  void (*make)(ForeignHdf5* file, const std::string& secret, const std::string& secret_h5);
};

const Way kWays[] = {
    {"has external storage",
     [](ForeignHdf5* file, const std::string& secret, const std::string&) {
       file->ExternalStorage("/data/ip/0", {1, 8}, secret);
     }},
    {"is an external link",
     [](ForeignHdf5* file, const std::string&, const std::string& secret) {
       file->ExternalLink("/data/ip/0", secret, "/ip/0");
     }},
    {"is an external link",
     [](ForeignHdf5* file, const std::string&, const std::string& secret) {
       file->ExternalLink("/data/ip", secret, "/ip");
     }},
    {"is an external link",
     [](ForeignHdf5* file, const std::string&, const std::string& secret) {
       file->ExternalLink("/data", secret, "/");
     }},
    {"is an external link",
     [](ForeignHdf5* file, const std::string&, const std::string& secret) {
       file->ExternalLink("/other", secret, "/ip");
       file->SoftLink("/data/ip", "/other");
     }},
    {"is a virtual dataset",
     [](ForeignHdf5* file, const std::string&, const std::string& secret) {
       file->Virtual("/data/ip/0", {1, 8}, secret, "/ip/0");
     }},
    {"is a link of a user's class", [](ForeignHdf5* file, const std::string&,
                                       const std::string&) { file->UserLink("/data/ip/0"); }},
};

TEST(ForeignHdf5Test, OtherFilesAreNotRead) {
  const TemporaryFolder folder;
  const std::string secret = folder.Put("secret.bin", std::string(32, 'S'));
  {
    ForeignHdf5 file(folder / "secret.h5");
    file.Values("/ip/0", {1, 8}, kSecret);
  }
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.word);
    const std::string path = folder / "weights.h5";
    {
      ForeignHdf5 file(path);
      way.make(&file, secret, folder / "secret.h5");
      file.SoftLink("/history/0", "/data/ip/0");
      file.Values("/iter", {1}, {1});
    }
    const Hdf5Reader file(path);
    std::vector<float> values(8, -1);
    for (const auto& error :
         {ErrorOf([&] { file.Read("/data/ip/0", values.data()); }),
          ErrorOf([&] { file.ShapeOf("/data/ip/0"); }), ErrorOf([&] { ReadNetHdf5(path); }),
          ErrorOf([&] { ReadSolverStateHdf5(path); })}) {
      EXPECT_TRUE(Holds(error, path + ": "));
      EXPECT_TRUE(Holds(error, way.word));
      EXPECT_TRUE(Holds(error, "copy the values into the file"));
    }
    EXPECT_EQ(values, std::vector<float>(8, -1));
    const bool is_link = std::string(way.word).find("link") != std::string::npos;
    for (const auto& error :
         {ErrorOf([&] { file.Has("/data/ip/0"); }), ErrorOf([&] { file.IsGroup("/data/ip/0"); }),
          ErrorOf([&] { file.Identity("/data/ip/0"); })}) {
      EXPECT_EQ(!error.empty(), is_link) << error;
    }
  }
}

TEST(ForeignHdf5Test, SoftLinksInTheFileAreFollowed) {
  const TemporaryFolder folder;
  const std::string path = folder / "weights.h5";
  {
    ForeignHdf5 file(path);
    file.Values("/store/0", {1, 8}, kSecret);
    file.SoftLink("/data/ip", "/store");
    file.SoftLink("/data/other/0", "../0");  // HDF5 has no way up
    file.SoftLink("/circle", "/circle/x");
    file.SoftLink("/store/again", "./0");
  }
  const Hdf5Reader file(path);
  std::vector<float> values(8);
  file.Read("/data/ip/0", values.data());
  EXPECT_EQ(values, kSecret);
  EXPECT_EQ(file.ShapeOf("/data/ip/again"), Shape({1, 8}));
  EXPECT_EQ(file.Identity("/data/ip/again"), file.Identity("/store/0"));
  EXPECT_FALSE(file.Has("/data/other/0"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Has("/circle"); }), "soft links, perhaps in a circle"));
}

// Shapes of gigabytes in files of kilobytes.
TEST(ForeignHdf5Test, ShapesThatTheFileDoesNotStoreAreErrors) {
  const TemporaryFolder folder;
  const std::string path = folder / "bomb.h5";
  {
    ForeignHdf5 file(path);
    file.Claim("/data/late/0", {1, INT32_MAX});
    file.SetChunks({1, 1 << 20});
    file.Claim("/data/chunks/0", {1, INT32_MAX});
    file.SetChunks({1 << 16, 1 << 13});
    H5Pset_deflate(file.properties(), 9);
    file.Claim("/data/large_chunk/0", {1 << 16, 1 << 13});
    file.Claim("/cortado/quantizer", {int64_t{1} << 40}, H5T_NATIVE_UINT8);
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size_t{1} << 31);
    file.Claim("/cortado/weights_id", {}, type);
    H5Tclose(type);
    file.Claim("/data/small/0", {2, 3});  // fill values of few bytes are read
  }
  EXPECT_LT(folder.Get("bomb.h5").size(), 20000u);
  const Hdf5Reader file(path);
  for (const std::string name :
       {"/data/late/0", "/data/chunks/0", "/data/large_chunk/0", "/cortado/quantizer"}) {
    const std::string error = ErrorOf([&] { file.ShapeOf(name); });
    EXPECT_TRUE(Holds(error, path + ": dataset '" + name + "' of shape "));
    EXPECT_TRUE(Holds(error, "but the file has only 0 for it"));
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { file.ReadBytes("/cortado/quantizer"); }), "only 0 for it"));
  EXPECT_TRUE(Holds(ErrorOf([&] { file.ReadString("/cortado/weights_id"); }),
                    "'/cortado/weights_id' has elements of 2147483648 bytes"));
  std::vector<float> values(6, 1);
  file.Read("/data/small/0", values.data());
  EXPECT_EQ(values, std::vector<float>(6, 0));
}

// The caller compares the shape before it takes memory.
TEST(ForeignHdf5Test, OnlyWantedValuesAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "weights.h5";
  {
    ForeignHdf5 file(path);
    file.Values("/data/ip/0", {1, 8}, kSecret);
    file.Values("/data/ip/1", {8}, kSecret);
    file.Values("/diff/ip/1", {8}, kSecret);
    file.Values("/history/0", {1, 8}, kSecret);
    file.Values("/history/1", {8}, kSecret);
    file.Values("/iter", {1}, {1});
  }
  std::vector<std::string> asked;
  const auto wants = [&](const std::string& layer, int index, const Shape& shape) {
    asked.push_back(Concat(layer, " ", index, ": ", ShapeString(shape)));
    return index == 1;
  };
  const NetParameter net = ReadNetHdf5(path, nullptr, wants);
  const SolverState state = ReadSolverStateHdf5(path, wants);
  EXPECT_EQ(asked,
            std::vector<std::string>({"ip 0: 1 8 (8)", "ip 1: 8 (8)", " 0: 1 8 (8)", " 1: 8 (8)"}));
  for (const BlobProto* blob : {&net.layer(0).blobs(0), &state.history(0)}) {
    EXPECT_EQ(blob->shape().dim_size(), 2);
    EXPECT_EQ(blob->data_size(), 0);
  }
  for (const BlobProto* blob : {&net.layer(0).blobs(1), &state.history(1)}) {
    EXPECT_EQ(blob->data_size(), 8);
  }
  EXPECT_EQ(net.layer(0).blobs(1).diff_size(), 8);
}

TEST(ForeignHdf5Test, AGradientOfAnotherShapeIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder / "weights.h5";
  {
    ForeignHdf5 file(path);
    file.Values("/data/ip/0", {1, 8}, kSecret);
    file.Values("/diff/ip/0", {8}, kSecret);
  }
  EXPECT_TRUE(
      Holds(ErrorOf([&] { ReadNetHdf5(path); }),
            path + ": dataset '/diff/ip/0' has shape 8 (8), but the parameter has shape 1 8"));
}

TEST(ForeignHdf5Test, PackedValuesAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "deflate.h5";
  constexpr int64_t kCount = int64_t{1} << 23;  // 32 MiB of zeros, which deflate packs to 32 KiB
  {
    ForeignHdf5 file(path);
    file.SetChunks({1 << 20});
    H5Pset_shuffle(file.properties());
    H5Pset_deflate(file.properties(), 9);
    file.Values("/zeros", {kCount}, std::vector<float>(kCount));
  }
  EXPECT_LT(folder.Get("deflate.h5").size(), 100000u);
  std::vector<float> values(kCount, 1);
  Hdf5Reader(path).Read("/zeros", values.data());
  EXPECT_EQ(values.back(), 0);
}

TEST(ForeignHdf5Test, OneDatasetOfManyNamesIsNotReadWithoutEnd) {
  const TemporaryFolder folder;
  const std::string path = folder / "names.h5";
  {
    ForeignHdf5 file(path);
    file.Claim("/data/ip/0", {1 << 20});  // 4 MiB, not stored
    for (int i = 1; i < 100; ++i) file.HardLink("/data/ip/" + std::to_string(i), "/data/ip/0");
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadNetHdf5(path); }), "bytes were read from a file of"));
}

TEST(ForeignHdf5Test, ManyAbsentParametersAreAnError) {
  const TemporaryFolder folder;
  const std::string path = folder / "gaps.h5";
  {
    ForeignHdf5 file(path);
    for (int i = 0; i < 3; ++i) {
      file.Values("/data/ip" + std::to_string(i) + "/30000", {1}, {1});
    }
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { ReadNetHdf5(path); }),
                    "/data/ip2/30000': the file omits more than 65536 parameters"));
}

TEST(ForeignHdf5Test, FiltersThatTrustTheirInputAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "filters.h5";
  {
    ForeignHdf5 file(path);
    file.SetChunks({8});
    H5Pset_scaleoffset(file.properties(), H5Z_SO_FLOAT_DSCALE, 2);
    file.Values("/scaled", {8}, kSecret);
    file.SetChunks({8});
    H5Pset_nbit(file.properties());
    file.Values("/nbit", {8}, kSecret);
    file.SetChunks({8});
    const unsigned parameter = 1;
    H5Pset_filter(file.properties(), 32000, H5Z_FLAG_OPTIONAL, 1, &parameter);  // lzf of h5py
    file.Claim("/lzf", {8});
  }
  const Hdf5Reader file(path);
  for (const std::string name : {"/scaled", "/nbit"}) {
    const std::string error = ErrorOf([&] { file.ShapeOf(name); });
    EXPECT_TRUE(Holds(error, "dataset '" + name + "' is stored with filter "));
    EXPECT_TRUE(Holds(error, "which is not safe for files of others"));
    EXPECT_TRUE(Holds(error, "h5repack -f GZIP=4"));
  }
  EXPECT_TRUE(Holds(ErrorOf([&] { file.ShapeOf("/lzf"); }), "32000"));
}

// HDF5 1.10 would copy what lies behind the unpacked bytes in memory.
TEST(ForeignHdf5Test, ChunksThatUnpackToLessAreErrors) {
  const TemporaryFolder folder;
  const std::string path = folder / "short.h5";
  for (const bool deflate : {true, false}) {
    {
      ForeignHdf5 file(path);
      file.SetChunks({4096});
      if (deflate) H5Pset_deflate(file.properties(), 6);
      if (!deflate) H5Pset_shuffle(file.properties());
      file.Claim("/x", {4096});
      // A stream of 16 bytes.
      const unsigned char packed[] = {0x78, 0x9c, 0x33, 0x30, 0x34, 0x32, 0x36, 0x31,
                                      0x35, 0x33, 0xb7, 0xb0, 0x4c, 0x4c, 0x4a, 0x4e,
                                      0x49, 0x65, 0x00, 0x00, 0x1f, 0x05, 0x03, 0xfd};
      file.Chunk("/x", {0}, packed, sizeof(packed));
    }
    std::vector<float> values(4096);
    const std::string error = ErrorOf([&] { Hdf5Reader(path).Read("/x", values.data()); });
    EXPECT_TRUE(Holds(error, path + ": dataset '/x' is damaged: chunk 0 has "));
    EXPECT_TRUE(Holds(error, "bytes, but its shape needs 16384"));
  }
}

TEST(ForeignHdf5Test, FiltersOfGzipAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "filters.h5";
  std::vector<float> values(35), read(35);
  for (int i = 0; i < 35; ++i) values[i] = 0.5f * i;
  {
    ForeignHdf5 file(path);
    file.SetChunks({2, 3});
    H5Pset_fletcher32(file.properties());
    file.Values("/checksum", {5, 7}, values);
    file.SetChunks({5, 7});
    H5Pset_shuffle(file.properties());
    H5Pset_deflate(file.properties(), 9);
    H5Pset_fletcher32(file.properties());
    file.Values("/all", {5, 7}, values);
    file.SetChunks({2, 3});
    H5Pset_fletcher32(file.properties());
    H5Pset_deflate(file.properties(), 1);
    file.Values("/other_order", {5, 7}, values);
    file.SetChunks({3, 4});
    file.Values("/none", {5, 7}, values);
  }
  for (const std::string name : {"/checksum", "/all", "/other_order", "/none"}) {
    read.assign(35, -1);
    Hdf5Reader(path).Read(name, read.data());
    EXPECT_EQ(read, values) << name;
  }
}

TEST(ForeignHdf5Test, TextOfVariableLengthIsRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "text.h5", text = "some/where.caffemodel.h5";
  {
    ForeignHdf5 file(path);
    file.VariableText("/other", "another text");
    file.VariableText("/text", text);
    file.VariableText("/empty", "");
    file.VariableText("/long", std::string(2 << 20, 'x'));
  }
  {
    const Hdf5Reader file(path);
    EXPECT_EQ(file.ReadString("/text"), text);
    EXPECT_EQ(file.ReadString("/other"), "another text");
    EXPECT_EQ(file.ReadString("/empty"), "");
    EXPECT_TRUE(Holds(ErrorOf([&] { file.ReadString("/long"); }), "is a text of 2097152 bytes"));
  }
  // The heap states an object that is longer than the text, and one that leaves the heap.
  std::string bytes = folder.Get("text.h5");
  const size_t object = bytes.find(text);
  ASSERT_NE(object, std::string::npos);
  for (const char value : {'\x60', '\xff'}) {
    bytes[object - 8] = value;
    bytes[object - 6] = value == '\xff' ? value : '\0';
    const Hdf5Reader file(folder.Put("bad.h5", bytes));
    const std::string error = ErrorOf([&] { EXPECT_EQ(file.ReadString("/text"), text); });
    EXPECT_EQ(error.find("its text is missing") != std::string::npos, value == '\xff') << error;
  }
}

// A sign, an exponent or a mantissa outside the number.
TEST(ForeignHdf5Test, NumbersOfDamagedTypesAreErrors) {
  const TemporaryFolder folder;
  const std::string path = folder / "types.h5";
  const hid_t odd = H5Tcopy(H5T_IEEE_F32LE), half = H5Tcopy(H5T_IEEE_F32LE);
  ASSERT_GE(H5Tset_fields(half, 15, 10, 5, 0, 10), 0);
  ASSERT_GE(H5Tset_size(half, 2), 0);
  ASSERT_GE(H5Tset_ebias(half, 15), 0);
  ASSERT_GE(H5Tset_size(odd, 64), 0);
  {
    ForeignHdf5 file(path);
    file.Values("/half", {2}, {1, 2}, half);
    file.Values("/odd", {2}, {1, 2}, odd);
    file.Values("/big", {2}, {1, 2}, H5T_IEEE_F64BE);
    file.Values("/short", {2}, {1, 2}, H5T_STD_I16BE);
  }
  H5Tclose(odd);
  H5Tclose(half);
  const Hdf5Reader file(path);
  for (const std::string name : {"/half", "/big", "/short"}) {
    std::vector<float> values(2);
    file.Read(name, values.data());
    EXPECT_EQ(values, std::vector<float>({1, 2})) << name;
  }
  std::vector<float> values(2);
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Read("/odd", values.data()); }),
                    "'/odd' holds numbers of an unusual or damaged type"));
}

TEST(ForeignHdf5Test, PipesAndDevicesAreErrors) {
  EXPECT_TRUE(
      Holds(ErrorOf([] { Hdf5Reader file("/dev/zero"); }), "/dev/zero is a device, not a file"));
  const TemporaryFolder folder;
  const Pipe pipe(folder / "pipe", "\x89HDF\r\n\x1a\n");
  EXPECT_TRUE(Holds(ErrorOf([&] { Hdf5Reader file(pipe.path()); }),
                    pipe.path() + " is a pipe, but HDF5 is read from files only"));
}

}  // namespace
}  // namespace caffe
