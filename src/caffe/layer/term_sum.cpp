#include "caffe/layer/term_sum.hpp"

#include <cmath>

#include "caffe/device/program_builder.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// Up to this many terms a single work item adds them up.
constexpr int64_t kFewTerms = 512;

}  // namespace

void TermSum::Place(Device* device, const TypeTriple& types) {
  const DataType master = types.compute == kDouble ? kDouble : kFloat;
  terms_ = MakeBlob(master, device, {2, 0}, "terms");
  part_sums_ = MakeBlob(master, device, {2, 0}, "sums of terms");
  PlaceBlob(&divisor_, master, device, {1}, "divisor");  // a backward pass reads the last one
  invalid_.Place(device, "terms");
  const auto program =
      ProgramBuilder(device, "term_sum").Types(types).Body("loss/term_sum").Build();
  sum_parts_ = program->CreateKernel("term_sum_parts");
  divide_ = program->CreateKernel("term_sum_divide");
}

void TermSum::Reshape(int64_t count) {
  count_ = count;
  terms_->Reshape({2, count});
  parts_ = count <= kFewTerms ? 0 : static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  part_sums_->Reshape({2, parts_});
}

void TermSum::Divide(double divisor, BlobBase* y) {
  if (parts_ > 0) {
    const int64_t size = (count_ + parts_ - 1) / parts_;
    sum_parts_->Launch(2 * parts_,
                       {parts_, size, count_, terms_->Data(), part_sums_->MutableData()});
  }
  const BlobBase& last = parts_ > 0 ? *part_sums_ : *terms_;
  divide_->Launch(1, {1, parts_ > 0 ? parts_ : count_, count_, divisor, last.Data(), terms_->Data(),
                      y->MutableData(), divisor_->MutableData(), invalid_.MutableData()});
}

}  // namespace caffe
