// Private arrays in scratch, generic and far addresses, narrow loads and stores, calls, loops and scalar branches.

#define GLOBAL extern "C" __attribute__((global))
#define DEVICE __attribute__((device, noinline))
#define LANE __builtin_amdgcn_workitem_id_x()

GLOBAL void private_array(int *out, const int *index, int n) {
    int local[32];
    for (int i = 0; i < 32; i++) local[i] = index[i * 64 + LANE] * i;
    for (int i = 0; i < n; i++) local[index[i] & 31] += local[index[i + 1] & 31];
    out[LANE] = local[index[LANE] & 31];
}

DEVICE long collatz(long n, int *steps) {
    while (n != 1) n = n & 1 ? 3 * n + 1 : n >> 1, ++*steps;
    return n;
}

GLOBAL void calls(long *out, const long *a) {
    int steps = 0;
    out[LANE] = collatz(a[LANE], &steps) + steps;
}

GLOBAL void narrow(unsigned char *bytes, short *halves, const signed char *in, int far) {
    bytes[LANE * 2 + 1] = in[LANE + 4095] + in[LANE + 100000];
    halves[LANE + far * 1000L] = in[LANE] << 3;
    halves[LANE] += (short)bytes[LANE];
}

GLOBAL void generic(int *out, int which) {
    __attribute__((shared)) static int shared[64];
    int mine[4] = {which, 1, 2, 3};
    int *p = which > 3 ? &shared[LANE] : which ? &mine[which & 3] : &out[LANE + 64];
    shared[LANE] = 1;
    *p += 5;
    out[LANE] = *p + mine[LANE & 3];
}

GLOBAL void loops(unsigned *out, const unsigned *table, unsigned n, float scale) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned v = table[i];
        if (v & 1) sum += v * 2654435761u;
        else if (v > 1000) sum ^= out[(LANE + v) & 1023];
        switch (v & 7) {
        case 1: sum += 11; break;
        case 2: sum = __builtin_bitreverse32(sum); break;
        case 5: sum = (unsigned)((float)sum * scale); break;
        }
    }
    out[LANE] = sum;
    __builtin_nontemporal_store(sum, &out[LANE + 1024]);
}
