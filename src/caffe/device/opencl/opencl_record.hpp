#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caffe/device/opencl/opencl_work.hpp"

namespace caffe {

class Stream;

namespace opencl {

// A command of a record, and the commands after which it runs; ascending.
struct Command {
  Work work;
  std::string where;
  std::shared_ptr<const void> keeps;  // owns objects that the work uses
  std::vector<int> after;
};

// The commands that one thread records. The commands of a stream run one after the other, and
// after what the stream waits for; or, from the first call of OrderAfter on, in the order of the
// pieces.
class Record {
 public:
  // Adds a command of the stream.
  void Add(const Stream* stream, Work work, std::string where, std::shared_ptr<const void> keeps);
  // The commands that are added next are a piece, which runs after these pieces.
  void OrderAfter(std::span<const int> pieces);
  // The last commands of the stream, for an event.
  const std::vector<int>& Ends(const Stream* stream) { return of_stream_[stream]; }
  // The stream's next command runs after these, too.
  void WaitFor(const Stream* stream, const std::vector<int>& ends);
  std::vector<Command> Take() { return std::move(commands_); }

 private:
  std::vector<Command> commands_;
  std::map<const Stream*, std::vector<int>> of_stream_;
  // Several pieces are one group if nothing was added between them.
  std::vector<int> group_of_piece_;
  std::vector<std::vector<int>> groups_;  // the last commands of each
  bool added_ = false;                    // to the last group
};

}  // namespace opencl
}  // namespace caffe
