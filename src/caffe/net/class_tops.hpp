#pragma once

namespace caffe {

struct Wiring;

// Tells the layers that are a ClassSource which of their tops are read as labels of classes, and as
// nothing else, also through layers that only move elements.
void FindClassTops(const Wiring& wiring);

}  // namespace caffe
