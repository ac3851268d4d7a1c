#include "commands/printable_output.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace caffe {
namespace {

TEST(PrintableOutputTest, EscapesWhileItExists) {
  std::ostringstream out;
  {
    const PrintableOutput printable(&out);
    out << "blob \x1b[31m" << 7 << '\n' << "Grö";
    EXPECT_EQ(out.str(), "blob \\x1b[31m7\n");
    out << "ße" << '\xff';
    out << std::flush;
    EXPECT_EQ(out.str(), "blob \\x1b[31m7\nGröße\\xff");
    out << "\x9b";
  }
  out << "\x1b";
  EXPECT_EQ(out.str(), "blob \\x1b[31m7\nGröße\\xff\\x9b\x1b");
}

// A character may be written in two parts.
TEST(PrintableOutputTest, CharactersStayWhole) {
  std::ostringstream out;
  const PrintableOutput printable(&out);
  out << "\xc3"
      << "\xb6" << std::endl;
  EXPECT_EQ(out.str(), "ö\n");
}

}  // namespace
}  // namespace caffe
