/* join.cu - what the ranks of a group hand over at a COLL (core/op.h), on their devices, by one kernel a rank: it leaves
 * its rows, or codes of them, in memory that the others read by peer access, meets the others' kernels, and makes the
 * result. A large sum is made in two steps: a rank sums its chunk, codes the sums, meets the others again and takes
 * theirs (Flash Communication, section 3.2, algorithm 1).
 *
 * Block b reads only what blocks b of other ranks have left, so that blocks meet by number: each writes to all others
 * how often it has come, by a release, and reads its own memory by acquires until all have come as often. All blocks of
 * a kernel have to be on the device at once (JOIN_BLOCKS, JOIN_PER_PROCESSOR). A block that has waited too long stops
 * all ranks.
 *
 * Sums are those of comm/coll_two_step.c and coll_one_shot.c in every bit: of each element in the order of ranks, coded
 * before and after by the definition of the codec (tensor/wire.c). A warp has a group, a lane four elements of it at a
 * time; codes lie as they are read, not as they are sent elsewhere. */
#include "cuda/prelude.cuh"

extern "C" {
#include "src/tensor/act_q8.c"
#include "src/tensor/wire.c"
}
#include "cuda/join_args.h"

/* ---- meeting */

static constexpr uint64_t PATIENCE = (uint64_t)JOIN_PATIENCE * 1000000000; /* ns */

static __device__ void tell(uint32_t *flag, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

static __device__ uint32_t ask(const uint32_t *flag)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

static __device__ uint64_t time_now()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __device__ bool is_stopped(const join_args *a) { return *(volatile uint32_t *)&a->meeting[a->rank]->stopped; }

static __device__ void stop_all(const join_args *a)
{
    for (int r = 0; r < a->ranks; r++) *(volatile uint32_t *)&a->meeting[r]->stopped = 1;
}

/* Waits until the flag has reached the turn. False: the step was stopped. A pause between two looks is a sixteenth of
 * the time waited so far, at most a millisecond. */
static __device__ bool wait_for(const join_args *a, const uint32_t *flag, uint32_t turn)
{
    const uint64_t start = time_now();
    while ((int32_t)(ask(flag) - turn) < 0) {
        const uint64_t waited = time_now() - start;
        if (is_stopped(a)) return false;
        if (waited > PATIENCE) stop_all(a);
        __nanosleep((unsigned)(waited / 16 < 1000000 ? waited / 16 : 1000000));
    }
    return true;
}

/* For the nth time of this kernel: what all blocks of this number have written so far may be read. False: the step was stopped. */
static __device__ bool meet(const join_args *a, uint32_t n)
{
    join_meeting *own = a->meeting[a->rank];
    const int other = (int)threadIdx.x, b = (int)blockIdx.x;
    bool came = true;
    __syncthreads();
    if (other < a->ranks && other != a->rank) {
        const uint32_t turn = own->turn[b] + n;
        tell(&a->meeting[other]->came[a->rank][b], turn);
        came = wait_for(a, &own->came[other][b], turn);
    }
    return __syncthreads_and(came);
}

/* Whether the block does nothing. */
static __device__ bool has_stopped(const join_args *a) { return __syncthreads_or(threadIdx.x == 0 && is_stopped(a)); }

/* They have met so often. */
static __device__ void note_meetings(const join_args *a, uint32_t n)
{
    if (threadIdx.x == 0) a->meeting[a->rank]->turn[blockIdx.x] += n;
}

static __device__ void tell_odd(const join_args *a) { *(volatile uint32_t *)&a->meeting[a->rank]->odd = 1; }

/* ---- parts */

/* The block's part of n things. */
typedef struct part {
    int64_t begin, end;
} part;

static __device__ part part_of(int64_t n)
{
    return (part){n * blockIdx.x / gridDim.x, n * (blockIdx.x + 1) / gridDim.x};
}

/* The rank whose range holds x; -1: none. */
static __device__ int rank_of(const join_args *a, int64_t x)
{
    for (int r = 0; r < a->ranks; r++)
        if (x >= a->begin[r] && x < a->end[r]) return r;
    return -1;
}

/* ---- four elements at a time */

/* How many of n elements are moved at once, where they lie in rows of `cols` or begin there. */
static __device__ int at_once(int64_t cols, int64_t n, int64_t begin) { return (cols | n | begin) % 4 ? 1 : 4; }

static __device__ void move(float *to, const float *from, int n)
{
    if (n == 4) *(float4 *)to = *(const float4 *)from;
    else *to = *from;
}

/* Elements i … i + 3 of n, 0 behind them. */
static __device__ float4 load(const float *x, int64_t i, int64_t n, bool aligned)
{
    if (aligned && i + 4 <= n) return *(const float4 *)(x + i);
    return make_float4(x[i], i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0, i + 3 < n ? x[i + 3] : 0);
}

static __device__ void store(float *x, int64_t i, int64_t n, bool aligned, float4 v)
{
    if (aligned && i + 4 <= n) {
        *(float4 *)(x + i) = v;
        return;
    }
    x[i] = v.x;
    if (i + 1 < n) x[i + 1] = v.y;
    if (i + 2 < n) x[i + 2] = v.z;
    if (i + 3 < n) x[i + 3] = v.w;
}

static __device__ bool is_finite(float x) { return (float_bits(x) & 0x7f800000) != 0x7f800000; }
static __device__ bool are_finite(float4 v)
{
    return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w);
}

/* ---- codes */

static __device__ float half_value(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

static __device__ uint16_t half_of(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

static __device__ bool is_scaled(int type) { return type != WIRE_F32 && type != WIRE_F16; }

/* As codes_encode has it. */
static __device__ uint32_t code_of(float x, wire_scale s, float limit)
{
    return (uint32_t)(int)rintf(fm_min(fm_max(fmaf(x, s.inverse, s.zero), 0), limit));
}

static __device__ float4 scaled(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t head)
{
    const float step = half_value((uint16_t)head);
    const int zero = (int)(head >> 16);
    return make_float4((float)((int)a - zero) * step, (float)((int)b - zero) * step, (float)((int)c - zero) * step,
                       (float)((int)d - zero) * step);
}

/* Four codes, of a scale, as they lie. */
static __device__ float4 take_codes(int type, const uint8_t *codes, int64_t i, uint32_t head)
{
    if (type == WIRE_INT8 || type == WIRE_INT8S) {
        const uchar4 c = *(const uchar4 *)(codes + i);
        return scaled(c.x, c.y, c.z, c.w, head);
    }
    const uint32_t c = *(const uint16_t *)(codes + i / 2);
    return scaled(c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12, head);
}

static __device__ void leave_codes(int type, uint8_t *codes, int64_t i, float4 v, wire_scale s)
{
    const float limit = (float)wire_limit((wire_type)type);
    uint32_t c[4] = {0, 0, 0, 0};
    if (s.step != 0x7e00) {
        c[0] = code_of(v.x, s, limit), c[1] = code_of(v.y, s, limit);
        c[2] = code_of(v.z, s, limit), c[3] = code_of(v.w, s, limit);
    }
    if (type == WIRE_INT8 || type == WIRE_INT8S)
        *(uchar4 *)(codes + i) = make_uchar4((uint8_t)c[0], (uint8_t)c[1], (uint8_t)c[2], (uint8_t)c[3]);
    else *(uint16_t *)(codes + i / 2) = (uint16_t)(c[0] | c[1] << 4 | c[2] << 8 | c[3] << 12);
}

static __device__ float4 take_floats(int type, const uint8_t *codes, int64_t i)
{
    if (type == WIRE_F32) return *(const float4 *)(codes + 4 * i);
    const ushort4 h = *(const ushort4 *)(codes + 2 * i);
    return make_float4(half_value(h.x), half_value(h.y),
                       half_value(h.z), half_value(h.w));
}

static __device__ void leave_floats(int type, uint8_t *codes, int64_t i, float4 v)
{
    if (type == WIRE_F32) *(float4 *)(codes + 4 * i) = v;
    else *(ushort4 *)(codes + 2 * i) = make_ushort4(half_of(v.x), half_of(v.y), half_of(v.z), half_of(v.w));
}

/* Of a group of n elements, by a warp. */
static __device__ wire_scale find_scale(int type, const float *x, int64_t n, bool aligned)
{
    float low = 0, high = 0;
    bool odd = false;
    for (int64_t i = threadIdx.x % 32 * 4; i < n; i += 128) {
        const float4 v = load(x, i, n, aligned);
        low = fm_max(-v.x, fm_max(-v.y, fm_max(-v.z, fm_max(-v.w, low))));
        high = fm_max(v.x, fm_max(v.y, fm_max(v.z, fm_max(v.w, high))));
        odd = odd || !are_finite(v);
    }
    for (int by = 16; by; by /= 2) {
        low = fm_max(low, __shfl_xor_sync(~0u, low, by));
        high = fm_max(high, __shfl_xor_sync(~0u, high, by));
    }
    return scale_of((wire_type)type, low, high, __any_sync(~0u, odd) ? 1 : 0);
}

/* ---- sums */

/* A group of elements of a reduction: n from x on, in a row. */
typedef struct group_place {
    int64_t g, at, n;
    bool aligned;
} group_place;

static __device__ int64_t groups_of_row(const join_args *a) { return (a->cols + a->group - 1) / a->group; }

static __device__ group_place place_of(const join_args *a, int64_t g)
{
    const int64_t groups = groups_of_row(a), row = g / groups, k = g - row * groups, left = a->cols - k * a->group;
    return (group_place){g, row * a->cols + k * a->group, left < a->group ? left : a->group,
                         (a->cols | a->group) % 4 == 0};
}

static __device__ uint32_t *head_at(uint8_t *box, int64_t heads, int64_t g) { return (uint32_t *)(box + heads) + g; }

/* Codes of a group of x, by a warp. */
static __device__ void leave_group(const join_args *a, int type, const float *x, group_place p, uint8_t *box,
                                   int64_t heads, bool looks)
{
    uint8_t *codes = box + p.g * join_stride(type, a->group);
    wire_scale s = {0};
    bool odd = false;
    if (is_scaled(type)) {
        s = find_scale(type, x + p.at, p.n, p.aligned);
        odd = s.step == 0x7e00;
        if (threadIdx.x % 32 == 0) *head_at(box, heads, p.g) = s.step | (uint32_t)s.zero << 16;
    }
    for (int64_t i = threadIdx.x % 32 * 4; i < p.n; i += 128) {
        const float4 v = load(x + p.at, i, p.n, p.aligned);
        odd = odd || !are_finite(v);
        if (is_scaled(type)) leave_codes(type, codes, i, v, s);
        else leave_floats(type, codes, i, v);
    }
    if (looks && odd) tell_odd(a);
}

/* Elements i … i + 3 of a group. */
static __device__ float4 take_four(const join_args *a, int type, uint8_t *box, int64_t heads, int64_t g, int64_t i)
{
    const uint8_t *codes = box + g * join_stride(type, a->group);
    return is_scaled(type) ? take_codes(type, codes, i, *head_at(box, heads, g)) : take_floats(type, codes, i);
}

/* y becomes the sum of what all have left of a group. */
static __device__ void sum_group(const join_args *a, group_place p)
{
    for (int64_t i = threadIdx.x % 32 * 4; i < p.n; i += 128) {
        float4 sum = take_four(a, a->partial, a->out[0], a->heads, p.g, i);
        for (int r = 1; r < a->ranks; r++) {
            const float4 v = take_four(a, a->partial, a->out[r], a->heads, p.g, i);
            sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        store(a->y + p.at, i, p.n, p.aligned, sum);
    }
}

/* y becomes what a rank has left of the sum. */
static __device__ void take_group(const join_args *a, group_place p, int rank)
{
    bool odd = false;
    for (int64_t i = threadIdx.x % 32 * 4; i < p.n; i += 128) {
        const float4 v = take_four(a, a->sum, a->sums[rank], a->sum_heads, p.g, i);
        odd = odd || !are_finite(v);
        store(a->y + p.at, i, p.n, p.aligned, v);
    }
    if (a->sum != WIRE_F32 && odd) tell_odd(a);
}

/* The groups of the block's part of a chunk that are this warp's: body has each as g. */
#define EACH_GROUP(a, chunks, chunk, ...)                                                                              \
    do {                                                                                                               \
        const int64_t all_ = (a)->st->n[(a)->axis] * groups_of_row(a), from_ = all_ * (chunk) / (chunks);              \
        const part of_ = part_of(all_ * ((chunk) + 1) / (chunks)-from_);                                               \
        for (int64_t g = from_ + of_.begin + threadIdx.x / 32; g < from_ + of_.end; g += JOIN_THREADS / 32) {          \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)

/* ---- rows and columns */

/* Copies 64 columns of a row of int8 activations, one row a tile (act_q8.h). */
static __device__ void move_codes(const join_args *a, act_part to, int64_t at, act_part from, int64_t c)
{
    for (int k = 0; k < PANEL_K; k += 4) *(uint32_t *)(to.code + at + k) = *(const uint32_t *)(from.code + c + k);
    for (int k = 0; k < PANEL_K / a->block; k++) {
        const int64_t b = at / a->block + k, f = c / a->block + k;
        to.scale[b] = from.scale[f];
        to.scaled_sum[b] = from.scaled_sum[f];
        to.neg_sum[b] = from.neg_sum[f];
        for (int s = 0; to.neg_subsums && s < ACT_SUBSUMS; s++)
            to.neg_subsums[b * ACT_SUBSUMS + s] = from.neg_subsums[f * ACT_SUBSUMS + s];
    }
}

/* Whether a kernel that has done `before` and does `next` has to meet the others between the two. */
static __device__ bool meets(const join_args *a, int before, int next) { return a->parts & before && a->parts & next; }

extern "C" {
/* Columns of float rows. */
__global__ void __launch_bounds__(JOIN_THREADS, JOIN_PER_PROCESSOR) join_columns(join_args a)
{
    if (has_stopped(&a)) return;
    const int64_t rows = a.st->n[a.axis];
    if (a.parts & JOIN_LEAVE) {
        const int64_t width = a.end[a.rank] - a.begin[a.rank];
        const int once = at_once(a.cols, width, a.begin[a.rank]);
        const part p = part_of(rows * (width / once));
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += JOIN_THREADS)
            move((float *)a.out[a.rank] + i * once, (const float *)a.x + i * once, once);
    }
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE) && !meet(&a, 1)) return;
    for (int r = 0; r < a.ranks && a.y && a.parts & JOIN_MAKE; r++) {
        const int64_t width = a.end[r] - a.begin[r];
        const int once = at_once(a.cols, width, a.begin[r]);
        const part p = part_of(rows * (width / once));
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += JOIN_THREADS) {
            const int64_t row = i / (width / once), col = i % (width / once) * once;
            move(a.y + row * a.cols + a.begin[r] + col, (const float *)a.out[r] + i * once, once);
        }
    }
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE)) note_meetings(&a, 1);
}

/* Columns of int8 activations: a thread moves 64 of a row. */
__global__ void __launch_bounds__(JOIN_THREADS, JOIN_PER_PROCESSOR) join_codes(join_args a)
{
    if (has_stopped(&a)) return;
    const int64_t rows = a.st->n[a.axis];
    if (a.parts & JOIN_LEAVE) {
        const int64_t width = a.end[a.rank] - a.begin[a.rank], units = act_padded(width) / PANEL_K;
        const part p = part_of(rows * units);
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += JOIN_THREADS) {
            const int64_t row = i / units, col = i % units * PANEL_K;
            move_codes(&a, act_parts(a.out[a.rank], (row_tile){row, 1}, width, a.block), col,
                       act_parts((uint8_t *)a.x, (row_tile){row, 1}, width, a.block), col);
        }
    }
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE) && !meet(&a, 1)) return;
    for (int r = 0; r < a.ranks && a.y && a.parts & JOIN_MAKE; r++) {
        const int64_t width = a.end[r] - a.begin[r], units = act_padded(width) / PANEL_K;
        const part p = part_of(rows * units);
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += JOIN_THREADS) {
            const int64_t row = i / units, col = i % units * PANEL_K;
            move_codes(&a, act_parts((uint8_t *)a.y, (row_tile){row, 1}, a.cols, a.block), a.begin[r] + col,
                       act_parts(a.out[r], (row_tile){row, 1}, width, a.block), col);
        }
    }
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE)) note_meetings(&a, 1);
}

/* Rows of a table, each from the rank that has it; rows that none has are given, or 0. */
__global__ void __launch_bounds__(JOIN_THREADS, JOIN_PER_PROCESSOR) join_rows(join_args a)
{
    if (has_stopped(&a)) return;
    const int32_t *token = step_rows_of(a.st, a.axis)->token;
    const int once = at_once(a.cols, 0, 0);
    const part p = part_of(a.st->n[a.axis] * (a.cols / once));
    for (int64_t i = p.begin + threadIdx.x; i < p.end && a.x && a.parts & JOIN_LEAVE; i += JOIN_THREADS)
        move((float *)a.out[a.rank] + i * once, (const float *)a.x + i * once, once);
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE) && !meet(&a, 1)) return;
    for (int64_t i = p.begin + threadIdx.x; i < p.end && a.y && a.parts & JOIN_MAKE; i += JOIN_THREADS) {
        const int64_t row = i / (a.cols / once), col = i % (a.cols / once) * once;
        const int32_t id = token[row];
        const int r = id < 0 ? -1 : rank_of(&a, (int64_t)id + a.offset);
        const float *x = id < 0 ? a.st->vec + ~(int64_t)id * a.cols + col
                         : r < 0 ? NULL
                                 : (const float *)a.out[r] + i * once;
        for (int k = 0; k < once; k++) a.y[i * once + k] = x ? x[k] : 0;
    }
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE)) note_meetings(&a, 1);
}

/* A sum: in one step or, where sums are taken too, in two. */
__global__ void __launch_bounds__(JOIN_THREADS, JOIN_PER_PROCESSOR) join_reduce(join_args a)
{
    if (has_stopped(&a)) return;
    const int chunks = a.two_steps ? a.ranks : 1;
    const float *x = (const float *)a.x;
    for (int c = 0; c < chunks && a.parts & JOIN_LEAVE; c++)
        EACH_GROUP(&a, chunks, c, leave_group(&a, a.partial, x, place_of(&a, g), a.out[a.rank], a.heads,
                                              a.sum != WIRE_F32););
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE) && !meet(&a, 1)) return;
    if (a.parts & JOIN_MAKE)
        EACH_GROUP(&a, chunks, a.two_steps ? a.rank : 0, {
            const group_place p = place_of(&a, g);
            sum_group(&a, p);
            if (!a.two_steps && a.sum == WIRE_F32) continue;
            __syncwarp();
            leave_group(&a, a.sum, a.y, p, a.sums[a.rank], a.sum_heads, false);
            __syncwarp();
            if (!a.two_steps) take_group(&a, p, a.rank);
        });
    if (meets(&a, JOIN_MAKE, JOIN_TAKE) && !meet(&a, 2)) return;
    for (int c = 0; c < chunks && a.parts & JOIN_TAKE; c++)
        EACH_GROUP(&a, chunks, c, take_group(&a, place_of(&a, g), c););
    if (meets(&a, JOIN_LEAVE, JOIN_MAKE)) note_meetings(&a, a.two_steps ? 2 : 1);
}
}
