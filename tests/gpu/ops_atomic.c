/* ops_atomic.c - atom and red: lanes one after the other. Orders matter to race.c alone: nothing here
 * runs at the same time. */
#include "tests/gpu/access.h"
#include "tests/gpu/decode.h"
#include "tests/gpu/soft_float.h"

#include <math.h>
#include <string.h>

enum { ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_INC, ATOM_DEC, ATOM_CAS };
enum { ATOM_UNSIGNED, ATOM_SIGNED, ATOM_FLOAT };

static uint64_t of_floats(int op, uint64_t had, uint64_t by, int bytes)
{
    if (op != ATOM_ADD) return by;
    if (bytes == 4) return f32_bits(f32_of((uint32_t)had) + f32_of((uint32_t)by));
    return f64_bits(f64_of(had) + f64_of(by));
}

static uint64_t result_of(int op, int type, uint64_t had, uint64_t by, uint64_t other, int bytes)
{
    if (type == ATOM_FLOAT) return of_floats(op, had, by, bytes);
    const int64_t a = bytes == 4 ? (int32_t)had : (int64_t)had, b = bytes == 4 ? (int32_t)by : (int64_t)by;
    switch (op) {
    case ATOM_ADD: return had + by;
    case ATOM_MIN: return type == ATOM_SIGNED ? (a < b ? had : by) : had < by ? had : by;
    case ATOM_MAX: return type == ATOM_SIGNED ? (a > b ? had : by) : had > by ? had : by;
    case ATOM_AND: return had & by;
    case ATOM_OR: return had | by;
    case ATOM_XOR: return had ^ by;
    case ATOM_INC: return had >= by ? 0 : had + 1;
    case ATOM_DEC: return !had || had > by ? by : had - 1;
    case ATOM_CAS: return had == by ? other : had;
    default: return by;
    }
}

static uint64_t value_of(const warp *w, int32_t r, int l, int bytes)
{
    if (r == NO_ROW) return 0;
    const uint64_t v = bytes == 8 ? ((const uint64_t *)row(w, r))[l] : row(w, r)[l];
    return bytes == 2 ? v & 0xffff : v;
}

/* kind: the bytes; mode: operation; n: type; target's place holds whether the address is wide. */
static void atomic(warp *w, const inst *in, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m), bytes = in->kind;
        const uint64_t base = in->target ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
        const uint64_t at = base + (uint64_t)in->imm;
        uint8_t *p = access_at(w, l, (ptx_space)in->space, at, (unsigned)bytes, (unsigned)bytes,
                               TOUCH_READ | TOUCH_WRITE | TOUCH_STRONG);
        if (!p) return;
        race_strong(w, l, in->space == SPACE_SHARED ? WINDOW_SHARED | at : at, TOUCH_READ | TOUCH_WRITE, in->order);
        uint64_t had = 0;
        memcpy(&had, p, (size_t)bytes);
        const uint64_t now = result_of(in->mode, in->n, had, value_of(w, in->o[2], l, bytes),
                                       value_of(w, in->o[3], l, bytes), bytes);
        memcpy(p, &now, (size_t)bytes);
        if (in->o[0] == NO_ROW) continue;
        if (bytes == 8) ((uint64_t *)row_set(w, in->o[0]))[l] = had;
        else row_set(w, in->o[0])[l] = (uint32_t)had;
    }
}

bool decode_atomic(decoder *d)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas", NULL};
    static const char *const orders[] = {"relaxed", "acquire", "release", "acq_rel", NULL};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    const bool gives = !strcmp(d->word[0], "atom");
    if (!gives && strcmp(d->word[0], "red")) return false;
    const ptx_space space = decode_space(d);
    static const uint8_t by_order[] = {ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_BOTH};
    const int order = decode_one_of(d, orders);
    decode_one_of(d, scopes);
    const int op = decode_one_of(d, ops);
    int bytes;
    const char *type = decode_type(d, &bytes);
    const int kind = type[0] == 'f' ? ATOM_FLOAT : type[0] == 's' ? ATOM_SIGNED : ATOM_UNSIGNED;
    if (op < 0 || bytes < 4 - 2 * (op == ATOM_CAS) || strstr(type, "x2") || (kind == ATOM_FLOAT && op != ATOM_ADD))
        decode_stop(d, "not known");
    const int n = 2 + (op == ATOM_CAS), first = gives;
    decode_end(d, n + first, n + first);
    bool wide;
    int64_t offset;
    int32_t base;
    decode_address(d, &d->l->o[first], &base, &wide, &offset);
    const char letter = kind == ATOM_FLOAT ? (bytes == 4 ? 'f' : 'g') : decode_letter(bytes);
    const int32_t by = decode_source(d, &d->l->o[first + 1], letter);
    const int32_t other = op == ATOM_CAS ? decode_source(d, &d->l->o[first + 2], letter) : NO_ROW;
    const int32_t to = gives ? decode_result(d, &d->l->o[0], letter) : NO_ROW;
    inst *in = decode_emit(d, atomic);
    in->o[0] = to, in->o[1] = base, in->o[2] = by, in->o[3] = other;
    in->kind = (uint8_t)bytes;
    in->mode = (uint8_t)op;
    in->n = (uint8_t)kind;
    in->target = wide;
    in->order = order < 0 ? ORDER_RELAXED : by_order[order];
    in->imm = offset;
    in->space = (uint8_t)space;
    return true;
}
