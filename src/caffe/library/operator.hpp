#pragma once

#include <cstdint>
#include <string>

#include "caffe/device/device_ptr.hpp"

namespace caffe {

// One computation, prepared for one descriptor on one device by one library. Programs are built at
// construction; a call enqueues work and allocates nothing. Not thread-safe.
//
// The memory that a call needs besides its operands belongs to the caller: a workspace, whose
// content does not matter before and after a call, so that all operators of a stream can have one;
// and the prepared weights, which must stay as they are until the weights change.
class Operator {
 public:
  virtual ~Operator() = default;
  // The name of its row: "openblas", "onednn", "cudnn", …; library/README.md lists them.
  virtual const char* library() const = 0;
  // The most bytes of workspace that a call needs. The workspace begins at a multiple of 256 bytes
  // in its buffer.
  virtual int64_t workspace_bytes() const { return 0; }
  // Bytes of the weights in the operator's own form: widened, packed, transformed. 0 if it uses the
  // weights unchanged. With groups of rows: of one group. Those of all groups follow each other,
  // and Prepare is called for each.
  virtual int64_t prepared_bytes() const { return 0; }
  // Converts the weights to that form. Call it before the first call that needs them and after each
  // change of the weights, not inside a forward. Does nothing if prepared_bytes() is 0.
  virtual void Prepare(DevicePtr weights, DevicePtr prepared) {}
  // Operators whose forms are equal can share the prepared weights, for example those for other
  // numbers of rows. Empty: with no other one.
  virtual std::string prepared_form() const { return {}; }
};

}  // namespace caffe
