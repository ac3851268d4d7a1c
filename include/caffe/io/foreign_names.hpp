#pragma once

#include <span>
#include <string>
#include <string_view>

namespace caffe {

// A layer type of another Caffe that this library does not have.
struct ForeignLayer {
  std::string_view type;
  std::string_view origin;  // "SSD"
  std::string_view field;   // its message in LayerParameter, if this library does not have it
  std::string_view advice;  // what to do instead
};

// A field of another Caffe that changes results and that this library does not have.
struct ForeignField {
  std::string_view message;  // caffe.LayerParameter
  std::string_view field;
  std::string_view origin;
  std::string_view advice;
};

std::span<const ForeignLayer> ForeignLayers();
std::span<const ForeignField> ForeignFields();

// The origin of a type and what to do, as "PriorBox: a layer of SSD, not in Cortado; …"; else "".
std::string DescribeForeignLayer(std::string_view type);
// The same for a field, which may be the message of a foreign layer.
std::string DescribeForeignField(std::string_view message, std::string_view field);

}  // namespace caffe
