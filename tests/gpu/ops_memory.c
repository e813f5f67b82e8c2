/* ops_memory.c - ld and st: bytes at addresses and values in registers. */
#include "tests/gpu/access.h"
#include "tests/gpu/decode.h"
#include "tests/gpu/proxy.h"

#include <string.h>

/* How an element lies in memory, and whether its register takes 64 bits: kind of the instruction. */
enum { ELEMENT_U8, ELEMENT_S8, ELEMENT_U16, ELEMENT_S16, ELEMENT_32, ELEMENT_S32, ELEMENT_64, ELEMENT_WIDE = 8 };
static const uint8_t element_bytes[] = {1, 1, 2, 2, 4, 4, 8};

static uint64_t address_of(const warp *w, const inst *in, int l)
{
    return in->mode ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
}

static uint64_t element_get(const uint8_t *p, int kind)
{
    uint64_t v = 0;
    switch (kind & 7) {
    case ELEMENT_U8: return *p;
    case ELEMENT_S8: return (uint64_t)(int64_t)(int8_t)*p;
    case ELEMENT_U16: memcpy(&v, p, 2); return v;
    case ELEMENT_S16: memcpy(&v, p, 2); return (uint64_t)(int64_t)(int16_t)v;
    case ELEMENT_32: memcpy(&v, p, 4); return v;
    case ELEMENT_S32: memcpy(&v, p, 4); return (uint64_t)(int64_t)(int32_t)v;
    default: memcpy(&v, p, 8); return v;
    }
}

/* An address as one of any space. */
static uint64_t at_any(const inst *in, uint64_t at) { return in->space == SPACE_SHARED ? WINDOW_SHARED | at : at; }

/* Addresses of all lanes, also of those that do nothing. */
static void addresses(const warp *w, const inst *in, uint64_t at[LANES])
{
    if (in->mode) {
        const uint64_t *base = (const uint64_t *)row(w, in->o[1]);
        for (int l = 0; l < LANES; l++) at[l] = base[l] + (uint64_t)in->imm;
    } else {
        const uint32_t *base = row(w, in->o[1]);
        for (int l = 0; l < LANES; l++) at[l] = base[l] + (uint64_t)in->imm;
    }
}

/* Strong accesses take part in what orders threads. */
static void note_strong(warp *w, const inst *in, uint32_t mask, const uint64_t at[LANES], int touch)
{
    for (uint32_t m = mask; m; m &= m - 1)
        race_strong(w, __builtin_ctz(m), at_any(in, at[__builtin_ctz(m)]), touch, in->order);
}

#define FROM_MEMORY(T, DW, ...)                                                                                        \
    do {                                                                                                               \
        DW *d = (DW *)row_set(w, in->x[i]);                                                                            \
        for (uint32_t m = mask; m; m &= m - 1) {                                                                       \
            const int l = __builtin_ctz(m);                                                                            \
            T v;                                                                                                       \
            memcpy(&v, p[l] + (unsigned)i * sizeof v, sizeof v);                                                       \
            d[l] = (DW)__VA_ARGS__ v;                                                                                  \
        }                                                                                                              \
    } while (0)

static void load(warp *w, const inst *in, uint32_t mask)
{
    const unsigned bytes = (unsigned)element_bytes[in->kind & 7] * in->n;
    uint64_t at[LANES];
    uint8_t *p[LANES];
    addresses(w, in, at);
    const bool constant = in->order == ORDER_CONSTANT, strong = in->order && !constant;
    const int touch = TOUCH_READ | (strong ? TOUCH_STRONG : constant ? TOUCH_CONSTANT : 0);
    if (!access_lanes(w, mask, (ptx_space)in->space, at, bytes, touch, p)) return;
    if (strong) note_strong(w, in, mask, at, TOUCH_READ);
    for (int i = 0; i < in->n; i++) switch (in->kind) {
        case ELEMENT_U8: FROM_MEMORY(uint8_t, uint32_t, ); break;
        case ELEMENT_S8: FROM_MEMORY(int8_t, uint32_t, ); break;
        case ELEMENT_U16: FROM_MEMORY(uint16_t, uint32_t, ); break;
        case ELEMENT_S16: FROM_MEMORY(int16_t, uint32_t, ); break;
        case ELEMENT_32:
        case ELEMENT_S32: FROM_MEMORY(uint32_t, uint32_t, ); break;
        case ELEMENT_U8 | ELEMENT_WIDE: FROM_MEMORY(uint8_t, uint64_t, ); break;
        case ELEMENT_S8 | ELEMENT_WIDE: FROM_MEMORY(int8_t, uint64_t, (int64_t)); break;
        case ELEMENT_U16 | ELEMENT_WIDE: FROM_MEMORY(uint16_t, uint64_t, ); break;
        case ELEMENT_S16 | ELEMENT_WIDE: FROM_MEMORY(int16_t, uint64_t, (int64_t)); break;
        case ELEMENT_32 | ELEMENT_WIDE: FROM_MEMORY(uint32_t, uint64_t, ); break;
        case ELEMENT_S32 | ELEMENT_WIDE: FROM_MEMORY(int32_t, uint64_t, (int64_t)); break;
        default: FROM_MEMORY(uint64_t, uint64_t, );
        }
}

/* A parameter of the kernel is the same for all lanes. */
static void load_parameter(warp *w, const inst *in, uint32_t mask)
{
    const unsigned size = element_bytes[in->kind & 7];
    const int first = __builtin_ctz(mask);
    const uint64_t at = address_of(w, in, first) + (uint64_t)in->imm;
    const uint8_t *p = access_at(w, first, SPACE_PARAM, at, size * in->n, size * in->n, TOUCH_READ);
    for (int i = 0; p && i < in->n; i++) {
        const uint64_t v = element_get(p + i * size, in->kind);
        if (in->kind & ELEMENT_WIDE) {
            uint64_t *d = (uint64_t *)row_set(w, in->x[i]);
            EACH_LANE(mask, d[l] = v;);
        } else {
            uint32_t *d = row_set(w, in->x[i]);
            EACH_LANE(mask, d[l] = (uint32_t)v;);
        }
    }
}

static void store(warp *w, const inst *in, uint32_t mask)
{
    const unsigned size = element_bytes[in->kind & 7], bytes = size * in->n;
    uint64_t at[LANES];
    uint8_t *p[LANES];
    addresses(w, in, at);
    if (!access_lanes(w, mask, (ptx_space)in->space, at, bytes, in->order ? TOUCH_WRITE | TOUCH_STRONG : TOUCH_WRITE,
                      p))
        return;
    if (in->order) note_strong(w, in, mask, at, TOUCH_WRITE | TOUCH_OVER);
    for (int i = 0; i < in->n; i++) {
        const uint8_t *from = (const uint8_t *)row(w, in->x[i]);
        const size_t step = in->kind & ELEMENT_WIDE ? 8 : 4;
        for (uint32_t m = mask; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            memcpy(p[l] + (unsigned)i * size, from + step * (unsigned)l, size);
        }
    }
}

static void nothing(warp *w, const inst *in, uint32_t mask) { (void)w, (void)in, (void)mask; }

/* ---- decoding ---- */

ptx_space decode_space(decoder *d)
{
    static const char *const spaces[] = {"global", "const",        "shared",      "shared::cta", "local",
                                         "param",  "param::entry", "param::func", NULL};
    static const ptx_space of[] = {SPACE_GLOBAL, SPACE_CONST, SPACE_SHARED, SPACE_SHARED,
                                   SPACE_LOCAL,  SPACE_PARAM, SPACE_PARAM,  SPACE_PARAM};
    const int i = decode_one_of(d, spaces);
    return i < 0 ? SPACE_GENERIC : of[i];
}

/* Hints for caches change no value. */
static void take_hints(decoder *d)
{
    static const char *const hints[] = {"ca",
                                        "cg",
                                        "cs",
                                        "lu",
                                        "cv",
                                        "wb",
                                        "wt",
                                        "weak",
                                        "L1::evict_normal",
                                        "L1::evict_unchanged",
                                        "L1::evict_first",
                                        "L1::evict_last",
                                        "L1::no_allocate",
                                        "L2::64B",
                                        "L2::128B",
                                        "L2::256B",
                                        "L2::evict_normal",
                                        "L2::evict_first",
                                        "L2::evict_last",
                                        NULL};
    while (decode_one_of(d, hints) >= 0) {}
}

void decode_address(decoder *d, const ptx_operand *o, int32_t *at, bool *wide, int64_t *offset)
{
    if (o->kind != OPERAND_ADDRESS) decode_stop(d, "an address in [ ] is missing");
    const ptx_operand *base = &o->part[0];
    *offset = o->value;
    if (base->kind == OPERAND_SYMBOL) {
        ptx_operand symbol = *base;
        const ptx_variable *v = ptx_program_variable(d->p, base->name);
        symbol.value = v && v->dynamic ? 0 : o->value;
        *offset = o->value - symbol.value;
        *wide = true;
        *at = decode_source(d, &symbol, 'd');
        return;
    }
    *wide = base->kind != OPERAND_REGISTER || base->bytes == 8;
    *at = decode_source(d, base, *wide ? 'd' : 'r');
}

static int element_kind(decoder *d, const ptx_operand *o)
{
    int bytes;
    const char *type = decode_type(d, &bytes);
    const bool is_signed = type[0] == 's';
    const int kind = bytes == 1   ? ELEMENT_U8 + is_signed
                     : bytes == 2 ? ELEMENT_U16 + is_signed
                     : bytes == 4 ? ELEMENT_32 + is_signed
                                  : ELEMENT_64;
    if (bytes > 8) decode_stop(d, "not known");
    const bool wide = bytes == 8 || (o->kind == OPERAND_REGISTER && o->bytes == 8);
    if (o->kind == OPERAND_REGISTER && o->bytes < bytes) decode_stop(d, "a register that is too small");
    return kind | (wide ? ELEMENT_WIDE : 0);
}

/* [a parameter of the kernel] */
static bool names_parameter(const decoder *d, const ptx_operand *o)
{
    const ptx_function *f = &d->p->m->function[d->function];
    for (int i = 0; f->entry && o->part[0].kind == OPERAND_SYMBOL && i < f->n_param; i++)
        if (!strcmp(f->param[i].name, o->part[0].name)) return true;
    return false;
}

static bool decode_load_store(decoder *d, bool is_load)
{
    static const char *const vectors[] = {"v2", "v4", "v8", NULL}, *const orders[] = {"volatile", "relaxed", "acquire",
                                                                                      "release", NULL};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    static const uint8_t by_order[] = {ORDER_RELAXED, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE};
    const ptx_line *l = d->l;
    const ptx_space space = decode_space(d);
    const int order = decode_one_of(d, orders), vector = decode_one_of(d, vectors);
    if (order > 0 && decode_one_of(d, scopes) < 0) decode_stop(d, "a scope is missing");
    const bool constant = is_load && decode_word(d, "nc");
    take_hints(d);
    const bool hint = decode_word(d, "L2::cache_hint");
    const ptx_operand *value = &l->o[is_load ? 0 : 1], *at = &l->o[is_load ? 1 : 0];
    const int n = vector < 0 ? 1 : 2 << vector;
    if (l->n < 2 || (vector >= 0) != (value->kind == OPERAND_VECTOR) || (vector >= 0 && value->n != n))
        decode_stop(d, "not so many operands");
    const ptx_operand *values = vector < 0 ? value : value->part;
    const int kind = element_kind(d, &values[0]);
    decode_end(d, hint ? 3 : 2, hint ? 3 : 2);
    int32_t *x = decode_rows(d->p, n), base;
    for (int i = 0; i < n; i++) {
        const bool known = values[i].kind == OPERAND_REGISTER;
        const char letter = known && values[i].bytes == 2 ? 'h' : kind & ELEMENT_WIDE ? 'd' : 'r';
        x[i] = is_load ? decode_result(d, &values[i], letter) : decode_source(d, &values[i], letter);
    }
    bool wide;
    int64_t offset;
    decode_address(d, at, &base, &wide, &offset);
    const bool parameter = space == SPACE_PARAM && names_parameter(d, at);
    inst *in = decode_emit(d, !is_load ? store : parameter ? load_parameter : load);
    in->o[1] = base;
    in->mode = wide;
    in->imm = offset;
    in->space = (uint8_t)space;
    in->kind = (uint8_t)kind;
    in->n = (uint8_t)n;
    in->x = x;
    in->order = order >= 0 ? by_order[order] : constant ? ORDER_CONSTANT : ORDER_WEAK;
    return true;
}

static void fence(warp *w, const inst *in, uint32_t mask)
{
    if (in->kind) proxy_fence(w, mask);
    race_fence(w, mask);
}

static bool decode_fence(decoder *d)
{
    static const char *const orders[] = {"sc", "acq_rel", "mbarrier_init", "proxy", NULL};
    static const char *const scopes[] = {"cta", "gl", "gpu", "sys", "cluster", NULL};
    const int order = decode_one_of(d, orders);
    if (order >= 2) memset(d->taken, true, sizeof d->taken); /* of an order that holds here by itself */
    else if (decode_one_of(d, scopes) < 0) decode_stop(d, "not known");
    decode_end(d, 0, 0);
    decode_emit(d, fence)->kind = order == 3;
    return true;
}

bool decode_memory(decoder *d)
{
    const char *op = d->word[0];
    if (!strcmp(op, "ld")) return decode_load_store(d, true);
    if (!strcmp(op, "ldu")) return decode_load_store(d, true);
    if (!strcmp(op, "st")) return decode_load_store(d, false);
    if (!strcmp(op, "prefetch") || !strcmp(op, "prefetchu") || !strcmp(op, "applypriority") || !strcmp(op, "discard")) {
        decode_emit(d, nothing);
        return true;
    }
    if (strcmp(op, "membar") && strcmp(op, "fence")) return false;
    return decode_fence(d);
}
