#include "caffe/data/datum_source.hpp"

#include <future>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/data/parallel.hpp"

namespace caffe {

DatumSource::DatumSource(const TransformationParameter& parameter, bool training)
    : transformer_(parameter, training, 0), threads_(DataThreads()) {}

Shape DatumSource::DecodedShape(Record* record) const {
  Decode(record);
  return transformer_.OutputShape(record->datum);
}

std::vector<Shape> DatumSource::Shapes(int64_t index) {
  Record record;
  record.index = index;
  Fetch(index, &record);
  try {
    return {DecodedShape(&record), {}};
  } catch (...) {
    RethrowIn(record.where);
  }
}

void DatumSource::Read(const std::vector<BatchItem>& items, DataBatch* batch) {
  const auto count = static_cast<int64_t>(items.size());
  std::vector<Record> records(items.size());
  bool encoded = false;
  for (int64_t i = 0; i < count; ++i) {
    records[i].index = items[i].index;
    Fetch(items[i].index, &records[i]);
    encoded |= records[i].encoded;
  }
  BatchArray& array = batch->front();
  BatchArray* const labels = batch->size() > 1 ? &batch->back() : nullptr;
  if (labels) labels->Reshape({count});
  // The first record decides the shape of the batch; other threads wait for it.
  Shape first_shape;
  float* pixels = nullptr;
  std::packaged_task<void(Record*)> begin([&](Record* first) {
    first_shape = DecodedShape(first);
    Shape shape = first_shape;
    shape.insert(shape.begin(), count);
    array.Reshape(shape);
    if (array.type != kFloat) pixels_.resize(ShapeCount(shape));
    pixels = array.type == kFloat ? array.data<float>() : pixels_.data();
  });
  const std::shared_future<void> begun = begin.get_future().share();
  // Copying pixels takes less time than starting threads.
  RunInParallel(encoded ? threads_ : 1, count, [&](int64_t i) {
    // Taken out of records, so that few decoded images are in memory at a time.
    Record record = std::move(records[i]);
    try {
      if (i == 0) begin(&record);
      const Shape own = i > 0 ? DecodedShape(&record) : Shape();
      begun.get();
      const Shape& shape = i > 0 ? own : first_shape;
      CAFFE_CHECK(
          shape == first_shape, "the record's shape is ", ShapeString(shape),
          ", but that of the batch's first record is ", ShapeString(first_shape),
          "; all records of a batch must have one shape (",
          shape[0] != first_shape[0] && record.encoded ? "force_color or force_gray" : "crop_size",
          " or batch_size: 1 helps)");
      transformer_.Transform(record.datum, items[i].number, pixels + i * ShapeCount(shape));
    } catch (...) {
      RethrowIn(record.where);
    }
    if (labels) labels->data<float>()[i] = static_cast<float>(record.datum.label());
  });
  if (array.type != kFloat) {
    ConvertElements(kFloat, pixels, array.type, array.bytes.data(), ShapeCount(array.shape));
  }
}

}  // namespace caffe
