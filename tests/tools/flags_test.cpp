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

TEST(OptionsTest, TheLastOneWins) { EXPECT_EQ("b", ParseOptions({"-model=a", "-model=b"}).model); }

TEST(OptionsTest, ValuesAreChecked) {
  EXPECT_THROW(ParseOptions({"time", "-iterations=0"}), Error);
  EXPECT_THROW(ParseOptions({"time", "-iterations=ten"}), Error);
  EXPECT_THROW(ParseOptions({"time", "-phase=VALIDATE"}), Error);
  EXPECT_THROW(ParseOptions({"train", "-sigint_effect=die"}), Error);
}

}  // namespace
}  // namespace caffe
