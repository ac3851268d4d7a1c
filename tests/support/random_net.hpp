#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

// Numbers that depend on the seed alone, on every platform.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t Next();
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <class T> const T& Pick(const std::vector<T>& list) {
    return list[Below(static_cast<int>(list.size()))];
  }

 private:
  uint64_t state_;
};

// A net as a list of layers. `bottoms` and `tops` are the names of its text. In a second text each
// layer has tops of its own, named <blob>.<number>: the versions of the blob.
struct RandomNet {
  struct Layer {
    std::string name, type, parameters;
    std::vector<std::string> bottoms, tops;
    std::vector<std::string> read, written;  // versions
    bool recompute = false;
  };
  std::vector<Layer> layers;
  std::map<std::string, std::string> inputs;  // name -> its only or first version
  std::string head;                           // type of the net

  // Layers that work in place, in the net as it is drawn.
  std::string Text(bool marks = false) const;
  std::string ApartText() const;
  // The last version of each blob that the layers [0, end] write.
  std::map<std::string, std::string> Shown(int end) const;
  int last() const { return static_cast<int>(layers.size()) - 1; }
};

struct RandomNetOptions {
  bool train = false;  // ends with a loss; layers with a backward pass alone
  bool marks = false;  // `recompute`, mixtures and recurrent layers
  std::string type = "CAFFE_DOUBLE";
};

RandomNet DrawNet(Draws* draws, const RandomNetOptions& options);

}  // namespace caffe
