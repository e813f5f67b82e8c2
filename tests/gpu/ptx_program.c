/* ptx_program.c - places for functions and variables. A frame lies behind the frames of all callers; where calls
 * through addresses make that unclear, every function gets a frame of its own. What kernels that are not read yet call
 * is not known, so theirs lie behind those of all functions. */
#include "tests/gpu/decode.h"

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/ptx_lex.h"

static bool is_call(const ptx_line *l) { return !strncmp(l->op, "call", 4); }

/* Which operand of a call is its target. */
static const ptx_operand *call_target(const ptx_line *l) { return &l->o[l->o[0].kind == OPERAND_LIST ? 1 : 0]; }

typedef struct layout {
    const ptx_module *m;
    bool *by_address; /* functions that something takes the address of */
    bool changed;
    program *p;
} layout;

static void note_address(layout *y, const char *name)
{
    const int f = name ? ptx_find_function(y->m, name) : -1;
    if (f >= 0) y->by_address[f] = true;
}

static void find_addresses(layout *y)
{
    for (int i = 0; i < y->m->n_function && !y->m->whole; i++) y->by_address[i] = !y->m->function[i].entry;
    for (int i = 0; i < y->m->n_variable; i++)
        for (int k = 0; k < y->m->variable[i].n_value; k++) note_address(y, y->m->variable[i].value[k].symbol);
    for (int i = 0; i < y->m->n_function; i++)
        for (int k = 0; k < y->m->function[i].n_line; k++) {
            const ptx_line *l = &y->m->function[i].lines[k];
            if (!strncmp(l->op, "mov", 3) && l->o[1].kind == OPERAND_SYMBOL) note_address(y, l->o[1].name);
        }
}

static void behind(layout *y, int caller, int callee)
{
    const int rows = y->p->frame[caller] + y->m->function[caller].slots + 1;
    const int64_t bytes = (y->p->local[caller] + y->m->function[caller].local_bytes + 15) / 16 * 16;
    if (y->p->frame[callee] < rows) y->p->frame[callee] = rows, y->changed = true;
    if (y->p->local[callee] < bytes) y->p->local[callee] = bytes, y->changed = true;
}

/* A caller's file reaches as far as those of all that it calls. */
static void contain(layout *y, int caller, int callee)
{
    const program *p = y->p;
    if (p->rows[caller] < p->rows[callee]) p->rows[caller] = p->rows[callee], y->changed = true;
    if (p->local_bytes[caller] < p->local_bytes[callee])
        p->local_bytes[caller] = p->local_bytes[callee], y->changed = true;
}

/* One round over all calls. */
static void pass(layout *y, void (*each)(layout *y, int caller, int callee))
{
    y->changed = false;
    for (int i = 0; i < y->m->n_function; i++)
        for (int k = 0; k < y->m->function[i].n_line; k++) {
            const ptx_line *l = &y->m->function[i].lines[k];
            if (!is_call(l)) continue;
            if (call_target(l)->kind == OPERAND_SYMBOL) {
                const int to = ptx_find_function(y->m, call_target(l)->name);
                if (to >= 0) each(y, i, to);
            } else {
                for (int to = 0; to < y->m->n_function; to++)
                    if (y->by_address[to]) each(y, i, to);
            }
        }
}

static void measure(program *p, int f)
{
    p->rows[f] = p->frame[f] + p->m->function[f].slots + 1;
    p->local_bytes[f] = p->local[f] + p->m->function[f].local_bytes;
}

static void place_functions(program *p)
{
    const ptx_module *m = p->m;
    layout y = {m, calloc((size_t)m->n_function + 1, 1), true, p};
    for (int i = 0; i < m->n_function; i++) p->frame[i] = FRAME_FIRST;
    find_addresses(&y);
    for (int i = 0; i <= m->n_function && y.changed; i++) pass(&y, behind);
    for (int i = 0, rows = FRAME_FIRST; i < m->n_function && y.changed; i++) {
        p->frame[i] = rows;
        p->local[i] = i ? (p->local[i - 1] + m->function[i - 1].local_bytes + 15) / 16 * 16 : 0;
        rows += m->function[i].slots + 1;
    }
    for (int i = 0; i < m->n_function; i++)
        if (!m->function[i].later) measure(p, i);
    y.changed = true;
    for (int i = 0; i <= m->n_function && y.changed; i++) pass(&y, contain);
    free(y.by_address);
    int rows = FRAME_FIRST;
    int64_t bytes = 0;
    for (int i = 0; i < m->n_function; i++) {
        if (rows < p->rows[i]) rows = p->rows[i];
        if (bytes < p->local_bytes[i]) bytes = (p->local_bytes[i] + 15) / 16 * 16;
    }
    for (int i = 0; i < m->n_function; i++)
        if (m->function[i].later) p->frame[i] = rows, p->local[i] = bytes;
}

static void place_variables(program *p, ptx_program_allocate *allocate, void *user, uint8_t **host)
{
    for (int i = 0; i < p->m->n_variable; i++) {
        ptx_variable *v = &p->m->variable[i];
        if (v->space == SPACE_SHARED && !v->dynamic) {
            v->at = p->shared_bytes = (p->shared_bytes + v->align - 1) / v->align * v->align;
            p->shared_bytes += v->bytes;
        } else if (v->space == SPACE_GLOBAL || v->space == SPACE_CONST) {
            v->at = (int64_t)allocate(user, v->bytes ? (size_t)v->bytes : 1, &host[i]);
            *GROW(p->memory, p->n_memory) = (uint64_t)v->at;
            memset(host[i], 0, (size_t)v->bytes);
        }
    }
}

const ptx_variable *ptx_program_variable(const program *p, const char *name)
{
    for (int i = 0; i < p->m->n_variable; i++)
        if (!strcmp(p->m->variable[i].name, name)) return &p->m->variable[i];
    return NULL;
}

static void fill_variable(const program *p, const ptx_variable *v, uint8_t *host)
{
    for (int k = 0; k < v->n_value; k++) {
        uint64_t bits = v->value[k].bits;
        const char *symbol = v->value[k].symbol;
        if (symbol) {
            const ptx_variable *to = ptx_program_variable(p, symbol);
            const int f = ptx_find_function(p->m, symbol);
            const ptx_cursor where = {symbol, 0};
            if (!to && f < 0) ptx_stop(&where, "an initializer names what is not there");
            bits += to ? (uint64_t)to->at : WINDOW_CODE + 16 * (uint64_t)f;
            bits >>= v->value[k].shift;
        }
        memcpy(host + k * v->element, &bits, v->element > 8 ? 8 : (size_t)v->element);
    }
}

program *ptx_program_load(ptx_module *m, ptx_program_allocate *allocate, void *user)
{
    program *p = calloc(1, sizeof *p);
    const size_t n = (size_t)m->n_function + 1;
    uint8_t **host = calloc((size_t)m->n_variable + 1, sizeof *host);
    if (!p || !host) abort();
    p->m = m;
    p->frame = calloc(n, sizeof *p->frame);
    p->local = calloc(n, sizeof *p->local);
    p->entry = calloc(n, sizeof *p->entry);
    p->rows = calloc(n, sizeof *p->rows);
    p->local_bytes = calloc(n, sizeof *p->local_bytes);
    place_functions(p);
    place_variables(p, allocate, user, host);
    decode_program(p);
    for (int i = 0; i < m->n_variable; i++)
        if (host[i]) fill_variable(p, &m->variable[i], host[i]);
    free(host);
    return p;
}

void ptx_program_need(program *p, int function)
{
    ptx_function *f = &p->m->function[function];
    if (!f->later) return;
    ptx_read_later(f);
    measure(p, function);
    decode_later(p, function);
}

void ptx_program_free(program *p)
{
    ptx_free(p->m);
    for (int i = 0; i < p->n_old; i++) free(p->old[i]);
    free(p->old);
    for (int i = 0; i < p->n_list; i++) free(p->lists[i]);
    free(p->lists);
    free(p->code);
    free(p->constants);
    free(p->constant_at);
    free(p->frame);
    free(p->local);
    free(p->entry);
    free(p->rows);
    free(p->local_bytes);
    free(p->memory);
    free(p->ran);
    free(p);
}

int64_t ptx_program_shared(const program *p, int function)
{
    const int64_t outer = (p->shared_bytes + 15) / 16 * 16;
    return outer + (p->m->function[function].shared_bytes + 15) / 16 * 16;
}
