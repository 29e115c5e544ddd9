// rows.h: one workgroup per row of a matrix, its elements in registers where they fit, so that they are read once.
#ifndef CANDLE_ROWS_H
#define CANDLE_ROWS_H

// Elements of a row that a lane keeps, and the two block sizes: rows of 512 elements or fewer fit 64 lanes, of 2048 the 256.
#define CANDLE_KEPT 8
#define CANDLE_SHORT_ROW_BLOCK 64
#define CANDLE_ROW_BLOCK 256

// What a row's sums are kept in.
template <class T> struct RowSum { typedef float type; };
template <> struct RowSum<double> { typedef double type; };

// The rows of a matrix in memory: element `n` of it.
template <class T> struct InMemory {
    const T* x;
    RF_FN T at(u64 n) const { return x[n]; }
};

// A row as lanes see it: element `lane + i · lanes` is number i of a lane. `From` gives the elements; those beyond the kept
// ones it is asked for again.
template <class T, class From> struct Row {
    typedef typename RowSum<T>::type W;
    From from;
    u64 first;
    u32 columns, lane, lanes;
    W kept[CANDLE_KEPT];

    RF_FN Row(const From& from_, u32 columns_) : from(from_), columns(columns_), lane(thread_x()) {
        first = (u64)group_x() * columns;
        lanes = columns <= CANDLE_KEPT * CANDLE_SHORT_ROW_BLOCK ? CANDLE_SHORT_ROW_BLOCK : CANDLE_ROW_BLOCK;
        for (u32 i = 0; i < CANDLE_KEPT; ++i) {
            u32 column = lane + i * lanes;
            kept[i] = column < columns ? (W)Wide<T>::of(from.at(first + column)) : (W)0;
        }
    }
    // Calls f(column, element) for each of the lane's elements, the kept ones first.
    template <class F> RF_FN void each(F& f) const {
        for (u32 i = 0; i < CANDLE_KEPT; ++i) {
            u32 column = lane + i * lanes;
            if (column < columns) f(column, kept[i]);
        }
        for (u32 column = lane + CANDLE_KEPT * lanes; column < columns; column += lanes) 
            f(column, (W)Wide<T>::of(from.at(first + column)));
    }
};

#endif
