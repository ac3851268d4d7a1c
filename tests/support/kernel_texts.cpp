#include "support/kernel_texts.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/chain.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/generated/float_gradient.hpp"
#include "caffe/library/generated/float_product.hpp"
#include "caffe/library/generated/lstm_steps.hpp"
#include "caffe/library/generated/vector_product.hpp"
#include "caffe/library/libraries.hpp"
#include "support/epilogues.hpp"

namespace caffe {
namespace {

using Kind = ElementFunction::Kind;

// The words after the colon of each line `//! <what>:` at the beginning of a body.
std::vector<std::vector<std::string>> HeadLines(const std::string& path, const std::string& what) {
  std::istringstream text(KernelText(path));
  std::vector<std::vector<std::string>> lines;
  const std::string mark = "//! " + what + ":";
  for (std::string line; std::getline(text, line) && line.starts_with("//!");) {
    if (!line.starts_with(mark)) continue;
    std::istringstream words(line.substr(mark.size()));
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return lines;
}

std::vector<std::string> Groups(const std::string& path) {
  const auto lines = HeadLines(path, "types");
  return lines.empty() ? std::vector<std::string>() : lines[0];
}

}  // namespace

std::string BodyTests(const std::string& path) {
  const auto lines = HeadLines(path, "tests");
  if (lines.empty()) return "layers";
  CAFFE_CHECK(lines.size() == 1 && lines[0].size() == 1, path,
              ": '//! tests:' must name one folder");
  return lines[0][0];
}

bool RunsOn(const std::string& path, const std::string& kernel, bool host) {
  const std::vector<std::string> groups = Groups(path);
  if (host && std::find(groups.begin(), groups.end(), "device") != groups.end()) return false;
  for (const std::vector<std::string>& words : HeadLines(path, "runs")) {
    CAFFE_CHECK(!words.empty() && (words[0] == "host" || words[0] == "device"), path,
                ": '//! runs:' must start with host or device");
    const bool named = std::find(words.begin() + 1, words.end(), kernel) != words.end();
    if ((named || words.size() == 1) && host != (words[0] == "host")) return false;
  }
  return true;
}

std::vector<std::string> KernelBodies() {
  std::vector<std::string> bodies;
  for (const std::string& path : KernelTextPaths()) {
    if (!Groups(path).empty()) bodies.push_back(path);
  }
  return bodies;
}

std::vector<std::string> BodiesForDevices() {
  std::vector<std::string> bodies = KernelBodies();
  std::erase_if(bodies, [](const std::string& path) { return !RunsOn(path, "", false); });
  return bodies;
}

std::vector<DataType> BodyTypes(const std::string& path) {
  std::vector<DataType> types;
  for (const std::string& group : Groups(path)) {
    if (group == "float") types.insert(types.end(), FloatTypes().begin(), FloatTypes().end());
    if (group == "quantized" || group == "codes") {
      types.insert(types.end(), {kQuant8, kQuant16});
    }
  }
  return types;
}

namespace {

std::set<TypeTriple> Triples(const std::vector<std::string>& groups) {
  std::set<TypeTriple> triples;
  for (const std::string& group : groups) {
    if (group == "float") {
      for (DataType type : FloatTypes()) triples.insert(TypeTriple::Equal(type));
    } else if (group == "quantized") {
      for (DataType type : {kQuant8, kQuant16}) triples.insert(TypeTriple::Equal(type));
    } else if (group == "master") {
      for (DataType type : {kHalf, kBfloat16}) triples.insert({kFloat, type, kFloat});
    } else if (group == "narrow") {
      for (DataType type : {kHalf, kBfloat16}) triples.insert({kFloat, kFloat, type});
    } else if (group == "codes") {
      for (DataType type : {kQuant8, kQuant16}) triples.insert({kFloat, type, type});
    } else if (group == "pairs") {
      for (DataType in : BuiltInTypes()) {
        for (DataType out : BuiltInTypes()) {
          const bool wide = in == kDouble || out == kDouble;
          triples.insert({wide ? kDouble : kFloat, in, out});
        }
      }
    } else if (group == "once") {
      triples.insert(TypeTriple::Equal(kFloat));
    } else if (group == "device") {
      for (DataType type : {kFloat, kDouble}) triples.insert(TypeTriple::Equal(type));
      for (DataType type : {kHalf, kBfloat16}) triples.insert({kFloat, type, type});
    } else {
      CAFFE_THROW("'", group, "' is not a group of types");
    }
  }
  return triples;
}

// Every structure of stages.
std::vector<Epilogue> Epilogues() {
  std::vector<Epilogue> epilogues;
  for (const ElementFunction& activation : test::Activations()) {
    for (const auto& stages : test::StagesWith(activation)) {
      epilogues.emplace_back();
      epilogues.back().stages = stages;
      const auto turn = static_cast<Epilogue::Bias>(epilogues.size() % 3);
      if (activation.kind == Kind::kPReLU) epilogues.back().slopes = turn;
    }
  }
  return epilogues;
}

// Two that read everything that a kernel offers them.
std::vector<Epilogue> SomeEpilogues() {
  Epilogue slopes, swish;
  slopes.stages = {ResidualSum{}, ElementFunction{Kind::kPReLU}};
  slopes.slopes = Epilogue::Bias::kPerRow;
  swish.stages = {ElementFunction{Kind::kSwish, 1}, ResidualSum{0.5f}};
  return {slopes, swish};
}

// Bodies whose text depends on the operator that uses them: its texts.
std::vector<ProgramText> OperatorTexts(const std::string& backend, const std::string& path) {
  NullDevice device(backend);
  if (path == "blas/gemm") {
    const std::vector<std::pair<DataType, DataType>> types{
        {kFloat, kFloat}, {kDouble, kDouble}, {kHalf, kFloat}, {kBfloat16, kBfloat16}};
    for (const auto& [in, out] : types) {
      // The largest tile takes the longest: not in every type.
      for (int variant = in.bytes() == 2 ? 1 : 0; variant < 4; ++variant) {
        GemmDescriptor d;
        d.in = in;
        d.out = out;
        d.trans_a = variant & 1;
        d.trans_b = variant & 2;
        // Each of the tiles, whole ones and ones that stick out.
        d.m = variant == 0 ? 256 : variant == 1 ? 96 : 33;
        d.n = variant == 3 ? 64 : d.m;
        d.k = variant == 3 ? 17 : 64;
        GeneratedLibrary().make(&device, d);
      }
    }
    GemmDescriptor d;
    d.m = d.n = 33;
    d.k = 64;
    for (const Epilogue& epilogue : SomeEpilogues()) {
      d.epilogue = epilogue;
      GeneratedLibrary().make(&device, d);
    }
  }
  if (path == "blas/epilogue") {
    for (const auto& [sums, y] : std::vector<std::pair<DataType, DataType>>{
             {kFloat, kFloat}, {kDouble, kDouble}, {kBfloat16, kBfloat16}, {kFloat, kHalf}}) {
      const auto epilogues = y == kFloat ? Epilogues() : SomeEpilogues();
      for (const Epilogue& epilogue : epilogues) EpiloguePass(&device, sums, y, epilogue);
    }
  }
  if (path == "blas/chain") {
    const std::vector<Kind>& kinds = ElementFunction::Kinds();
    for (auto k = kinds.begin(); k < kinds.end(); k += std::min<int64_t>(8, kinds.end() - k)) {
      std::vector<Kind> some(k, k + std::min<int64_t>(8, kinds.end() - k));
      some.resize(some.size() + 3, Kind::kSum);
      for (const DataType type : FloatTypes()) ChainOp(&device, type, some, {24, 4, 6});
    }
    ChainOp(&device, kFloat, {Kind::kReLU, Kind::kTanH}, {24, 1, 1});
  }
  if (path == "neuron/function") {
    for (const Kind kind : ElementFunction::Kinds()) {
      // Epilogues and chains have the functions of layers without a row of their own.
      if (kind == Kind::kSum) continue;
      for (const TypeTriple& types : Triples({"float", "master", "narrow"})) {
        if (types == TypeTriple::Equal(kFloat) || kind == Kind::kSwish) {
          FunctionProgram(&device, types, kind);
        }
      }
    }
  }
  if (path == "conv/depthwise") {
    ConvDescriptor d;
    d.in_channels = d.out_channels = d.group = 4;
    d.geometry.input = {8, 8};
    d.geometry.kernel = {3, 3};
    for (const DataType type : FloatTypes()) {
      d.in = d.out = type;
      for (const Epilogue& epilogue : SomeEpilogues()) {
        d.epilogue = epilogue;
        d.epilogue.bias_type = d.master();
        ConvDescriptor normal = d;
        normal.Normalize();
        DepthwiseLibrary().make(&device, normal);
      }
    }
  }
  if (path == "quant/gemm") {
    for (DataType type : {kQuant8, kQuant16}) {
      for (int variant = 0; variant < 4; ++variant) {
        GemmDescriptor d;
        d.in = d.out = type;
        d.trans_a = variant & 1;
        d.trans_b = variant & 2;
        d.epilogue.bias = variant == 0 ? Epilogue::Bias::kPerRow : Epilogue::Bias::kPerColumn;
        d.m = d.n = variant == 3 ? 64 : 33;
        d.k = variant == 2 ? kNarrowDepth + 1 : 64;  // sums of 64 bits
        if (variant == 1) d.epilogue.stages = {ResidualSum{}, kPlainReLU};
        GeneratedQuantizedLibrary().make(&device, d);
        if (type == kQuant16 || variant == 1) continue;
        d.out = kFloat;
        GeneratedQuantizedLibrary().make(&device, d);
        if (variant == 2) continue;
        d.out = type;
        d.sums = true;
        GeneratedQuantizedLibrary().make(&device, d);
      }
    }
  }
  if (path == "quant/vector_product") {
    for (const int64_t rows : {1, 4, 12}) {
      GemmDescriptor d;
      d.in = d.out = kQuant8;
      d.row_groups = rows == 12 ? 16 : 0;
      d.trans_b = true;
      d.epilogue.bias = Epilogue::Bias::kPerColumn;
      d.m = rows;
      d.n = 33;
      d.k = 1040;
      if (rows == 1) {
        d.out = kFloat;
        MatrixGemmLibrary().make(&device, d);
        d.out = kQuant8;
      }
      if (rows == 4) d.epilogue.stages = {ElementFunction{Kind::kLeaky, 0.1f}};
      MatrixGemmLibrary().make(&device, d);
    }
  }
  if (path == "quant/matrix_product") {
    for (const int64_t k : {64, 4096, 1 << 16}) {
      GemmDescriptor d;
      d.in = kQuant8;
      d.out = kFloat;
      d.trans_b = true;
      d.epilogue.bias = Epilogue::Bias::kPerColumn;
      d.m = d.n = 256;
      d.k = k;
      MatrixGemmLibrary().make(&device, d);
    }
  }
  const bool depthwise = path == "quant/windows" || path == "quant/window_columns";
  if (path == "quant/matrix_product" || depthwise) {
    for (DataType type : {kQuant8, kQuant16}) {
      // Tiles for few and many rows; sums of 32 and of 64 bits; vectors of 4 to 16 bytes.
      for (const int64_t channels : {4, 24, 64, 4096}) {
        ConvDescriptor d;
        d.in = d.out = type;
        d.in_channels = channels;
        d.out_channels = depthwise ? channels : 4 * channels;
        d.group = depthwise ? channels : 1;
        d.geometry.input = {channels < 4096 ? 60 : 3, 60};
        d.geometry.kernel = channels == 64 ? Shape{1, 1} : Shape{3, 3};
        d.x_layout = d.y_layout = Layout::kNHWC;
        d.epilogue.bias = Epilogue::Bias::kPerRow;
        if (channels == 24) d.epilogue.stages = {ElementFunction{Kind::kLeaky, 0.1f}};
        if (channels == 64) d.epilogue.stages = {ResidualSum{}, kPlainReLU};
        for (const int64_t groups : {0, 16}) {
          if (groups > 0 && depthwise) continue;
          d.row_groups = groups;
          d.Normalize();
          MatrixConvolutionLibrary().make(&device, d);
        }
      }
    }
  }
  if (path == "conv/depthwise_last") {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      ConvDescriptor d;
      d.in = d.out = type;
      d.in_channels = d.out_channels = d.group = 20;
      d.geometry.input = {9, 8};
      d.geometry.kernel = {3, 3};
      d.x_layout = d.y_layout = Layout::kNHWC;
      for (const Epilogue& epilogue : SomeEpilogues()) {
        d.epilogue = epilogue;
        ConvDescriptor normal = d;
        normal.Normalize();
        MatrixConvolutionLibrary().make(&device, normal);
      }
    }
  }
  if (path == "conv/matrix_convolution") {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      MatrixProduct::Problem p;
      p.type = p.out = type;
      // All of them in float.
      const size_t next = type == kFloat ? 1 : 3;
      const std::vector<int> tilings = FloatProduct::Tilings(&device, p);
      for (size_t k = type == kBfloat16 ? 1 : 0; k < tilings.size(); k += next) {
        const int tile = tilings[k];
        const bool points = tile % 2 == 0;
        p.channels = p.plain_channels = tile % 3 == 0 ? 64 : tile % 3 == 1 ? 12 : 6;
        p.out_channels = p.y_row = 40;
        p.window.kernel[0] = p.window.kernel[1] = points ? 1 : 3;
        p.epilogue = tile % 4 < 2 ? Epilogue() : SomeEpilogues()[tile % 2];
        if (tile % 4 == 1) p.epilogue.bias = Epilogue::Bias::kPerColumn;
        FloatProduct(&device, p, tile, 1 + tile / 3);
      }
      // Windows with a patch: one and several blocks of channels.
      p.epilogue = Epilogue();
      p.batch = 3;
      for (int axis = 0; axis < 2; ++axis) {
        p.window.input[axis] = p.window.output[axis] = 13;
        p.window.kernel[axis] = 3;
        p.window.pad[axis] = 1;
      }
      for (const int64_t channels : {24, 160}) {
        if (type == kBfloat16 && channels == 160) continue;
        p.channels = p.plain_channels = channels;
        const std::vector<int> patches = FloatProduct::PatchTilings(p);
        if (!patches.empty()) FloatProduct(&device, p, patches[channels == 24 ? 0 : 1]);
      }
    }
  }
  if (path == "conv/matrix_gradient") {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      MatrixProduct::Problem p;
      p.type = type;
      p.out_channels = p.y_row = 40;
      const std::vector<int> tilings = FloatGradient::Tilings(&device, p);
      for (size_t k = type == kBfloat16 ? 2 : 0; k < tilings.size(); ++k) {
        p.channels = p.plain_channels = k == 0 ? 64 : k == 1 ? 12 : 6;
        p.window.kernel[0] = p.window.kernel[1] = k % 2 == 0 ? 1 : 3;
        FloatGradient(&device, p, tilings[k], 1 + static_cast<int64_t>(k) / 2);
      }
    }
  }
  if (path == "neuron/lstm_steps" || path == "neuron/lstm_steps_backward") {
    for (const DataType type : FloatTypes()) {
      LstmDescriptor d;
      d.steps = 3;
      d.items = 20;
      d.type = type;
      d.trains = true;
      d.hidden = 200;
      LstmSteps(&device, d);
      if (!device.info().matrix || type == kDouble) continue;
      // With whole and with divided parts of the depth for each warp.
      for (const int64_t hidden : {200, 512}) {
        d.hidden = hidden;
        for (const int64_t rows : {16, 32}) LstmSteps(&device, d, {true, 8, rows, hidden / 8, 1});
      }
    }
  }
  if (path == "blas/vector_matrix") {
    for (const DataType type : {kFloat, kHalf, kBfloat16}) {
      MatrixProduct::Problem p;
      p.type = p.out = type;
      p.channels = p.plain_channels = 64;
      p.out_channels = p.y_row = 40;
      for (const int64_t rows : {1, 2}) {
        p.batch = rows;
        p.row_groups = rows == 2 && type == kHalf ? 16 : 0;
        p.epilogue = SomeEpilogues()[rows - 1];
        VectorProduct(&device, p);
      }
      p = MatrixProduct::Problem();
      p.type = p.out = type;
      p.channels = 3;
      p.out_channels = p.y_row = 40;
      p.window.input[0] = p.window.input[1] = 19;
      p.window.kernel[0] = p.window.kernel[1] = 7;
      p.window.stride[0] = p.window.stride[1] = 2;
      p.window.output[0] = p.window.output[1] = 7;
      p = FloatProduct::OfImages(p).value();
      const std::vector<int> tilings = FloatProduct::Tilings(&device, p);
      for (size_t k = 0; k < tilings.size(); k += 2) FloatProduct(&device, p, tilings[k]);
    }
  }
  if (path == "pool/max" || path == "pool/average" || path == "pool/max_codes") {
    PoolDescriptor d;
    if (path == "pool/average") d.method = PoolDescriptor::Method::kAverage;
    d.height = d.width = {11, 5, 3, 2, 0};
    for (DataType type : BuiltInTypes()) {
      d.types = TypeTriple::Equal(type);
      for (const int64_t channels : {1, 4, 8, 16}) {
        const bool codes = d.quantized() && path != "pool/average" && channels > 1;
        if (codes != (path == "pool/max_codes") || (channels == 4 && !codes)) continue;
        d.planes = d.channels = channels;
        d.layout = channels == 1 ? Layout::kNCHW : Layout::kNHWC;
        d.trains = !d.quantized() && channels == 16;
        GeneratedPoolingLibrary().make(&device, d);
      }
    }
  }
  return device.texts();
}

}  // namespace

std::set<TypeTriple> BodyTriples(const std::string& path) { return Triples(Groups(path)); }

std::vector<ProgramText> KernelTexts(const std::string& backend, const std::string& path,
                                     bool fold) {
  std::vector<ProgramText> texts = OperatorTexts(backend, path);
  if (!texts.empty()) return texts;
  NullDevice device(backend);
  for (const TypeTriple& types : BodyTriples(path)) {
    ProgramBuilder builder(&device, path);
    builder.Types(types).Body(path);
    for (DataType type : BuiltInTypes()) builder.AlsoType(type);
    for (const KernelSignature& kernel : ParseKernelHeads(path, KernelText(path))) {
      for (const KernelParameter& parameter : kernel.parameters) {
        if (fold && parameter.kind == KernelParameter::Kind::kFold) builder.Fold(parameter.name, 2);
      }
    }
    texts.push_back(builder.Text());
  }
  return texts;
}

std::vector<ProgramText> CustomTexts(const std::string& backend, const std::string& path,
                                     DataType type) {
  NullDevice device(backend);
  if (path == "blas/gemm") {
    GemmDescriptor d;
    d.in = d.out = type;
    d.m = d.n = 33;
    d.k = 64;
    d.epilogue = SomeEpilogues()[0];
    GeneratedLibrary().make(&device, d);
    return device.texts();
  }
  if (path == "blas/chain") {
    ChainOp(&device, type, {Kind::kReLU, Kind::kTanH}, {24, 4, 6});
    return device.texts();
  }
  if (path == "neuron/function") {
    FunctionProgram(&device, TypeTriple::Equal(type), Kind::kSwish);
    return device.texts();
  }
  std::set<TypeTriple> triples;
  for (const std::string& group : Groups(path)) {
    if (group == "float") triples.insert(TypeTriple::Equal(type));
    if (group == "master") triples.insert({kFloat, type, kFloat});
    if (group == "narrow") triples.insert({kFloat, kFloat, type});
    if (group == "pairs") triples.insert({{kFloat, type, kBfloat16}, {kFloat, kQuant8, type}});
  }
  if (path == "conv/depthwise" || path == "blas/epilogue") return {};
  std::vector<ProgramText> texts;
  for (const TypeTriple& types : triples) {
    texts.push_back(ProgramBuilder(&device, path).Types(types).Body(path).Text());
  }
  return texts;
}

std::string BodyName(const std::string& path) {
  std::string name = path;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace caffe
