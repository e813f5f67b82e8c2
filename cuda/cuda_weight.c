/* cuda_weight.c - weights on their way to a device: panels as in files (tensor/panel.h), for every quantized type, and
 * rows of floats. There is no second layout.
 *
 * All lie in one piece of the device's memory, but tables: of these a step reads a row a token, so they lie in pinned
 * memory of the host, and kernels read that over the bus. Units (rows or panels, core/weight_fill.h) are made by all
 * threads, of tables where they stay, of others in one of two pinned buffers while the other is copied, so that loading
 * takes that much memory of the host besides the mapped file, however large the model is. */
#include "cuda/cuda_state.h"

#include "base/mem.h"
#include "base/pool.h"
#include "core/weight_fill.h"
#include "tensor/panel.h"
#include "tensor/quant.h"

#include <string.h>

enum { BUFFER = 32 << 20 };

/* How a weight comes to the device. */
typedef struct upload {
    weight_fill fill;
    bool floats; /* rows of another type become float32 */
    uint64_t unit_bytes, bytes;
} upload;

static int upload_plan(upload *u, const weight *w, err *e)
{
    const dtype type = weight_held_type(w);
    const bool packed = w->packed || (!w->vector && panel_format_of(type) && panel_holds(w->rows, w->parts));
    int rc = weight_fill_plan(&u->fill, w, type, packed, e);
    u->floats = !packed && !dtype_is_float(type);
    u->unit_bytes = u->floats ? (uint64_t)w->cols * sizeof(float) : u->fill.unit_bytes;
    if (!rc && !mem_mul(u->unit_bytes, (uint64_t)u->fill.units, &u->bytes))
        rc = err_set(e, ERR_MEMORY, "weight %s is too large", w->name);
    return rc;
}

static void upload_describe(const upload *u, const weight *w, cu_address at, held_weight *to)
{
    *to = (held_weight){.data = (const uint8_t *)(uintptr_t)at,
                        .type = u->floats ? DTYPE_F32 : u->fill.type,
                        .stride = u->unit_bytes,
                        .packed = u->fill.packed,
                        .rows = w->rows,
                        .cols = w->cols};
}

/* Whether EMBED alone reads a weight: of such a table a step needs a row for each of its tokens, so that the bus does,
 * and the device has its memory for others. A table that the head shares is none. */
static bool is_table(const program *p, uint32_t number)
{
    bool read = false;
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (!p->ops[i].in[k] || t->kind != TENSOR_WEIGHT || t->weight != number) continue;
            if (p->ops[i].kind != OP_EMBED) return false;
            read = true;
        }
    return read;
}

/* Two buffers of pinned memory and what is copied from each. */
typedef struct ring {
    uint8_t *at[2];
    uint8_t *rows; /* of a type that becomes floats */
    int turn;
} ring;

/* Units from … to - 1 into memory of the host. */
static int fill_units(upload *u, uint8_t *rows, int64_t from, int64_t to, uint8_t *out, err *e)
{
    u->fill.from = from;
    u->fill.to = to;
    u->fill.out = u->floats ? rows : out;
    int rc = weight_fill_run(&u->fill, 1, pool_default_threads(), e);
    for (int64_t i = 0; i < to - from && u->floats && !rc; i++)
        quant_decode_row(u->fill.type, rows + (uint64_t)i * u->fill.unit_bytes,
                         (float *)(void *)(out + (uint64_t)i * u->unit_bytes), (uint64_t)u->fill.w->cols);
    return rc;
}

/* To `at` on the device, or, where `table` is not NULL, there. */
static int upload_send(cuda_weights *s, upload *u, ring *r, cu_address at, uint8_t *table, err *e)
{
    const uint64_t widest = u->fill.unit_bytes > u->unit_bytes ? u->fill.unit_bytes : u->unit_bytes;
    const int64_t each = (int64_t)(BUFFER / widest);
    for (int64_t from = 0; from < u->fill.units; from += each) {
        const int64_t to = from + each < u->fill.units ? from + each : u->fill.units;
        const uint64_t off = (uint64_t)from * u->unit_bytes, bytes = (uint64_t)(to - from) * u->unit_bytes;
        int rc = fill_units(u, r->rows, from, to, table ? table + off : r->at[r->turn], e);
        if (!rc && !table) rc = cuda_wait(&s->q, e); /* while a buffer was filled the other was copied */
        if (!rc && !table) rc = cuda_send(&s->q, at + off, r->at[r->turn], bytes, e);
        if (rc) return rc;
        r->turn ^= !table;
    }
    return OK;
}

static int send_all(cuda_weights *s, upload *list, ring *r, err *e)
{
    uint64_t own = 0, host = 0;
    int rc = OK;
    for (uint32_t i = 0; i < s->p->n_weight && !rc; i++) {
        if (!s->wanted[i]) continue;
        const bool table = is_table(s->p, i);
        const cu_address at = table ? s->tables.at + host : s->weights + own;
        upload_describe(&list[i], &s->p->weights[i], at, &s->helds[i]);
        rc = upload_send(s, &list[i], r, at, table ? s->tables.host + host : NULL, e);
        *(table ? &host : &own) += cuda_aligned(list[i].bytes);
    }
    return rc ? rc : cuda_wait(&s->q, e);
}

uint64_t cuda_weights_take(const program *p, const bool *reads, uint64_t *host)
{
    uint64_t own = 0;
    *host = 0;
    for (uint32_t i = 0; i < p->n_weight; i++) {
        upload u;
        if (reads[i] && !upload_plan(&u, &p->weights[i], &(err){0}))
            *(is_table(p, i) ? host : &own) += cuda_aligned(u.bytes);
    }
    return own;
}

int cuda_weights_send(cuda_weights *s, err *e)
{
    upload *list = mem_zero(s->p->n_weight + 1, sizeof *list);
    ring r = {.rows = NULL};
    uint64_t widest = 0, host;
    int rc = list ? OK : err_memory(e, "a list of weights");
    for (uint32_t i = 0; i < s->p->n_weight && !rc; i++) {
        if (!s->wanted[i]) continue;
        rc = upload_plan(&list[i], &s->p->weights[i], e);
        if (list[i].unit_bytes > widest) widest = list[i].unit_bytes;
        if (list[i].fill.unit_bytes > widest) widest = list[i].fill.unit_bytes;
    }
    if (!rc && widest > BUFFER) rc = err_set(e, ERR_LIMIT, "a row of a weight has more than %d bytes", BUFFER);
    const uint64_t own = rc ? 0 : cuda_weights_take(s->p, s->wanted, &host);
    if (!rc) rc = cuda_take(&s->q, own, "weights", &s->weights, e);
    if (!rc) rc = cuda_pin(&s->q, host, "tables", &s->tables, e);
    for (int i = 0; i < 2 && !rc; i++)
        rc = cuda_done(&s->q, s->q.cu->cuMemHostAlloc((void **)&r.at[i], BUFFER, 0), "taking memory of the host", e);
    r.rows = rc ? NULL : mem_alloc(BUFFER);
    if (!rc && !r.rows) rc = err_memory(e, "loading weights");
    if (!rc) rc = send_all(s, list, &r, e);
    for (int i = 0; i < 2; i++) cuda_free_host(&s->q, r.at[i]);
    mem_free(r.rows);
    mem_free(list);
    return rc;
}
