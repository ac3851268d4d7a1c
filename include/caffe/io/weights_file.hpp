#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace caffe {

class NetParameter;

// A caffemodel whose large float arrays stay in the file until Read copies them to their target, so
// that loading needs no second copy of the weights in memory. Other files (pipes, formats before
// BVLC's 2014 one, arrays of other types, files with gradients) are read whole: then every array is
// in net().
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
  // The number of floats of a blob that is in the file; -1 if its data are in net(). Blobs of all
  // layers are counted in order.
  int64_t Elements(int blob) const;
  // Copies a part of them. Throws if the file became shorter.
  void Read(int blob, int64_t first, int64_t count, float* target) const;

 private:
  class File;
  struct Span {
    int64_t offset = 0, elements = -1;
  };
  struct Outline;

  bool ReadOutline(const std::string& path);

  std::unique_ptr<NetParameter> net_;
  std::unique_ptr<File> file_;
  std::vector<Span> spans_;
};

}  // namespace caffe
