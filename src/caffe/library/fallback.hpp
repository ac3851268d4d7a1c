#pragma once

#include <memory>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {

// An operator throws this if its library cannot compute a call. The next row of the table then
// computes it. If a call adds to its output (a product with a beta, gradients of weights), that is
// correct only if the library has not written yet; `output_changed` says that it may have.
class LibraryRefusal : public Error {
 public:
  explicit LibraryRefusal(const std::string& message, bool output_changed = false)
      : Error(message), output_changed_(output_changed) {}
  bool output_changed() const { return output_changed_; }

 private:
  bool output_changed_;
};

// An operator of the first of `rows` that can compute the descriptor. A row that cannot be
// prepared, or whose Run throws LibraryRefusal, is replaced by the next one, with a warning; later
// operators for the same descriptor and device skip it. If there is only one row, it returns that
// row's operator. An error of the last row is thrown.
std::unique_ptr<GemmOp> MakeWithFallback(Device* device, const GemmDescriptor& descriptor,
                                         std::vector<GemmLibrary> rows);
std::unique_ptr<ConvOp> MakeWithFallback(Device* device, const ConvDescriptor& descriptor,
                                         std::vector<ConvLibrary> rows);
std::unique_ptr<PoolOp> MakeWithFallback(Device* device, const PoolDescriptor& descriptor,
                                         std::vector<PoolLibrary> rows);

// Drops the record of a library's refusals.
void ForgetRefusals(const std::string& library);

}  // namespace caffe
