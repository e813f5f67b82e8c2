/* pickle.h - a stack machine for Python pickles that builds plain values and never imports or calls anything of Python.
 *
 * All opcodes of protocols 0 to 5 are known. A global (a class or function named by the pickle) becomes a value only if
 * the host names it; everything else is refused with its name before anything happens. "Calling" a named global means
 * that the host is asked for the value that stands for the result. Values live until pickle_free. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#include <stdint.h>

typedef enum {
    PV_NONE,
    PV_BOOL,
    PV_INT,
    PV_BIG, /* an integer beyond 64 bits: its bytes, little-endian, two's complement */
    PV_FLOAT,
    PV_STR,
    PV_BYTES,
    PV_TUPLE,
    PV_LIST,
    PV_SET,
    PV_DICT,   /* item: key, value, key, value ...; a key that is set twice is there twice, the later one counts */
    PV_GLOBAL, /* i: the host's number */
    PV_OBJECT, /* object: the host's; i: the host's kind */
} pv_kind;

/* A value is named by its number; lists and dicts may contain themselves, so walk with a depth limit. */
typedef uint32_t pv;
typedef struct pickle_value {
    pv_kind kind;
    uint32_t n, cap; /* items; bytes of text */
    int64_t i;       /* PV_BOOL too */
    union {
        double f;
        const uint8_t *bytes;
        pv *item;
        void *object;
    };
} pickle_value;

typedef struct pickle pickle;
typedef struct pickle_host {
    void *self;
    /* The number of a permitted global; otherwise an error that names it. */
    int (*global)(void *self, span module, span name, int64_t *number, err *e);
    /* The value of global(*args); args is a PV_TUPLE. */
    int (*call)(void *self, pickle *p, int64_t number, pv args, pv *result, err *e);
    /* The value that a persistent id stands for. */
    int (*persistent)(void *self, pickle *p, pv id, pv *result, err *e);
    /* BUILD: state for an object that `call` made, or for a dict. */
    int (*build)(void *self, pickle *p, pv object, pv state, err *e);
} pickle_host;

struct pickle {
    pickle_host host;
    arena mem;
    pickle_value *value;
    size_t n, cap;
    uint64_t items, bytes; /* in all lists; made by decoding text: both bounded */
};

/* Runs one pickle from the cursor and moves the cursor past it. *root is its value. Limits: 2^22 values, 2^24 items,
 * 2^20 on the stack, 256 MiB. Several pickles may be loaded one after the other into the same values. */
int pickle_load(pickle *p, cursor *in, pv *root, err *e);
void pickle_free(pickle *p);

const pickle_value *pickle_at(const pickle *p, pv v);
span pickle_text(const pickle *p, pv v); /* of PV_STR and PV_BYTES; otherwise empty */
bool pickle_is_text(const pickle *p, pv v, const char *s);

/* For hosts: new values; false when memory is short or a limit reached. */
bool pickle_new(pickle *p, pickle_value v, pv *out);
bool pickle_push_item(pickle *p, pv list, pv item);
