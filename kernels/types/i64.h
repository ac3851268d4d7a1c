// Plain integers, for sums of quant16 products: IN(i64, x).
typedef i64 storage_i64;
DEVICE_FN i64 load_i64(GLOBAL const i64* p, i64 i, i32 zero) { return p[i]; }
DEVICE_FN void store_i64(GLOBAL i64* p, i64 i, i32 zero, i64 v) { p[i] = v; }
