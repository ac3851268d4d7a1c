#pragma once

#include <memory>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {

// What an operator throws when its library does not compute a call. The next row of the table then
// computes it. Where a call adds to its output (a product with a beta, gradients of weights), that is
// right only if the library has not written yet: `output_changed` says that it may have.
class LibraryRefusal : public Error {
 public:
  explicit LibraryRefusal(const std::string& message, bool output_changed = false)
      : Error(message), output_changed_(output_changed) {}
  bool output_changed() const { return output_changed_; }

 private:
  bool output_changed_;
};

// An operator of the first of `rows` that computes the descriptor. A row that cannot be made ready,
// or whose Run throws LibraryRefusal, is replaced by the next one, with a warning; operators that are
// made later for the same descriptor and device leave it out. With one row it is that row's operator
// itself. An error of the last row is thrown.
std::unique_ptr<GemmOp> MakeWithFallback(Device* device, const GemmDescriptor& descriptor,
                                         std::vector<GemmLibrary> rows);
std::unique_ptr<ConvOp> MakeWithFallback(Device* device, const ConvDescriptor& descriptor,
                                         std::vector<ConvLibrary> rows);
std::unique_ptr<PoolOp> MakeWithFallback(Device* device, const PoolDescriptor& descriptor,
                                         std::vector<PoolLibrary> rows);

// Forgets what a library refused.
void ForgetRefusals(const std::string& library);

}  // namespace caffe
