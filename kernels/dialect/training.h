// Numbers that the solver and its kernels share; C++ includes them, too. Indices of the values in
// `reals` (StepState::Real), and the elements that have one pair of multipliers (ParameterArena).
#define STEP_RATE 0
#define STEP_LOSS_SCALE 1
#define STEP_SKIP 2
#define STEP_FACTOR 3
#define STEP_CORRECTION 4
#define STEP_GOOD_STEPS 5
#define STEP_NORM 6
#define STEP_SKIPPED_STEPS 7
#define PARAMETER_BLOCK 64
