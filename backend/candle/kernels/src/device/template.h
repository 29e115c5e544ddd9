// template.h: what templates have in common.
#ifndef CANDLE_TEMPLATE_H
#define CANDLE_TEMPLATE_H
using namespace rf;

// CUDA would copy arguments that are indexed to local memory.
#if RF_DEVICE_AMD
#define CANDLE_ARGUMENT
#else
#define CANDLE_ARGUMENT const __grid_constant__
#endif

#endif
