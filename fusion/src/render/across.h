// across.h: reads quads of two neighbouring rows for a lane, for rows that lie side by side. Follows schedule.h.
namespace rf {
namespace fuse {

// A quad of two neighbouring rows of 16-bit floats as it is in memory: a word has an element of each row. So a lane can read all
// tensors before it converts any word. If both rows are the same in the tensor, only the lower half of a word is read.
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
// The same for other types, whose elements are converted at once.
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
