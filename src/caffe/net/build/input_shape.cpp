#include "caffe/net/input_shape.hpp"

#include <cstddef>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

std::string Tuple(const Shape& shape) {
  std::string text;
  for (const int64_t extent : shape) text += Concat(text.empty() ? "" : ", ", extent);
  return Concat("(", text, shape.size() == 1 ? ",)" : ")");
}

// The last axes.
Shape Tail(const Shape& shape, size_t axes) {
  return {shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end()};
}

// The cure for an array of height x width x channels; empty for other arrays.
std::string LayoutCure(const std::string& name, const Shape& given, const Shape& wanted,
                       InputUser user) {
  if (wanted.size() != 4 || (given.size() != 3 && given.size() != 4)) return "";
  const Shape last = Tail(given, 3);
  if (last != Shape{wanted[2], wanted[3], wanted[1]} || last == Tail(wanted, 3)) return "";
  const bool one = given.size() == 3;
  std::string text = Concat("; it looks like height x width x channels: give ", name, ".transpose",
                            one ? "(2, 0, 1)[numpy.newaxis]" : "(0, 3, 1, 2)");
  if (!one && given[0] != wanted[0] && user == InputUser::kForward) {
    text += ", and that to net.forward_all, which takes any number of items";
  }
  return text;
}

}  // namespace

std::string InputShapeFault(const std::string& name, const Shape& given, const Shape& wanted,
                            InputUser user) {
  const bool forward = user == InputUser::kForward;
  const std::string shape = Tuple(given);
  const std::string begin = Concat(name, ": shape ", shape);
  const std::string misfit =
      Concat(begin, " does not fit blob ", name, ", whose shape is ", Tuple(wanted));
  const std::string reshape = Concat("net.blobs['", name, "'].reshape(",
                                     shape.substr(1, shape.find_last_not_of(",)")), ")");
  const std::string layout = LayoutCure(name, given, wanted, user);
  if (!layout.empty()) return misfit + layout;
  if (!wanted.empty() && given == Tail(wanted, wanted.size() - 1)) {
    const std::string one_item = name + "[numpy.newaxis]";
    return Concat(misfit, "; one item has no axis for the batch: ",
                  wanted[0] == 1 || !forward
                      ? "give " + one_item
                      : Concat("net.forward_all(", name, "=", one_item, ") runs it"));
  }
  const bool equal_axes = given.size() == wanted.size();
  if (equal_axes && !given.empty() && (forward || given[0] > wanted[0]) &&
      Tail(given, given.size() - 1) == Tail(wanted, wanted.size() - 1)) {
    if (!forward) {
      return Concat(begin, " is more than one batch of ", wanted[0], "; give at most ", wanted[0],
                    " items in a batch, or call ", reshape, " first");
    }
    return Concat(begin, " is not one batch of ", wanted[0], "; net.forward_all(", name,
                  "=…) takes any number of items, or call ", reshape, " first");
  }
  if (ShapeCount(given) == ShapeCount(wanted)) {
    return Concat(misfit, "; it has as many elements: give ", name, ".reshape", Tuple(wanted));
  }
  if (equal_axes) return Concat(misfit, "; for inputs of this size call ", reshape, " first");
  return misfit;
}

}  // namespace caffe
