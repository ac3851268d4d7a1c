#include "caffe/core/number_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <locale>

#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"

namespace caffe {
namespace {

TEST(NumberTextTest, PrintsAsPrintfInTheLocaleC) {
  const double numbers[] = {0,        -0.0,     1,        0.5,
                            -2.51875, 1234567,  1e-5,     0.00012345,
                            999999.5, 1e100,    5e-324,   std::numeric_limits<double>::max(),
                            NAN,      INFINITY, -HUGE_VAL};
  for (const double number : numbers) {
    for (const int digits : {0, 1, 3, 6, 9}) {
      char text[400];
      std::snprintf(text, sizeof(text), "%.*g", digits, number);
      EXPECT_EQ(text, GeneralText(number, digits)) << digits;
      std::snprintf(text, sizeof(text), "%.*f", digits, number);
      EXPECT_EQ(text, FixedText(number, digits)) << digits;
    }
  }
}

class Comma : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(NumberTextTest, TheGlobalLocaleOfTheProgramChangesNoText) {
  const std::locale before = std::locale::global(std::locale(std::locale(), new Comma));
  const std::string number = JsonNumber(-2.5), joined = Concat(0.5, " ", 1234567);
  std::locale::global(before);
  EXPECT_EQ("-2.5", number);
  EXPECT_EQ("0.5 1234567", joined);
}

}  // namespace
}  // namespace caffe
