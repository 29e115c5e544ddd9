// vec.h: N elements moved by one memory instruction. The caller promises that the address is a multiple of
// N * sizeof(T), at most 16 bytes; one such move is then a single global_load/ds_read of up to four dwords.
#ifndef ROCFIRE_VEC_H
#define ROCFIRE_VEC_H
namespace rf {

template <class T, int N> struct alignas(sizeof(T) * N) Vec {
    static_assert(sizeof(T) * N <= 16, "a lane moves at most 16 bytes at once");
    T at[N];
    RF_FN T& operator[](int i) { return at[i]; }
    RF_FN const T& operator[](int i) const { return at[i]; }
};

template <int N, class T> RF_FN Vec<T, N> load(const T* from) { return *(const Vec<T, N>*)from; }
template <int N, class T> RF_FN void store(T* to, const Vec<T, N>& value) { *(Vec<T, N>*)to = value; }
// A load and its store. NVRTC takes a vector apart that goes through a function, and may then store it piece by piece.
template <int N, class T> RF_FN void move_whole(T* to, const T* from) { *(Vec<T, N>*)to = *(const Vec<T, N>*)from; }

#if !defined(RF_HOST)
// Keeps the compiler from holding on to what it has made of a register: it makes it again from what is there.
RF_FN void make_anew(u32& word) {
#if RF_DEVICE_AMD
    asm volatile("" : "+v"(word));
#else
    asm volatile("" : "+r"(word));
#endif
}
// Of what all lanes have alike, the compiler does not see through it: what depends on it is done where it is written.
RF_FN void hide(int& word) {
#if RF_DEVICE_AMD
    asm volatile("" : "+s"(word));
#else
    asm volatile("" : "+r"(word));
#endif
}
// Keeps AMD's compiler from moving anything across it: from reading everything ahead, into registers that are not there.
RF_FN void hold_schedule() {
#if RF_DEVICE_AMD
    __builtin_amdgcn_sched_barrier(0);
#endif
}
#endif

#if RF_DEVICE_AMD && (ARCH_MATRIX == ARCH_MATRIX_MFMA || ARCH_MATRIX == ARCH_MATRIX_WMMA11 || ARCH_MATRIX == ARCH_MATRIX_WMMA12)
// Bytes of memory behind which everything reads as zeros: the range check of a buffer's descriptor takes the place of comparisons.
typedef int BufferWords __attribute__((ext_vector_type(4)));
typedef int BufferHalf __attribute__((ext_vector_type(2)));
__device__ BufferWords load_buffer_16(BufferWords, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__device__ BufferHalf load_buffer_8(BufferWords, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
struct BufferResource {
    // An offset that is outside of every one.
    static const u32 NOWHERE = 0x80000000u;
    BufferWords words;

    // Fewer than 2^31 bytes. All of a wave have the same.
    RF_FN BufferResource(const void* first, u32 bytes) {
        words[0] = (int)(u64)first;
        words[1] = (int)((u64)first >> 32 & 0xffffu);
        words[2] = (int)bytes;
        // Untyped dwords; on RDNA offsets are checked in bytes.
        words[3] = ARCH_MATRIX == ARCH_MATRIX_MFMA ? 0x00027000 : 0x31004000;
    }
    // N words at `offset` bytes and `shared` more, which all of a wave have; their sum is a multiple of the words' size.
    template <int N> RF_FN Vec<u32, N> load(u32 offset, u32 shared = 0) const {
        static_assert(N == 2 || N == 4, "8 or 16 bytes");
        Vec<u32, N> to;
        if (N == 4) {
            const BufferWords loaded = load_buffer_16(words, (int)offset, (int)shared, 0);
            __builtin_memcpy(&to, &loaded, sizeof(to));
        } else {
            const BufferHalf loaded = load_buffer_8(words, (int)offset, (int)shared, 0);
            __builtin_memcpy(&to, &loaded, sizeof(to) < 8 ? sizeof(to) : 8);
        }
        return to;
    }
};
#endif

#if !RF_DEVICE_AMD && !defined(RF_HOST)
// Starts a copy of 16 bytes to shared memory at `to`, past the registers; zeros if not `there`. Copies are done when
// `async_wait` has said so of their group and a barrier has followed.
RF_FN void copy_async(u32 to, const void* from, bool there) {
    asm volatile("{ .reg .u64 global; cvta.to.global.u64 global, %1; cp.async.cg.shared.global [%0], [global], 16, %2; }"
                 :
                 : "r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
// The same if there is one to be made: without a branch, which would keep products from being issued between copies.
RF_FN void copy_async_if(bool any, u32 to, const void* from, bool there) {
    asm volatile("{ .reg .u64 global; .reg .pred any; setp.ne.u32 any, %3, 0; cvta.to.global.u64 global, %1; "
                 "@any cp.async.cg.shared.global [%0], [global], 16, %2; }"
                 :
                 : "r"(to), "l"(from), "r"(there ? 16 : 0), "r"((u32)any)
                 : "memory");
}
// Ends a group of copies, which may be empty.
RF_FN void async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until no more than OPEN groups are under way.
template <int OPEN> RF_FN void async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(OPEN) : "memory"); }
#endif

// What is read once, by one lane: of NVIDIA's L1 it takes nothing.
template <int N> RF_FN Vec<u32, N> load_past_l1(const u32* from) {
#if !RF_DEVICE_AMD
    if (N == 4) {
        Vec<u32, N> words;
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1 % N]), "=r"(words[2 % N]), "=r"(words[3 % N])
                     : "l"(from));
        return words;
    }
#endif
    return load<N>(from);
}

// How many elements of T fill a 16-byte access.
template <class T> struct PerLane { static const int value = 16 / sizeof(T); };

}  // namespace rf
#endif
