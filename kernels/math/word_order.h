// The place of the byte of code i, of 32 codes of 16 bits, in each of the two planes of packed
// weights, and its inverse. split_words gives a lane bytes of its neighbours in this order.
#define WORD_PLACE(i) (((i) & 16) | ((i) & 6) << 1 | ((i) & 8) >> 2 | ((i) & 1))
#define WORD_AT(place) (((place) & 16) | ((place) & 12) >> 1 | ((place) & 2) << 2 | ((place) & 1))
