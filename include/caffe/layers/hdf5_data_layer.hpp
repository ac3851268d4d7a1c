#pragma once

#include <cstdint>
#include <string>

#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Rows of HDF5 files in batches, endlessly; a batch may begin in one file and end in the next. A
// file is loaded as a whole when its rows are needed.
// top 0…: the datasets with the tops' names, (batch_size, …). The first axis of a dataset are rows,
//   equally many in all datasets of a file; the other axes are equal in all files. 1 to 32 axes.
// hdf5_data_param: source, a list with a file name in each line; batch_size; shuffle (in each epoch
//   another order of the files and of the rows in a file). transform_param is refused.
// Random choices depend on the layer's seed and on the number of rows read so far. All files are
// opened at the start, so that a missing or damaged file is reported there.
// Types: float kinds, from integers and floats of every size; each top has its own.
class HDF5Data : public LayerBase, public HasRecords {
 public:
  using LayerBase::LayerBase;
  // Reads the list once: the position is kept when the layer moves to another device.
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  std::vector<uint64_t> RunState() const override { return {given_}; }
  LayerFacts Facts() const override;
  int64_t records() const override { return rows_; }
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  struct File {
    std::string path;
    int64_t rows;
  };
  void ReadList();
  // The number of rows in a file; checks its shapes against items_, which come from the first file.
  int64_t CheckFile(const std::string& path);
  // Selects row `row` of an epoch for the next copy of Forward.
  void Seek(uint64_t row);
  void LoadFile(uint64_t epoch, int64_t place);
  void ReadDataset(const File& file, int index);
  // 0 to count - 1 in an order that depends only on the layer's seed and `counter`.
  std::vector<int64_t> Shuffled(int64_t count, uint64_t counter) const;

  std::vector<std::string> names_;  // of the datasets
  std::vector<DataType> types_;     // of the tops
  std::vector<Shape> items_;        // of one row of each
  std::vector<File> files_;
  int64_t rows_ = 0;    // of all files
  uint64_t given_ = 0;  // rows so far
  // The loaded file: its index in the order of an epoch's files.
  uint64_t epoch_ = ~uint64_t{0};
  std::vector<int64_t> file_order_, row_order_;
  int64_t place_ = -1, first_row_ = 0;  // of the file in the epoch
  int64_t row_ = 0;                     // in the file
  std::vector<std::vector<char>> values_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class HDF5DataLayer final : public Layer<Dtype, MItype, MOtype, HDF5Data> {
  using Layer<Dtype, MItype, MOtype, HDF5Data>::Layer;
};

}  // namespace caffe
