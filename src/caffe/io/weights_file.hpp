#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace google::protobuf::io {
class ZeroCopyOutputStream;
}

namespace caffe {

class NetParameter;

// A caffemodel whose large arrays of floats and packed data stay in the file until Read copies them
// to their target, so that loading needs no second copy of the weights in memory. Other files
// (pipes, formats before BVLC's 2014 one, files with gradients) are read whole: then every array,
// as arrays of doubles always, is in net().
class WeightsFile {
 public:
  // Throws the errors of ReadNetParameterBinary.
  explicit WeightsFile(const std::string& path);
  // A net that is in memory already, with all arrays.
  explicit WeightsFile(NetParameter net);
  ~WeightsFile();
  WeightsFile(WeightsFile&&) noexcept;

  // Upgraded; arrays that are in the file have no data.
  const NetParameter& net() const { return *net_; }
  // The number of floats of a blob that are in the file; -1 if there are none. Blobs of all layers
  // are counted in order.
  int64_t Elements(int blob) const;
  // Copies a part of them. Throws if the file became shorter.
  void Read(int blob, int64_t first, int64_t count, float* target) const;
  // The number of bytes of packed data that are in the file; -1 if there are none.
  int64_t PackedBytes(int blob) const;
  // Copies all of them. Throws if the file became shorter.
  void ReadPacked(int blob, char* target) const;
  // The bytes of the floats or of the packed data, mapped into memory, where they occupy the page
  // cache only. Null if they are not in the file or do not begin at a multiple of kAlignment
  // (WriteAlignedNet), or if the file cannot be mapped. The mapping lives as long as the pointer.
  // If the file is replaced by another one, it keeps its content. But if the file itself is
  // truncated, the next read of the bytes ends the process with SIGBUS.
  std::shared_ptr<const char> Map(int blob) const;
  static constexpr int64_t kAlignment = 64;
  // The number of the field of zeros before an aligned array, in BlobProto.
  static constexpr int kPaddingField = 1001;

 private:
  class File;
  struct Span {
    int64_t offset = 0, bytes = -1;
    bool packed = false;
  };
  struct Outline;
  class Mapping;

  bool ReadOutline(const std::string& path);

  std::unique_ptr<NetParameter> net_;
  std::unique_ptr<File> file_;
  std::vector<Span> spans_;
  mutable std::shared_ptr<const Mapping> mapping_;  // of the whole file, after the first Map
};

// Writes a net as a caffemodel whose large arrays of floats and packed data begin at multiples of
// kAlignment, behind padding that other readers ignore. Returns false if the stream fails.
bool WriteAlignedNet(const NetParameter& net, google::protobuf::io::ZeroCopyOutputStream* stream);

}  // namespace caffe
