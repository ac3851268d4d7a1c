// The functions of one element, by number, for host kernels whose arguments select one.
#include "../../include/caffe/library/element_functions.hpp"
#include "epilogue/absval.h"
#include "epilogue/bnll.h"
#include "epilogue/clip.h"
#include "epilogue/elu.h"
#include "epilogue/exp.h"
#include "epilogue/log.h"
#include "epilogue/power.h"
#include "epilogue/relu.h"
#include "epilogue/relu6.h"
#include "epilogue/sigmoid.h"
#include "epilogue/sum.h"
#include "epilogue/swish.h"
#include "epilogue/tanh.h"
#include "epilogue/threshold.h"
#define FUNCTION_NUMBER(name, ...) Function##name,
enum { FunctionNone, CAFFE_ELEMENT_FUNCTIONS(FUNCTION_NUMBER) };
