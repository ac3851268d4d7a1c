#include "caffe/device/program_builder.hpp"

#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/kernel_text.hpp"
#include "custom_type.hpp"
#include "host_compiler.hpp"
#include "host_text.hpp"

namespace caffe {
namespace {

constexpr std::string_view kCustom = "custom_";

}  // namespace

ProgramBuilder::ProgramBuilder(Device* device, std::string name)
    : device_(device), name_(std::move(name)), types_(TypeTriple::Equal(kFloat)) {}

ProgramBuilder& ProgramBuilder::Types(const TypeTriple& types) {
  types_ = types;
  return *this;
}

ProgramBuilder& ProgramBuilder::Define(const std::string& name, const std::string& value) {
  defines_[name] = value;
  return *this;
}

ProgramBuilder& ProgramBuilder::Define(const std::string& name, int64_t value) {
  return Define(name, std::to_string(value));
}

ProgramBuilder& ProgramBuilder::Option(const std::string& option) {
  options_ += " " + option;
  return *this;
}

ProgramBuilder& ProgramBuilder::Fold(const std::string& parameter, int64_t value) {
  if (device_->info().folds_shapes()) folds_[parameter] = value;
  return *this;
}

ProgramBuilder& ProgramBuilder::AlsoType(DataType type) {
  words_.insert(type.word());
  return *this;
}

ProgramBuilder& ProgramBuilder::Body(const std::string& path) {
  bodies_.push_back({path, KernelText(path), false});
  return *this;
}

ProgramBuilder& ProgramBuilder::Source(const std::string& title, const std::string& text) {
  bodies_.push_back({title, text, true});
  return *this;
}

ProgramText ProgramBuilder::Text() const {
  ProgramText program;
  program.name = name_ + " " + types_.name();
  program.types = types_;
  for (const Part& body : bodies_) {
    for (KernelSignature& kernel :
         ParseKernelHeads(body.own ? body.title : "kernels/" + body.title + ".h", body.text)) {
      program.kernels.push_back(std::move(kernel));
    }
  }
  const Dialect& dialect = device_->info().dialect;
  if (!dialect.text) {
    // The bodies of kernels/ are compiled into the library.
    if (!bodies_.empty() && bodies_[0].own) {
      program.source = HostText(types_, bodies_[0].title, bodies_[0].text, program.kernels);
      program.options = "-std=c++20 " + HostCompilerOptions();
    }
    return program;
  }

  program.folds = folds_;
  program.options = dialect.options + options_;

  std::set<std::string> words = words_;
  words.insert({types_.compute.word(), types_.in.word(), types_.out.word()});
  words.insert({"f32", "i32", "i64"});
  const bool doubles = words.count("f64") > 0;
  CAFFE_CHECK(!doubles || device_->info().fp64, device_->info().id, " (", device_->info().name,
              ") has no double precision, which ", program.name, " needs");

  std::string& text = program.source;
  if (doubles) text += "#define CAFFE_FP64 1\n";
  text += "#define Index i32\n#define SPAN " + std::to_string(device_->info().span()) + "\n";
  std::map<std::string, std::string> defines = defines_;
  defines.emplace("GROUP", std::to_string(device_->info().group_items()));
  for (const auto& [name, value] : defines) text += "#define " + name + " " + value + "\n";
  std::set<std::string> included;
  for (const std::string& part :
       {std::string(dialect.text), std::string("dialect/common"), std::string("dialect/spans"),
        std::string("math/requantize"), std::string("math/random"), std::string("math/float")}) {
    text += KernelTextWithIncludes(part, &included);
  }
  for (const std::string& word : words) {
    if (!word.starts_with(kCustom)) text += KernelTextWithIncludes("types/" + word, &included);
  }
  // Types of users come last, because their texts may use those of the library.
  const int64_t limit = device_->info().is_cpu_type ? 0 : dialect.constant_bytes;
  for (const std::string& word : words) {
    if (!word.starts_with(kCustom)) continue;
    text += CustomTypeText(DataTypeByName(word.substr(kCustom.size())), limit, &included);
  }
  text += "#define Dtype " + types_.compute.word() + "\n#define MItype " + types_.in.word() +
          "\n#define MOtype " + types_.out.word() + "\n#define FLOAT_KIND " +
          (types_.compute.is_float() ? "1" : "0") + "\n";
  std::vector<std::string> folded;
  for (const auto& [name, value] : folds_) {
    text += "#define " + name + " " + std::to_string(value) + "\n";
    folded.push_back(name);
  }
  for (const Part& body : bodies_) {
    if (!body.own && !included.insert(body.title).second) continue;
    text += RewriteKernelHeads(body.own ? TextWithIncludes(body.title, body.text, &included)
                                        : KernelTextWithIncludes(body.title, &included),
                               folded);
  }
  if (log::Topic("kernels")) {
    log::Info(Concat("program ", program.name, " for ", device_->info().id, ":\n", text));
  }
  return program;
}

std::shared_ptr<Program> ProgramBuilder::Build() const { return device_->Build(Text()); }

std::unique_ptr<Kernel> ProgramBuilder::GroupKernel(const std::string& kernel,
                                                    std::shared_ptr<Program> program) {
  for (int64_t items = device_->info().group_items();;) {
    std::unique_ptr<Kernel> made = program->CreateKernel(kernel);
    if (items == 1 || made->most_items() >= items) {
      made->set_group(items);
      return made;
    }
    items /= 2;
    program = Define("GROUP", items).Build();
  }
}

}  // namespace caffe
