// template.h: what the templates of this folder have in common.
#ifndef CANDLE_TEMPLATE_H
#define CANDLE_TEMPLATE_H
using namespace rf;

// An argument struct that is indexed. Without `__grid_constant__` CUDA copies it to local memory.
#if RF_DEVICE_AMD
#define CANDLE_ARGUMENT
#else
#define CANDLE_ARGUMENT const __grid_constant__
#endif

#endif
