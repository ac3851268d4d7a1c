#include "commands/results.hpp"

#include <iostream>

#include "caffe/core/log_settings.hpp"

namespace caffe {

void Results::Print(const std::string& line, log::Where where) const {
  log::Info(line, where);
  if (!json_ && !log::OnStandardError(log::Level::kInfo)) std::cout << line << std::endl;
}

}  // namespace caffe
