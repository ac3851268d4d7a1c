#include <algorithm>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/text_lines.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/source_layer.hpp"

namespace caffe {
namespace {

// Each file is a group. The file of the last item is in memory.
class Hdf5Rows final : public ItemSource {
 public:
  Hdf5Rows(const std::string& list, std::vector<std::string> names, std::vector<DataType> types)
      : names_(std::move(names)), types_(std::move(types)) {
    log::Info("Loading list of HDF5 filenames from: " + list);
    for (const TextLine& line : ReadTextLines(list)) files_.push_back({line.text, 0, 0});
    CAFFE_CHECK(!files_.empty(), list, ": the list has no files");
    log::Info(Concat("Number of HDF5 files: ", files_.size()));
    int64_t rows = 0;
    for (File& file : files_) {
      try {
        file.rows = CheckFile(file.path);
      } catch (...) {
        RethrowIn(list);
      }
      file.begin = rows;
      rows += file.rows;
    }
  }
  std::vector<int64_t> Groups() const override {
    std::vector<int64_t> rows;
    for (const File& file : files_) rows.push_back(file.rows);
    return rows;
  }
  std::vector<Shape> Shapes(int64_t) override { return items_; }
  void Read(const std::vector<BatchItem>& items, DataBatch* batch) override;

 private:
  struct File {
    std::string path;
    int64_t rows, begin;  // begin: the index of its first row
  };
  // The number of rows in a file; checks its shapes against items_, which come from the first file.
  int64_t CheckFile(const std::string& path);
  void Load(const File& file);
  void ReadDataset(const File& file, size_t index);

  std::vector<std::string> names_;  // of the datasets
  std::vector<DataType> types_;     // of the arrays
  std::vector<Shape> items_;        // of one row of each
  std::vector<File> files_;
  const File* loaded_ = nullptr;
  std::vector<BatchArray> values_;  // of the loaded file
};

int64_t Hdf5Rows::CheckFile(const std::string& path) {
  const Hdf5Reader file(path);
  int64_t rows = -1;
  for (size_t i = 0; i < names_.size(); ++i) {
    CAFFE_CHECK(file.Has(names_[i]), path, ": no dataset '", names_[i], "', the top's name");
    Shape shape = file.ShapeOf(names_[i]);
    CAFFE_CHECK(!shape.empty() && shape.size() <= 32, path, ": dataset '", names_[i], "' has ",
                shape.size(), " axes; 1 to 32 are needed");
    const int64_t count = shape[0];
    CAFFE_CHECK(count > 0, path, ": dataset '", names_[i], "' has no rows");
    CAFFE_CHECK(i == 0 || count == rows, path, ": dataset '", names_[i], "' has ", count,
                " rows, but '", names_[0], "' has ", rows);
    rows = count;
    // So a file cannot have more rows than bytes.
    CAFFE_CHECK(ShapeCount(shape) > 0, path, ": a row of dataset '", names_[i], "' of shape ",
                ShapeString(shape), " has no elements");
    shape.erase(shape.begin());
    if (items_.size() <= i) items_.push_back(shape);
    CAFFE_CHECK(items_[i] == shape, path, ": a row of dataset '", names_[i], "' has shape ",
                ShapeString(shape), ", but in ", files_[0].path, " it has ",
                ShapeString(items_[i]));
  }
  return rows;
}

void Hdf5Rows::Load(const File& file) {
  loaded_ = nullptr;  // until all datasets are read
  values_.assign(names_.size(), {});
  for (size_t i = 0; i < names_.size(); ++i) ReadDataset(file, i);
  loaded_ = &file;
}

void Hdf5Rows::ReadDataset(const File& file, size_t index) {
  const std::string& name = names_[index];
  const Hdf5Reader reader(file.path);
  Shape shape = items_[index];
  shape.insert(shape.begin(), file.rows);
  CAFFE_CHECK(reader.ShapeOf(name) == shape, file.path, ": dataset '", name,
              "' changed its shape from ", ShapeString(shape), " to ",
              ShapeString(reader.ShapeOf(name)));
  BatchArray& values = values_[index];
  values.type = types_[index];
  NamingMemory(Concat(file.path, ": dataset '", name, "'"), [&] {
    values.Reshape(shape);
    if (values.type == kDouble) {
      reader.Read(name, values.data<double>());
    } else if (values.type == kFloat) {
      reader.Read(name, values.data<float>());
    } else {
      const int64_t count = ShapeCount(shape);
      std::vector<float> floats(count);
      reader.Read(name, floats.data());
      ConvertElements(kFloat, floats.data(), values.type, values.bytes.data(), count);
    }
  });
}

void Hdf5Rows::Read(const std::vector<BatchItem>& items, DataBatch* batch) {
  for (size_t i = 0; i < batch->size(); ++i) {
    Shape shape = items_[i];
    shape.insert(shape.begin(), static_cast<int64_t>(items.size()));
    (*batch)[i].Reshape(shape);
  }
  for (size_t b = 0; b < items.size(); ++b) {
    const auto next =
        std::upper_bound(files_.begin(), files_.end(), items[b].index,
                         [](int64_t index, const File& file) { return index < file.begin; });
    const File& file = *std::prev(next);
    if (loaded_ != &file) Load(file);
    for (size_t i = 0; i < batch->size(); ++i) {
      BatchArray& array = (*batch)[i];
      const size_t bytes = array.bytes.size() / items.size();
      std::memcpy(array.bytes.data() + b * bytes,
                  values_[i].bytes.data() + (items[b].index - file.begin) * bytes, bytes);
    }
  }
}

}  // namespace

// Rows of HDF5 files in batches; a batch may begin in one file and end in the next. A file is
// loaded as a whole when its rows are needed.
// top 0…: the datasets with the tops' names, (batch_size, …). The first axis of a dataset are rows,
//   equally many in all datasets of a file; the other axes are equal in all files. 1 to 32 axes.
// hdf5_data_param: source, a list with a file name in each line; batch_size; shuffle (in each epoch
//   another order of the files and of the rows in a file). transform_param is refused. data_param:
//   prefetch (4 batches).
// The order depends only on the layer's seed. All files are opened at the start, so that a missing
// or damaged file is reported there.
// Types: float kinds, from integers and floats of every size; each top has its own.
class HDF5Data : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings ReadSettings() const override {
    const HDF5DataParameter& parameter = layer_param().hdf5_data_param();
    CAFFE_CHECK(!layer_param().has_transform_param(),
                "does not transform data; remove transform_param");
    CAFFE_CHECK(!parameter.source().empty(), "hdf5_data_param has no source");
    Settings settings;
    settings.batch_size = parameter.batch_size();
    settings.prefetch = layer_param().data_param().prefetch();
    settings.shuffle = parameter.shuffle();
    return settings;
  }
  std::unique_ptr<ItemSource> Open(const BlobVec& top) override {
    std::vector<std::string> names(layer_param().top().begin(), layer_param().top().end());
    std::vector<DataType> types;
    for (const BlobBase* blob : top) {
      if (layer_param().top_size() == 0) names.push_back(blob->name());
      types.push_back(blob->type());
    }
    return std::make_unique<Hdf5Rows>(layer_param().hdf5_data_param().source(), names, types);
  }
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class HDF5DataLayer final : public Layer<Dtype, MItype, MOtype, HDF5Data> {
  using Layer<Dtype, MItype, MOtype, HDF5Data>::Layer;
};

void RegisterHDF5DataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.max_top = -1;
  traits.data = true;
  traits.backward_reads = Always({});
  traits.summary = "rows of HDF5 files";
  registry.Add<HDF5DataLayer>("HDF5Data", traits);
}

}  // namespace caffe
