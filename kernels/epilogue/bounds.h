// EPILOGUE(v, row, column, at) is the value that a kernel stores for the sum v, an element of y at
// `at`. A builder defines it from the stages; see caffe/library/epilogue_stages.hpp. Without a
// define, and on the host, it clamps v to two bounds: that is Clip, ReLU (0 and infinity, with the
// same bits as relu_value) or the identity (-infinity and infinity).
#include "epilogue/clip.h"
#ifndef EPILOGUE
#define EPILOGUE(v, row, column, at) clip_value(v, activation_a, activation_b)
#endif
