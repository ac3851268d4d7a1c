#pragma once

#include <string>

namespace caffe {

// Makes LMDB's lock file in a folder, if it is missing, and takes its room. Returns 0, or the
// reason why LMDB must not open it: it would overwrite a file that a link of this name leads to,
// and on a full disk it would end the process. The file must not be open in this process.
int PrepareLockFile(const std::string& folder);

}  // namespace caffe
