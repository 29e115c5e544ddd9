// across.h: what kernels stand on whose lanes take two neighbouring rows. Follows fuse.h.

// A quad of two neighbouring rows of a 16-bit float as memory has it, an element of each in a word: what a lane reads of all tensors
// is under way before any of it is made a number. Where the rows are one place, only the lower half is read.
template <class S> struct Across {
    rf::u32 word[4];

    RF_FN void get(const fuse::Tensor& tensor, index_t offset, rf::u32 count) {
        const char* from = fuse::memory(tensor.base);
        const index_t step = tensor.stride[0];
        if (tensor.stride[1] != 0) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                word[e] = (rf::u32)e < count ? *(const rf::u32*)(from + (index_t)(offset + (index_t)e * step)) : 0u;
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                word[e] = (rf::u32)e < count ? (rf::u32) * (const rf::u16*)(from + (index_t)(offset + (index_t)e * step)) : 0u;
        }
    }
    RF_FN void put(float (&to)[2][4], const fuse::Tensor& tensor) const {
        const bool is_one = tensor.stride[1] == 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            to[0][e] = fuse::Half<S>::low(word[e]);
            to[1][e] = is_one ? to[0][e] : fuse::Half<S>::high(word[e]);
        }
    }
};
