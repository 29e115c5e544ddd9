// epilogue.h: a graph as the epilogue of another kernel, which decides which lane has which elements of its result. The kernel starts
// the epilogue at the result's first element, moves it along the result's axes, which count from the last, and hands it elements from
// there on. Follows fuse.h.
//
// A functor G that takes single elements (`EndOfElements`) has
//
//   Result                       the type of the kernel's result in memory
//   Written                      the values of an element that are stored
//   step(args, down, right, result, written)
//                                reads the other tensors for the element some lines down and columns right, and computes it
//   write(args, down, right, written)
//                                stores it
namespace rf {
namespace fuse {

// A tensor of the result's shape in the arguments of a launch: the address of the element at coordinates 0, and the bytes from one
// element to the next along each axis.
struct EndTensor {
    u64 base;
    i64 stride[8];
};

// The base of a functor: where the kernel is in each tensor.
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
