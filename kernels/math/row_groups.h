// Rows that are ordered by group, such as those of the experts in moe/route.h, each group with
// weights of its own. ROW_GROUPS is their number. `offsets` is an argument IN(f32, offsets),
// [ROW_GROUPS + 1]: the first item of each group; an item has `item_rows` rows. Items that are not
// in use belong to the last group.
//
// Each group has tiles of its own, of which the last one may stick out. A launch has
// RowGroupTiles (caffe/library/row_groups.hpp) of them, which is enough for all offsets; surplus
// tiles have no rows.
typedef struct {
  i32 group, begin, end;  // of the rows of a tile; `end` is that of its group's rows
} RowTile;

// Declares `found`: the rows of a tile, begin = end if there are none. Offsets that no routing
// gives, such as NaN, are bounded by the rows before and by all rows.
#define FIND_ROW_TILE(found, tile, tile_rows, item_rows, rows)                             \
  RowTile found = {0, 0, 0};                                                               \
  {                                                                                        \
    i32 first_ = 0, left_ = (tile);                                                        \
    _Pragma("unroll 16") for (i32 group_ = 0; group_ < ROW_GROUPS; ++group_) {             \
      const float given_ = LOAD(f32, offsets, group_ + 1);                                 \
      const float most_ = (float)((rows) / (item_rows));                                   \
      const i32 item_ = given_ > 0.0f ? (i32)(given_ < most_ ? given_ : most_) : 0;        \
      const i32 at_ = item_ * (item_rows), next_ = at_ > first_ ? at_ : first_;            \
      const i32 end_ = group_ + 1 < ROW_GROUPS ? next_ : (rows);                           \
      const i32 tiles_ = (end_ - first_ + (tile_rows) - 1) / (tile_rows);                  \
      if (left_ >= 0 && left_ < tiles_) {                                                  \
        found.group = group_;                                                              \
        found.begin = first_ + left_ * (tile_rows);                                        \
        found.end = end_;                                                                  \
      }                                                                                    \
      left_ -= tiles_;                                                                     \
      first_ = end_;                                                                       \
    }                                                                                      \
  }

// Declares `group`: that of an item.
#define FIND_GROUP(group, item)                                                            \
  i32 group = 0;                                                                           \
  _Pragma("unroll 16") for (i32 group_ = 1; group_ < ROW_GROUPS; ++group_) {               \
    group += (i32)LOAD(f32, offsets, group_) <= (item);                                    \
  }
