// Boxes: x0, y0 and x1, y1 are two corners. `pixel` is 1 for corners that are pixels, of which the
// last belongs to the box (R-CNN), and 0 for corners that are positions. Boxes are always float, so
// that results are the same in nets of every type.
DEVICE_FN float box_area(float x0, float y0, float x1, float y1, float pixel) {
  return x1 < x0 || y1 < y0 ? 0.0f : (x1 - x0 + pixel) * (y1 - y0 + pixel);
}

// The area of the intersection of the boxes a and b.
DEVICE_FN float box_intersection(float ax0, float ay0, float ax1, float ay1, float bx0, float by0,
                                 float bx1, float by1, float pixel) {
  const float x0 = ax0 > bx0 ? ax0 : bx0, y0 = ay0 > by0 ? ay0 : by0;
  const float x1 = ax1 < bx1 ? ax1 : bx1, y1 = ay1 < by1 ? ay1 : by1;
  const float width = x1 - x0 + pixel, height = y1 - y0 + pixel;
  return width > 0 && height > 0 ? width * height : 0.0f;
}

// The intersection of the boxes a and b, divided by their union; 0 if they do not touch.
DEVICE_FN float box_overlap(float ax0, float ay0, float ax1, float ay1, float bx0, float by0,
                            float bx1, float by1, float pixel) {
  const float both = box_intersection(ax0, ay0, ax1, ay1, bx0, by0, bx1, by1, pixel);
  const float all =
      box_area(ax0, ay0, ax1, ay1, pixel) + box_area(bx0, by0, bx1, by1, pixel) - both;
  return both > 0 ? both / all : 0.0f;
}
