// window.h: the images that Candle's convolution and pooling kernels read, [batch, channels, height, width] or
// [batch, channels, length], of any strides.
#ifndef CANDLE_WINDOW_H
#define CANDLE_WINDOW_H

// Extents and strides of `axes` words each, from word `at` of info.
struct Extents {
    const Info& info;
    u32 at, axes;
    RF_FN u64 extent(u32 axis) const { return info.words[at + axis]; }
    RF_FN u64 stride(u32 axis) const { return info.words[at + axes + axis]; }
};

// Number n split by extents, the last axis first.
struct LinearIndex {
    u64 rest;
    RF_FN u64 take(u64 extent) {
        // Candle counts elements in 32 bits, and those divisions are several times as fast.
        u32 whole = (u32)rest / (u32)extent;
        u64 part = (u32)rest - whole * (u32)extent;
        rest = whole;
        return part;
    }
};

#endif
