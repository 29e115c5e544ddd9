// rows.h: one workgroup per row of a matrix, its elements in registers where they fit, so that they are read once.
#ifndef CANDLE_ROWS_H
#define CANDLE_ROWS_H

// Elements of a row that a lane keeps, and the two block sizes: rows of 1024 elements or fewer fit 64 lanes, of 4096 the 256.
#define CANDLE_KEPT 16
#define CANDLE_SHORT_ROW_BLOCK 64
#define CANDLE_ROW_BLOCK 256

// What a row's sums are kept in.
template <class T> struct RowSum { typedef float type; };
template <> struct RowSum<double> { typedef double type; };

// Elements that one access moves: a lane has so many that follow each other.
template <class T> struct RowRun { static const u32 value = 16 / sizeof(T) < CANDLE_KEPT ? 16 / sizeof(T) : CANDLE_KEPT; };

// The rows of a matrix in memory: W elements from element `n` of it on.
template <class T> struct InMemory {
    const T* x;
    template <int W> RF_FN void load(u64 n, T* to) const {
        if (W == 1) {
            *to = x[n];
        } else {
            load_run<W>(x + n, to);
        }
    }
    template <int W> RF_FN bool has_runs() const { return is_aligned<T, W>(x); }
};

// A row as lanes see it: runs of RowRun elements, lane by lane, and again behind all lanes. `From` gives the elements; those
// beyond the kept ones it is asked for again. Which lane has an element does not depend on whether runs can be loaded whole.
template <class T, class From> struct Row {
    typedef typename RowSum<T>::type W;
    static const u32 RUN = RowRun<T>::value;
    From from;
    u64 first;
    u32 columns, lane, lanes;
    bool whole;
    W kept[CANDLE_KEPT];

    RF_FN Row(const From& from_, u32 columns_) : from(from_), columns(columns_), lane(thread_x()) {
        first = (u64)group_x() * columns;
        lanes = columns <= CANDLE_KEPT * CANDLE_SHORT_ROW_BLOCK ? CANDLE_SHORT_ROW_BLOCK : CANDLE_ROW_BLOCK;
        whole = columns % RUN == 0 && from.template has_runs<(int)RUN>();
        for (u32 i = 0; i < CANDLE_KEPT; i += RUN) load(column_of(i), kept + i);
    }
    RF_FN u32 column_of(u32 i) const { return i * lanes + lane * RUN; }
    // A run, with zeros behind the row's end.
    RF_FN void load(u32 column, W* to) const {
        T given[RUN];
        if (whole) {
            if (column < columns) from.template load<(int)RUN>(first + column, given);
        } else {
            for (u32 j = 0; j < RUN; ++j)
                if (column + j < columns) from.template load<1>(first + column + j, given + j);
        }
        for (u32 j = 0; j < RUN; ++j) to[j] = column + j < columns ? (W)Wide<T>::of(given[j]) : (W)0;
    }
    // Calls f(column, element) for each of the lane's elements, the kept ones first.
    template <class F> RF_FN void each(F& f) const {
        for (u32 i = 0; i < CANDLE_KEPT; i += RUN)
            for (u32 j = 0; j < RUN; ++j)
                if (column_of(i) + j < columns) f(column_of(i) + j, kept[i + j]);
        each_beyond(f);
    }
    // For those beyond the kept ones.
    template <class F> RF_FN void each_beyond(F& f) const {
        for (u32 column = column_of(CANDLE_KEPT); column < columns; column += lanes * RUN) {
            W run[RUN];
            load(column, run);
            for (u32 j = 0; j < RUN; ++j)
                if (column + j < columns) f(column + j, run[j]);
        }
    }
};

#endif
