#include "in_layer.hpp"

#include <exception>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {
namespace {

std::string WithLayer(const LayerBase& layer, const Error& error) {
  const std::string text = error.what();
  // The text of an error is escaped.
  if (text.find(Printable(layer.name() + " (")) != std::string::npos) return text;
  return layer.name() + " (" + layer.type() + "): " + text;
}

}  // namespace

void RethrowWithLayer(const LayerBase& layer) {
  try {
    NamingMemory(layer.name() + " (" + layer.type() + ")", [] { throw; });
    std::terminate();  // there is always an exception
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(WithLayer(layer, error));
  } catch (const Error& error) {
    const std::string text = WithLayer(layer, error);
    if (text == error.what()) throw;
    throw Error(text);
  }
}

}  // namespace caffe
