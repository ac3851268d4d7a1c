#pragma once

#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/data/item_source.hpp"
#include "caffe/data/transformer.hpp"

namespace caffe {

// A source of images: array 0 of a batch is transformed pixels, array 1 (optional) is labels,
// float. Images of a batch have one shape; batches may differ. Several threads decode and
// transform, and their number does not change the result.
class DatumSource : public ItemSource {
 public:
  DatumSource(const TransformationParameter& parameter, bool training);
  std::vector<Shape> Shapes(int64_t index) final;
  bool shapes_vary() const final { return true; }
  void SetSeed(uint64_t seed) final { transformer_.set_seed(seed); }
  void Read(const std::vector<BatchItem>& items, DataBatch* batch) final;

 protected:
  struct Record {
    int64_t index = 0;
    Datum datum;
    std::string where;    // the beginning of messages
    bool encoded = true;  // decoding takes longer than starting threads
  };
  // Called for the items of a batch in their order. Writes at least `where`.
  virtual void Fetch(int64_t index, Record* record) = 0;
  // Makes a datum that Transformer reads. Several threads call it for records of their own.
  virtual void Decode(Record* record) const = 0;

  const Transformer& transformer() const { return transformer_; }

 private:
  Shape DecodedShape(Record* record) const;

  Transformer transformer_;
  int threads_;
  std::vector<float> pixels_;  // of a batch, if it has another type
};

}  // namespace caffe
