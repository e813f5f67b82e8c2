/* pickle.c - see pickle.h. Source of the opcodes: Lib/pickletools.py of CPython.
 *
 * Every value costs at least one byte of pickle, so memory is bounded by the input; memo numbers must be smaller than
 * the bytes read so far (a pickler counts them up), so the memo is a plain array; nothing here recurses. */
#include "io/pickle.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 1 << 22, ITEMS_MAX = 1 << 24, STACK_MAX = 1 << 20, PROTOCOL_MAX = 5, LINE_MAX_BYTES = 1 << 20 };
static const uint64_t decoded_max = 64u << 20, pickle_max = 256u << 20;

/* The machine while one pickle runs. */
typedef struct pickle_run {
    pickle *p;
    cursor *in;
    size_t start; /* of this pickle in the cursor */
    pv *stack;
    size_t n, cap;
    size_t *mark; /* heights of the stack */
    size_t marks, mark_cap;
    pv *memo; /* value + 1; 0: not set */
    size_t memo_cap;
    uint64_t memoized; /* next number of MEMOIZE */
    err *e;
} pickle_run;

static int refuse_pickle(pickle_run *m, const char *why)
{
    return err_set(m->e, ERR_FORMAT, "pickle, byte %zu: %s", m->in->at - m->start, why);
}
static int ends_early(pickle_run *m) { return refuse_pickle(m, "ends too early"); }
static int underflow(pickle_run *m) { return refuse_pickle(m, "the stack is empty"); }

static int short_of_memory(pickle_run *m)
{
    if (m->p->n >= VALUES_MAX || m->p->items >= ITEMS_MAX || m->p->bytes > decoded_max)
        return err_set(m->e, ERR_LIMIT, "pickle: more than %d values", VALUES_MAX);
    return err_memory(m->e, NULL);
}

/* ---- values */

bool pickle_new(pickle *p, pickle_value v, pv *out)
{
    if (p->n >= VALUES_MAX || !mem_grow((void **)&p->value, &p->cap, p->n + 1, sizeof *p->value)) return false;
    *out = (pv)p->n;
    p->value[p->n++] = v;
    return true;
}

bool pickle_push_item(pickle *p, pv list, pv item)
{
    pickle_value *v = &p->value[list];
    if (p->items >= ITEMS_MAX) return false;
    p->items++;
    if (v->n == v->cap) {
        uint32_t cap = v->cap ? v->cap * 2 : 8;
        pv *bigger = arena_array(&p->mem, cap, sizeof *bigger);
        if (!bigger) return false;
        if (v->n) memcpy(bigger, v->item, v->n * sizeof *bigger);
        v->item = bigger;
        v->cap = cap;
    }
    v->item[v->n++] = item;
    return true;
}

const pickle_value *pickle_at(const pickle *p, pv v) { return &p->value[v]; }

span pickle_text(const pickle *p, pv v)
{
    const pickle_value *x = &p->value[v];
    return x->kind == PV_STR || x->kind == PV_BYTES ? span_of(x->bytes, x->n) : span_of("", 0);
}

bool pickle_is_text(const pickle *p, pv v, const char *s) { return span_is(pickle_text(p, v), s); }

/* ---- stack and memo */

static int push_value(pickle_run *m, pv v)
{
    if (m->n >= STACK_MAX) return refuse_pickle(m, "the stack is too deep");
    if (!mem_grow((void **)&m->stack, &m->cap, m->n + 1, sizeof *m->stack)) return short_of_memory(m);
    m->stack[m->n++] = v;
    return OK;
}

static int push_new(pickle_run *m, pickle_value v)
{
    pv made;
    return pickle_new(m->p, v, &made) ? push_value(m, made) : short_of_memory(m);
}

static size_t floor_of(const pickle_run *m) { return m->marks ? m->mark[m->marks - 1] : 0; }

/* The k-th value from the top (1 = top) above the last mark. */
static int look_at(pickle_run *m, size_t k, pv *out)
{
    if (m->n < floor_of(m) + k) return underflow(m);
    *out = m->stack[m->n - k];
    return OK;
}

static int pop(pickle_run *m, pv *out)
{
    int rc = look_at(m, 1, out);
    if (!rc) m->n--;
    return rc;
}

static int push_mark(pickle_run *m)
{
    if (m->marks >= STACK_MAX) return refuse_pickle(m, "too many marks");
    if (!mem_grow((void **)&m->mark, &m->mark_cap, m->marks + 1, sizeof *m->mark)) return short_of_memory(m);
    m->mark[m->marks++] = m->n;
    return OK;
}

static int pop_mark(pickle_run *m, size_t *height)
{
    if (!m->marks) return refuse_pickle(m, "no mark");
    *height = m->mark[--m->marks];
    return OK;
}

/* Moves the values above `height` into a new tuple, list or set that takes their place. */
static int gather_items(pickle_run *m, pv_kind kind, size_t height)
{
    pv made;
    if (!pickle_new(m->p, (pickle_value){.kind = kind}, &made)) return short_of_memory(m);
    for (size_t i = height; i < m->n; i++)
        if (!pickle_push_item(m->p, made, m->stack[i])) return short_of_memory(m);
    m->n = height;
    return push_value(m, made);
}

static int gather_marked(pickle_run *m, pv_kind kind)
{
    size_t height = 0;
    int rc = pop_mark(m, &height);
    if (!rc && kind == PV_DICT && (m->n - height) % 2) rc = refuse_pickle(m, "a dict with a key but no value");
    return rc ? rc : gather_items(m, kind, height);
}

static int gather_top(pickle_run *m, size_t n)
{
    pv ignored;
    int rc = look_at(m, n, &ignored);
    return rc ? rc : gather_items(m, PV_TUPLE, m->n - n);
}

static int put_memo(pickle_run *m, uint64_t number)
{
    pv top;
    int rc = look_at(m, 1, &top);
    if (rc) return rc;
    if (number > m->in->at - m->start) return refuse_pickle(m, "a memo number out of sequence");
    size_t old = m->memo_cap;
    if (!mem_grow((void **)&m->memo, &m->memo_cap, number + 1, sizeof *m->memo)) return short_of_memory(m);
    memset(m->memo + old, 0, (m->memo_cap - old) * sizeof *m->memo);
    m->memo[number] = top + 1;
    m->memoized = number >= m->memoized ? number + 1 : m->memoized;
    return OK;
}

static int get_memo(pickle_run *m, uint64_t number)
{
    if (number >= m->memo_cap || !m->memo[number]) return refuse_pickle(m, "a memo number that was never set");
    return push_value(m, m->memo[number] - 1);
}

/* ---- numbers and text */

static int take_bytes(pickle_run *m, uint64_t n, span *out)
{
    *out = cursor_take(m->in, n);
    return m->in->bad ? ends_early(m) : OK;
}

static int take_uint(pickle_run *m, int bytes, uint64_t *out)
{
    *out = cursor_uint(m->in, bytes);
    return m->in->bad ? ends_early(m) : OK;
}

/* The text up to a newline, which is taken too. */
static int take_line(pickle_run *m, span *out)
{
    size_t left = cursor_left(m->in);
    const uint8_t *p = m->in->p + m->in->at,
                  *end = left ? memchr(p, '\n', left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES) : NULL;
    if (!end) return ends_early(m);
    *out = cursor_take(m->in, (uint64_t)(end - p));
    cursor_take(m->in, 1);
    return OK;
}

static int push_int(pickle_run *m, int64_t v) { return push_new(m, (pickle_value){.kind = PV_INT, .i = v}); }
static int push_bool(pickle_run *m, bool v) { return push_new(m, (pickle_value){.kind = PV_BOOL, .i = v}); }
static int push_float(pickle_run *m, double v) { return push_new(m, (pickle_value){.kind = PV_FLOAT, .f = v}); }

static int push_text(pickle_run *m, pv_kind kind, span s)
{
    if (s.n > UINT32_MAX) return refuse_pickle(m, "a text is too long");
    if (kind == PV_STR && !utf8_is_valid(s)) return refuse_pickle(m, "a text is not UTF-8");
    return push_new(m, (pickle_value){.kind = kind, .n = (uint32_t)s.n, .bytes = s.p});
}

static int push_counted(pickle_run *m, pv_kind kind, int length_bytes)
{
    uint64_t n;
    span s;
    int rc = take_uint(m, length_bytes, &n);
    if (!rc) rc = take_bytes(m, n, &s);
    return rc ? rc : push_text(m, kind, s);
}

/* Two's complement, little-endian, any length. */
static int push_long(pickle_run *m, int length_bytes)
{
    uint64_t n, v = 0;
    span s;
    int rc = take_uint(m, length_bytes, &n);
    if (!rc && n > INT32_MAX) rc = refuse_pickle(m, "a negative length");
    if (!rc) rc = take_bytes(m, n, &s);
    if (rc) return rc;
    if (s.n > 8) return push_new(m, (pickle_value){.kind = PV_BIG, .n = (uint32_t)s.n, .bytes = s.p});
    for (size_t i = s.n; i-- > 0;) v = v << 8 | s.p[i];
    if (s.n && s.n < 8 && s.p[s.n - 1] & 0x80) v |= UINT64_MAX << 8 * s.n;
    return push_int(m, (int64_t)v);
}

static int line_number(pickle_run *m, span line, int64_t *out)
{
    char text[24], *end;
    if (line.n && line.p[line.n - 1] == 'L') line.n--;
    if (line.n == 0 || line.n >= sizeof text) return refuse_pickle(m, "not an integer");
    memcpy(text, line.p, line.n);
    text[line.n] = 0;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || *end ? refuse_pickle(m, "not an integer") : OK;
}

static int push_line_int(pickle_run *m)
{
    span line;
    int64_t v;
    int rc = take_line(m, &line);
    if (rc) return rc;
    if (span_is(line, "00") || span_is(line, "01")) return push_bool(m, line.p[1] == '1');
    rc = line_number(m, line, &v);
    return rc ? rc : push_int(m, v);
}

static int push_line_float(pickle_run *m)
{
    span line;
    char text[64], *end;
    int rc = take_line(m, &line);
    if (rc) return rc;
    if (line.n == 0 || line.n >= sizeof text) return refuse_pickle(m, "not a number");
    memcpy(text, line.p, line.n);
    text[line.n] = 0;
    double v = strtod(text, &end);
    return *end ? refuse_pickle(m, "not a number") : push_float(m, v);
}

static int push_binary_float(pickle_run *m)
{
    span s;
    int rc = take_bytes(m, 8, &s);
    if (rc) return rc;
    uint64_t u = 0;
    for (int i = 0; i < 8; i++) u = u << 8 | s.p[i]; /* the one big-endian number of the format */
    double v;
    memcpy(&v, &u, 8);
    return push_float(m, v);
}

static int hex_digits(span s, size_t at, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    if (at + n > s.n) return -1;
    for (size_t i = at; i < at + n; i++) {
        int c = s.p[i] | 32, d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return 0;
}

/* UNICODE: \uXXXX and \UXXXXXXXX, other bytes are Latin-1. */
static int push_line_unicode(pickle_run *m)
{
    span line;
    int rc = take_line(m, &line);
    if (rc) return rc;
    uint8_t *out = (m->p->bytes += line.n * 2 + 4) > decoded_max ? NULL : arena_alloc(&m->p->mem, line.n * 2 + 4);
    size_t n = 0;
    if (!out) return short_of_memory(m);
    for (size_t i = 0; i < line.n;) {
        uint32_t c = line.p[i];
        size_t digits = c == '\\' && i + 1 < line.n ? (line.p[i + 1] == 'u' ? 4 : line.p[i + 1] == 'U' ? 8 : 0) : 0;
        if (digits) {
            if (hex_digits(line, i + 2, digits, &c) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return refuse_pickle(m, "a broken escape in a text");
            i += 2 + digits;
        } else {
            i++;
        }
        n += utf8_encode(c, out + n);
    }
    return push_text(m, PV_STR, span_of(out, n));
}

/* STRING: a quoted text with the escapes of repr(). */
static int push_line_string(pickle_run *m)
{
    static const char names[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
    span line;
    int rc = take_line(m, &line);
    if (rc) return rc;
    if (line.n < 2 || (line.p[0] != '\'' && line.p[0] != '"') || line.p[line.n - 1] != line.p[0])
        return refuse_pickle(m, "a text without quotes");
    uint8_t *out = (m->p->bytes += line.n) > decoded_max ? NULL : arena_alloc(&m->p->mem, line.n);
    size_t n = 0, end = line.n - 1;
    if (!out) return short_of_memory(m);
    for (size_t i = 1; i < end; i++) {
        uint32_t c = line.p[i];
        if (c == '\\') {
            c = ++i < end ? line.p[i] : 0;
            const char *known = c ? strchr(names, (int)c) : NULL;
            if (known) c = (uint8_t)means[known - names];
            else if (c == 'x' && i + 2 < end && !hex_digits(line, i + 1, 2, &c)) i += 2;
            else return refuse_pickle(m, "a broken escape in a text");
        }
        out[n++] = (uint8_t)c;
    }
    return push_text(m, PV_BYTES, span_of(out, n));
}

/* ---- containers */

static int expect(pickle_run *m, pv v, pv_kind kind, const char *why)
{
    return pickle_at(m->p, v)->kind == kind ? OK : refuse_pickle(m, why);
}

/* Adds the values above `height` to the container below them. */
static int extend_object(pickle_run *m, pv_kind kind, size_t height, const char *why)
{
    size_t count = m->n - height;
    if (height == 0 || height - 1 < floor_of(m)) return underflow(m);
    pv to = m->stack[height - 1];
    int rc = expect(m, to, kind, why);
    if (rc) return rc;
    if (kind == PV_DICT && count % 2) return refuse_pickle(m, "a dict with a key but no value");
    for (size_t i = height; i < m->n; i++)
        if (!pickle_push_item(m->p, to, m->stack[i])) return short_of_memory(m);
    m->n = height;
    return OK;
}

static int extend_marked(pickle_run *m, pv_kind kind, const char *why)
{
    size_t height = 0;
    int rc = pop_mark(m, &height);
    return rc ? rc : extend_object(m, kind, height, why);
}

static int extend_top(pickle_run *m, pv_kind kind, size_t n, const char *why)
{
    pv ignored;
    int rc = look_at(m, n + 1, &ignored);
    return rc ? rc : extend_object(m, kind, m->n - n, why);
}

/* ---- globals, calls */

static int push_global(pickle_run *m, span module, span name)
{
    int64_t number;
    int rc = m->p->host.global(m->p->host.self, module, name, &number, m->e);
    return rc ? rc : push_new(m, (pickle_value){.kind = PV_GLOBAL, .i = number});
}

static int line_global(pickle_run *m)
{
    span module, name;
    int rc = take_line(m, &module);
    if (!rc) rc = take_line(m, &name);
    return rc ? rc : push_global(m, module, name);
}

static int stack_global(pickle_run *m)
{
    pv module = 0, name = 0;
    int rc = pop(m, &name);
    if (!rc) rc = pop(m, &module);
    if (!rc) rc = expect(m, module, PV_STR, "a global's module is not a text");
    if (!rc) rc = expect(m, name, PV_STR, "a global's name is not a text");
    return rc ? rc : push_global(m, pickle_text(m->p, module), pickle_text(m->p, name));
}

static int call_known(pickle_run *m, pv callable, pv args)
{
    pv result;
    int rc = expect(m, callable, PV_GLOBAL, "a call of something that is not a global");
    if (!rc) rc = expect(m, args, PV_TUPLE, "a call whose arguments are not a tuple");
    if (!rc) rc = m->p->host.call(m->p->host.self, m->p, pickle_at(m->p, callable)->i, args, &result, m->e);
    return rc ? rc : push_value(m, result);
}

static int reduce(pickle_run *m) /* REDUCE and NEWOBJ differ only in Python */
{
    pv callable = 0, args = 0;
    int rc = pop(m, &args);
    if (!rc) rc = pop(m, &callable);
    return rc ? rc : call_known(m, callable, args);
}

static int new_object_ex(pickle_run *m)
{
    pv keywords = 0;
    int rc = pop(m, &keywords);
    if (!rc) rc = expect(m, keywords, PV_DICT, "keyword arguments that are not a dict");
    if (!rc && pickle_at(m->p, keywords)->n) rc = refuse_pickle(m, "a call with keyword arguments");
    return rc ? rc : reduce(m);
}

/* OBJ: mark, class, arguments. INST: the class is in the stream. */
static int call_marked(pickle_run *m, bool class_in_stream)
{
    size_t height = 0;
    pv class_value = 0, args = 0;
    int rc = class_in_stream ? line_global(m) : OK;
    if (!rc && class_in_stream) rc = pop(m, &class_value);
    if (!rc) rc = pop_mark(m, &height);
    if (rc) return rc;
    if (!class_in_stream) {
        if (height == m->n) return underflow(m);
        class_value = m->stack[height++];
    }
    rc = gather_items(m, PV_TUPLE, height);
    if (!rc) rc = pop(m, &args);
    if (!rc && !class_in_stream) m->n--; /* the class */
    return rc ? rc : call_known(m, class_value, args);
}

static int build_object(pickle_run *m)
{
    pv state = 0, object = 0;
    int rc = pop(m, &state);
    if (!rc) rc = look_at(m, 1, &object);
    return rc ? rc : m->p->host.build(m->p->host.self, m->p, object, state, m->e);
}

static int persistent(pickle_run *m, bool in_stream)
{
    pv id = 0, result = 0;
    span line;
    int rc = in_stream ? take_line(m, &line) : OK;
    if (!rc && in_stream) rc = push_text(m, PV_STR, line);
    if (!rc) rc = pop(m, &id);
    if (!rc) rc = m->p->host.persistent(m->p->host.self, m->p, id, &result, m->e);
    return rc ? rc : push_value(m, result);
}

/* ---- the machine */

static int memo_line(pickle_run *m, int (*use)(pickle_run *, uint64_t))
{
    span line;
    int64_t v;
    int rc = take_line(m, &line);
    if (!rc) rc = line_number(m, line, &v);
    if (!rc && v < 0) rc = refuse_pickle(m, "a negative memo number");
    return rc ? rc : use(m, (uint64_t)v);
}

static int memo_bytes(pickle_run *m, int bytes, int (*use)(pickle_run *, uint64_t))
{
    uint64_t v;
    int rc = take_uint(m, bytes, &v);
    return rc ? rc : use(m, v);
}

static int push_uint(pickle_run *m, int bytes)
{
    uint64_t v;
    int rc = take_uint(m, bytes, &v);
    return rc ? rc : push_int(m, bytes == 4 ? (int64_t)(int32_t)v : (int64_t)v);
}

static int drop_value(pickle_run *m)
{
    pv ignored;
    if (m->marks && m->mark[m->marks - 1] == m->n) {
        m->marks--;
        return OK;
    }
    return pop(m, &ignored);
}

static int duplicate(pickle_run *m)
{
    pv top;
    int rc = look_at(m, 1, &top);
    return rc ? rc : push_value(m, top);
}

static int check_protocol(pickle_run *m)
{
    uint64_t v;
    int rc = take_uint(m, 1, &v);
    return rc ? rc : v <= PROTOCOL_MAX ? OK : refuse_pickle(m, "a protocol above 5");
}

static int check_frame(pickle_run *m)
{
    uint64_t n;
    int rc = take_uint(m, 8, &n);
    return rc ? rc : n <= cursor_left(m->in) ? OK : ends_early(m);
}

static int drop_to_mark(pickle_run *m)
{
    size_t height = 0;
    int rc = pop_mark(m, &height);
    if (!rc) m->n = height;
    return rc;
}

static int step(pickle_run *m, uint8_t op)
{
    static const char no_list[] = "appends to something that is not a list",
                      no_set[] = "adds to something that is not a set";
    static const char no_dict[] = "sets an item of something that is not a dict";
    switch (op) {
    case '(': return push_mark(m);
    case '0': return drop_value(m);
    case '1': return drop_to_mark(m);
    case '2': return duplicate(m);
    case 'F': return push_line_float(m);
    case 'G': return push_binary_float(m);
    case 'I': /* INT and LONG differ in Python 2 only */
    case 'L': return push_line_int(m);
    case 'J': return push_uint(m, 4);
    case 'K': return push_uint(m, 1);
    case 'M': return push_uint(m, 2);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'N': return push_new(m, (pickle_value){.kind = PV_NONE});
    case 0x88: return push_bool(m, true);
    case 0x89: return push_bool(m, false);
    case 'S': return push_line_string(m);
    case 'T': return push_counted(m, PV_BYTES, 4);
    case 'U': return push_counted(m, PV_BYTES, 1);
    case 'V': return push_line_unicode(m);
    case 'X': return push_counted(m, PV_STR, 4);
    case 0x8c: return push_counted(m, PV_STR, 1);
    case 0x8d: return push_counted(m, PV_STR, 8);
    case 'B': return push_counted(m, PV_BYTES, 4);
    case 'C': return push_counted(m, PV_BYTES, 1);
    case 0x8e: /* BINBYTES8 */
    case 0x96: return push_counted(m, PV_BYTES, 8);
    case ')': return push_new(m, (pickle_value){.kind = PV_TUPLE});
    case ']': return push_new(m, (pickle_value){.kind = PV_LIST});
    case '}': return push_new(m, (pickle_value){.kind = PV_DICT});
    case 0x8f: return push_new(m, (pickle_value){.kind = PV_SET});
    case 't': return gather_marked(m, PV_TUPLE);
    case 'l': return gather_marked(m, PV_LIST);
    case 'd': return gather_marked(m, PV_DICT);
    case 0x91: return gather_marked(m, PV_SET);
    case 0x85: return gather_top(m, 1);
    case 0x86: return gather_top(m, 2);
    case 0x87: return gather_top(m, 3);
    case 'a': return extend_top(m, PV_LIST, 1, no_list);
    case 'e': return extend_marked(m, PV_LIST, no_list);
    case 's': return extend_top(m, PV_DICT, 2, no_dict);
    case 'u': return extend_marked(m, PV_DICT, no_dict);
    case 0x90: return extend_marked(m, PV_SET, no_set);
    case 'p': return memo_line(m, put_memo);
    case 'q': return memo_bytes(m, 1, put_memo);
    case 'r': return memo_bytes(m, 4, put_memo);
    case 0x94: return put_memo(m, m->memoized);
    case 'g': return memo_line(m, get_memo);
    case 'h': return memo_bytes(m, 1, get_memo);
    case 'j': return memo_bytes(m, 4, get_memo);
    case 'c': return line_global(m);
    case 0x93: return stack_global(m);
    case 'R': /* REDUCE */
    case 0x81: return reduce(m);
    case 0x92: return new_object_ex(m);
    case 'i': return call_marked(m, true);
    case 'o': return call_marked(m, false);
    case 'b': return build_object(m);
    case 'P': return persistent(m, true);
    case 'Q': return persistent(m, false);
    case 0x80: return check_protocol(m);
    case 0x95: return check_frame(m);
    case 0x82:
    case 0x83:
    case 0x84: return refuse_pickle(m, "a global from the extension registry, which names nothing here");
    case 0x97:
    case 0x98: return refuse_pickle(m, "a buffer outside the pickle");
    default: return refuse_pickle(m, "an unknown opcode");
    }
}

int pickle_load(pickle *p, cursor *in, pv *root, err *e)
{
    pickle_run m = {.p = p, .in = in, .start = in->at, .e = e};
    int rc = OK;
    for (;;) {
        uint8_t op = cursor_u8(in);
        if (in->bad) rc = ends_early(&m);
        else if (in->at - m.start > pickle_max) rc = refuse_pickle(&m, "longer than 256 MiB");
        else if (op == '.') rc = pop(&m, root);
        else if (!(rc = step(&m, op))) continue;
        break;
    }
    mem_free(m.stack);
    mem_free(m.mark);
    mem_free(m.memo);
    return rc;
}

void pickle_free(pickle *p)
{
    mem_free(p->value);
    arena_free(&p->mem);
    p->value = NULL;
    p->n = p->cap = 0;
}
