/* fake_ops.c - what the device that is nobody's computes. Products, embeddings, rotations and writes to the cache
 * follow their definitions, in its own orders of weights and pages. Attention gets its tiles in the CPU's order, made
 * for one op, and so do ops with slots. What else there is reads activations and vectors alone: the definitions. */
#include "fake_state.h"

#include "core/kv_codes.h"
#include "ops/quant_rows.h"

#include "tensor/quant.h"

#include <string.h>

static const kernel definitions[OP_COUNT] = {
#define X(id, name, ...) [OP_##id] = def_##name,
    KERNEL_LIST(X)
#undef X
};

/* ---- weights */

static void matrix_take_rows(const matrix *w, const uint8_t *from)
{
    for (int64_t n = 0; n < w->rows; n++)
        for (uint64_t b = 0; b < w->row_bytes / w->block_bytes; b++, from += w->block_bytes)
            memcpy(w->blocks + (b * (uint64_t)w->rows + (uint64_t)n) * w->block_bytes, from, w->block_bytes);
}

static void matrix_take_panels(const matrix *w, const uint8_t *from)
{
    const panel_format *f = panel_format_of(w->type);
    for (int64_t n = 0; n < w->rows; n += PANEL_ROWS, from += panel_bytes(w->type, w->cols)) {
        const uint8_t *at = from;
        for (int64_t k = 0; k < w->cols; k += f->span) {
            int tiles = (int)(((w->cols - k < f->span ? w->cols - k : f->span) + PANEL_K - 1) / PANEL_K);
            for (int r = 0; r < PANEL_ROWS && n + r < w->rows; r++)
                panel_strip_get(f, at, r, tiles, &w->strips[k / f->span * w->rows + n + r]);
            at += (tiles * f->code_lines + f->tail_lines) * PANEL_LINE;
        }
    }
}

void matrix_take(const matrix *w, const uint8_t *from)
{
    if (w->strips) matrix_take_panels(w, from);
    else matrix_take_rows(w, from);
}

static void matrix_row(fake *d, const matrix *w, int64_t n, float *to)
{
    CHECK(n >= 0 && n < w->rows, "row %lld of a matrix of %lld", (long long)n, (long long)w->rows);
    if (!w->strips) {
        for (uint64_t b = 0; b < w->row_bytes / w->block_bytes; b++)
            memcpy(d->raw + b * w->block_bytes, w->blocks + (b * (uint64_t)w->rows + (uint64_t)n) * w->block_bytes,
                   w->block_bytes);
        quant_decode_row(w->type, d->raw, to, (uint64_t)w->cols);
        return;
    }
    const panel_format *f = panel_format_of(w->type);
    for (int64_t k = 0; k < w->cols; k++) {
        const panel_strip *s = &w->strips[k / f->span * w->rows + n];
        const int64_t i = k % f->span, b = i / f->block;
        const float level = (float)panel_level(f, s->code[i]);
        if (panel_two_levels(f->scale)) {
            float v = s->d * (float)s->sub[b] * level;
            to[k] = f->base ? v - s->dmin * (float)s->minimum[b] : v;
        } else {
            float v = s->scale[b] * level;
            to[k] = f->base ? v + s->base[b] : v;
        }
    }
}

/* Row n of a packed matrix times codes with a scale for each block (def_qmatmul.c has the definition). */
static float matrix_product(const matrix *w, int64_t n, const int8_t *code, const float *scale)
{
    const panel_format *f = panel_format_of(w->type);
    const bool two = panel_two_levels(f->scale);
    const int apart = f->block < f->act ? f->block : f->act;
    float y = 0;
    CHECK(n >= 0 && n < w->rows, "row %lld of a matrix of %lld", (long long)n, (long long)w->rows);
    for (int64_t k = 0; k < act_padded(w->cols); k += PANEL_K) {
        const panel_strip *s = &w->strips[k / f->span * w->rows + n];
        const int from = (int)(k % f->span);
        int32_t products = 0, minima = 0;
        float by = 0;
        for (int i = 0; i < PANEL_K; i += apart) {
            const int b = (from + i) / f->block;
            int32_t sum = 0, of_x = 0;
            for (int j = i; j < i + apart; j++) {
                sum += panel_level(f, s->code[from + j]) * code[k + j];
                of_x += code[k + j];
            }
            by = scale[(k + i) / f->act];
            products += s->sub[b] * sum;
            minima += s->minimum[b] * of_x;
            if (two) continue;
            y = fmaf((float)sum, s->scale[b] * by, y);
            if (f->base) y = fmaf(s->base[b], by * (float)of_x, y);
        }
        if (two && f->base) y = fmaf(fmaf(-s->dmin, (float)minima, s->d * (float)products), by, y);
        else if (two) y = fmaf((float)products, s->d * by, y);
    }
    return y;
}

/* Codes of row m of int8 activations into d->raw, their scales into d->row. */
static void fetch_codes(fake *d, const act_rows *x, int64_t m)
{
    const row_tile t = row_tile_at(x->rows, row_tile_of(x->rows, m));
    const act_part p = act_part_of(x, t);
    const int64_t at = m - t.row0, k = act_padded(x->cols);
    for (int64_t g = 0; g < k / 4; g++) memcpy(d->raw + g * 4, p.code + (g * t.rows + at) * 4, 4);
    for (int64_t b = 0; b < k / x->block; b++) d->row[b] = p.scale[b * t.rows + at];
}

/* MATMUL, MATMUL_EXP, MATMUL_HEADS: output i of row m is row `part` * n + i of the matrix times the row from column k0
 * on, plus a bias. */
static void multiply(fake *d, const run *r, const op *o)
{
    const matrix *w = &d->w->weights[arg_info(r, o->in[1])->weight];
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[2]);
    const int32_t *experts = o->kind == OP_MATMUL_EXP ? dispatch_at(r, o->in[3]) : NULL;
    const int64_t rows = arg_rows(r, o->out), n = arg_dim(r, o->out), in = arg_dim(r, o->in[0]);
    const int64_t each = o->kind == OP_MATMUL_HEADS ? n / (in / w->cols) : n; /* outputs of one k0 */
    float *y = arg_at(r, o->out);
    const bool coded = arg_info(r, o->in[0])->block != 0;
    const act_rows all = coded ? act_rows_at(r, o->in[0]) : (act_rows){.rows = rows};
    for (int64_t m = 0; m < rows && coded; m++) {
        const expert_run u = experts ? expert_run_of(experts, (int32_t)m, rows) : (expert_run){.rows = (int32_t)rows};
        const act_rows of = act_rows_of_run(all, u);
        if (u.expert < 0) break; /* not here */
        fetch_codes(d, &of, m - u.row0);
        for (int64_t i = 0; i < n; i++) {
            const int64_t k0 = i / each * w->cols, at = u.expert * n + i;
            const float s = matrix_product(w, at, (int8_t *)d->raw + k0, d->row + k0 / all.block);
            y[m * n + i] = bias ? s + bias[at] : s;
        }
    }
    for (int64_t i = 0; i < n && !coded; i++)
        for (int64_t m = 0, known = -1; m < rows; m++) {
            const int32_t expert = experts ? experts[m * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
            const int64_t at = expert * n + i;
            if (expert < 0) break; /* nor the rows after it */
            if (at != known) matrix_row(d, w, known = at, d->row);
            const float s = def_dot(d->row, x + m * in + i / each * w->cols, w->cols);
            y[m * n + i] = bias ? s + bias[at] : s;
        }
}

static void embed(fake *d, const run *r, const op *o)
{
    const matrix *w = &d->w->weights[arg_info(r, o->in[0])->weight];
    const step_rows *rows = step_rows_of(r->st, arg_info(r, o->out)->axis);
    const int32_t *const by[] = {rows->token, rows->pos, rows->type}, *ids = by[o->u.embed.by];
    float *y = arg_at(r, o->out);
    for (int64_t i = 0; i < arg_rows(r, o->out); i++, y += w->cols) {
        const int64_t id = (int64_t)ids[i] + o->u.embed.offset;
        if (o->u.embed.by == EMBED_BY_TOKEN && ids[i] < 0)
            memcpy(y, r->st->vec + ~(int64_t)ids[i] * w->cols, (size_t)w->cols * sizeof *y);
        else if (id >= 0 && id < w->rows) matrix_row(d, w, id, y);
        else memset(y, 0, (size_t)w->cols * sizeof *y);
    }
}

static void rotate(const fake *d, const run *r, const op *o)
{
    const step_rows *rows = step_rows_of(r->st, arg_info(r, o->out)->axis);
    const int64_t dim = arg_dim(r, o->out), width = o->u.rope.width, half = o->u.rope.dims / 2;
    for (int64_t i = 0; i < arg_rows(r, o->out); i++) {
        const int32_t variant = r->st->seq_rope[(int64_t)o->u.rope.table * r->st->n_seq + rows->seq[i]];
        const rope_table *t = &d->ropes[o->u.rope.table * VARIANTS + variant];
        CHECK((uint64_t)(rows->pos[i] + 1) * (uint64_t)half <= t->floats / 2, "position %d of a table", rows->pos[i]);
        const float *c = t->at + rows->pos[i] * half, *s = c + t->floats / 2;
        for (int64_t h = 0; h < dim; h += width) {
            const float *x = arg_at(r, o->in[0]) + i * dim + h;
            float *y = arg_at(r, o->out) + i * dim + h;
            for (int64_t k = 0; k < half; k++) {
                const bool halves = o->u.rope.style == ROPE_HALVES;
                const int64_t first = halves ? k : 2 * k, second = halves ? k + half : 2 * k + 1;
                const float a = x[first], b = x[second];
                y[first] = fmaf(a, c[k], -(b * s[k]));
                y[second] = fmaf(b, c[k], a * s[k]);
            }
            for (int64_t k = 2 * half; k < width; k++) y[k] = x[k];
        }
    }
}

/* ---- pages */

uint64_t record_bytes(dtype t, int32_t dim, bool values)
{
    if (!kv_is_codes(t)) return (uint64_t)dim * dtype_info[t].bytes;
    const kv_codes f = kv_codes_of(t, dim, values);
    return 2 * (uint64_t)(f.padded + f.blocks * (1 + f.base));
}

/* Keys or values of one head and token, from a tile of the CPU to a record or back. */
static void record_move(dtype t, int32_t dim, bool values, uint8_t *tile, int token, uint8_t *record, bool to_tile)
{
    if (!kv_is_codes(t)) {
        const uint64_t size = dtype_info[t].bytes;
        for (int32_t i = 0; i < dim; i++) {
            uint8_t *in = tile + (uint64_t)(values ? token * dim + i : i * PAGE_TOKENS + token) * size,
                    *out = record + (uint64_t)i * size;
            memcpy(to_tile ? in : out, to_tile ? out : in, size);
        }
        return;
    }
    const kv_codes f = kv_codes_of(t, dim, values);
    int16_t *word = (int16_t *)(void *)record;
    for (int64_t i = 0; i < f.padded; i++, word++)
        if (to_tile) kv_code_put(&f, tile, values, i, token, *word);
        else *word = (int16_t)kv_code_get(&f, tile, values, i, token);
    for (int64_t b = 0; b < f.blocks * (1 + f.base); b++, word++) {
        uint16_t *in = kv_scales(&f, tile) + b * PAGE_TOKENS + token; /* bases follow scales */
        memcpy(to_tile ? (void *)in : word, to_tile ? (void *)word : in, 2);
    }
}

static uint8_t *record_at(const cache *c, int32_t page, int token, int64_t head, bool values)
{
    return c->at + ((uint64_t)page * PAGE_TOKENS + (uint64_t)token) * c->token_bytes +
           (uint64_t)head * (c->k_bytes + c->v_bytes) + (values ? c->k_bytes : 0);
}

void page_move(const cache *c, int32_t page, uint8_t *tiles, bool to_tiles)
{
    for (int values = 0; values < 2; values++) {
        const dtype t = values ? c->like.v_type : c->like.k_type;
        const int32_t dim = values ? c->like.v_dim : c->like.k_dim;
        const uint64_t bytes = kv_tile_bytes(t, dim, values);
        for (int64_t head = 0; head < c->like.heads; head++, tiles += bytes)
            for (int token = 0; token < PAGE_TOKENS; token++)
                record_move(t, dim, values, tiles, token, record_at(c, page, token, head, values), to_tiles);
    }
}

static void keep(fake *d, const run *r, const op *o)
{
    const cache *c = &d->states[o->state];
    const step_rows *of = step_rows_of(r->st, arg_info(r, o->in[0])->axis);
    for (int64_t u = 0; u < arg_rows(r, o->in[0]) * c->like.heads; u++) {
        const int64_t row = u / c->like.heads, head = u % c->like.heads;
        const int32_t pos = of->pos[row],
                      page = step_page(r->st, d->p->states[o->state].group, of->seq[row], pos / PAGE_TOKENS);
        for (int values = 0; values < 2 && page >= 0; values++) {
            const dtype t = values ? c->like.v_type : c->like.k_type;
            const int32_t dim = values ? c->like.v_dim : c->like.k_dim;
            const float *x = arg_at(r, o->in[values]) + u * dim;
            uint8_t *to = record_at(c, page, pos % PAGE_TOKENS, head, values);
            if (kv_is_codes(t)) {
                const kv_codes f = kv_codes_of(t, dim, values);
                kv_token_put(&f, d->tiles, values, x, dim, 0);
                record_move(t, dim, values, d->tiles, 0, to, false);
            } else if (t == DTYPE_F16) {
                for (int32_t i = 0; i < dim; i++) ((uint16_t *)(void *)to)[i] = f32_to_f16(x[i]);
            } else {
                memcpy(to, x, (size_t)dim * sizeof *x);
            }
        }
    }
}

static void attend(fake *d, const run *r, const op *o)
{
    const cache *c = &d->states[o->state];
    const state *s = &d->p->states[o->state];
    kv_store *seen = &d->kv[o->state];
    *seen = c->like;
    seen->k = d->tiles;
    seen->v = d->tiles + seen->k_page;
    seen->stride = seen->k_page + seen->v_page;
    for (int32_t i = 0; i < r->st->n_seq; i++)
        for (int32_t at = 0; at * PAGE_TOKENS < step_rows_of(r->st, s->axis)->seq_len[i]; at++) {
            const int32_t page = step_page(r->st, s->group, i, at);
            if (page >= 0) page_move(c, page, d->tiles + (uint64_t)page * seen->stride, true);
        }
    def_attn(r, o, 0, 1);
    *seen = (kv_store){0};
}

static void copy_page(const fake *d, const page_copy *p)
{
    for (uint32_t i = 0; i < d->p->n_state; i++) {
        const cache *c = &d->states[i];
        if (c->at && d->p->states[i].group == p->group)
            memcpy(record_at(c, p->to, 0, 0, false), record_at(c, p->from, 0, 0, false), c->token_bytes * PAGE_TOKENS);
    }
}

/* ---- slots */

/* The matrices that an op reads, row by row, for its definition: of ops that do not multiply. */
static void rows_of_matrices(fake *d, const op *o)
{
    float *to = d->slot_weights;
    for (int k = 0; k < 4; k++) {
        const tensor *t = &d->p->tensors[o->in[k]];
        if (!o->in[k] || t->kind != TENSOR_WEIGHT || d->p->weights[t->weight].vector) continue;
        const matrix *w = &d->w->weights[t->weight];
        d->held[t->weight] = (held_weight){.data = (const uint8_t *)to,
                                           .type = DTYPE_F32,
                                           .stride = (uint64_t)w->cols * sizeof *to,
                                           .rows = w->rows,
                                           .cols = w->cols};
        for (int64_t n = 0; n < w->rows; n++, to += w->cols) matrix_row(d, w, n, to);
    }
}

/* A step of an op with a slot: its definition, over slots that lie as it expects them. */
static void step_slots(fake *d, const run *r, const op *o)
{
    const slots *all = &d->slots[o->state];
    rows_of_matrices(d, o);
    const int64_t floats = (int64_t)fake_slot_floats(d, o);
    for (int64_t i = 0; i < floats; i++)
        for (int32_t k = 0; k < all->n; k++) d->slot_memory[k * floats + i] = all->at[i * all->n + k];
    d->slot_view[o->state] = (slot_store){d->slot_memory, (uint64_t)floats,
                                          (uint64_t)d->p->states[o->state].slot_floats};
    definitions[o->kind](r, o, 0, 1);
    d->slot_view[o->state] = (slot_store){0};
    for (int64_t i = 0; i < floats; i++)
        for (int32_t k = 0; k < all->n; k++) all->at[i * all->n + k] = d->slot_memory[k * floats + i];
}

/* ---- a step */

static void show_taps(const fake *d, const run *r, ref done)
{
    for (int32_t i = 0; i < d->at->st.n_tap; i++) {
        const tap *t = &d->at->st.taps[i];
        if (t->what != done || !done) continue;
        const int64_t n = arg_rows(r, done), each = arg_dim(r, done);
        if (t->to) memcpy(t->to, arg_at(r, done), (size_t)(n * each) * sizeof *t->to);
        else t->take(t->self, arg_at(r, done), n);
    }
}

void run_stretch(fake *d, uint32_t stretch)
{
    const run r = {.p = &d->at->seen,
                   .st = &d->at->st,
                   .act = d->at->act,
                   .held = d->held,
                   .kv = d->kv,
                   .slots = d->slot_view,
                   .scratch = d->scratch};
    const uint32_t begin = stretch_begin(&d->at->part, stretch), end = d->at->part.ends[stretch];
    for (int32_t i = 0; i < d->at->st.n_copy && stretch == 0; i++) copy_page(d, &d->at->st.copies[i]);
    if (stretch) show_taps(d, &r, d->p->ops[begin - 1].out);
    for (uint32_t i = begin; i < end; i++) {
        const op *o = &d->p->ops[i];
        const bool weights = arg_info(&r, o->in[0])->kind == TENSOR_WEIGHT;
        if (o->kind == OP_EMBED && weights) embed(d, &r, o);
        else if (op_is(o, OPF_SLOT)) step_slots(d, &r, o);
        else if (op_is(o, OPF_MATRIX)) multiply(d, &r, o);
        else if (o->kind == OP_ROPE) rotate(d, &r, o);
        else if (o->kind == OP_KV_PUT) keep(d, &r, o);
        else if (o->kind == OP_ATTN) attend(d, &r, o);
        else definitions[o->kind](&r, o, 0, 1);
        show_taps(d, &r, o->out);
    }
    for (uint64_t i = 0; i < ALIGN; i++)
        CHECK(d->at->act[d->at->part.act_bytes + i] == CANARY, "a step wrote beyond its activations");
}
