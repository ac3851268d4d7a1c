#include <algorithm>
#include <memory>
#include <utility>

#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

// The forward pass of a batch in pieces, one after the other in the same workspace.
class PiecesConvOp final : public ConvOp {
 public:
  PiecesConvOp(const ConvDescriptor& d, std::unique_ptr<ConvOp> piece)
      : ConvOp(d), piece_(std::move(piece)) {}
  const char* library() const override { return piece_->library(); }
  int64_t workspace_bytes() const override { return piece_->workspace_bytes(); }
  int64_t prepared_bytes() const override { return piece_->prepared_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    piece_->Prepare(weights, prepared);
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    const ConvDescriptor& d = piece_->descriptor();
    const int64_t x_bytes =
        d.batch * d.in_channels * d.geometry.input_count() * static_cast<int64_t>(d.in.bytes());
    const int64_t y_bytes = d.batch * (d.y_pitch > 0 ? d.y_pitch : d.out_channels) *
                            d.geometry.output_count() * static_cast<int64_t>(d.out.bytes());
    ConvArguments a = given;
    for (int64_t i = 0; i < descriptor_.batch / d.batch; ++i) {
      a.x = given.x + i * x_bytes;
      a.y = given.y + i * y_bytes;
      if (given.epilogue.residual) a.epilogue.residual = given.epilogue.residual + i * y_bytes;
      piece_->Forward(a);
    }
  }

 private:
  std::unique_ptr<ConvOp> piece_;
};

// The largest divisor of the batch for which a workspace that grows with it fits.
int64_t PieceOf(int64_t batch, int64_t bytes, int64_t most) {
  int64_t piece = std::max<int64_t>(1, batch * most / bytes);
  while (batch % piece != 0) --piece;
  return piece;
}

}  // namespace

ConvLibrary InPieces(ConvLibrary row, int64_t most_workspace) {
  row.make = [make = row.make, most_workspace](Device* device,
                                               const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    auto op = make(device, d);
    const int64_t bytes = op->workspace_bytes();
    if (bytes <= most_workspace || d.backward_data || d.backward_weights) return op;
    ConvDescriptor piece = d;
    piece.batch = PieceOf(d.batch, bytes, most_workspace);
    if (piece.batch == d.batch) return op;
    auto smaller = make(device, piece);
    // Another algorithm may need more memory for fewer images.
    if (smaller->workspace_bytes() >= bytes) return op;
    return std::make_unique<PiecesConvOp>(d, std::move(smaller));
  };
  return row;
}

}  // namespace caffe
