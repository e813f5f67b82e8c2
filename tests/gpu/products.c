/* products.c - wgmma of sm_90: a warpgroup's product of matrices in shared memory, carried out when it is waited for.
 *
 * A descriptor tells where a matrix begins and how its 8 rows of 16 bytes follow each other: with a swizzle rows of 32,
 * 64 or 128 bytes lie below each other, and bits of the address are changed by the row. Each warp computes its 16 rows
 * of 64 by itself. */
#include "tests/gpu/access.h"
#include "tests/gpu/fragment.h"
#include "tests/gpu/products.h"
#include "tests/gpu/proxy.h"
#include "tests/gpu/warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

enum { ROWS = 16, COLUMNS_MOST = 256, DEPTH_MOST = 32 };

/* What is fixed of an instruction: x points to n / 2 sums behind these. */
enum { X_COLUMNS, X_TYPE_A, X_TYPE_B, X_NEGATE_A, X_NEGATE_B, X_TRANSPOSE_B, X_SUMS };

typedef struct product {
    const inst *in;
    uint32_t group;
    uint64_t a, b; /* descriptors */
    bool adds;     /* to what is in the sums */
} product;

typedef struct products {
    int n;
    product *list;
    uint32_t closed;
} products;

void products_forget(warp *w)
{
    if (!w->products) return;
    free(w->products->list);
    free(w->products);
    w->products = NULL;
}

static products *products_of(warp *w)
{
    if (!w->products) w->products = calloc(1, sizeof *w->products);
    if (!w->products) abort();
    return w->products;
}

/* The address of byte `along` of row r. Along k by default; transposed, rows lie along k. */
static uint64_t place(uint64_t descriptor, int r, int along)
{
    static const int widths[] = {16, 128, 64, 32};
    const uint64_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
    const uint64_t stride = (descriptor >> 32 & 0x3fff) << 4;
    const int width = widths[descriptor >> 62];
    uint64_t at = start + (uint64_t)(r / 8) * stride + (uint64_t)(r % 8) * (uint64_t)width;
    at += (uint64_t)(along / width) * leading + (uint64_t)(along % width);
    if (width > 16) at ^= (at >> 7 & (uint64_t)(width / 16 - 1)) << 4;
    return at;
}

/* Rows of a matrix in shared memory, of depth elements each. */
static void fetch(warp *w, uint64_t descriptor, int first, int rows, int depth, int type, bool transposed, double *to)
{
    const int size = type < FRAGMENT_F16 ? 1 : 2;
    if (descriptor >> 49 & 7 || (transposed && (descriptor >> 62 != 1 || rows > 64))) {
        machine_fault(w, 0, FAULT_LAUNCH, "a matrix %#llx in a layout that is not known",
                      (unsigned long long)descriptor);
        return;
    }
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < depth; k++) {
            const uint64_t at = transposed ? place(descriptor, k, (first + r) * size)
                                           : place(descriptor, first + r, k * size);
            const uint8_t *p = access_at(w, 0, SPACE_SHARED, at, (unsigned)size, (unsigned)size, TOUCH_READ);
            uint32_t word = 0;
            if (!p) return;
            proxy_read(w, at - SHARED_START, (unsigned)size);
            memcpy(&word, p, (size_t)size);
            to[r * DEPTH_MOST + k] = fragment_element(word, 0, type);
        }
}

static void negate(double *m, int rows)
{
    for (int i = 0; i < rows * DEPTH_MOST; i++) m[i] = -m[i];
}

uint64_t products_done; /* by warps */

static void carry_out(warp *w, const product *p)
{
    const inst *in = p->in, *now = w->now;
    const int32_t *x = in->x;
    const int n = x[X_COLUMNS], type_a = x[X_TYPE_A], type_b = x[X_TYPE_B], depth = type_a < FRAGMENT_F16 ? 32 : 16;
    double *a = calloc((ROWS + COLUMNS_MOST) * DEPTH_MOST, sizeof *a), *b = a + ROWS * DEPTH_MOST;
    if (!a) abort();
    w->now = in;
    fetch(w, p->a, w->index % 4 * ROWS, ROWS, depth, type_a, false, a);
    if (!w->block->of->fault) fetch(w, p->b, 0, n, depth, type_b, x[X_TRANSPOSE_B], b);
    if (x[X_NEGATE_A]) negate(a, ROWS);
    if (x[X_NEGATE_B]) negate(b, n);
    for (int at = 0; at < n / 2 && !w->block->of->fault; at++)
        for (int l = 0; l < LANES; l++) {
            const double *line = a + (l / 4 + 8 * (at >> 1 & 1)) * DEPTH_MOST;
            const double *column = b + (at / 4 * 8 + l % 4 * 2 + (at & 1)) * DEPTH_MOST;
            uint32_t *d = row_set(w, x[X_SUMS + at]) + l;
            const uint32_t c = p->adds ? *d : 0;
            float sum, had;
            if (type_a < FRAGMENT_F16) {
                *d = fragment_sum(line, column, depth, (int32_t)c, in->kind);
                continue;
            }
            memcpy(&had, &c, 4);
            sum = fragment_float_sum(w, l, line, column, depth, had);
            memcpy(d, &sum, 4);
        }
    w->now = now;
    free(a);
    __atomic_fetch_add(&products_done, 1, __ATOMIC_RELAXED);
}

static bool together(warp *w, uint32_t mask)
{
    if (!warp_together(w, mask, ALL_LANES)) return false;
    w->g[w->at].pc++;
    return true;
}

/* o: descriptors of A and B, the predicate. */
static void multiply(warp *w, const inst *in, uint32_t mask)
{
    if (!together(w, mask)) return;
    products *c = products_of(w);
    const product p = {.in = in,
                       .group = c->closed,
                       .a = *(const uint64_t *)row(w, in->o[0]),
                       .b = *(const uint64_t *)row(w, in->o[1]),
                       .adds = *row(w, in->o[2]) & 1};
    *GROW(c->list, c->n) = p;
}

static void close_group(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    if (together(w, mask)) products_of(w)->closed++;
}

static void wait_groups(warp *w, const inst *in, uint32_t mask)
{
    if (!together(w, mask)) return;
    products *c = products_of(w);
    int done = 0;
    while (done < c->n && (int64_t)c->list[done].group + in->imm < (int64_t)c->closed) carry_out(w, &c->list[done++]);
    memmove(c->list, c->list + done, sizeof *c->list * (size_t)(c->n - done));
    c->n -= done;
    if (c->n) return;
    free(c->list);
    c->list = NULL;
}

static void fence(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    together(w, mask);
}

/* ---- decoding ---- */

static void take_types(decoder *d, int32_t *x, int *depth)
{
    static const char *const types[] = {"s8", "u8", "f16", "bf16"};
    const int last = d->n_word - 1;
    x[X_TYPE_A] = x[X_TYPE_B] = -1;
    for (int t = 0; t < 4; t++) {
        if (!strcmp(d->word[last - 1], types[t])) x[X_TYPE_A] = t;
        if (!strcmp(d->word[last], types[t])) x[X_TYPE_B] = t;
    }
    const bool whole = x[X_TYPE_A] < FRAGMENT_F16;
    if (x[X_TYPE_A] < 0 || x[X_TYPE_B] < 0 || (x[X_TYPE_B] < FRAGMENT_F16) != whole ||
        (!whole && x[X_TYPE_A] != x[X_TYPE_B]) || strcmp(d->word[last - 2], whole ? "s32" : "f32"))
        decode_stop(d, "not known");
    d->taken[last] = d->taken[last - 1] = d->taken[last - 2] = true;
    *depth = whole ? 32 : 16;
}

static bool decode_multiply(decoder *d)
{
    int m, n, k, depth;
    if (d->n_word < 8 || sscanf(d->word[4], "m%dn%dk%d", &m, &n, &k) != 3 || n > COLUMNS_MOST || n % 8)
        decode_stop(d, "not known");
    d->taken[4] = true;
    int32_t *x = decode_rows(d->p, X_SUMS + n / 2);
    take_types(d, x, &depth);
    const bool clamps = decode_word(d, "satfinite"), whole = depth == 32;
    if (m != 64 || k != depth || (clamps && !whole)) decode_stop(d, "not known");
    const ptx_operand *o = d->l->o;
    if (o[1].kind == OPERAND_VECTOR) decode_stop(d, "A in registers: an H200 answers otherwise than the manual says");
    decode_end(d, whole ? 4 : 8, whole ? 4 : 8);
    x[X_COLUMNS] = n;
    fragment_rows(d, &o[0], n / 2, whole ? 'r' : 'f', true, x + X_SUMS);
    if (!whole) {
        x[X_NEGATE_A] = decode_number(d, &o[4]) < 0;
        x[X_NEGATE_B] = decode_number(d, &o[5]) < 0;
        if (decode_number(d, &o[6])) decode_stop(d, "A transposed is not known");
        x[X_TRANSPOSE_B] = decode_number(d, &o[7]) != 0;
    }
    const int32_t a = decode_source(d, &o[1], 'd'), b = decode_source(d, &o[2], 'd');
    const int32_t adds = decode_source(d, &o[3], 'p');
    inst *in = decode_emit(d, multiply);
    in->o[0] = a, in->o[1] = b, in->o[2] = adds;
    in->kind = clamps;
    in->x = x;
    in->flow = FLOW_SETS;
    return true;
}

/* setmaxnreg: how many registers a warp may use, which have no number here. */
static bool decode_registers(decoder *d)
{
    if (!decode_word(d, "inc") && !decode_word(d, "dec")) decode_stop(d, "not known");
    if (!decode_word(d, "sync") || !decode_word(d, "aligned") || !decode_word(d, "u32")) decode_stop(d, "not known");
    decode_end(d, 1, 1);
    const int64_t n = decode_number(d, &d->l->o[0]);
    if (n < 24 || n > 256 || n % 8) decode_stop(d, "so many registers there are not");
    decode_emit(d, fence)->flow = FLOW_SETS;
    return true;
}

bool decode_products(decoder *d)
{
    if (!strcmp(d->word[0], "setmaxnreg")) return decode_registers(d);
    if (strcmp(d->word[0], "wgmma")) return false;
    if (!decode_word(d, "sync") || !decode_word(d, "aligned")) decode_stop(d, "not known");
    if (decode_word(d, "mma_async")) return decode_multiply(d);
    const bool waits = decode_word(d, "wait_group"), closes = !waits && decode_word(d, "commit_group");
    if (!waits && !closes && !decode_word(d, "fence")) decode_stop(d, "not known");
    decode_end(d, waits, waits);
    const int64_t most = waits ? decode_number(d, &d->l->o[0]) : 0;
    inst *in = decode_emit(d, waits ? wait_groups : closes ? close_group : fence);
    in->imm = most;
    in->flow = FLOW_SETS;
    return true;
}
