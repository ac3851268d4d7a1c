// Random nets and random scripts. A net runs as users run it: steps of several layers, layers in
// place, memory that blobs share, blobs that are computed when they are read. Another net computes
// the same layer by layer, each layer with tops of its own. README.md says how to run more cases.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/random_net.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

int Setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

constexpr int kParts = 8;  // of each kind, so that shards can run them at the same time

class Trial {
 public:
  Trial(uint64_t seed, bool train) : draws_(seed * 2 + train), seed_(seed), train_(train) {
    RandomNetOptions options;
    options.train = train;
    float_ = draws_.Chance(20);
    if (float_) options.type = "CAFFE_FLOAT";
    random_ = DrawNet(&draws_, options);
    net_ = MakeNet(random_.Text(), Runtime::Get().cpu(), train ? 0 : 1);
    apart_ = MakeNet(random_.ApartText(), Runtime::Get().cpu(), train ? 0 : 1);
    shape_ = net_->BlobByName("data")->shape();
    FillParameters();
  }

  // Returns what is wrong; empty if nothing is.
  std::string Run() {
    try {
      WriteInputs();
      const int events = 4 + draws_.Below(8);
      for (int i = 0; i < events && wrong_.empty(); ++i) train_ ? TrainEvent() : TestEvent();
      if (wrong_.empty() && !train_) TryBackward();
    } catch (const std::exception& error) {
      wrong_ += Concat("error: ", error.what());
    }
    return wrong_;
  }

  std::string Report() const {
    return Concat("seed ", seed_, train_ ? ", TRAIN" : ", TEST", ": ", wrong_, "\nscript:", script_,
                  "\n", random_.Text());
  }

 private:
  void Say(const std::string& line) { script_ += "\n  " + line; }

  Numbers RandomNumbers(int64_t count, double low, double high) {
    Numbers values(count);
    for (double& value : values) value = low + (high - low) * draws_.Below(4096) / 4096.0;
    return values;
  }

  void FillParameters() {
    for (size_t i = 0; i < net_->layers().size(); ++i) {
      const auto& blobs = net_->layers()[i]->blobs();
      const bool norm = net_->layers()[i]->type() == std::string("BatchNorm");
      for (size_t b = 0; b < blobs.size(); ++b) {
        Numbers values = RandomNumbers(blobs[b]->count(), -0.6, 0.6);
        if (norm && b == 1) values = RandomNumbers(blobs[b]->count(), 0.5, 1.5);
        if (norm && b == 2) values = {1};
        SetParameter(i, b, values);
      }
    }
  }

  void SetParameter(size_t layer, size_t index, const Numbers& values) {
    net_->layers()[layer]->blobs()[index]->SetData(values);
    apart_->layers()[layer]->blobs()[index]->SetData(values);
  }

  // Writes through a view that is held from now on.
  void WriteView(BlobBase* blob, const Numbers& values) {
    std::shared_ptr<void>& view = views_[blob];
    if (!view || draws_.Chance(50)) view = blob->data_memory()->View();
    ConvertElements(kDouble, values.data(), blob->type(), view.get(), values.size());
    net_->NoteWritten(*blob);
  }

  void Write(BlobBase* blob, const Numbers& values) {
    switch (draws_.Below(3)) {
      case 0: return blob->SetData(values);
      case 1: {
        void* const data = blob->mutable_host_data();
        ConvertElements(kDouble, values.data(), blob->type(), data, values.size());
        return;
      }
      default: WriteView(blob, values);
    }
  }

  void WriteInputs() {
    bool any = false;
    for (const auto& [name, version] : random_.inputs) {
      if (any && draws_.Chance(30)) continue;
      any = true;
      BlobBase& blob = *net_->BlobByName(name);
      const Numbers values = Rounded(blob, RandomNumbers(blob.count(), -1, 1));
      Say("write " + name);
      ForgetViewsOf(blob);
      if (const BlobBase* first = net_->FirstVersion(blob)) ForgetViewsOf(*first);
      Write(&blob, values);
      inputs_[name] = expected_[name] = values;
    }
  }

  // As in BVLC Caffe, the top of Flatten, Reshape, Split and Concat may be the memory of their
  // bottom.
  void ForgetViewsOf(const BlobBase& blob) {
    for (const auto& other : net_->blobs()) {
      if (other->data_memory() == blob.data_memory()) expected_.erase(other->name());
    }
  }

  Numbers Rounded(const BlobBase& blob, Numbers values) const {
    if (float_) {
      for (double& value : values) value = static_cast<float>(value);
    }
    return values;
  }

  void GiveInputs() {
    for (const auto& [name, version] : random_.inputs) {
      BlobBase& blob = *apart_->BlobByName(version);
      if (!inputs_.count(name)) inputs_[name] = Numbers(blob.count(), 0);
      blob.SetData(inputs_[name]);
    }
  }

  void Expect(int start, int end) {
    std::map<std::string, std::string> written;
    for (int i = start; i <= end; ++i) {
      const RandomNet::Layer& layer = random_.layers[i];
      for (size_t t = 0; t < layer.tops.size(); ++t) written[layer.tops[t]] = layer.written[t];
    }
    for (const auto& [name, version] : written) expected_[name] = Values(*apart_, version);
  }

  void WholeForward() {
    Say("forward");
    GiveInputs();
    apart_->Forward();
    net_->Forward();
    Expect(0, random_.last());
    if (draws_.Chance(30)) HoldOutput();
    if (draws_.Chance(20)) {
      for (int n = 0; n < 8; ++n) Read(draws_.Pick(net_->blob_names()));
    }
  }

  // A view of an output, as forward returns it in Python.
  void HoldOutput() {
    const std::vector<BlobBase*> outputs = net_->output_blobs();
    BlobBase* const blob = draws_.Pick(outputs);
    Say("hold " + blob->name());
    views_[blob] = blob->data_memory()->View();
  }

  void PartialForward() {
    int start = draws_.Below(random_.last() + 1), end = draws_.Below(random_.last() + 1);
    if (start > end) std::swap(start, end);
    if (draws_.Chance(60)) start = 0;
    if (start == 0 && end == random_.last()) return WholeForward();
    // Every blob that it reads must have been computed once.
    std::set<std::string> written;
    for (int i = start; i <= end; ++i) {
      const RandomNet::Layer& layer = random_.layers[i];
      for (size_t b = 0; b < layer.read.size(); ++b) {
        if (!written.count(layer.read[b]) && !expected_.count(layer.bottoms[b])) return;
      }
      written.insert(layer.written.begin(), layer.written.end());
    }
    if (start > 0 && ReadsViews(start, end)) return;
    Say(Concat("forward of layers ", start, " to ", end));
    GiveInputs();
    written.clear();
    for (int i = start; i <= end; ++i) {
      const RandomNet::Layer& layer = random_.layers[i];
      for (size_t b = 0; b < layer.read.size(); ++b) {
        const std::string &version = layer.read[b], &name = layer.bottoms[b];
        if (written.count(version)) continue;
        const auto input = random_.inputs.find(name);
        const bool first = input != random_.inputs.end() && input->second == version;
        apart_->BlobByName(version)->SetData(first ? inputs_.at(name) : expected_.at(name));
      }
      written.insert(layer.written.begin(), layer.written.end());
    }
    for (int i = start; i <= end; ++i) {
      for (const std::string& top : random_.layers[i].tops) ForgetViewsOf(*net_->BlobByName(top));
      for (const std::string& version : random_.layers[i].written) ForgetViewsOfVersion(version);
    }
    apart_->Forward(start, end);
    net_->Forward(start, end);
    Expect(start, end);
    for (int n = draws_.Below(5); n > 0; --n) Read(draws_.Pick(net_->blob_names()));
  }

  void ForgetViewsOfVersion(const std::string& version) {
    const auto& memory = apart_->BlobByName(version)->data_memory();
    for (const RandomNet::Layer& layer : random_.layers) {
      for (size_t t = 0; t < layer.tops.size(); ++t) {
        if (layer.written[t] == version) continue;
        if (apart_->BlobByName(layer.written[t])->data_memory() == memory) {
          expected_.erase(layer.tops[t]);
        }
      }
    }
  }

  // Whether these layers read two versions from before that share memory in the other net.
  bool ReadsViews(int start, int end) const {
    std::set<std::string> written;
    std::map<const SyncedMemory*, std::string> found;
    for (int i = start; i <= end; ++i) {
      const RandomNet::Layer& layer = random_.layers[i];
      for (const std::string& version : layer.read) {
        if (written.count(version)) continue;
        const auto memory = apart_->BlobByName(version)->data_memory();
        if (found.emplace(memory.get(), version).first->second != version) return true;
      }
      written.insert(layer.written.begin(), layer.written.end());
    }
    return false;
  }

  void Compare(const std::string& what, const Numbers& is, const Numbers& wanted) {
    if (!wrong_.empty()) return;
    if (is.size() != wanted.size()) {
      wrong_ = Concat(what, " has ", is.size(), " elements instead of ", wanted.size());
      return;
    }
    double largest = 1;
    for (double value : wanted) largest = std::max(largest, std::abs(value));
    const double tolerance = largest * (float_ ? 5e-4 : 1e-8);
    for (size_t i = 0; i < is.size(); ++i) {
      if (std::abs(is[i] - wanted[i]) <= tolerance) continue;
      wrong_ = Concat(what, ", element ", i, ": ", is[i], " instead of ", wanted[i]);
      return;
    }
  }

  void Read(const std::string& name) {
    const auto wanted = expected_.find(name);
    if (wanted == expected_.end()) return;
    Say("read " + name);
    BlobBase& blob = *net_->BlobByName(name);
    if (draws_.Chance(50)) {  // as Python does
      const auto view = blob.data_memory()->View();
      Numbers values(blob.count());
      ConvertElements(blob.type(), view.get(), kDouble, values.data(), blob.count());
      return Compare("blob " + name, values, wanted->second);
    }
    Compare("blob " + name, blob.DataAsDouble(), wanted->second);
  }

  void ReadSome() {
    const auto& names = net_->blob_names();
    if (draws_.Chance(15)) {
      for (const std::string& name : names) Read(name);
      return;
    }
    for (int n = 1 + draws_.Below(3); n > 0; --n) Read(draws_.Pick(names));
  }

  // Views that callers hold of blobs that were not written since stay as they are.
  void CheckViews() {
    for (const auto& [blob, view] : views_) {
      const auto wanted = expected_.find(blob->name());
      if (wanted == expected_.end() || !net_->has_blob(blob->name())) continue;
      if (blob->data_memory()->host_data() != view.get()) continue;  // it has other memory now
      Numbers values(blob->count());
      ConvertElements(blob->type(), view.get(), kDouble, values.data(), blob->count());
      Compare("the view of " + blob->name(), values, wanted->second);
    }
  }

  void ChangeWeights() {
    std::vector<size_t> layers;
    for (size_t i = 0; i < net_->layers().size(); ++i) {
      if (!net_->layers()[i]->blobs().empty()) layers.push_back(i);
    }
    if (layers.empty()) return;
    const size_t layer = draws_.Pick(layers);
    BlobBase& blob = *net_->layers()[layer]->blobs()[0];
    Say(Concat("change weights of layer ", layer));
    const Numbers values = Rounded(blob, RandomNumbers(blob.count(), -0.6, 0.6));
    apart_->layers()[layer]->blobs()[0]->SetData(values);
    if (draws_.Chance(60)) return Write(&blob, values);
    if (draws_.Chance(50)) {  // of another net, which shares them
      if (!other_) {
        other_ = MakeNet(random_.Text(), Runtime::Get().cpu(), 0);
        other_->ShareTrainedLayersWith(*net_);
      }
      other_->layers()[layer]->blobs()[0]->SetData(values);
      return;
    }
    NetParameter file;
    apart_->ToProto(&file);
    net_->CopyTrainedLayersFrom(file);
  }

  void ChangeBatch() {
    shape_[0] = 1 + draws_.Below(3);
    Say(Concat("batch of ", shape_[0]));
    for (const auto& [name, version] : random_.inputs) {
      net_->BlobByName(name)->Reshape(shape_);
      apart_->BlobByName(version)->Reshape(shape_);
    }
    // A blob of the last forward is right, or reading it is an error.
    for (int n = draws_.Below(3); n > 0; --n) {
      const std::string& name = draws_.Pick(net_->blob_names());
      const auto wanted = expected_.find(name);
      if (random_.inputs.count(name) || wanted == expected_.end()) continue;
      try {
        Compare("blob " + name + " after a change of the batch",
                net_->BlobByName(name)->DataAsDouble(), wanted->second);
      } catch (const Error& error) {
        if (std::string(error.what()).find("net.keep('") == std::string::npos)
          wrong_ = error.what();
      }
    }
    expected_.clear();
    inputs_.clear();
    views_.clear();
    for (const auto& [name, version] : random_.inputs) {
      BlobBase& blob = *net_->BlobByName(name);
      const Numbers values = Rounded(blob, RandomNumbers(blob.count(), -1, 1));
      Write(&blob, values);
      inputs_[name] = values;
    }
    WholeForward();
  }

  void TestEvent() {
    const int draw = draws_.Below(100);
    if (draw < 34) {
      WholeForward();
    } else if (draw < 50) {
      WriteInputs();
    } else if (draw < 74) {
      ReadSome();
    } else if (draw < 82) {
      ChangeWeights();
    } else if (draw < 90) {
      PartialForward();
    } else if (draw < 94) {
      const std::string& name = draws_.Pick(net_->blob_names());
      Say("keep " + name);
      net_->Keep({name});
    } else if (draw < 97) {
      ChangeBatch();
    } else {
      Say("drop views");
      views_.clear();
    }
    CheckViews();
  }

  void SetOutputDiffs(Net* net, const std::map<std::string, std::string>& blobs) {
    for (const auto& [name, version] : blobs) {
      const BlobBase& blob = *net_->BlobByName(name);
      net->BlobByName(net == net_.get() ? name : version)->SetDiff(diffs_.at(name));
      (void)blob;
    }
  }

  void DrawDiffs(const std::map<std::string, std::string>& blobs) {
    diffs_.clear();
    for (const auto& [name, version] : blobs) {
      BlobBase& blob = *net_->BlobByName(name);
      diffs_[name] = IsMask(version) ? Numbers(blob.count(), 0)
                                     : Rounded(blob, RandomNumbers(blob.count(), -1, 1));
    }
  }
  bool IsMask(const std::string& version) const {
    for (const RandomNet::Layer& layer : random_.layers) {
      if (layer.written.size() > 1 && layer.type == "Pooling" && layer.written[1] == version) {
        return true;
      }
    }
    return false;
  }

  // Whether everything that the layers before `start` write is read up to `start`, so that the
  // diffs of start's tops are all that a backward pass from there needs.
  bool Divides(int start) const {
    for (int i = 0; i < start; ++i) {
      for (const std::string& version : random_.layers[i].written) {
        bool read = false;
        for (int j = i + 1; j <= random_.last(); ++j) {
          const auto& versions = random_.layers[j].read;
          if (std::find(versions.begin(), versions.end(), version) == versions.end()) continue;
          if (j > start) return false;
          read = true;
        }
        if (!read) return false;
      }
    }
    return random_.layers[start].type != "Input";
  }

  void TryBackward() {
    if (draws_.Chance(40)) return;
    WholeForward();
    if (draws_.Chance(50)) ReadSome();
    std::map<std::string, std::string> tops;
    int start = random_.last();
    for (int tries = draws_.Chance(40) ? 4 : 0; tries > 0; --tries) {
      const int draw = draws_.Below(random_.last() + 1);
      if (Divides(draw)) start = draw;
    }
    const RandomNet::Layer& layer = random_.layers[start];
    if (start < random_.last()) {
      for (size_t t = 0; t < layer.tops.size(); ++t) tops[layer.tops[t]] = layer.written[t];
    } else {
      const auto shown = random_.Shown(random_.last());
      for (const BlobBase* blob : net_->output_blobs()) tops[blob->name()] = shown.at(blob->name());
    }
    for (int pass = 0; pass < 2 && wrong_.empty(); ++pass) {
      Say(Concat("backward from layer ", start));
      DrawDiffs(tops);
      std::vector<std::string> known;
      try {
        std::vector<std::string> wanted;
        for (const auto& [name, version] : random_.inputs) wanted.push_back(name);
        known = net_->RequestGradientsWhereKnown(wanted);
        SetOutputDiffs(net_.get(), tops);
        SetOutputDiffs(apart_.get(), tops);
        net_->Backward(start, 0);
      } catch (const Error& error) {
        const std::string message = error.what();
        const bool refused = message.find("force_backward: true") != std::string::npos ||
                             message.find("no gradient for blob") != std::string::npos;
        if (!refused) wrong_ = message;
        return;
      }
      apart_->Backward(start, 0);
      for (const std::string& name : known) {
        if (start < random_.last() && !ReadUpTo(start, name)) continue;
        Compare("the gradient of " + name, net_->BlobByName(name)->DiffAsDouble(),
                apart_->BlobByName(random_.inputs.at(name))->DiffAsDouble());
      }
      if (draws_.Chance(50)) ReadSome();
      if (draws_.Chance(50)) return;
      WriteInputs();
      WholeForward();
    }
  }
  bool ReadUpTo(int end, const std::string& input) const {
    for (int i = 0; i <= end; ++i) {
      const auto& versions = random_.layers[i].read;
      const std::string& version = random_.inputs.at(input);
      if (std::find(versions.begin(), versions.end(), version) != versions.end()) return true;
    }
    return false;
  }

  void TrainEvent() {
    const bool frees = draws_.Chance(50);
    if (draws_.Chance(60)) WriteInputs();
    if (draws_.Chance(10)) {
      const std::string& name = draws_.Pick(net_->blob_names());
      Say("keep " + name);
      net_->Keep({name});
    }
    Say(frees ? "iteration that frees memory" : "iteration");
    GiveInputs();
    apart_->ClearParamDiffs();
    net_->ClearParamDiffs();
    apart_->Forward();
    apart_->Backward();
    net_->set_frees_memory(frees);
    net_->ForwardBackward();
    net_->set_frees_memory(false);
    Expect(0, random_.last());
    for (size_t i = 0; i < net_->layers().size(); ++i) {
      for (size_t b = 0; b < net_->layers()[i]->blobs().size(); ++b) {
        const BlobBase& own = *net_->layers()[i]->blobs()[b];
        const BlobBase& wanted = *apart_->layers()[i]->blobs()[b];
        const std::string name = Concat(net_->layer_names()[i], ".", b);
        Compare("parameter " + name, own.DataAsDouble(), wanted.DataAsDouble());
        Compare("the gradient of " + name, own.DiffAsDouble(), wanted.DiffAsDouble());
      }
    }
    for (const auto& [name, version] : random_.inputs) Read(name);
    ReadSome();
    CheckViews();
    if (draws_.Chance(50) || !wrong_.empty()) return;
    Say("update");
    for (size_t i = 0; i < net_->layers().size(); ++i) {
      for (size_t b = 0; b < net_->layers()[i]->blobs().size(); ++b) {
        if (net_->layers()[i]->type() == std::string("BatchNorm")) continue;
        const BlobBase& blob = *net_->layers()[i]->blobs()[b];
        Numbers values = blob.DataAsDouble();
        const Numbers diffs = blob.DiffAsDouble();
        double size = 1;
        for (double diff : diffs) size = std::max(size, std::abs(diff));
        for (size_t k = 0; k < values.size(); ++k) values[k] -= 0.02 / size * diffs[k];
        SetParameter(i, b, values);
      }
    }
  }

  Draws draws_;
  const uint64_t seed_;
  const bool train_;
  bool float_ = false;
  RandomNet random_;
  std::unique_ptr<Net> net_, apart_, other_;
  Shape shape_;
  std::map<std::string, Numbers> inputs_;    // what was written last
  std::map<std::string, Numbers> expected_;  // what each blob shows
  std::map<std::string, Numbers> diffs_;
  std::map<BlobBase*, std::shared_ptr<void>> views_;
  std::string script_, wrong_;
};

// Layers with `recompute` give the same bits as the net without the setting.
std::string TryMarks(uint64_t seed) {
  Draws draws(seed);
  RandomNetOptions options;
  options.train = options.marks = true;
  if (draws.Chance(20)) options.type = "CAFFE_FLOAT";
  const RandomNet random = DrawNet(&draws, options);
  const std::string text = random.Text(true);
  const auto report = [&](const std::string& what) {
    return Concat("seed ", seed, ", recompute: ", what, "\n", text);
  };
  try {
    const auto plain = MakeNet(random.Text(), Runtime::Get().cpu(), 0);
    const auto marked = MakeNet(text, Runtime::Get().cpu(), 0);
    for (int pass = 0; pass < 3; ++pass) {
      for (Net* net : {plain.get(), marked.get()}) {
        uint64_t input = seed + 10 * static_cast<uint64_t>(pass);
        for (BlobBase* blob : net->input_blobs()) {
          blob->SetData(blob->name() == "cont" ? Numbers{0, 1}
                                               : TestNumbers(blob->count(), input++));
        }
        net->set_frees_memory(true);
        net->ClearParamDiffs();
        net->ForwardBackward();
        net->set_frees_memory(false);
      }
      if (Values(*plain, "loss") != Values(*marked, "loss")) return report("the loss");
      for (size_t p = 0; p < plain->learnable_params().size(); ++p) {
        BlobBase &a = *plain->learnable_params()[p], &b = *marked->learnable_params()[p];
        const Numbers diff = a.DiffAsDouble(), other = b.DiffAsDouble();
        const auto equal = [](const Numbers& x, const Numbers& y) {
          return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double u, double v) {
            return u == v || (std::isnan(u) && std::isnan(v));
          });
        };
        if (!equal(a.DataAsDouble(), b.DataAsDouble())) return report("parameter " + a.name());
        if (!equal(diff, other)) return report("the gradient of " + a.name());
        Numbers values = a.DataAsDouble();
        for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.01 * std::tanh(diff[i]);
        a.SetData(values);
        b.SetData(values);
      }
    }
  } catch (const std::exception& error) {
    return report(error.what());
  }
  return "";
}

class RandomNetsTest : public testing::TestWithParam<int> {
 protected:
  // Runs every kParts-th of the cases, of which `cases` in 1,000 are of this kind.
  void ForSeeds(int cases, const std::function<std::string(uint64_t)>& run) {
    const int first = Setting("CAFFE_RANDOM_SEED", 1);
    const int64_t count = static_cast<int64_t>(Setting("CAFFE_RANDOM_NETS", 2000)) * cases / 1000;
    int failures = 0;
    for (int64_t i = GetParam(); i < std::max<int64_t>(count, 1) && failures < 5; i += kParts) {
      const std::string report = run(first + i);
      if (report.empty()) continue;
      ++failures;
      ADD_FAILURE() << report;
    }
  }
};

TEST_P(RandomNetsTest, Test) {
  ForSeeds(600, [](uint64_t seed) {
    Trial trial(seed, false);
    return trial.Run().empty() ? "" : trial.Report();
  });
}

TEST_P(RandomNetsTest, Train) {
  ForSeeds(200, [](uint64_t seed) {
    Trial trial(seed, true);
    return trial.Run().empty() ? "" : trial.Report();
  });
}

TEST_P(RandomNetsTest, Recompute) { ForSeeds(200, TryMarks); }

INSTANTIATE_TEST_SUITE_P(Parts, RandomNetsTest, testing::Range(0, kParts));

}  // namespace
}  // namespace caffe
