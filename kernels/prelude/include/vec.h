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

// How many elements of T fill a 16-byte access.
template <class T> struct PerLane { static const int value = 16 / sizeof(T); };

}  // namespace rf
#endif
