// Kernels of which some instructions more cost as many clocks as can be worked out by hand.

typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));

// Matrix instructions of eight passes that add to the same registers.
#define CHAIN(name, count)                                                                              \
    extern "C" __attribute__((global)) void name(float *out) {                                          \
        f32x16 sum = {};                                                                                \
        f16x4 one = {1, 1, 1, 1};                                                                       \
        asm volatile(".rept " #count "\n v_mfma_f32_32x32x8_f16 %0, %1, %1, %0\n .endr\n s_nop 15\n s_nop 3" \
                     : "+v"(sum)                                                                        \
                     : "v"(one));                                                                       \
        out[__builtin_amdgcn_workitem_id_x()] = sum[0];                                                 \
    }
CHAIN(chain_of_8, 8)
CHAIN(chain_of_72, 72)

// Loads of a dword, each waited for.
#define LOADS(name, count)                                                                              \
    extern "C" __attribute__((global)) void name(float *out) {                                          \
        float value;                                                                                    \
        float *from = out + __builtin_amdgcn_workitem_id_x();                                           \
        asm volatile(".rept " #count "\n global_load_dword %0, %1, off\n s_waitcnt vmcnt(0)\n .endr"    \
                     : "=&v"(value)                                                                     \
                     : "v"(from));                                                                      \
        *from = value + 1.0f;                                                                           \
    }
LOADS(loads_of_4, 4)
LOADS(loads_of_20, 20)
