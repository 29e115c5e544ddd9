// epilogue.h: a graph as the end of another kernel. That kernel is the schedule: it says which lane has which elements of its result.
// An end is started at the result's first element, moved along its axes, which count from the last, and given elements from there.
// Follows fuse.h.
//
// A functor G that takes single elements (`EndOfElements`) has
//
//   Result                       an element of the kernel's result in memory
//   Written                      what is stored of an element
//   step(args, down, right, result, written)
//                                reads what else there is of an element some lines down and columns right, and computes it
//   write(args, down, right, written)
//                                stores it
namespace rf {
namespace fuse {

// A tensor of the result's shape as the launch describes it: the element at coordinates 0, and bytes from one to the next along each
// axis.
struct EndTensor {
    u64 base;
    i64 stride[8];
};

// What a functor begins with: where the kernel stands in each tensor.
template <class ARGS, int TENSORS> struct Standing {
    typedef ARGS Args;
    u64 at[TENSORS];

    RF_FN void start(const Args& a) {
#pragma unroll
        for (int k = 0; k < TENSORS; ++k) at[k] = a.tensor[k].base;
    }
    RF_FN void move(const Args& a, int axis, i64 by) {
#pragma unroll
        for (int k = 0; k < TENSORS; ++k) at[k] += (u64)(by * a.tensor[k].stride[axis]);
    }
    template <class S> RF_FN S* place(const Args& a, int tensor, i64 down, i64 right) const {
        return (S*)(memory(at[tensor]) + (down * a.tensor[tensor].stride[1] + right * a.tensor[tensor].stride[0]));
    }
    template <class S> RF_FN typename Reg<S>::type get(const Args& a, int tensor, i64 down, i64 right) const {
        return Reg<S>::get(*place<const S>(a, tensor, down, right));
    }
    template <class S> RF_FN void put(const Args& a, int tensor, i64 down, i64 right, typename Reg<S>::type value) const {
        *place<S>(a, tensor, down, right) = Reg<S>::put(value);
    }
};

template <class G> struct EndOfElements : G {
    RF_FN void put(const typename G::Args& a, i64 down, i64 right, typename G::Result result) const {
        typename G::Written written;
        G::step(a, down, right, Reg<typename G::Result>::get(result), written);
        G::write(a, down, right, written);
    }
};

}  // namespace fuse
}  // namespace rf
