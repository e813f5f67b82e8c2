/* jinja_value.h - the values of templates: Python's types, as far as templates can see them.
 *
 * Values are passed by copy; what they point to lies in the arena of the rendering and never changes, because the
 * sandbox is immutable: only namespaces do. A string has a second pointer, to a byte for each of its bytes that tells
 * whether it came from the context; slices share both.
 *
 * Nothing here returns an error: a failure records its message and leaves through one longjmp to jinja_open or
 * jinja_render, which free the arena. No function between keeps anything that the arena does not own. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { JINJA_OUTPUT_MAX = 16 << 20, JINJA_MEMORY_MAX = 512 << 20, JINJA_STEPS_MAX = 10000000, JINJA_DEPTH_MAX = 1000 };

typedef enum {
    J_ABSENT, /* an argument that was not given; no value of a template */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STRING,
    J_LIST,
    J_TUPLE,
    J_ITER, /* a generator: gives its elements once */
    J_VIEW, /* of a dict: keys(), values(), items() */
    J_RANGE,
    J_DICT,
    J_NAMESPACE,
    J_MACRO,
    J_FUNCTION, /* a global function, or a method with the value that it belongs to */
    J_LOOP
} jinja_kind;

typedef struct jstr {
    const uint8_t *p, *user; /* user NULL: all of it is the template's */
    size_t n;
} jstr;

typedef struct jval jval;
typedef struct jinja_node jinja_node;
typedef struct jinja_scope jinja_scope;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_row jinja_row;
typedef struct jinja_run jinja_run;

typedef struct jlist {
    jval *v;
    size_t n, cap;
    bool used;         /* J_ITER: it has given its elements */
    const char *shown; /* J_ITER, J_VIEW: the type's name */
    int64_t range[3];  /* J_RANGE */
} jlist;

typedef struct jdict {
    struct jpair *v; /* in the order of insertion */
    size_t n, cap;
    uint32_t *slot; /* open addressing: index + 1; from a few pairs on */
    size_t slots;
} jdict;

struct jval {
    jinja_kind kind;
    bool safe; /* J_STRING: markupsafe's Markup, which escapes what is added to it */
    union {
        bool b;
        int64_t i;
        struct {
            double f;
            const char *digits; /* a whole number beyond 64 bits, as it was written; NULL: not one */
        };
        jstr s;
        jlist *list; /* J_LIST, J_TUPLE, J_ITER, J_VIEW, J_RANGE */
        jdict *dict; /* J_DICT, J_NAMESPACE */
        jinja_loop *loop;
        struct {
            const jinja_node *def;
            jinja_scope *home;
        } macro;
        struct {
            const jinja_row *row;
            const jval *self; /* NULL: a global function */
        } function;
        struct {
            const char *name; /* of the variable or attribute; NULL: none */
            const char *of;   /* the type that lacks the attribute; NULL: a variable */
        } missing;
    };
};

typedef struct jpair {
    jval key, value;
} jpair;

/* Arguments of a call. */
typedef struct jargs {
    const jval *v;
    size_t n;
    const jpair *named; /* keys are strings */
    size_t n_named;
} jargs;

/* A filter, a test, a method or a global function. `params` names its parameters, separated by blanks: `a` has one
 * value for each, J_ABSENT where it was not given; the first `needed` must be. "*": arguments are in `all` as they are.
 * self: what a filter or test is applied to, or the value that a method belongs to. */
struct jinja_row {
    const char *name, *params;
    int needed;
    jval (*call)(jinja_run *r, jval self, const jval *a, const jargs *all);
};
enum { JINJA_PARAMS_MAX = 6 };

/* What a parse or a rendering works with. */
struct jinja_run {
    arena mem;
    err *e;
    int line; /* of the template, for messages */
    jmp_buf out;
    uint64_t steps;
    int depth;
    time_t now;
    jval context; /* a dict */
    jval pushed;  /* what a filter block or a block of `set` gives its filters */
    const uint8_t *ones;
    size_t n_ones; /* the marks that strings of the context share */
};

void *jinja_alloc(jinja_run *r, size_t count, size_t size); /* cleared; never NULL */
void jinja_step(jinja_run *r, uint64_t n);                  /* counts work; fails beyond JINJA_STEPS_MAX */
_Noreturn void jinja_fail(jinja_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void jinja_stop(jinja_run *r, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static inline jval jval_bool(bool b) { return (jval){.kind = J_BOOL, .b = b}; }
static inline jval jval_int(int64_t i) { return (jval){.kind = J_INT, .i = i}; }
static inline jval jval_float(double f) { return (jval){.kind = J_FLOAT, .f = f}; }
static inline jval jval_none(void) { return (jval){.kind = J_NONE}; }
static inline jval jval_undefined(const char *name, const char *of)
{
    return (jval){.kind = J_UNDEFINED, .missing = {name, of}};
}
static inline jval jval_str(jstr s) { return (jval){.kind = J_STRING, .s = s}; }
static inline jval jval_text(const char *s) { return jval_str((jstr){(const uint8_t *)s, NULL, strlen(s)}); }
static inline jval jval_list(jinja_kind kind, jlist *l) { return (jval){.kind = kind, .list = l}; }
static inline jval jval_dict(jdict *d) { return (jval){.kind = J_DICT, .dict = d}; }
static inline bool jval_is_number(jval v) { return v.kind == J_INT || v.kind == J_FLOAT || v.kind == J_BOOL; }
static inline bool jval_given(jval v) { return v.kind != J_ABSENT; }

/* Bytes [from, to) of a string, with their marks. */
static inline jstr jstr_cut(jstr s, size_t from, size_t to)
{
    return (jstr){s.p + from, s.user ? s.user + from : NULL, to - from};
}
static inline span jstr_span(jstr s) { return span_of(s.p, s.n); }
static inline bool jstr_is(jstr s, const char *text) { return span_is(jstr_span(s), text); }
bool jchar_is_space(uint32_t c);                       /* Python's str.isspace */
size_t jstr_chars(jstr s);                             /* code points */
size_t jstr_offset(jstr s, size_t from, size_t chars); /* the byte that lies `chars` code points after byte `from` */
const char *jstr_c(jinja_run *r, jstr s);              /* a C string; cut at a NUL */

const char *jval_type(jval v); /* Python's name of its type: "str" */
bool jval_true(jval v);
bool jval_equal(jinja_run *r, jval a, jval b);
/* -1, 0, 1; fails for types that have no order, in Python's words. `sign`: the operator, for the message. */
int jval_order(jinja_run *r, jval a, jval b, const char *sign);
/* Fails if v is undefined, in jinja2's words. */
void jval_need(jinja_run *r, jval v);
/* The elements of an iterable: of a list itself, characters of a string, keys of a dict. Fails for others. */
jlist *jval_elements(jinja_run *r, jval v);
size_t jval_length(jinja_run *r, jval v);                   /* len(); fails for what has none */
int64_t jval_index(jinja_run *r, jval v, const char *what); /* a whole number; fails for others */
double jval_number(jval v);                                 /* of jval_is_number */
jstr jval_string(jinja_run *r, jval v);                     /* str(v) */
/* A string argument; fails for other types. */
jstr jval_as_str(jinja_run *r, jval v, const char *what);

jlist *jlist_new(jinja_run *r, size_t cap);
void jlist_add(jinja_run *r, jlist *l, jval v);
jdict *jdict_new(jinja_run *r);
void jdict_put(jinja_run *r, jdict *d, jval key, jval value);
const jval *jdict_find(jinja_run *r, const jdict *d, jval key); /* NULL: absent; fails for keys that have no hash */
const jval *jdict_find_text(jinja_run *r, const jdict *d, const char *key);

/* A text under construction. */
typedef struct jtext {
    uint8_t *p, *user;
    size_t n, cap;
} jtext;
void jtext_add(jinja_run *r, jtext *t, jstr s);
void jtext_bytes(jinja_run *r, jtext *t, const void *p, size_t n); /* of the template */
void jtext_put(jinja_run *r, jtext *t, const char *s);             /* of the template */
void jtext_char(jinja_run *r, jtext *t, uint32_t c, bool user);
void jtext_show(jinja_run *r, jtext *t, jval v, bool repr); /* str(v) or repr(v) */
jstr jtext_get(const jtext *t);
void jtext_float(jinja_run *r, jtext *t, double f); /* as Python's repr */
