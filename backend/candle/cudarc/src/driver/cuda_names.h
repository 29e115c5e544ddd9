// CUDA's names over the prelude's, for kernels that users bring as text. NVRTC knows them itself.
#if RF_DEVICE_AMD
namespace rf_cuda {
struct Dim3 {
    unsigned int x, y, z;
};
// Code object version 5: the counts of workgroups and the threads of one lie at the head of the hidden arguments.
RF_FN unsigned int hidden_u32(int at) {
    return ((const __attribute__((address_space(4))) unsigned int*)__builtin_amdgcn_implicitarg_ptr())[at];
}
RF_FN unsigned int hidden_u16(int at) {
    return ((const __attribute__((address_space(4))) unsigned short*)__builtin_amdgcn_implicitarg_ptr())[at];
}
}  // namespace rf_cuda
#define threadIdx (rf_cuda::Dim3{rf::thread_x(), rf::thread_y(), rf::thread_z()})
#define blockIdx (rf_cuda::Dim3{rf::group_x(), rf::group_y(), rf::group_z()})
#define gridDim (rf_cuda::Dim3{rf_cuda::hidden_u32(0), rf_cuda::hidden_u32(1), rf_cuda::hidden_u32(2)})
#define blockDim (rf_cuda::Dim3{rf_cuda::hidden_u16(6), rf_cuda::hidden_u16(7), rf_cuda::hidden_u16(8)})
#define __syncthreads() rf::barrier_global()
#endif
typedef rf::i8 int8_t;
typedef rf::u8 uint8_t;
typedef rf::i16 int16_t;
typedef rf::u16 uint16_t;
typedef rf::i32 int32_t;
typedef rf::u32 uint32_t;
typedef rf::i64 int64_t;
typedef rf::u64 uint64_t;
#if RF_DEVICE_AMD
typedef __SIZE_TYPE__ size_t;
#endif
