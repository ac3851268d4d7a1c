#include "caffe/core/out_of_memory.hpp"

namespace caffe {

void RethrowIn(const std::string& context) {
  NamingMemory(context, [&] {
    try {
      throw;
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(Concat(context, ": ", error.what()));
    } catch (const Error& error) {
      throw Error(Concat(context, ": ", error.what()));
    }
  });
  throw;  // of another library
}

}  // namespace caffe
