#include "caffe/device/opencl/opencl_record.hpp"

#include <algorithm>
#include <utility>

namespace caffe::opencl {
namespace {

void AddAll(std::vector<int>* ends, const std::vector<int>& more) {
  ends->insert(ends->end(), more.begin(), more.end());
  std::sort(ends->begin(), ends->end());
  ends->erase(std::unique(ends->begin(), ends->end()), ends->end());
}

}  // namespace

void Record::Add(const Stream* stream, Work work, std::string where,
                 std::shared_ptr<const void> keeps) {
  const int index = static_cast<int>(commands_.size());
  std::vector<int>& ends = groups_.empty() ? of_stream_[stream] : groups_.back();
  commands_.push_back(
      {work, std::move(where), std::move(keeps), std::exchange(ends, std::vector<int>{index})});
  added_ = true;
}

void Record::OrderAfter(std::span<const int> pieces) {
  std::vector<int> ends;
  for (const int piece : pieces) AddAll(&ends, groups_[group_of_piece_[piece]]);
  if (groups_.empty() || added_) {
    groups_.push_back(std::move(ends));
  } else {
    AddAll(&groups_.back(), ends);
  }
  group_of_piece_.push_back(static_cast<int>(groups_.size()) - 1);
  added_ = false;
}

void Record::WaitFor(const Stream* stream, const std::vector<int>& ends) {
  AddAll(&of_stream_[stream], ends);
}

}  // namespace caffe::opencl
