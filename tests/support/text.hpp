#pragma once

#include <gtest/gtest.h>

#include <string>

namespace caffe {

// EXPECT_TRUE(Holds(text, part)): shows the text if the part is not in it.
inline testing::AssertionResult Holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not hold '" << part << "'";
}

}  // namespace caffe
