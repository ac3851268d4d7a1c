#pragma once

#include <vector>

#include "support/layer_tester.hpp"

namespace caffe {

struct InPlaceResult {
  std::vector<double> data, diff;  // of the one blob, after forward and after backward
};

// The tester's layer once more, with a copy of bottom 0 as its top, and the diff of the tester's
// top. Further bottoms stay what they are, and get no gradient.
inline InPlaceResult RunInPlace(LayerTester& tester, int bottoms = 1) {
  const auto blob = MakeBlob(tester.bottom().type(), tester.bottom().device(),
                             tester.bottom().shape(), "in place");
  blob->SetData(tester.Bottom(0));
  BlobVec bottom{blob.get()};
  for (int i = 1; i < bottoms; ++i) bottom.push_back(&tester.bottom(i));
  std::vector<bool> propagate_down(bottoms, false);
  propagate_down[0] = true;
  InPlaceResult result;
  tester.layer().Reshape(bottom, {blob.get()});
  tester.layer().PrepareParameters();
  tester.layer().Forward(bottom, {blob.get()});
  result.data = blob->DataAsDouble();
  blob->SetDiff(tester.top().DiffAsDouble());
  tester.layer().Backward({blob.get()}, propagate_down, bottom);
  result.diff = blob->DiffAsDouble();
  return result;
}

}  // namespace caffe
