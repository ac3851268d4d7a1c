#include "caffe/core/environment_number.hpp"

#include <gtest/gtest.h>

#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr const char* kVariable = "CAFFE_TEST_NUMBER";

std::optional<int64_t> Number(const std::string& value) {
  const ScopedVariable variable(kVariable, value);
  return NumberOfEnvironment(kVariable, 1, 1000, "apples");
}

TEST(EnvironmentNumberTest, NumbersInTheRangeAreTaken) {
  EXPECT_EQ(NumberOfEnvironment(kVariable, 1, 1000, "apples"), std::nullopt);
  EXPECT_EQ(Number(""), std::nullopt);
  EXPECT_EQ(Number("1"), 1);
  EXPECT_EQ(Number("1000"), 1000);
}

TEST(EnvironmentNumberTest, OtherValuesAreLeftOutWithAWarning) {
  for (const std::string value : {"0", "1001", "-1", "7k", " 7", "0x7", "99999999999999999999"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(Number(value), std::nullopt) << value;
    EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(),
                      "CAFFE_TEST_NUMBER is " + value +
                          ", which is not a number of apples from 1 to 1000; ignored"));
  }
}

}  // namespace
}  // namespace caffe
