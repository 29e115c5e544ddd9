// across.h: quads of two neighbouring rows a lane, for rows that lie side by side. Follows schedule.h.
namespace rf {
namespace fuse {

// A quad of two neighbouring rows of a 16-bit float as memory has it, an element of each in a word: what a lane reads of all tensors
// is under way before any of it is made a number. Where the rows are one place, only the lower half is read.
template <class S> struct Across {
    u32 word[4];

    RF_FN void get(const Tensor& tensor, index_t offset, u32 count) {
        const char* from = memory(tensor.base);
        const index_t step = tensor.stride[0];
        if (tensor.stride[1] != 0) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                word[e] = (u32)e < count ? *(const u32*)(from + (index_t)(offset + (index_t)e * step)) : 0u;
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                word[e] = (u32)e < count ? (u32) * (const u16*)(from + (index_t)(offset + (index_t)e * step)) : 0u;
        }
    }
    RF_FN void put(float (&upper)[4], float (&lower)[4], const Tensor& tensor) const {
        const bool is_one = tensor.stride[1] == 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            upper[e] = Half<S>::low(word[e]);
            lower[e] = is_one ? upper[e] : Half<S>::high(word[e]);
        }
    }
};
// The same of other numbers, as numbers.
template <class S, class T>
RF_FN void load_rows(T (&upper)[4], T (&lower)[4], const Tensor& tensor, index_t place, u32 count) {
    T both[2][4];
    load_across<S>(both, tensor, place, count);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        upper[e] = both[0][e];
        lower[e] = both[1][e];
    }
}

}  // namespace fuse
}  // namespace rf
