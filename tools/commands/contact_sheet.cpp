#include "commands/contact_sheet.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "commands/bitmap_font.hpp"

namespace caffe {
namespace {

constexpr int kSide = 216, kGap = 8;

void Copy(const Image& picture, int x, int y, Image* sheet) {
  for (int row = 0; row < picture.height; ++row) {
    const auto from = picture.pixels.begin() + static_cast<int64_t>(row) * picture.width * 3;
    std::copy(from, from + static_cast<int64_t>(picture.width) * 3,
              sheet->pixels.begin() + (static_cast<int64_t>(y + row) * sheet->width + x) * 3);
  }
}

}  // namespace

Image Thumbnail(Image image) {
  const double factor = static_cast<double>(kSide) / std::max(image.height, image.width);
  const int height = std::max<int>(1, static_cast<int>(std::lround(image.height * factor))),
            width = std::max<int>(1, static_cast<int>(std::lround(image.width * factor)));
  // Half the size is a mean, so that no rows are left out.
  while (image.height >= 2 * height && image.width >= 2 * width) {
    image = ResizeBilinear(image, image.height / 2, image.width / 2);
  }
  return ResizeBilinear(image, height, width);
}

Image ContactSheet(const std::vector<SheetCell>& cells) {
  CAFFE_CHECK(!cells.empty() && cells.size() <= kMostCells, "a contact sheet has ", cells.size(),
              " cells; it can have 1 to ", kMostCells);
  const auto count = static_cast<int>(cells.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(count)));
  const int rows = (count + columns - 1) / columns;
  size_t lines = 0;
  for (const SheetCell& cell : cells) lines = std::max(lines, cell.lines.size());
  const int high = kSide + 4 + static_cast<int>(lines) * kLineHeight + kGap, wide = kSide + kGap;
  Image sheet{rows * high + kGap, columns * wide + kGap, 3, {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.height) * sheet.width * 3, 255);
  const Image grey{kSide, kSide, 3, std::vector<uint8_t>(size_t{kSide} * kSide * 3, 200)};
  for (int i = 0; i < count; ++i) {
    const int x = kGap + i % columns * wide, y = kGap + i / columns * high;
    const Image& picture = cells[i].picture.pixels.empty() ? grey : cells[i].picture;
    CAFFE_CHECK(picture.channels == 3 && picture.height <= kSide && picture.width <= kSide,
                "a picture of a contact sheet has ", picture.height, " x ", picture.width, " x ",
                picture.channels, " bytes; use Thumbnail");
    Copy(picture, x + (kSide - picture.width) / 2, y + (kSide - picture.height) / 2, &sheet);
    int line = y + kSide + 4;
    for (const std::string& text : cells[i].lines) {
      DrawText(text.substr(0, kSide / kLetterWidth), x, line, &sheet);
      line += kLineHeight;
    }
  }
  return sheet;
}

}  // namespace caffe
