// print.h: printf and assert in kernels.
//
// What a kernel prints goes into a buffer of its module's, `__rocfire_print`. The emulator reads it after the launch; on a real
// device the host reads it when it has waited for the device, and what was launched in between shares the buffer.
#ifndef ROCFIRE_HIP_PRINT_H
#define ROCFIRE_HIP_PRINT_H
#pragma clang system_header

// The bytes that a launch can print; what comes after is counted as lost.
#define ROCFIRE_PRINT_BYTES (1u << 20)

struct rocfire_print_buffer {
    unsigned used;  // bytes taken in `records`, or more than there are
    unsigned lost;  // records without room
    unsigned long long records[ROCFIRE_PRINT_BYTES / 8];
};
extern "C" {
inline __device__ rocfire_print_buffer __rocfire_print;
}

// A record is its length in words and the number of its arguments, the format's text, and the arguments: each a kind and a
// value, a text's followed by the text. A text is its length in bytes and the bytes, filled up to words.
enum rocfire_print_kind : unsigned long long { rocfire_integer, rocfire_real, rocfire_text };

ROCFIRE_DEVICE unsigned rocfire_text_bytes(const char *text) {
    unsigned bytes = 0;
    while (text != nullptr && text[bytes] != 0) bytes += 1;
    return bytes;
}
ROCFIRE_DEVICE unsigned rocfire_text_words(const char *text) { return 1 + (rocfire_text_bytes(text) + 7) / 8; }
ROCFIRE_DEVICE unsigned long long *rocfire_put_text(unsigned long long *at, const char *text) {
    unsigned bytes = rocfire_text_bytes(text);
    *at++ = bytes;
    for (unsigned first = 0; first < bytes; first += 8) {
        unsigned long long word = 0;
        for (unsigned i = 0; i < 8 && first + i < bytes; ++i) {
            word |= (unsigned long long)(unsigned char)text[first + i] << 8 * i;
        }
        *at++ = word;
    }
    return at;
}

// Words of an argument, and writing it; each kind of type has its own.
ROCFIRE_DEVICE unsigned rocfire_print_words(const char *text) { return 2 + rocfire_text_words(text); }
template <typename T>
ROCFIRE_DEVICE unsigned rocfire_print_words(const T &) { return 2; }
ROCFIRE_DEVICE unsigned long long *rocfire_print_put(unsigned long long *at, const char *text) {
    *at++ = rocfire_text;
    *at++ = (unsigned long long)text;
    return rocfire_put_text(at, text);
}
ROCFIRE_DEVICE unsigned long long *rocfire_print_put(unsigned long long *at, double value) {
    *at++ = rocfire_real;
    *at++ = rocfire_bits<unsigned long long>(value);
    return at;
}
ROCFIRE_DEVICE unsigned long long *rocfire_print_put(unsigned long long *at, float value) {
    return rocfire_print_put(at, (double)value);
}
ROCFIRE_DEVICE unsigned long long *rocfire_print_put(unsigned long long *at, _Float16 value) {
    return rocfire_print_put(at, (double)value);
}
template <typename T>
ROCFIRE_DEVICE unsigned long long *rocfire_print_put(unsigned long long *at, const T &value) {
    *at++ = rocfire_integer;
    *at++ = (unsigned long long)value;
    return at;
}

template <typename... Arguments>
static __device__ __attribute__((noinline, unused)) int rocfire_print(const char *format, Arguments... arguments) {
    unsigned words = 1 + rocfire_text_words(format);
    const unsigned each[sizeof...(arguments) + 1] = {0, rocfire_print_words(arguments)...};
    for (unsigned more : each) words += more;
    unsigned at = __hip_atomic_fetch_add(&__rocfire_print.used, words * 8, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    if (at > ROCFIRE_PRINT_BYTES || words * 8 > ROCFIRE_PRINT_BYTES - at) {
        __hip_atomic_fetch_add(&__rocfire_print.lost, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        return -1;
    }
    unsigned long long *place = __rocfire_print.records + at / 8;
    *place++ = (unsigned long long)sizeof...(arguments) << 32 | words;
    place = rocfire_put_text(place, format);
    unsigned long long *ends[] = {place, (place = rocfire_print_put(place, arguments))...};
    (void)ends;
    return (int)rocfire_text_bytes(format);
}

template <typename... Arguments>
ROCFIRE_DEVICE int printf(const char *format, Arguments... arguments) {
    return rocfire_print(format, arguments...);
}

// What <assert.h>'s macro calls. The kernel ends there, as a fault whose line is the assertion's.
extern "C" __device__ __attribute__((noreturn, weak)) inline void __assert_fail(const char *assertion, const char *file,
                                                                              unsigned line, const char *function) {
    rocfire_print("%s:%u: %s: Device-side assertion `%s' failed.\n", file, line, function, assertion);
    __builtin_trap();
}
#if defined(__HIPCC_RTC__)
#include <hip/rocfire/assert.h>
#endif

#endif
