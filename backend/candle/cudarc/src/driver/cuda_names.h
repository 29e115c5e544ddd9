// CUDA's names over the prelude's, for kernels that users bring as text. NVRTC knows them itself.
#if RF_DEVICE_AMD
namespace rf_cuda {
struct Dim3 {
    unsigned int x, y, z;
};
RF_FN Dim3 threads() {
    return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()};
}
RF_FN Dim3 groups() {
    Dim3 block = threads();
    return {__builtin_amdgcn_grid_size_x() / block.x, __builtin_amdgcn_grid_size_y() / block.y,
            __builtin_amdgcn_grid_size_z() / block.z};
}
}  // namespace rf_cuda
#define threadIdx (rf_cuda::Dim3{rf::thread_x(), rf::thread_y(), rf::thread_z()})
#define blockIdx (rf_cuda::Dim3{rf::group_x(), rf::group_y(), rf::group_z()})
#define gridDim (rf_cuda::groups())
#define blockDim (rf_cuda::threads())
#define __syncthreads() rf::barrier_global()
#endif
// hiprtc has these by itself.
#if !defined(__HIPCC_RTC__)
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
#endif
