/* ptx_vars.c - declarations of variables and of their first values: numbers, symbols, generic(symbol), and bytes of an
 * address as 0xFF00(symbol). */
#include "tests/gpu/ptx_vars.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int ptx_type_bytes(const char *type)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {{"pred", 1},   {"b8", 1},   {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2},
                 {"f16", 2},    {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4}, {"f16x2", 4},
                 {"bf16x2", 4}, {"b64", 8},  {"u64", 8}, {"s64", 8}, {"f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type + (*type == '.'), types[i].name)) return types[i].bytes;
    return 0;
}

int ptx_space_of(const char *word)
{
    static const char *const names[] = {".generic", ".global", ".const", ".shared", ".local", ".param"};
    for (int i = 1; i < 6; i++)
        if (!strcmp(word, names[i])) return i;
    return -1;
}

static void read_value(ptx_cursor *c, ptx_variable *v, int64_t at)
{
    ptx_value value = {0};
    if (isdigit((unsigned char)ptx_peek(c)) || *c->p == '-') {
        ptx_operand o = {0};
        ptx_number(c, &o);
        value.bits = (uint64_t)o.value;
        if (o.kind == OPERAND_FLOAT && o.bytes == 8 && v->element == 4) {
            double d;
            memcpy(&d, &o.value, 8);
            const float f = (float)d;
            uint32_t bits;
            memcpy(&bits, &f, 4);
            value.bits = bits;
        }
        if (ptx_take(c, '(')) { /* a mask: which byte of an address */
            value.shift = value.bits ? __builtin_ctzll(value.bits) : 0;
            value.bits = 0;
            value.symbol = ptx_keep(ptx_word(c, false));
            ptx_need(c, ')');
        }
    } else {
        const bool generic = ptx_take_word(c, "generic") && ptx_take(c, '(');
        value.symbol = ptx_keep(ptx_word(c, false));
        if (ptx_peek(c) == '+' || *c->p == '-') {
            ptx_operand o = {0};
            ptx_take(c, '+');
            ptx_number(c, &o);
            value.bits = (uint64_t)o.value;
        }
        if (generic) ptx_need(c, ')');
    }
    while (v->n_value < at) GROW(v->value, v->n_value);
    *GROW(v->value, v->n_value) = value;
}

/* Values of the elements from at on, that a { } of inner rows holds; tells where it ended. */
static int64_t read_values(ptx_cursor *c, ptx_variable *v, int64_t at, const int64_t *rows)
{
    if (!ptx_take(c, '{')) {
        read_value(c, v, at);
        return at + 1;
    }
    const int64_t from = at;
    while (!ptx_take(c, '}')) {
        at = read_values(c, v, at, rows + 1);
        ptx_take(c, ',');
    }
    return from + (rows[0] > at - from ? rows[0] : at - from);
}

static void read_length(ptx_cursor *c, ptx_variable *v)
{
    int64_t dim[8] = {0}, rows[9] = {0};
    int n = 0;
    while (ptx_take(c, '[')) {
        ptx_operand o = {0};
        if (ptx_peek(c) != ']') ptx_number(c, &o);
        else v->dynamic = true;
        ptx_need(c, ']');
        if (n == 8) ptx_stop(c, "too many dimensions");
        dim[n++] = o.value;
    }
    int64_t all = 1;
    for (int i = n; i-- > 0;) {
        all *= dim[i];
        rows[i] = all;
    }
    v->bytes = v->dynamic ? 0 : all * v->element;
    if (ptx_take(c, '=')) {
        const int64_t had = read_values(c, v, 0, rows);
        if (v->dynamic && v->space != SPACE_SHARED) v->bytes = had * v->element, v->dynamic = false;
        if (v->n_value * v->element > v->bytes) ptx_stop(c, "more values than elements");
    }
}

void ptx_variable_read(ptx_cursor *c, ptx_variable *v)
{
    int lanes = 1;
    while (ptx_peek(c) == '.') {
        const char *word = ptx_word(c, false);
        ptx_operand o = {0};
        if (!strcmp(word, ".align")) {
            ptx_number(c, &o);
            v->align = o.value;
        } else if (!strcmp(word, ".v2") || !strcmp(word, ".v4")) {
            lanes = word[2] - '0';
        } else if (ptx_type_bytes(word)) {
            v->element = ptx_type_bytes(word) * lanes;
        } else if (strcmp(word, ".ptr") && ptx_space_of(word) < 0) {
            ptx_stop(c, "an attribute of a variable that is not known");
        }
    }
    if (!v->element) ptx_stop(c, "a variable without type");
    if (v->align < v->element) v->align = v->align ? v->align : v->element;
    v->name = ptx_keep(ptx_word(c, false));
    read_length(c, v);
}
