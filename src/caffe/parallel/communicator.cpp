#include "caffe/parallel/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "caffe/core/error.hpp"

namespace caffe {

std::vector<double> SumOverRanks(Communicator* communicator, const std::vector<double>& own) {
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  std::vector<double> sums(own.size(), 0), values(own.size());
  for (const std::string& text : communicator->AllGather(bytes)) {
    CAFFE_CHECK(text.size() == bytes.size(), "a rank has ", text.size() / sizeof(double),
                " numbers, rank ", communicator->rank(), " has ", own.size());
    if (!text.empty()) std::memcpy(values.data(), text.data(), text.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return sums;
}

}  // namespace caffe
