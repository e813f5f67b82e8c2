/* decode.c - from lines of PTX to instructions: plain operations by a table, the others by the file that knows them. */
#include "tests/gpu/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ops.h"
#include "tests/gpu/ptx_lex.h"

void decode_stop(const decoder *d, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "soft gpu: PTX line %d of %s: %s: %s\n", d->l->line, d->p->m->function[d->function].name, d->l->op,
            why);
    abort();
}

/* ---- the operation's name ---- */

static void split_name(decoder *d)
{
    d->n_word = 0;
    for (const char *p = d->l->op; *p; d->n_word++) {
        const size_t n = strcspn(p, ".");
        if (d->n_word == DECODE_WORDS || n >= sizeof d->word[0]) decode_stop(d, "not known");
        memcpy(d->word[d->n_word], p, n);
        d->word[d->n_word][n] = 0;
        d->taken[d->n_word] = !d->n_word;
        p += n + (p[n] == '.');
    }
}

bool decode_word(decoder *d, const char *word)
{
    for (int i = 1; i < d->n_word; i++)
        if (!d->taken[i] && !strcmp(d->word[i], word)) return d->taken[i] = true;
    return false;
}

int decode_one_of(decoder *d, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (decode_word(d, list[i])) return i;
    return -1;
}

const char *decode_type(decoder *d, int *bytes)
{
    static const struct {
        char name[8];
        int bytes;
    } types[] = {{"b8", 1},   {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2},  {"s16", 2},   {"f16", 2},
                 {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4},  {"f16x2", 4}, {"bf16x2", 4},
                 {"b64", 8},  {"u64", 8}, {"s64", 8}, {"f64", 8}, {"b128", 16}};
    const int last = d->n_word - 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(d->word[last], types[i].name)) continue;
        d->taken[last] = true;
        *bytes = types[i].bytes;
        return types[i].name;
    }
    decode_stop(d, "its type is not known");
}

void decode_end(const decoder *d, int least, int most)
{
    for (int i = 0; i < d->n_word; i++)
        if (!d->taken[i]) decode_stop(d, d->word[i]);
    if (d->l->n < least || d->l->n > most) decode_stop(d, "not so many operands");
}

/* ---- what an instruction is made of ---- */

/* Room for twice as many; the list of before stays where it is. */
static void move_list(program *p, void *list, size_t bytes)
{
    void *const before = *(void **)list, *const after = calloc(2, bytes);
    if (!after) abort();
    if (before) memcpy(after, before, bytes);
    *GROW(p->old, p->n_old) = before;
    *(void **)list = after;
}

inst *decode_emit(decoder *d, inst_fn *run)
{
    program *p = d->p;
    if (p->n_code == p->code_room) {
        p->code_room = p->code_room ? 2 * p->code_room : 1024;
        move_list(p, &p->code, sizeof *p->code * (size_t)p->code_room / 2);
    }
    inst *in = &p->code[p->n_code++];
    *in = (inst){.run = run, .o = {NO_ROW, NO_ROW, NO_ROW, NO_ROW, NO_ROW}, .guard = NO_ROW, .line = d->l->line};
    in->text = d->l->op;
    in->target = -1;
    if (d->l->guard >= 0) {
        in->guard = d->p->frame[d->function] + d->l->guard;
        in->guard_not = d->l->guard_not;
    }
    return in;
}

int32_t decode_temp(decoder *d, int rows)
{
    if (d->n_temp + rows > TEMP_COUNT) decode_stop(d, "too many values");
    d->n_temp += rows;
    return TEMP_FIRST + d->n_temp - rows;
}

static bool same_constant(const program *p, int r, uint64_t value, bool wide)
{
    const uint32_t *w = p->constants + (size_t)r * LANES;
    if (wide) return w[0] == (uint32_t)value && w[1] == value >> 32 && w[2] == w[0] && w[3] == w[1];
    return w[0] == (uint32_t)value && w[1] == w[0];
}

/* Rows of constants, found again by a hash. A wide one has two; a narrow one with equal words is like one half of it,
 * which does no harm. */
int32_t decode_constant(program *p, uint64_t value, bool wide)
{
    if (!wide) value = (uint32_t)value;
    if (2 * (p->n_constant + 2) > p->constant_slots) {
        p->constant_slots = p->constant_slots ? 2 * p->constant_slots : 1024;
        free(p->constant_at);
        p->constant_at = calloc((size_t)p->constant_slots, sizeof *p->constant_at); /* what was there is made again */
        if (!p->constant_at) abort();
    }
    uint32_t slot = (uint32_t)((value * 0x9e3779b97f4a7c15 + wide) >> 32) % (uint32_t)p->constant_slots;
    for (; p->constant_at[slot]; slot = (slot + 1) % (uint32_t)p->constant_slots) {
        const int at = p->constant_at[slot] - 1;
        const bool at_wide = at & 1;
        if (at_wide == wide && same_constant(p, at >> 1, value, wide)) return INT32_MIN | (at >> 1);
    }
    if (p->n_constant + 2 > p->constant_room) {
        p->constant_room = p->constant_room ? 2 * p->constant_room : 64;
        move_list(p, &p->constants, sizeof(uint32_t) * LANES * (size_t)p->constant_room / 2);
    }
    const int r = p->n_constant;
    for (int l = 0; l < LANES; l++) {
        if (wide) memcpy(p->constants + (size_t)r * LANES + 2 * l, &value, 8);
        else p->constants[(size_t)r * LANES + l] = (uint32_t)value;
    }
    p->n_constant += wide ? 2 : 1;
    p->constant_at[slot] = (r << 1 | wide) + 1;
    return INT32_MIN | r;
}

int32_t *decode_rows(program *p, int n)
{
    int32_t *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) abort();
    *GROW(p->lists, p->n_list) = list;
    return list;
}

/* ---- operands ---- */

char decode_letter(int bytes) { return bytes == 8 ? 'd' : bytes == 4 ? 'r' : bytes == 2 ? 'h' : 'B'; }

static int letter_bytes(char letter)
{
    return strchr("dgD", letter) ? 8 : strchr("rfR", letter) ? 4 : strchr("hH", letter) ? 2 : 1;
}

int64_t decode_number(const decoder *d, const ptx_operand *o)
{
    if (o->kind != OPERAND_INTEGER) decode_stop(d, "a number is missing");
    return o->value;
}

static bool in_scope(const ptx_function *f, int scope, int of)
{
    for (; scope >= 0; scope = f->scope_parent[scope])
        if (scope == of) return true;
    return false;
}

/* The variable that is nearest in scope: of the body, then parameters, then the module's. */
static bool variable_address(const decoder *d, const char *name, int scope, uint64_t *at)
{
    const program *p = d->p;
    const ptx_function *f = &p->m->function[d->function];
    const uint64_t local = (uint64_t)p->local[d->function] + LOCAL_START;
    const ptx_variable *best = NULL;
    for (int i = 0; i < f->n_variable; i++) {
        const ptx_variable *v = &f->variable[i];
        if (!strcmp(v->name, name) && in_scope(f, scope, v->scope) && (!best || best->scope <= v->scope)) best = v;
    }
    if (best) {
        const uint64_t outer = (uint64_t)(p->shared_bytes + 15) / 16 * 16;
        if (best->space == SPACE_SHARED && !f->entry) decode_stop(d, ".shared in a function that is no kernel");
        *at = best->space == SPACE_SHARED  ? SHARED_START + outer
              : best->space == SPACE_PARAM ? WINDOW_LOCAL + local
                                           : local;
        *at += (uint64_t)best->at;
        return true;
    }
    for (int i = 0; i < f->n_param + f->n_result; i++) {
        const ptx_variable *v = i < f->n_param ? &f->param[i] : &f->result[i - f->n_param];
        if (strcmp(v->name, name)) continue;
        *at = (uint64_t)v->at + (f->entry ? WINDOW_PARAM : WINDOW_LOCAL + local);
        return true;
    }
    best = ptx_program_variable(p, name);
    if (best) *at = (uint64_t)best->at + (best->space == SPACE_SHARED ? SHARED_START : 0);
    return best != NULL;
}

static int32_t symbol_row(decoder *d, const ptx_operand *o, char letter)
{
    const bool wide = letter_bytes(letter) == 8;
    const ptx_variable *v = ptx_program_variable(d->p, o->name);
    if (letter_bytes(letter) < 4) decode_stop(d, "an address in a small register");
    if (v && v->dynamic && v->space == SPACE_SHARED) {
        if (o->value) decode_stop(d, "an offset of dynamic shared memory");
        if (!wide) return SPECIAL_DYNAMIC_START;
        const int32_t to = decode_temp(d, 2);
        inst *in = decode_emit(d, ops_widen);
        in->o[0] = to, in->o[1] = SPECIAL_DYNAMIC_START;
        return to;
    }
    if (!strcmp(o->name, "WARP_SZ")) return decode_constant(d->p, LANES, wide);
    uint64_t at;
    const int f = ptx_find_function(d->p->m, o->name);
    if (variable_address(d, o->name, d->l->scope, &at)) return decode_constant(d->p, at + (uint64_t)o->value, wide);
    if (f < 0) decode_stop(d, o->name);
    return decode_constant(d->p, WINDOW_CODE + 16 * (uint64_t)f, wide);
}

static int32_t special_row(decoder *d, const ptx_operand *o, char letter)
{
    static const char *const names[] = {
#define X(name, id) name,
        SPECIAL_LIST(X)
#undef X
    };
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (*names[i] && !strcmp(names[i], o->name)) {
            if (letter_bytes(letter) != 8) return i;
            const int32_t to = decode_temp(d, 2);
            inst *in = decode_emit(d, ops_widen);
            in->o[0] = to, in->o[1] = i;
            return to;
        }
    const bool narrow = !strcmp(o->name, "%clock");
    if (!narrow && strcmp(o->name, "%clock64") && strcmp(o->name, "%globaltimer")) decode_stop(d, o->name);
    if ((letter_bytes(letter) == 8) == narrow) decode_stop(d, "a register of another width");
    const int32_t to = decode_temp(d, 2);
    decode_emit(d, ops_clock)->o[0] = to;
    if (!narrow) return to;
    const int32_t low = decode_temp(d, 1);
    inst *in = decode_emit(d, ops_narrow);
    in->o[0] = low, in->o[1] = to;
    return low;
}

static int32_t register_row(decoder *d, const ptx_operand *o, char letter)
{
    const int want = letter_bytes(letter), at = d->p->frame[d->function] + o->slot;
    const bool may_be_wider = strchr("BHRD", letter) != NULL;
    if (letter == 'p' ? o->bytes != 1 : o->bytes == 1) decode_stop(d, "a predicate in the wrong place");
    if (letter == 'p') {
        if (!o->negated) return at;
        const int32_t to = decode_temp(d, 1);
        inst *in = decode_emit(d, ops_not_predicate);
        in->o[0] = to, in->o[1] = at;
        return to;
    }
    if (o->bytes != want && !(may_be_wider && o->bytes > want)) decode_stop(d, "a register of another width");
    if (o->bytes != 8 || want == 8) return at;
    const int32_t to = decode_temp(d, 1);
    inst *in = decode_emit(d, ops_narrow);
    in->o[0] = to, in->o[1] = at;
    return to;
}

static int32_t float_row(decoder *d, const ptx_operand *o, char letter)
{
    const int bytes = letter_bytes(letter);
    if (o->bytes == bytes) return decode_constant(d->p, (uint64_t)o->value, bytes == 8);
    double v;
    memcpy(&v, &o->value, 8);
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (letter != 'f' || o->bytes != 8) decode_stop(d, "a float of another width");
    return decode_constant(d->p, bits, false);
}

int32_t decode_source(decoder *d, const ptx_operand *o, char letter)
{
    switch (o->kind) {
    case OPERAND_REGISTER: return register_row(d, o, letter);
    case OPERAND_SPECIAL: return special_row(d, o, letter);
    case OPERAND_SYMBOL: return symbol_row(d, o, letter);
    case OPERAND_FLOAT: return float_row(d, o, letter);
    case OPERAND_INTEGER:
        if (letter == 'p') return decode_constant(d->p, o->value ? ALL_LANES : 0, false);
        if (strchr("fg", letter) && o->value) decode_stop(d, "a whole number where a float is meant");
        return decode_constant(d->p, (uint64_t)o->value, letter_bytes(letter) == 8);
    default: decode_stop(d, "an operand that is not known");
    }
}

int32_t decode_result(decoder *d, const ptx_operand *o, char letter)
{
    if (o->kind == OPERAND_SINK) return decode_temp(d, 2);
    if (o->kind != OPERAND_REGISTER || o->negated) decode_stop(d, "a result that is no register");
    if (letter == 'p' ? o->bytes != 1 : o->bytes == 1) decode_stop(d, "a predicate in the wrong place");
    if (letter != 'p' && letter_bytes(letter) != o->bytes) decode_stop(d, "a result of another width");
    return d->p->frame[d->function] + o->slot;
}

const ptx_label *decode_label(const decoder *d, const ptx_operand *o)
{
    const ptx_function *f = &d->p->m->function[d->function];
    const ptx_label *best = NULL;
    if (o->kind != OPERAND_SYMBOL) decode_stop(d, "a label is missing");
    for (int i = 0; i < f->n_label; i++) {
        const ptx_label *l = &f->label[i];
        if (!strcmp(l->name, o->name) && in_scope(f, d->l->scope, l->scope) && (!best || best->scope < l->scope))
            best = l;
    }
    if (!best) decode_stop(d, o->name);
    return best;
}

/* ---- lines ---- */

static const op_row **sorted_rows;
static size_t n_sorted;

static int by_name(const void *a, const void *b)
{
    return strcmp((*(op_row *const *)a)->op, (*(op_row *const *)b)->op);
}

static void sort_rows(void)
{
    static const op_row *const tables[] = {ops_int, ops_bits, ops_float, ops_half, ops_compare, ops_cvt};
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
            for (const op_row *r = tables[t]; r->op; r++, n++)
                if (pass) sorted_rows[n] = r;
        if (!pass) sorted_rows = malloc(n * sizeof *sorted_rows);
        if (!sorted_rows) abort();
        n_sorted = n;
    }
    qsort(sorted_rows, n_sorted, sizeof *sorted_rows, by_name);
}

const op_row *decode_find(const char *op)
{
    const op_row key = {.op = op}, *at = &key;
    if (!n_sorted) sort_rows();
    const op_row *const *r = bsearch(&at, sorted_rows, n_sorted, sizeof *sorted_rows, by_name);
    return r ? *r : NULL;
}

/* Where a conversion's register is wider than its type, the result is extended by the type's sign. */
static int32_t wide_result(decoder *d, const ptx_operand *o, char letter, int32_t *narrow)
{
    *narrow = NO_ROW;
    if (!strchr("BHRD", letter) || o->kind != OPERAND_REGISTER) return decode_result(d, o, letter);
    const int32_t at = d->p->frame[d->function] + o->slot;
    if (o->bytes < letter_bytes(letter) || o->bytes == 1) decode_stop(d, "a result of another width");
    if (o->bytes == 8 && letter != 'D') *narrow = decode_temp(d, 1);
    return at;
}

static bool has_vector(const ptx_line *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->o[i].kind == OPERAND_VECTOR) return true;
    return false;
}

static bool decode_plain(decoder *d)
{
    const op_row *r = decode_find(d->l->op);
    if (!r || d->l->o[0].kind == OPERAND_PAIR || has_vector(d->l)) return false;
    int32_t o[5] = {NO_ROW, NO_ROW, NO_ROW, NO_ROW, NO_ROW}, narrow, n = 1;
    int64_t imm = 0;
    if (d->l->n != (int)strlen(r->form) - 1) decode_stop(d, "not so many operands");
    o[0] = wide_result(d, &d->l->o[0], r->form[0], &narrow);
    for (const char *f = r->form + 2; *f; f++, n++) {
        if (*f == 'i') imm = decode_number(d, &d->l->o[n]);
        else o[n] = decode_source(d, &d->l->o[n], *f);
    }
    inst *in = decode_emit(d, r->run);
    memcpy(in->o, o, sizeof o);
    in->imm = imm;
    if (narrow == NO_ROW) return true;
    in->o[0] = narrow;
    in = decode_emit(d, d->word[d->n_word - 2][0] == 's' ? ops_widen_signed : ops_widen);
    in->o[0] = o[0], in->o[1] = narrow;
    return true;
}

static void decode_line(decoder *d)
{
    static bool (*const others[])(decoder *) = {decode_flow,     decode_memory, decode_move,
                                                decode_warp,     decode_matrix, decode_mbarrier,
                                                decode_products, decode_copy,   decode_atomic};
    d->n_temp = 0;
    split_name(d);
    if (decode_plain(d)) return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i](d)) return;
    decode_stop(d, "not known");
}

/* Targets are lines until the whole function is there. */
static void place_targets(decoder *d, int first, const int *at_line)
{
    for (int i = first; i < d->p->n_code; i++) {
        inst *in = &d->p->code[i];
        if (in->flow != FLOW_SETS) continue;
        if (in->aim == TARGET_LABEL) in->target = at_line[in->target];
        if (in->aim == TARGET_TABLE)
            for (int k = 0; k < in->n; k++) ((int32_t *)in->x)[k] = at_line[in->x[k]];
    }
}

static void decode_function(program *p, int f)
{
    const ptx_function *from = &p->m->function[f];
    const ptx_line end = {.op = "ret", .guard = -1, .line = from->n_line ? from->lines[from->n_line - 1].line : 0};
    decoder d = {.p = p, .function = f};
    int *at_line = malloc(sizeof *at_line * (size_t)(from->n_line + 1));
    const int first = p->n_code;
    if (!at_line) abort();
    p->entry[f] = first;
    for (int i = 0; i <= from->n_line; i++) {
        at_line[i] = p->n_code;
        d.l = i < from->n_line ? &from->lines[i] : &end;
        decode_line(&d);
    }
    place_targets(&d, first, at_line);
    free(at_line);
}

static void place_calls(program *p, int first)
{
    for (int i = first; i < p->n_code; i++)
        if (p->code[i].flow == FLOW_SETS && p->code[i].aim == TARGET_FUNCTION)
            p->code[i].target = p->entry[p->code[i].target];
}

void decode_later(program *p, int f)
{
    const int first = p->n_code;
    decode_function(p, f);
    place_calls(p, first);
}

void decode_program(program *p)
{
    for (int f = 0; f < p->m->n_function; f++)
        if (p->m->function[f].body && !p->m->function[f].later) decode_function(p, f);
    place_calls(p, 0);
}
