#include "caffe/io/unknown_names.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr size_t kMostListed = 100, kMostBytes = 1000;

}  // namespace

void UnknownNames::Add(int line, const std::string& what, const std::string& description) {
  items_.push_back({line, Shortened(what), description});
}

void UnknownNames::AddMore(size_t count) { more_ += count; }

std::string UnknownNames::ToString() const {
  const auto where = [](const Item& item) {
    return (item.line > 0 ? Concat("line ", item.line, ": ") : "") + item.what;
  };
  if (size() == 1 && items_.size() == 1) {
    const Item& item = items_[0];
    return where(item) + (item.description.empty() ? "" : "; " + item.description);
  }
  std::vector<Item> sorted = items_;
  std::ranges::stable_sort(sorted, {}, &Item::line);
  std::string text = Concat(size(), " unknown names:");
  std::vector<std::string> descriptions;
  if (sorted.size() > kMostListed) sorted.resize(kMostListed);
  for (const Item& item : sorted) {
    text += "\n  " + where(item);
    if (!item.description.empty() && !std::ranges::count(descriptions, item.description)) {
      descriptions.push_back(item.description);
    }
  }
  if (size() > sorted.size()) text += Concat("\n  and ", size() - sorted.size(), " more");
  for (const std::string& description : descriptions) text += "\n" + description;
  return text;
}

std::string Shortened(const std::string& text) {
  return text.size() <= kMostBytes ? text : text.substr(0, kMostBytes) + "…";
}

std::string LayerLabel(const std::string& name, const std::string& type) {
  if (name.empty()) return type.empty() ? "a layer" : "a layer of type " + type;
  return Concat("layer ", name, type.empty() ? "" : " (" + type + ")");
}

std::string NetLabel(const std::string& name) { return name.empty() ? "the net" : "net " + name; }

}  // namespace caffe
