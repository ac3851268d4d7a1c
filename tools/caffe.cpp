#include "commands/commands.hpp"

int main(int argc, char** argv) { return caffe::CaffeMain({argv + 1, argv + argc}, argv[0]); }
