// SIDE x SIDE is the largest square of items in a group of GROUP; GroupSide of C++ returns the
// same.
#if GROUP >= 256
#define SIDE 16
#elif GROUP >= 64
#define SIDE 8
#elif GROUP >= 16
#define SIDE 4
#elif GROUP >= 4
#define SIDE 2
#else
#define SIDE 1
#endif
