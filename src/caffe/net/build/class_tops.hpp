#pragma once

namespace caffe {

struct Wiring;

// Calls SetClassTops of each ClassSource with the tops that layers read as labels of classes, and
// as nothing else, also through layers that only move elements.
void FindClassTops(const Wiring& wiring);

}  // namespace caffe
