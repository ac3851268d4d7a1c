//! types: once
// Lists of candidates, sorted by score. A row has `runs` lists in `stride` elements each, of which
// counts[row, list] are used; keys are scores, ids say what they belong to. Better candidates come
// first; of equal ones that of the earlier list.
#include "math/box_overlap.h"

// Merges neighbouring lists of `width` runs each, of which only the first `limit` elements are
// kept: the result of a pair is at its first run. A work item makes `chunk` elements of a result,
// which divides 2 width stride. It finds the first of them by bisection: where as many elements of
// both lists together come before it.
KERNEL(box_merge, ARG(i64, n), ARG(i64, chunks), ARG(i64, chunk), ARG(i64, runs), ARG(i64, stride),
       ARG(i64, width), ARG(i64, limit), IN(f32, keys), IN(i32, ids), IN(i32, counts),
       OUT(f32, keys_out), OUT(i32, ids_out), OUT(i32, counts_out)) {
  FOR_EACH_GROUP(i, n) {
    const Index row = i / chunks, first = (i - row * chunks) * chunk;
    const Index run = first / (2 * width * stride) * (2 * width), begin = first - run * stride;
    const Index a_count = LOAD(i32, counts, row * runs + run);
    const Index b_count = run + width < runs ? LOAD(i32, counts, row * runs + run + width) : 0;
    const Index all = a_count + b_count, total = all < limit ? all : limit;
    if (begin == 0) STORE(i32, counts_out, row * runs + run, (i32)total);
    if (begin < total) {
      const Index end = begin + chunk < total ? begin + chunk : total;
      const Index a_at = row * runs * stride + run * stride, b_at = a_at + width * stride;
      // The number of elements of a among the first `begin` of the result is in [low, high].
      Index low = begin > b_count ? begin - b_count : 0, high = begin < a_count ? begin : a_count;
      while (low < high) {
        const Index middle = (low + high) / 2;
        const i32 before = LOAD(f32, keys, a_at + middle) >=
                           LOAD(f32, keys, b_at + begin - middle - 1);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
      }
      Index a = low, b = begin - low;
      for (Index k = begin; k < end; ++k) {
        const i32 from_a =
            a < a_count &&
            (b >= b_count || LOAD(f32, keys, a_at + a) >= LOAD(f32, keys, b_at + b));
        const Index at = from_a ? a_at + a : b_at + b;
        STORE(f32, keys_out, a_at + k, LOAD(f32, keys, at));
        STORE(i32, ids_out, a_at + k, LOAD(i32, ids, at));
        a += from_a;
        b += 1 - from_a;
      }
    }
  }
}

// Keeps the candidates of each list whose overlap with every better one that was kept is at most
// `threshold`, at most `limit` of them. After each one the threshold is multiplied by eta while it
// is above 0.5. List i belongs to image i / lists; its ids are class * priors + prior, and its
// boxes are those of [images, priors, box_classes, 4]: of the class, or of all classes.
KERNEL(box_suppress, ARG(i64, n), ARG(i64, lists), ARG(i64, priors), ARG(i64, box_classes),
       ARG(i64, stride), ARG(i64, stride_out), ARG(i64, limit), ARG(Acctype, threshold),
       ARG(Acctype, eta), ARG(Acctype, pixel), IN(f32, boxes), IN(f32, keys), IN(i32, ids),
       IN(i32, counts), ARG(i64, count_stride), OUT(f32, keys_out), OUT(i32, ids_out),
       OUT(i32, counts_out)) {
  FOR_EACH_GROUP(i, n) {
    const Index image = i / lists, count = LOAD(i32, counts, i * count_stride);
    const Index from = i * stride, to = i * stride_out;
    Index kept = 0;
    float bound = (float)threshold;
    for (Index k = 0; k < count && kept < limit; ++k) {
      const Index id = LOAD(i32, ids, from + k), c = id / priors, prior = id - c * priors;
      const Index at = ((image * priors + prior) * box_classes + (box_classes > 1 ? c : 0)) * 4;
      const float x0 = LOAD(f32, boxes, at), y0 = LOAD(f32, boxes, at + 1);
      const float x1 = LOAD(f32, boxes, at + 2), y1 = LOAD(f32, boxes, at + 3);
      i32 keep = 1;
      for (Index j = 0; j < kept && keep; ++j) {
        const Index other = LOAD(i32, ids_out, to + j), d = other / priors;
        const Index o = ((image * priors + other - d * priors) * box_classes +
                         (box_classes > 1 ? d : 0)) * 4;
        keep = box_overlap(x0, y0, x1, y1, LOAD(f32, boxes, o), LOAD(f32, boxes, o + 1),
                           LOAD(f32, boxes, o + 2), LOAD(f32, boxes, o + 3),
                           (float)pixel) <= bound;
      }
      if (keep) {
        STORE(f32, keys_out, to + kept, LOAD(f32, keys, from + k));
        STORE(i32, ids_out, to + kept, (i32)id);
        kept += 1;
        bound = eta < 1 && bound > 0.5f ? bound * (float)eta : bound;
      }
    }
    STORE(i32, counts_out, i, (i32)kept);
  }
}

// How many ids of the list of an image belong to each class. Item i is class i % classes of image
// i / classes, whose list begins at `stride` times the image.
KERNEL(box_shares, ARG(i64, n), ARG(i64, classes), ARG(i64, priors), ARG(i64, stride),
       IN(i32, ids), IN(i32, counts), ARG(i64, count_stride), OUT(i32, shares)) {
  FOR_EACH_GROUP(i, n) {
    const Index image = i / classes, c = i - image * classes;
    const Index count = LOAD(i32, counts, image * count_stride);
    i32 share = 0;
    for (Index k = 0; k < count; ++k) {
      share += LOAD(i32, ids, image * stride + k) / (i32)priors == (i32)c;
    }
    STORE(i32, shares, i, share);
  }
}

// offsets[i] is the sum of the first i shares, for i from 0 to n. One work item.
KERNEL(box_offsets, ARG(i64, one), ARG(i64, n), IN(i32, shares), OUT(i32, offsets)) {
  FOR_EACH_GROUP(g, one) {
    i32 sum = 0;
    for (Index i = 0; i < n; ++i) {
      STORE(i32, offsets, i, sum);
      sum += LOAD(i32, shares, i);
    }
    STORE(i32, offsets, n, sum);
  }
}

// The rows (image, label, score, x0, y0, x1, y1) of the first shares[i] candidates of each list, in
// the order of the lists. The label of class c is c + first_label. Arguments are those of
// box_suppress.
KERNEL(box_rows, ARG(i64, n), ARG(i64, lists), ARG(i64, priors), ARG(i64, box_classes),
       ARG(i64, stride), ARG(i64, first_label), IN(f32, boxes), IN(f32, keys), IN(i32, ids),
       IN(i32, offsets), OUT(f32, rows)) {
  FOR_EACH_GROUP(i, n) {
    const Index image = i / lists, first = LOAD(i32, offsets, i);
    const Index count = LOAD(i32, offsets, i + 1) - first;
    for (Index k = 0; k < count; ++k) {
      const Index id = LOAD(i32, ids, i * stride + k), c = id / priors, prior = id - c * priors;
      const Index from = ((image * priors + prior) * box_classes + (box_classes > 1 ? c : 0)) * 4;
      const Index to = (first + k) * 7;
      STORE(f32, rows, to, (float)image);
      STORE(f32, rows, to + 1, (float)(c + first_label));
      STORE(f32, rows, to + 2, LOAD(f32, keys, i * stride + k));
      STORE(f32, rows, to + 3, LOAD(f32, boxes, from));
      STORE(f32, rows, to + 4, LOAD(f32, boxes, from + 1));
      STORE(f32, rows, to + 5, LOAD(f32, boxes, from + 2));
      STORE(f32, rows, to + 6, LOAD(f32, boxes, from + 3));
    }
  }
}

// The rows of images where nothing was found: the image, then -1.
KERNEL(box_no_rows, ARG(i64, images), OUT(f32, rows)) {
  FOR_EACH_GROUP(i, images * 7) {
    STORE(f32, rows, i, i % 7 == 0 ? (float)(i / 7) : -1.0f);
  }
}

// The regions (image, x0, y0, x1, y1) and the scores of the candidates of one list for each image.
// Arguments are those of box_rows; scores are written if `scored`.
KERNEL(box_regions, ARG(i64, images), ARG(i64, priors), ARG(i64, stride), ARG(i32, scored),
       IN(f32, boxes), IN(f32, keys), IN(i32, ids), IN(i32, offsets), OUT(f32, regions),
       OUT(f32, scores)) {
  FOR_EACH_GROUP(i, images) {
    const Index first = LOAD(i32, offsets, i), count = LOAD(i32, offsets, i + 1) - first;
    for (Index k = 0; k < count; ++k) {
      const Index from = (i * priors + LOAD(i32, ids, i * stride + k)) * 4;
      STORE(f32, regions, (first + k) * 5, (float)i);
      for (i32 j = 0; j < 4; ++j) {
        STORE(f32, regions, (first + k) * 5 + 1 + j, LOAD(f32, boxes, from + j));
      }
      if (scored) STORE(f32, scores, first + k, LOAD(f32, keys, i * stride + k));
    }
  }
}
