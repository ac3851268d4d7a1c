#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/layer_tester.hpp"

namespace caffe {

// A region of interest, as the second bottom of ROIPooling and PSROIPooling has it.
struct Region {
  double image, x0, y0, x1, y1;
};

inline Shape RegionShape(const std::vector<Region>& regions) {
  return {static_cast<int64_t>(regions.size()), 5};
}

inline void SetRegions(LayerTester* layer, const std::vector<Region>& regions) {
  std::vector<double> values;
  for (const Region& r : regions) values.insert(values.end(), {r.image, r.x0, r.y0, r.x1, r.y1});
  layer->SetBottom(1, values);
}

// Half away from zero, cut at +-2^22; NaN becomes the lower end.
inline int64_t RoundCut(float v) {
  constexpr float kEnd = 4194304;
  return std::lround(v > -kEnd ? std::min(v, kEnd) : -kEnd);
}

}  // namespace caffe
