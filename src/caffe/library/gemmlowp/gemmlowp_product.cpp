// Compiled with the instructions of level v2 on x86-64, which gemmlowp's kernels need.
#include "caffe/library/gemmlowp/gemmlowp_product.hpp"

#include <gemmlowp/public/gemmlowp.h>

#include <tuple>

namespace caffe {
namespace {

using gemmlowp::MapOrder;

template <MapOrder kOrder>
gemmlowp::MatrixMap<const uint8_t, kOrder> Map(const CodeMatrix& matrix, int rows, int columns) {
  return {matrix.codes, rows, columns, static_cast<int>(matrix.stride)};
}

template <MapOrder kA, MapOrder kB>
void Multiply(int m, int n, int k, const CodeMatrix& a, const CodeMatrix& b, int32_t* sums) {
  // Keeps the memory for packed operands from call to call.
  static thread_local gemmlowp::GemmContext context;
  context.set_max_num_threads(1);
  gemmlowp::MatrixMap<int32_t, MapOrder::RowMajor> result(sums, m, n, n);
  gemmlowp::GemmWithOutputPipeline<uint8_t, int32_t, gemmlowp::DefaultL8R8BitDepthParams>(
      &context, Map<kA>(a, m, k), Map<kB>(b, k, n), &result, -a.zero, -b.zero, std::tuple<>());
}

}  // namespace

void MultiplyCodes(int64_t rows, int64_t columns, int64_t depth, const CodeMatrix& a,
                   const CodeMatrix& b, int32_t* sums) {
  constexpr MapOrder kRows = MapOrder::RowMajor, kColumns = MapOrder::ColMajor;
  const int m = static_cast<int>(rows), n = static_cast<int>(columns), k = static_cast<int>(depth);
  if (a.by_columns) {
    b.by_columns ? Multiply<kColumns, kColumns>(m, n, k, a, b, sums)
                 : Multiply<kColumns, kRows>(m, n, k, a, b, sums);
  } else {
    b.by_columns ? Multiply<kRows, kColumns>(m, n, k, a, b, sums)
                 : Multiply<kRows, kRows>(m, n, k, a, b, sums);
  }
}

}  // namespace caffe
