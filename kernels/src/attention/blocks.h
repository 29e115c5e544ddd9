// blocks.h: the main loop of attention whose KV tiles have ATTENTION_BLOCKS blocks of STREAMED_ROWS keys, on AMD's matrix unit.
// A tile of K and of V is loaded by all waves while the one before it is worked on; a wave reads the operands of a block together and
// waits for them once. Each block is weighed by itself, so that sums are those of tiles of one block, bit for bit.
#if ATTENTION_BLOCKS > 1
static_assert(ATTENTION_SIZE == STREAMED_ROWS && ATTENTION_TILES == 1 && !ATTENTION_EXTRA && C::FOURS, "a block is one product");

// Waits of GFX9: vmcnt(0), lgkmcnt(0), the other counters as high as they go.
#define WAIT_FOR_MEMORY 0x0f70
#define WAIT_FOR_LDS 0xc07f
// What was asked of memory, or of LDS, is there for all that follows, which need not wait again.
template <int COUNTERS> RF_FN void arrive() {
    hold_schedule();
    __builtin_amdgcn_s_waitcnt(COUNTERS);
    hold_schedule();
}

template <int DEPTH> struct KeyOperands {
    static const int GROUPS = DEPTH / C::GROUP;
    C::Operand held[GROUPS][C::STEPS];

    RF_FN void read(const Lane& at, Rows lds) {
        const Reader<DEPTH> reader(lds, at.lane);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) reader.read_streamed(0, group, held[group]);
    }
    RF_FN void multiply(const Lane& at, const ResidentTile<DEPTH>& tile, Real* values) const {
        C::Accumulator sum;
        sum = 0;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            C::Operand resident[C::STEPS];
            tile.take(at, 0, group, resident);
#pragma unroll
            for (int s = 0; s < C::STEPS; ++s) sum = C::run(resident[s], held[group][s], sum);
        }
#pragma unroll
        for (int v = 0; v < Lane::VALUES; ++v) values[v] = sum[v];
    }
};

template <int DEPTH> struct ValueOperands {
    static const int PANELS = DEPTH / ATTENTION_SIZE;
    C::Operand held[PANELS][C::SCORE_OPERANDS];

    RF_FN void read(const Lane& at, Rows lds) {
        const OfValues::Read reader(lds, at.lane);
#pragma unroll
        for (int panel = 0; panel < PANELS; ++panel) {
            reader.read_transposed(0, panel, held[panel]);
            // The two fours of an operand are to be one read, not those of two panels, from where they would be moved.
            if (panel % 2) hold_schedule();
        }
    }
    // out += weights · values.
    template <class Sums> RF_FN void add(const C::Operand* weights, Sums& out) const {
#pragma unroll
        for (int panel = 0; panel < PANELS; ++panel)
#pragma unroll
            for (int s = 0; s < C::SCORE_OPERANDS; ++s) out.sum[panel][0] = C::run(weights[s], held[panel][s], out.sum[panel][0]);
    }
};

// Keys and values of a sequence's head, and where their tiles are in LDS.
struct Blocks {
    const In *k, *v;
    In *lds_k, *lds_v;
    Loader<ATTENTION_D> load_k;
    OfValues::Load load_v;

    RF_FN Blocks(const Problem& g, const In* k, const In* v, char* lds)
        : k(k), v(v), lds_k((In*)lds), lds_v(lds_k + TILE_ROWS * Row<ATTENTION_D>::LENGTH), load_k(g.k_row, g.depth),
          load_v(g.v_row, g.value_depth) {}
    RF_FN void fetch(const Problem& g, int first, int rows) {
        load_k.fetch(k, g.k_row, first, rows, g.depth);
        load_v.fetch(v, g.v_row, first, rows, g.value_depth);
    }
    RF_FN void put() const {
        arrive<WAIT_FOR_MEMORY>();
        load_k.put(lds_k);
        load_v.put(lds_v);
        barrier();
    }
    RF_FN Rows keys(int block) const { return lds_k + block * STREAMED_ROWS * Row<ATTENTION_D>::LENGTH; }
    RF_FN Rows values(int block) const { return lds_v + block * STREAMED_ROWS * ATTENTION_DV; }
};
#endif
