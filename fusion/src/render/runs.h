// runs.h: the epilogue of a kernel that hands over its result in runs of neighbouring columns, line after line. Follows epilogue.h and
// pairs.h.
//
// Values that vary by column only (a bias, the statistics of a normalisation, a root and a quotient of them) are computed once by
// `hold` and kept for all lines of a lane. `fetch` reads what else a line needs, so that the reads of several lines are under way
// together. `put` computes and stores the line. It computes the same as `EndOfElements`, two elements at a time.
//
// The functor G of a graph has
//
//   Result, WIDTH                the type of the kernel's result in memory, and how many elements a run has
//   TENSORS, modes(tensor)       how many tensors it has, and how a run of each lies
//   Kept, Read                   values per column that lines need, and inputs that only those are made of
//   Row, Written                 what a line reads and stores
//   read(line, kept, read), step(args, kept, read)
//                                read and compute the values per column
//   read(line, row)              reads what a line needs
//   step(args, kept, row, result, written)
//                                computes a line
//   write(line, written)         stores it
namespace rf {
namespace fuse {

// Where a run of a line lies in each tensor. The modes are constants, so that the compiler drops the other ways to read it.
template <int TENSORS> struct Line {
    Tensor tensor[TENSORS];
    index_t offset[TENSORS];
};

template <class S> RF_FN void unpack(Halves<S, 8>& to, const Vec<u32, 4>& words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to.word[i] = words[i];
}
template <class S> RF_FN void unpack(float (&to)[8], const Vec<u32, 4>& words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = Half<S>::low(words[i]);
        to[2 * i + 1] = Half<S>::high(words[i]);
    }
}

template <class G> struct EndOfRuns : G {
    typename G::Kept kept;

    // The run of a line some lines further down.
    RF_FN Line<G::TENSORS> line(const typename G::Args& a, i64 down) const {
        Line<G::TENSORS> line;
#pragma unroll
        for (int k = 0; k < G::TENSORS; ++k) {
            line.tensor[k].base = this->at[k];
            line.tensor[k].stride[0] = (index_t)a.tensor[k].stride[0];
            line.offset[k] = (index_t)(down * a.tensor[k].stride[1]);
        }
        G::modes(line.tensor);
        return line;
    }
    // Called at the first column of a run: computes the values per column and keeps them.
    RF_FN void hold(const typename G::Args& a) {
        typename G::Read read;
        G::read(line(a, 0), kept, read);
        G::step(a, kept, read);
    }
    RF_FN void fetch(const typename G::Args& a, i64 down, typename G::Row& row) const { G::read(line(a, down), row); }
    // `result`: the kernel's elements as they would be in memory.
    RF_FN void put(const typename G::Args& a, i64 down, const Vec<u32, 4>& result, const typename G::Row& row) const {
        Several<typename G::Result, G::WIDTH> elements;
        typename G::Written written;
        unpack<typename G::Result>(elements, result);
        G::step(a, kept, row, elements, written);
        G::write(line(a, down), written);
    }
};

}  // namespace fuse
}  // namespace rf
