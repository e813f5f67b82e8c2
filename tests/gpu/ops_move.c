/* ops_move.c - mov of vectors, cvta, isspacep, setp with a second predicate, set: what becomes several instructions. */
#include "tests/gpu/decode.h"
#include "tests/gpu/machine.h"
#include "tests/gpu/ops.h"

#include <string.h>

/* n values of kind bytes (2, 4, 8: in imm) between one row of words and one of each. */
static void pack(warp *w, const inst *in, uint32_t mask)
{
    const size_t size = (size_t)in->imm;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        uint64_t v = 0;
        for (int i = 0; i < in->n; i++) memcpy((uint8_t *)&v + size * (size_t)i, row(w, in->x[i]) + l, size);
        if (in->mode) ((uint64_t *)row_set(w, in->o[0]))[l] = v;
        else row_set(w, in->o[0])[l] = (uint32_t)v;
    }
}

static void unpack(warp *w, const inst *in, uint32_t mask)
{
    const size_t size = (size_t)in->imm;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t v = in->mode ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
        for (int i = 0; i < in->n; i++) {
            uint32_t part = 0;
            memcpy(&part, (const uint8_t *)&v + size * (size_t)i, size);
            row_set(w, in->x[i])[l] = part;
        }
    }
}

static void to_window(warp *w, const inst *in, uint32_t mask)
{
    uint64_t *d = (uint64_t *)row_set(w, in->o[0]);
    const uint64_t *a = (const uint64_t *)row(w, in->o[1]);
    EACH_LANE(mask, d[l] = a[l] + (uint64_t)in->imm;);
}

static void is_space(warp *w, const inst *in, uint32_t mask)
{
    const uint64_t *a = (const uint64_t *)row(w, in->o[1]);
    uint32_t *d = row_set(w, in->o[0]), bits = 0;
    for (int l = 0; l < LANES; l++) bits |= (uint32_t)((a[l] & ~WINDOW_OFFSET) == (uint64_t)in->imm) << l;
    *d = (*d & ~mask) | (bits & mask);
}

void ops_clock(warp *w, const inst *in, uint32_t mask)
{
    uint64_t *d = (uint64_t *)row_set(w, in->o[0]);
    EACH_LANE(mask, d[l] = machine_warp_instructions + w->block->ran + machine_idle;);
}

static bool decode_vector_move(decoder *d, bool to_one, int bytes)
{
    const ptx_operand *one = &d->l->o[to_one ? 0 : 1], *many = &d->l->o[to_one ? 1 : 0];
    if (many->n < 2 || bytes % many->n || bytes / many->n < 2) decode_stop(d, "not known");
    const int size = bytes / many->n;
    int32_t *x = decode_rows(d->p, many->n);
    for (int i = 0; i < many->n; i++)
        x[i] = to_one ? decode_source(d, &many->part[i], decode_letter(size))
                      : decode_result(d, &many->part[i], decode_letter(size));
    const char letter = decode_letter(bytes);
    const int32_t r = to_one ? decode_result(d, one, letter) : decode_source(d, one, letter);
    inst *in = decode_emit(d, to_one ? pack : unpack);
    in->o[to_one ? 0 : 1] = r;
    in->mode = bytes == 8;
    in->imm = size;
    in->x = x;
    in->n = (uint8_t)many->n;
    return true;
}

static bool decode_mov(decoder *d)
{
    int bytes;
    if (d->l->n != 2) decode_stop(d, "not so many operands");
    const ptx_operand *from = &d->l->o[1];
    decode_type(d, &bytes);
    decode_end(d, 2, 2);
    return decode_vector_move(d, from->kind == OPERAND_VECTOR, bytes);
}

/* What an address of a space has above its offset. */
static bool take_window(decoder *d, uint64_t *window)
{
    static const char *const spaces[] = {"global",      "const", "param",        "shared",
                                         "shared::cta", "local", "param::entry", NULL};
    static const uint64_t of[] = {0, 0, 0, WINDOW_SHARED, WINDOW_SHARED, WINDOW_LOCAL, 0};
    const int i = decode_one_of(d, spaces);
    if (i >= 0) *window = of[i];
    return i >= 0;
}

static bool decode_cvta(decoder *d)
{
    uint64_t window;
    const bool to = decode_word(d, "to");
    if (!take_window(d, &window) || !(decode_word(d, "u64") || decode_word(d, "s64"))) decode_stop(d, "not known");
    decode_end(d, 2, 2);
    const int32_t a = decode_source(d, &d->l->o[1], 'd'), r = decode_result(d, &d->l->o[0], 'd');
    inst *in = decode_emit(d, to_window);
    in->o[0] = r, in->o[1] = a;
    in->imm = to ? -(int64_t)window : (int64_t)window;
    return true;
}

static bool decode_isspacep(decoder *d)
{
    uint64_t window;
    if (!take_window(d, &window)) decode_stop(d, "not known");
    decode_end(d, 2, 2);
    const int32_t a = decode_source(d, &d->l->o[1], 'd'), r = decode_result(d, &d->l->o[0], 'p');
    inst *in = decode_emit(d, is_space);
    in->o[0] = r, in->o[1] = a;
    in->imm = (int64_t)window;
    return true;
}

/* r = a op b of predicates, or its complement. */
static void emit_predicate(decoder *d, inst_fn *run, int32_t r, int32_t a, int32_t b)
{
    inst *in = decode_emit(d, run);
    in->o[0] = r, in->o[1] = a, in->o[2] = b;
}

/* setp.cmp.bool.type p|q, a, b, c: p = cmp bool c, q = !cmp bool c. */
static bool decode_setp(decoder *d)
{
    static const char *const bools[] = {"and", "or", "xor", NULL};
    static inst_fn *const run[] = {ops_and_predicate, ops_or_predicate, ops_xor_predicate};
    const int how = decode_one_of(d, bools);
    char plain[64] = "setp";
    for (int i = 1; i < d->n_word; i++)
        if (!d->taken[i]) strcat(strcat(plain, "."), d->word[i]);
    const op_row *r = decode_find(plain);
    if (!r || d->l->n != (how < 0 ? 3 : 4)) decode_stop(d, "not known");
    const bool pair = d->l->o[0].kind == OPERAND_PAIR;
    const ptx_operand *to = pair ? d->l->o[0].part : &d->l->o[0];
    const int32_t a = decode_source(d, &d->l->o[1], r->form[2]), b = decode_source(d, &d->l->o[2], r->form[2]);
    const int32_t c = how < 0 ? NO_ROW : decode_source(d, &d->l->o[3], 'p');
    const int32_t yes = decode_temp(d, 1), no = decode_temp(d, 1);
    inst *in = decode_emit(d, r->run);
    in->o[0] = yes, in->o[1] = a, in->o[2] = b;
    emit_predicate(d, ops_not_predicate, no, yes, NO_ROW);
    const int32_t p = decode_result(d, &to[0], 'p'), q = pair ? decode_result(d, &to[1], 'p') : NO_ROW;
    /* q first into a passing row: c may be p itself. */
    const int32_t other = decode_temp(d, 1);
    if (pair) emit_predicate(d, how < 0 ? ops_mov_predicate : run[how], other, no, c);
    emit_predicate(d, how < 0 ? ops_mov_predicate : run[how], p, yes, c);
    if (pair) emit_predicate(d, ops_mov_predicate, q, other, NO_ROW);
    return true;
}

bool decode_move(decoder *d)
{
    const char *op = d->word[0];
    if (!strcmp(op, "mov")) return decode_mov(d);
    if (!strcmp(op, "cvta")) return decode_cvta(d);
    if (!strcmp(op, "isspacep")) return decode_isspacep(d);
    if (!strcmp(op, "setp")) return decode_setp(d);
    return false;
}
