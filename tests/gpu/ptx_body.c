/* ptx_body.c - the body of a function: declarations in nested scopes, labels, instructions.
 *
 * A register gets a slot where it is declared: words of a lane, two for 64 bits. What a name means depends on its scope
 * (text that was put in by asm() repeats names), so registers are looked up at once, labels by the scope of the
 * instruction. */
#include "tests/gpu/ptx_body.h"
#include "tests/gpu/ptx_vars.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Registers that one declaration makes: %r<90>, or one by its whole name (count 0). */
typedef struct registers {
    char *prefix;
    int scope, count, bytes, slot;
} registers;

typedef struct frame {
    int slots;
    int64_t local;
} frame;

typedef struct body {
    ptx_cursor *c;
    ptx_function *f;
    int scope;
    int n_registers;
    registers *regs;
    frame top; /* what is taken now; f has the most that ever was */
    int n_frame;
    frame *frames; /* what was taken when each open scope began: its end gives the rest back */
} body;

static const registers *find_register(const body *b, const char *name, int *at)
{
    size_t stem = strlen(name);
    while (stem && isdigit((unsigned char)name[stem - 1])) stem--;
    for (int scope = b->scope; scope >= 0; scope = b->f->scope_parent[scope]) {
        for (int i = b->n_registers; i-- > 0;) {
            const registers *r = &b->regs[i];
            if (r->scope != scope) continue;
            *at = 0;
            if (!r->count && !strcmp(r->prefix, name)) return r;
            if (r->count && name[stem] && strlen(r->prefix) == stem && !strncmp(r->prefix, name, stem)) {
                *at = atoi(name + stem);
                if (*at < r->count) return r;
            }
        }
    }
    return NULL;
}

static void read_registers(body *b)
{
    const int bytes = ptx_type_bytes(ptx_word(b->c, false));
    if (!bytes) ptx_stop(b->c, "a register of no known type");
    do {
        registers *r = GROW(b->regs, b->n_registers);
        r->prefix = ptx_keep(ptx_word(b->c, false));
        r->scope = b->scope;
        r->bytes = bytes;
        r->slot = b->top.slots;
        if (ptx_take(b->c, '<')) {
            ptx_operand o = {0};
            ptx_number(b->c, &o);
            r->count = (int)o.value;
            ptx_need(b->c, '>');
        }
        b->top.slots += (r->count ? r->count : 1) * (bytes == 8 ? 2 : 1);
        if (b->f->slots < b->top.slots) b->f->slots = b->top.slots;
    } while (ptx_take(b->c, ','));
    ptx_need(b->c, ';');
}

/* Its place behind what is there. */
static void place(ptx_variable *v, int64_t *end)
{
    v->at = *end = (*end + v->align - 1) / v->align * v->align;
    *end += v->bytes;
}

static void read_variables(body *b, ptx_space space)
{
    do {
        ptx_variable *v = GROW(b->f->variable, b->f->n_variable);
        v->space = space;
        v->scope = b->scope;
        ptx_variable_read(b->c, v);
        place(v, space == SPACE_SHARED ? &b->f->shared_bytes : &b->top.local);
        if (b->f->local_bytes < b->top.local) b->f->local_bytes = b->top.local;
    } while (ptx_take(b->c, ','));
    ptx_need(b->c, ';');
}

static void read_operand(body *b, ptx_operand *o);

static void read_parts(body *b, ptx_operand *o, char end)
{
    while (!ptx_take(b->c, end)) {
        ptx_operand part = {0};
        read_operand(b, &part);
        *GROW(o->part, o->n) = part;
        ptx_take(b->c, ',');
    }
}

/* A register, a special register or a symbol with its offset. */
static void read_name(body *b, ptx_operand *o)
{
    const char *name = ptx_word(b->c, ptx_peek(b->c) == '%');
    int at;
    const registers *r = find_register(b, name, &at);
    if (!strcmp(name, "_")) {
        o->kind = OPERAND_SINK;
    } else if (r) {
        o->kind = OPERAND_REGISTER;
        o->bytes = r->bytes;
        o->slot = r->slot + at * (r->bytes == 8 ? 2 : 1);
    } else {
        o->kind = *name == '%' ? OPERAND_SPECIAL : OPERAND_SYMBOL;
        o->name = ptx_keep(name);
    }
}

static void read_offset(body *b, ptx_operand *o)
{
    if (ptx_peek(b->c) != '+' && *b->c->p != '-') return;
    ptx_operand by = {0};
    ptx_take(b->c, '+');
    ptx_number(b->c, &by);
    o->value = by.value;
}

static void read_address(body *b, ptx_operand *o)
{
    o->kind = OPERAND_ADDRESS;
    ptx_operand base = {0};
    read_operand(b, &base);
    o->value = base.kind == OPERAND_SYMBOL ? base.value : 0;
    base.value = base.kind == OPERAND_SYMBOL ? 0 : base.value;
    *GROW(o->part, o->n) = base;
    if (base.kind != OPERAND_SYMBOL) read_offset(b, o);
    ptx_need(b->c, ']');
}

static void read_operand(body *b, ptx_operand *o)
{
    const char ch = ptx_peek(b->c);
    if (ptx_take(b->c, '[')) {
        read_address(b, o);
    } else if (ptx_take(b->c, '{')) {
        o->kind = OPERAND_VECTOR;
        read_parts(b, o, '}');
    } else if (ptx_take(b->c, '(')) {
        o->kind = OPERAND_LIST;
        read_parts(b, o, ')');
    } else if (isdigit((unsigned char)ch) || ch == '-') {
        ptx_number(b->c, o);
    } else {
        const bool negated = ptx_take(b->c, '!');
        read_name(b, o);
        o->negated = negated;
        if (o->kind == OPERAND_SYMBOL) read_offset(b, o);
        if (ptx_take(b->c, '|')) {
            ptx_operand pair = {.kind = OPERAND_PAIR};
            *GROW(pair.part, pair.n) = *o;
            ptx_operand second = {0};
            read_name(b, &second);
            *GROW(pair.part, pair.n) = second;
            *o = pair;
        }
    }
}

/* The name of an operation: letters, digits, dots and ::. */
static char *read_op(ptx_cursor *c)
{
    char op[256];
    size_t n = 0;
    for (ptx_peek(c); isalnum((unsigned char)*c->p) || strchr("._:", *c->p); c->p++) {
        if (!*c->p || n + 1 == sizeof op) ptx_stop(c, "an instruction without end");
        op[n++] = *c->p;
    }
    op[n] = 0;
    if (!n) ptx_stop(c, "an instruction is missing");
    return ptx_keep(op);
}

static void read_instruction(body *b)
{
    ptx_line l = {.guard = -1, .scope = b->scope};
    if (ptx_take(b->c, '@')) {
        l.guard_not = ptx_take(b->c, '!');
        ptx_operand p = {0};
        read_name(b, &p);
        if (p.kind != OPERAND_REGISTER || p.bytes != 1) ptx_stop(b->c, "a guard that is no predicate, before");
        l.guard = p.slot;
    }
    l.op = read_op(b->c);
    l.line = b->c->line;
    while (!ptx_take(b->c, ';')) {
        if (l.n == PTX_OPERANDS) ptx_stop(b->c, "too many operands");
        read_operand(b, &l.o[l.n++]);
        if (ptx_peek(b->c) != ';') ptx_need(b->c, ',');
    }
    *GROW(b->f->lines, b->f->n_line) = l;
}

/* A label, and what may stand behind one without being an instruction. */
static bool read_label(body *b)
{
    const ptx_cursor before = *b->c;
    if (ptx_peek(b->c) == '@') return false;
    const char *name = ptx_word(b->c, false);
    if (!ptx_take(b->c, ':') || *b->c->p == ':') {
        *b->c = before;
        return false;
    }
    if (ptx_take_word(b->c, ".callprototype")) {
        while (!ptx_take(b->c, ';')) b->c->p++;
        return true;
    }
    ptx_label *l = GROW(b->f->label, b->f->n_label);
    *l = (ptx_label){.name = ptx_keep(name), .scope = b->scope, .at = b->f->n_line};
    if (ptx_take_word(b->c, ".branchtargets"))
        for (bool end = false; !end; end = ptx_take(b->c, ';')) {
            ptx_take(b->c, ',');
            *GROW(l->target, l->n_target) = ptx_keep(ptx_word(b->c, false));
        }
    return true;
}

static void read_directive(body *b)
{
    const char *word = ptx_word(b->c, false);
    if (!strcmp(word, ".reg")) {
        read_registers(b);
    } else if (ptx_space_of(word) >= SPACE_SHARED) {
        read_variables(b, (ptx_space)ptx_space_of(word));
    } else if (!strcmp(word, ".loc")) {
        while (*b->c->p && *b->c->p != '\n') b->c->p++;
    } else if (!strcmp(word, ".pragma")) {
        while (!ptx_take(b->c, ';')) b->c->p++;
    } else {
        ptx_stop(b->c, "a directive that is not known, before");
    }
}

static void open_scope(body *b)
{
    *GROW(b->f->scope_parent, b->f->n_scope) = b->scope;
    *GROW(b->frames, b->n_frame) = b->top;
    b->scope = b->f->n_scope - 1;
}

static void close_scope(body *b)
{
    b->scope = b->f->scope_parent[b->scope];
    b->top = b->frames[--b->n_frame];
}

static void skip_shared(ptx_cursor *c, ptx_function *f)
{
    do {
        ptx_variable v = {0};
        ptx_variable_read(c, &v);
        place(&v, &f->shared_bytes);
        free(v.name);
        free(v.value);
    } while (ptx_take(c, ','));
}

void ptx_body_skip(ptx_cursor *c, ptx_function *f)
{
    int depth = 0;
    do {
        c->p += strcspn(c->p, "{}/.\n");
        const char ch = *c->p;
        if (!ch) ptx_stop(c, "a function without end");
        if (ch == '.' && isspace((unsigned char)c->p[-1]) && ptx_take_word(c, ".shared")) {
            skip_shared(c, f);
            continue;
        }
        if (ch == '/' && (c->p[1] == '/' || c->p[1] == '*')) {
            ptx_peek(c);
            continue;
        }
        depth += (ch == '{') - (ch == '}');
        c->line += ch == '\n';
        c->p++;
    } while (depth);
}

void ptx_body_read(ptx_cursor *c, ptx_function *f)
{
    body b = {.c = c, .f = f, .scope = -1, .top = {0, f->local_bytes}};
    ptx_need(c, '{');
    open_scope(&b);
    while (b.scope >= 0) {
        const char ch = ptx_peek(c);
        if (!ch) ptx_stop(c, "a function without end");
        if (ptx_take(c, '{')) open_scope(&b);
        else if (ptx_take(c, '}')) close_scope(&b);
        else if (ch == '.') read_directive(&b);
        else if (!read_label(&b)) read_instruction(&b);
    }
    for (int i = 0; i < b.n_registers; i++) free(b.regs[i].prefix);
    free(b.regs);
    free(b.frames);
}
