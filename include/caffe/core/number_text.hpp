#pragma once

#include <string>

namespace caffe {

// Numbers as text for files and tables. Unlike printf, these functions do not read the locale: the
// decimal sign is a point even after setlocale, and there are no separators of thousands.

// As printf prints "%.<digits>g" in the locale "C".
std::string GeneralText(double value, int digits);
// As printf prints "%.<digits>f" in the locale "C".
std::string FixedText(double value, int digits);

}  // namespace caffe
