#include "caffe/layers/hdf5_data_layer.hpp"

#include <climits>
#include <cstring>
#include <numeric>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/text_lines.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

namespace {

constexpr uint64_t kMostRows = uint64_t{1} << 62;  // of all epochs, so that epochs can be counted

}  // namespace

void HDF5Data::ReadList() {
  const std::string& source = layer_param().hdf5_data_param().source();
  log::Info("Loading list of HDF5 filenames from: " + source);
  for (const TextLine& line : ReadTextLines(source)) files_.push_back({line.text, 0});
  CAFFE_CHECK(!files_.empty(), source, ": the list has no files");
  log::Info(Concat("Number of HDF5 files: ", files_.size()));
  for (File& file : files_) {
    try {
      file.rows = CheckFile(file.path);
    } catch (const Error& error) {
      CAFFE_THROW(source, ": ", error.what());
    }
    rows_ += file.rows;
  }
}

int64_t HDF5Data::CheckFile(const std::string& path) {
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

void HDF5Data::LayerSetUp(const BlobVec&, const BlobVec& top) {
  if (!files_.empty()) return;
  const HDF5DataParameter& parameter = layer_param().hdf5_data_param();
  CAFFE_CHECK(!layer_param().has_transform_param(), Where(),
              ": does not transform data; remove transform_param");
  CAFFE_CHECK(!parameter.source().empty(), Where(), ": hdf5_data_param has no source");
  CAFFE_CHECK(parameter.batch_size() > 0 && parameter.batch_size() <= INT_MAX, Where(),
              ": batch_size is ", parameter.batch_size(), "; it must be at least 1");
  for (const auto& name : layer_param().top()) names_.push_back(name);
  if (names_.empty()) {
    for (const BlobBase* blob : top) names_.push_back(blob->name());
  }
  for (const BlobBase* blob : top) types_.push_back(blob->type());
  try {
    ReadList();
  } catch (const Error& error) {
    files_.clear();
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

void HDF5Data::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  CAFFE_CHECK(!values.empty() && values[0] < kMostRows, Where(), ": the saved position is invalid");
  LayerBase::SetRunState(seed, values);
  given_ = values[0];
  epoch_ = ~uint64_t{0};
}

void HDF5Data::Reshape(const BlobVec&, const BlobVec& top) {
  for (size_t i = 0; i < top.size(); ++i) {
    Shape shape = items_[i];
    shape.insert(shape.begin(), layer_param().hdf5_data_param().batch_size());
    top[i]->Reshape(shape);
  }
}

std::vector<int64_t> HDF5Data::Shuffled(int64_t count, uint64_t counter) const {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (!layer_param().hdf5_data_param().shuffle()) return order;
  // Each counter has its own random stream.
  const auto stream = Philox(counter, context().seed);
  const uint64_t seed = uint64_t{stream[0]} << 32 | stream[1];
  for (int64_t i = count - 1; i > 0; --i) {  // Fisher and Yates
    const auto random = Philox(i, seed);
    std::swap(order[i], order[(uint64_t{random[0]} << 32 | random[1]) % (i + 1)]);
  }
  return order;
}

void HDF5Data::LoadFile(uint64_t epoch, int64_t place) {
  const File& file = files_[file_order_[place]];
  // The rows of an only file are already in memory.
  if (files_.size() > 1 || values_.empty()) {
    values_.assign(names_.size(), {});
    for (size_t i = 0; i < names_.size(); ++i) ReadDataset(file, static_cast<int>(i));
  }
  row_order_ = Shuffled(file.rows, 2 * (epoch * files_.size() + place) + 1);
  place_ = place;
}

void HDF5Data::ReadDataset(const File& file, int index) {
  const std::string& name = names_[index];
  const Hdf5Reader reader(file.path);
  Shape shape = items_[index];
  shape.insert(shape.begin(), file.rows);
  CAFFE_CHECK(reader.ShapeOf(name) == shape, file.path, ": dataset '", name,
              "' changed its shape from ", ShapeString(shape), " to ",
              ShapeString(reader.ShapeOf(name)));
  const DataType type = types_[index];
  const int64_t count = ShapeCount(shape);
  std::vector<char>& values = values_[index];
  NamingMemory(Concat(file.path, ": dataset '", name, "'"), [&] {
    values.resize(count * type.bytes());
    if (type == kDouble) {
      reader.Read(name, reinterpret_cast<double*>(values.data()));
    } else if (type == kFloat) {
      reader.Read(name, reinterpret_cast<float*>(values.data()));
    } else {
      std::vector<float> floats(count);
      reader.Read(name, floats.data());
      ConvertElements(kFloat, floats.data(), type, values.data(), count);
    }
  });
}

void HDF5Data::Seek(uint64_t row) {
  const uint64_t epoch = row / rows_;
  int64_t rest = static_cast<int64_t>(row % rows_), place = 0;
  if (epoch != epoch_) {
    file_order_ = Shuffled(static_cast<int64_t>(files_.size()), 2 * epoch);
  } else if (place_ >= 0 && rest >= first_row_) {
    place = place_;
    rest -= first_row_;
  }
  while (rest >= files_[file_order_[place]].rows) {
    rest -= files_[file_order_[place]].rows;
    ++place;
  }
  if (epoch != epoch_ || place != place_) {
    if (epoch_ != ~uint64_t{0} && epoch != epoch_) log::Debug("Looping around to first file.");
    LoadFile(epoch, place);
    epoch_ = epoch;
    first_row_ = static_cast<int64_t>(row % rows_) - rest;
  }
  row_ = row_order_[rest];
}

void HDF5Data::Forward(const BlobVec&, const BlobVec& top) {
  const int64_t batch = layer_param().hdf5_data_param().batch_size();
  std::vector<char*> targets;
  for (BlobBase* blob : top) targets.push_back(static_cast<char*>(blob->mutable_host_data()));
  for (int64_t b = 0; b < batch; ++b) {
    try {
      Seek(given_ + b);
    } catch (const Error& error) {
      epoch_ = ~uint64_t{0};  // the loaded file is invalid from now on
      values_.clear();
      CAFFE_THROW(Where(), ": ", error.what());
    }
    for (size_t i = 0; i < top.size(); ++i) {
      const int64_t bytes = ShapeCount(items_[i]) * static_cast<int64_t>(types_[i].bytes());
      std::memcpy(targets[i] + b * bytes, values_[i].data() + row_ * bytes, bytes);
    }
  }
  given_ += batch;
}

LayerFacts HDF5Data::Facts() const {
  LayerFacts facts;
  facts.host = true;
  return facts;
}

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
