#include "commands/flags.hpp"

#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "commands/options.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

using Strings = std::vector<std::string>;

const std::vector<FlagSpec> kKnown{{"solver"},     {"gpu"},   {"level"},
                                   {"json", true}, {"notes"}, {"sigint_effect"}};

Strings Flags(const Strings& arguments) { return RewriteFlags(arguments, kKnown).flags; }

TEST(FlagsTest, AllSpellings) {
  const Strings expected{"--solver=a.prototxt"};
  EXPECT_EQ(expected, Flags({"-solver", "a.prototxt"}));
  EXPECT_EQ(expected, Flags({"--solver", "a.prototxt"}));
  EXPECT_EQ(expected, Flags({"-solver=a.prototxt"}));
  EXPECT_EQ(expected, Flags({"--solver=a.prototxt"}));
  EXPECT_EQ(Strings{"--solver=a=b"}, Flags({"--solver=a=b"}));
  EXPECT_EQ(Strings{"--solver="}, Flags({"--solver="}));
  EXPECT_EQ(Strings{"--sigint_effect=stop"}, Flags({"--sigint-effect=stop"}));
}

TEST(FlagsTest, Booleans) {
  EXPECT_EQ(Strings{"--json=true"}, Flags({"-json"}));
  EXPECT_EQ(Strings{"--json=true"}, Flags({"--json=1"}));
  EXPECT_EQ(Strings{"--json=false"}, Flags({"--json=False"}));
  EXPECT_EQ(Strings{"--json=false"}, Flags({"--nojson"}));
  EXPECT_EQ(Strings{"--json=false"}, Flags({"-nojson"}));
  // They take no value from the next argument.
  const RewrittenFlags both = RewriteFlags({"-json", "train"}, kKnown);
  EXPECT_EQ(Strings{"train"}, both.positional);
  // A flag whose own name begins with no.
  EXPECT_EQ(Strings{"--notes=x"}, Flags({"-notes", "x"}));
}

TEST(FlagsTest, NumbersAreValuesAndFlagsMayStandAnywhere) {
  const RewrittenFlags all =
      RewriteFlags({"-level", "-1", "train", "-gpu", "0", "more", "--", "-gpu"}, kKnown);
  EXPECT_EQ((Strings{"--level=-1", "--gpu=0"}), all.flags);
  EXPECT_EQ((Strings{"train", "more", "-gpu"}), all.positional);
}

TEST(FlagsTest, Files) {
  TemporaryFolder folder;
  const std::string inner = folder.Put("inner", "--nojson\n");
  const std::string outer =
      folder.Put("outer", "# a comment\n\n  -solver=x y\r\n--flagfile=" + inner + "\n");
  EXPECT_EQ((Strings{"--gpu=1", "--solver=x y", "--json=false"}),
            Flags({"-gpu", "1", "--flagfile", outer}));
  EXPECT_NE("", ErrorOf([&] { Flags({"--flagfile=" + (folder / "missing")}); }));
  EXPECT_EQ((Strings{"--json=false", "--gpu=1", "--solver=x y", "--json=false"}),
            Flags({"--flagfile=" + inner + "," + folder.Put("gpu", "-gpu=1\n") + "," + outer}));
  const std::string bad = folder.Put("bad", "-gpu=0\nsolver\n");
  EXPECT_NE(std::string::npos, ErrorOf([&] { Flags({"--flagfile=" + bad}); }).find("line 2"));
  const std::string self = folder / "self";
  folder.Put("self", "--flagfile=" + self + "\n");
  EXPECT_NE("", ErrorOf([&] { Flags({"--flagfile=" + self}); }));
}

TEST(FlagsTest, AMarkOfUtf8IsSkippedInFiles) {
  TemporaryFolder folder;
  EXPECT_EQ(Strings{"--gpu=1"},
            Flags({"--flagfile=" + folder.Put("marked", "\xef\xbb\xbf-gpu=1\n")}));
}

// Ten files that name the next one ten times would be read 10^7 times.
TEST(FlagsTest, TheNumberOfFilesIsLimited) {
  TemporaryFolder folder;
  for (int i = 0; i < 7; ++i) {
    std::string lines;
    for (int line = 0; line < 10; ++line) {
      lines += "--flagfile=" + (folder / std::to_string(i + 1)) + "\n";
    }
    folder.Put(std::to_string(i), lines);
  }
  folder.Put("7", "-gpu=1\n");
  const std::string error = ErrorOf([&] { Flags({"--flagfile=" + (folder / "0")}); });
  EXPECT_NE(std::string::npos, error.find("more than 1000 flagfiles")) << error;
}

// A path is a path: only its printed form is escaped.
TEST(FlagsTest, PathsHaveAnyBytes) {
  TemporaryFolder folder;
  const std::string name = "odd\x1b[31m\xff";
  EXPECT_EQ(Strings{"--gpu=1"}, Flags({"--flagfile=" + folder.Put(name, "-gpu=1\n")}));
  EXPECT_EQ("File not found: 'no\\x1b[31m\\xff'",
            ErrorOf([] { Flags({"--flagfile=no\x1b[31m\xff"}); }));
  EXPECT_EQ("odd\xff", ParseOptions({"time", "-model=odd\xff"}).model);
}

TEST(FlagsTest, LongNamesAreRefusedSoon) {
  const std::string error = ErrorOf([] { Flags({"-" + std::string(4 << 20, 'x')}); });
  EXPECT_NE(std::string::npos, error.find("unknown command line flag"));
}

TEST(FlagsTest, Errors) {
  EXPECT_EQ("unknown command line flag 'slover'; did you mean --solver?",
            ErrorOf([] { Flags({"--slover=x"}); }));
  EXPECT_EQ("unknown command line flag 'whatever'", ErrorOf([] { Flags({"-whatever"}); }));
  EXPECT_EQ("flag --gpu needs a value", ErrorOf([] { Flags({"-gpu"}); }));
  EXPECT_NE("", ErrorOf([] { Flags({"--json=maybe"}); }));
}

TEST(OptionsTest, AreRead) {
  const Options options = ParseOptions({"time", "-model", "net", "-gpu=cpu", "--iterations=7",
                                        "-phase", "TEST", "-stage=a,b", "-nolt", "-logtostderr"});
  EXPECT_EQ("time", options.command);
  EXPECT_EQ("net", options.model);
  EXPECT_EQ("cpu", options.gpu);
  EXPECT_EQ(7, options.iterations);
  EXPECT_EQ("TEST", options.phase);
  EXPECT_EQ((Strings{"a", "b"}), options.stages);
  EXPECT_FALSE(options.lt);
  EXPECT_EQ("stop", options.sigint_effect);
  EXPECT_EQ("snapshot", options.sighup_effect);
}

TEST(OptionsTest, SettingsOfTheLogAreRead) {
  const Options options = ParseOptions({"time", "-logtostderr", "-v", "2", "-v=3"});
  EXPECT_EQ((std::vector<std::pair<std::string, std::string>>{{"logtostderr", "true"}, {"v", "3"}}),
            options.log_settings);
}

// A flag that a command ignored in silence would be taken for one that it obeys.
TEST(OptionsTest, FlagsOfOtherCommandsAreErrors) {
  try {
    ParseOptions({"time", "-model=net", "-type=half"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "caffe time does not use -type; these commands do: transform quantize classify");
  }
  EXPECT_THROW(ParseOptions({"train", "-solver=s", "-json"}), Error);
  // BVLC's flags are accepted by all of its commands, and by commands without flags everything is.
  EXPECT_EQ("s", ParseOptions({"time", "-solver=s", "-model=m"}).solver);
  EXPECT_EQ("version", ParseOptions({"version", "-type=half"}).command);
}

TEST(OptionsTest, TheLastOneWins) { EXPECT_EQ("b", ParseOptions({"-model=a", "-model=b"}).model); }

TEST(OptionsTest, ValuesAreChecked) {
  EXPECT_THROW(ParseOptions({"time", "-iterations=0"}), Error);
  EXPECT_THROW(ParseOptions({"time", "-iterations=ten"}), Error);
  EXPECT_THROW(ParseOptions({"time", "-phase=VALIDATE"}), Error);
  EXPECT_THROW(ParseOptions({"train", "-sigint_effect=die"}), Error);
}

}  // namespace
}  // namespace caffe
