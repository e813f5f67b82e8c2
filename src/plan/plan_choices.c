/* plan_choices.c - see plan_choices.h. */
#include "plan/plan_choices.h"

#include <string.h>

static const param rows[] = {
    PLAN_ROWS_OF_DIVISION(plan_choices, ), PLAN_ROW_OF_KERNELS(plan_choices, ), PLAN_ROW_OF_STEPS(plan_choices, ),
    PLAN_CHOICE(plan_choices, , act_f32, PARAM_BOOL), /* no flag: the model is told by --act */
};

#define X(id, word) word,
const char *const reduce_words[REDUCE_COUNT] = {REDUCE_LIST(X)};
#undef X

static const param *row_of(const char *key) { return param_find(rows, sizeof rows / sizeof *rows, key); }

/* How a value is told. */
typedef enum { AS_NUMBER, AS_SWITCH, AS_WORD } form;

static form form_of(const param *row)
{
    if (row->type == PARAM_INT) return AS_NUMBER;
    return row->type == PARAM_BOOL || param_word_count(row) == 2 ? AS_SWITCH : AS_WORD;
}

static uint32_t value_of(const param *row, const plan_choices *c)
{
    const void *field = (const char *)c + row->offset;
    return row->type == PARAM_INT    ? (uint32_t) * (const int64_t *)field
           : row->type == PARAM_BOOL ? *(const bool *)field
                                     : *(const unsigned *)field;
}

bool plan_choice_write(buf *out, const plan_choices *c, const char *key)
{
    const param *row = row_of(key);
    const uint32_t value = value_of(row, c);
    if (form_of(row) == AS_NUMBER) return buf_uint(out, value, 4);
    if (form_of(row) == AS_SWITCH) return buf_byte(out, (uint8_t)value);
    const span word = param_word(row, value);
    buf_uint(out, word.n, 4);
    return buf_add(out, word.p, word.n);
}

/* "--wire int5: there are f32, f16, int8, int4". */
static void refuse_word(const param *row, span word, err *e)
{
    char flag[80];
    buf all = {0};
    for (uint32_t i = 0; i < param_word_count(row); i++) {
        const span other = param_word(row, i);
        buf_printf(&all, "%s%.*s", i ? ", " : "", (int)other.n, (const char *)other.p);
    }
    err_set(e, ERR_USAGE, "--%s %.*s: there are %s", param_spell(row->key, flag), (int)(word.n < 64 ? word.n : 64),
            (const char *)word.p, buf_cstr(&all));
    buf_free(&all);
}

/* An empty word is the default. */
static void read_word(const param *row, unsigned *to, cursor *from, err *e)
{
    const span word = cursor_take(from, cursor_u32(from));
    if (word.n && memchr(word.p, 0, word.n)) from->bad = true;
    if (from->bad || !word.n) return;
    uint32_t i = 0;
    while (i < param_word_count(row) && !span_eq(word, param_word(row, i))) i++;
    if (i < param_word_count(row)) *to = i;
    else refuse_word(row, word, e);
}

void plan_choice_read(plan_choices *c, const char *key, cursor *from, err *e)
{
    const param *row = row_of(key);
    void *field = (char *)c + row->offset;
    if (form_of(row) == AS_WORD) {
        read_word(row, field, from, e);
        return;
    }
    const uint32_t value = form_of(row) == AS_NUMBER ? cursor_u32(from) : cursor_u8(from);
    if (value > (row->type == PARAM_INT ? (uint32_t)row->max : 1)) from->bad = true;
    if (from->bad) return;
    if (row->type == PARAM_INT) *(int64_t *)field = value;
    else if (row->type == PARAM_BOOL) *(bool *)field = value;
    else *(unsigned *)field = value;
}

void plan_choice_tell(buf *out, const plan_choices *c, const char *key)
{
    const param *row = row_of(key);
    const uint32_t value = value_of(row, c);
    const span word = form_of(row) == AS_WORD ? param_word(row, value) : (span){0};
    if (!word.n) buf_printf(out, "%u", value);
    else if (value) buf_add(out, word.p, word.n);
    else buf_byte(out, '-');
}
