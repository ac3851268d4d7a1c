#include "wire_repair.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>

namespace caffe {
namespace {

constexpr uint64_t kNetLayer = 100, kLayerEngine = 149;
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

bool TakeVarint(std::string_view* rest, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest->empty()) return false;
    const auto byte = static_cast<unsigned char>(rest->front());
    rest->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

struct Field {
  uint64_t number = 0;
  std::string_view whole;    // with its tag
  std::string_view content;  // of a length-delimited field
};

std::optional<Field> TakeField(std::string_view* rest) {
  const std::string_view all = *rest;
  uint64_t tag, length = 0;
  if (!TakeVarint(rest, &tag)) return std::nullopt;
  Field field{tag >> 3, {}, {}};
  switch (tag & 7) {
    case kVarint:
      if (!TakeVarint(rest, &length)) return std::nullopt;
      length = 0;
      break;
    case kFixed64: length = 8; break;
    case kFixed32: length = 4; break;
    case kBytes:
      if (!TakeVarint(rest, &length)) return std::nullopt;
      break;
    default: return std::nullopt;
  }
  if (length > rest->size()) return std::nullopt;
  if ((tag & 7) == kBytes) field.content = rest->substr(0, length);
  rest->remove_prefix(length);
  field.whole = all.substr(0, all.size() - rest->size());
  return field;
}

// Engines are words like MKLDNN or CAFFE, or lists like MKLDNN:CPU,DLA.
bool LooksLikeEngine(std::string_view content) {
  return !content.empty() && std::isupper(static_cast<unsigned char>(content.front())) &&
         std::ranges::all_of(content, [](unsigned char c) {
           return std::isalnum(c) || c == ':' || c == ',' || c == ';' || c == '_';
         });
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

}  // namespace

std::string DropForeignLayerFields(std::string_view net) {
  std::string out;
  bool dropped = false;
  while (!net.empty()) {
    const auto field = TakeField(&net);
    if (!field) return "";
    if (field->number != kNetLayer || field->content.empty()) {
      out.append(field->whole);
      continue;
    }
    std::string layer;
    for (std::string_view rest = field->content; !rest.empty();) {
      const auto inner = TakeField(&rest);
      if (!inner) return "";
      if (inner->number == kLayerEngine && LooksLikeEngine(inner->content)) {
        dropped = true;
      } else {
        layer.append(inner->whole);
      }
    }
    AppendVarint(kNetLayer << 3 | kBytes, &out);
    AppendVarint(layer.size(), &out);
    out.append(layer);
  }
  return dropped ? out : "";
}

}  // namespace caffe
