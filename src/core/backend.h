/* backend.h - what a device must be able to do. A backend is one const struct in a folder of its own, and one line of
 * engine/backend_list.h.
 *
 * A weight set is weights where a device computes with them, and what computes: threads, a context. It exists once for
 * several users, however many programs and callers: each opens a device over it, which has a program, pages of the
 * cache, and an arena of activations for each segment. Nobody else sees an address in these; rows go in and out by
 * act_put, act_get and pick. A device has no notion of a sequence: a step names every page that it reads or writes.
 * Every device has a kernel for every op: compile names the op that it lacks.
 *
 * A segment's ops fall into stretches: a COLL ends one. Nobody has a kernel for it: the driver takes its part out of
 * the device, moves it between ranks, and puts the result in before the next stretch; or a backend that has all ranks
 * of a group joins them (join_ways). A program may be compiled for several segments, each with an arena of its own,
 * which have steps at one time: their stretches come in any order.
 *
 * Order of calls: weights_open, weights_read; then for each user open and compile; for each step act_put of the
 * segment's inputs, for each stretch start and wait, and after all but the last act_get and act_put of the COLL that
 * ends it; then act_get or pick of results; discard and close; at last weights_close. Nothing is global, so several
 * devices may work at once, those over one set too; all calls on one device come from one thread at a time, and so do
 * those on a set, which ends after its devices. After wait has failed the device may be lost: other calls still return,
 * with an error, and is_lost says so. */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "core/best_logit.h"
#include "core/program.h"
#include "core/step.h"
#include "tensor/wire.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct weight_set weight_set; /* the backend's own, as the next four */
typedef struct dev dev;
typedef struct parcel parcel;
typedef struct joined_group joined_group;
typedef struct library_sum library_sum;
typedef struct backend backend;

/* An activation that another segment wrote. */
typedef struct edge {
    ref t;
    int from; /* number of that segment */
} edge;

/* A run of ops on one device. Made by src/plan, which owns all of it but `compiled`. */
typedef struct segment {
    program *p; /* a lowered slice of the whole program, every op of which is run; offsets of activations are here */
    const backend *be;
    dev *on;
    edge *in; /* [n_in] float32 activations of other segments that are read here */
    ref *out; /* [n_out] those written here that other segments or the caller read */
    uint32_t n_in, n_out;
    uint64_t act_bytes; /* arena for activations at full capacity: core/place.h */
    uint32_t n_stretch; /* number of COLL ops, and one */
    uint32_t *ends;     /* [n_stretch] where each stretch ends: its COLL; of the last one n_op; by core/place.h */
    void *compiled;     /* the backend's */
} segment;

/* The first op of a stretch. */
static inline uint32_t stretch_begin(const segment *s, uint32_t i) { return i ? s->ends[i - 1] + 1 : 0; }

/* A run of ops that a device does as one: a row of backend.fuse. */
typedef struct fuse_row {
    const char *name;
    uint8_t n, kind[5];
} fuse_row;
typedef struct fuse_table {
    const fuse_row *rows; /* [n] */
    int n;
    bool (*fits)(const program *p, const op *o); /* whether kernels of fused runs take the shapes of this op */
    /* Instead of rows: how many ops from op i on are done at once, at least one, before activations are placed; all
     * results that others read are written. Then none of them overlaps what one of these ops reads, but for ops in
     * place. */
    uint32_t (*together)(const segment *s, uint32_t i);
} fuse_table;

typedef struct weight_options {
    int number;      /* of the notation, "cpu:2", for the backend to read; -1: none was given */
    int sharers;     /* unnumbered devices of this backend that run at the same time, this one included */
    bool inexact;    /* kernels may round otherwise than the definitions where that is faster */
    const void *own; /* options of this backend alone, which its header declares; NULL: defaults */
} weight_options;

enum { SLOT_ROWS_MAX = 16 };

typedef struct cache_options {
    int n_page[GROUP_MAX]; /* KV pages per group */
    int n_slot;            /* slots for states of fixed size */
    int slot_rows;         /* rows that each of them can keep apart, at most SLOT_ROWS_MAX: step.slot_apart */
    dtype k_type, v_type;  /* kv_type.h */
    int host;   /* percent of what has pages, of its last part, whose pages lie in memory of the host (kv_type.h) */
    bool touch; /* memory of pages, up to 256 MiB, is taken at once, not as it is used */
} cache_options;

typedef struct device_info {
    char name[128], kind[16], driver[16]; /* "NVIDIA H200"; "sm_90", "13.0", or empty */
    uint64_t free_bytes, total_bytes;
    bool software;   /* it is a program that stands for one */
    const char *why; /* it cannot be used; NULL: it can */
} device_info;

/* Which memory a device has: numbers of cards, or that of this process, which all backends have in common. */
enum { MEMORY_OF_PROCESS = -1 };

/* Columns of an activation, or rows of a table, from … to - 1. */
typedef struct cut_range {
    int64_t from, to; /* equal: nothing */
} cut_range;

/* What the ranks of a group hand over at a COLL. */
typedef struct join_coll {
    uint8_t how;         /* COLL_* */
    const cut_range *of; /* [ranks] as plan/cut.h has it */
    int32_t offset;      /* OWNER: a token's row in the table is its id plus this */
} join_coll;

/* A group of devices of one backend. All that is named here outlives what is made of it. */
typedef struct join_group {
    int ranks;
    dev *const *on;           /* [ranks] */
    const segment *const *of; /* [ranks] compiled */
    const join_coll *colls;   /* [n_coll] number k is that which ends stretch k */
    uint32_t n_coll;
    const int *max_rows; /* [AXIS_COUNT] */
    wire_pair codec;     /* REDUCE: partial sums travel in one, their sum in the other */
    int64_t group;       /* elements under one scale */
    int steps;           /* 1, 2: a sum is always made in so many steps; 0: as suits its size */
} join_group;

/* A library's sum over the devices of a group, in memory of its own, to be measured beside ours. Its order of sums is
 * its own, so no answer is made by it. */
typedef struct library_ways {
    /* Looks for the library at `path`, NULL: where the loader does. *version: static text. ERR_UNAVAILABLE: it is not
     * there. Before all others. */
    int (*find)(const char *path, const char **version, err *e);
    /* Of n elements of WIRE_F32 or WIRE_F16; the devices outlive it. */
    int (*open)(library_sum **s, dev *const *on, int ranks, wire_type type, int64_t n, err *e);
    int (*put)(library_sum *s, int rank, const void *x, err *e); /* [n] what a rank gives */
    int (*add_up)(library_sum *s, err *e);                       /* returns when all ranks have the sum */
    int (*get)(library_sum *s, int rank, void *y, err *e);       /* [n] the sum as a rank has it */
    void (*close)(library_sum *s);                               /* NULL ok */
} library_ways;

/* Devices of a group that do a step together: their COLLs take no part of the caller. */
typedef struct join_ways {
    /* *j NULL without an error: these devices cannot. */
    int (*open)(joined_group **j, const join_group *g, err *e);
    void (*close)(joined_group *j);
    /* In place of start and wait of all devices and stretches. *odd: a sum that is coded was of rows that are not
     * finite, or became so. The step has no taps. */
    int (*start)(joined_group *j, const step *st, err *e);
    int (*wait)(joined_group *j, bool *odd, err *e);
    const library_ways *library; /* NULL: there is none */
} join_ways;

/* Ways of rows besides act_put and act_get, of a backend that has them. */
typedef struct row_ways {
    /* Memory of the process, aligned to a page, that act_put, act_get and pick have as their other side: from pin to
     * unpin they copy from and to it without a detour. Failing changes nothing but speed. */
    void (*pin)(dev *d, void *at, uint64_t bytes);
    void (*unpin)(dev *d, void *at);
    /* A parcel: memory of a device for rows on their way to other devices of the backend, without the host. fill copies
     * rows 0 … rows-1 of t there, behind what the device has begun; take is act_put from there, behind that. Neither
     * waits. The next fill comes when all devices that took from it have waited since. NULL: no such way. */
    int (*parcel_open)(parcel **p, dev *d, uint64_t bytes, err *e);
    void (*parcel_close)(parcel *p);
    int (*parcel_fill)(parcel *p, dev *d, const segment *s, ref t, int64_t rows, err *e);
    int (*parcel_take)(const parcel *p, dev *d, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows,
                       err *e);
    const join_ways *join; /* NULL: devices are not joined */
} row_ways;

/* All that a device does, an entry each, in the order of calls. */
struct backend {
    const char *name;
    int chunk, sequences;   /* rows of a prompt and sequences in a step that suit it */
    int chunk_most;         /* rows that are not too many where a step stays short, at */
    double chunk_rate;      /* so many operations a second */
    const fuse_table *fuse; /* NULL: op by op */
    bool reads_host; /* it has a memory of its own, and kernels read that of the process too: cache_options.host */

    /* Describes device `i`; false: there is no such. Opens nothing. */
    bool (*probe)(int i, device_info *out);
    /* The memory of a device of this number of the notation (-1: none was given); devices with the same share what is
     * free there. NULL: each weight set has one of its own. */
    int (*memory)(int number);
    /* Whether matrices of this type multiply int8 activations (core/lower_int8.h); NULL: none does. */
    bool (*takes_int8)(dtype type);
    /* A set of weights of a program, which must outlive it: those that `reads` says, [n_weight]. No values are read. */
    int (*weights_open)(weight_set **w, const program *p, const bool *reads, const weight_options *o, err *e);
    int (*weights_read)(weight_set *w, err *e); /* their values: converted, packed, uploaded */
    void (*weights_close)(weight_set *w);
    uint64_t (*weight_bytes)(const weight_set *w); /* memory taken or to be taken, without mapped files */
    /* What of that is memory of the process, which a device with a memory of its own reads over the bus. NULL: none. */
    uint64_t (*host_bytes)(const weight_set *w);
    /* What a weight set with these weights would take of memory that is the device's own. NULL: it is the process's,
     * and no caller asks. */
    uint64_t (*weights_take)(const program *p, const bool *reads);
    const char *(*isa)(const weight_set *w); /* what its kernels are made for: "avx2"; static text */
    /* A line for the user on --exact. With --exact off: why results stay exact on this device. With --exact on: the
     * speed that --exact off would gain. NULL, or a member that is NULL: there is no such line. */
    const char *(*exact_note)(const weight_set *w);
    void (*tell)(const weight_set *w, json *to); /* adds the choices made by measurement; NULL: none */
    uint64_t (*budget)(const weight_set *w);     /* bytes that are free in its memory */
    /* Bytes that a device of program p with so many segments takes of it besides pages, slots and activations: what
     * kernels and steps need. NULL: none. */
    uint64_t (*overhead)(const weight_set *w, const program *p, int segments);

    /* A device of program p with its pages and slots. The weights that its ops read are those of the set, by number.
     * max_rows: capacity of each row symbol in one step. */
    int (*open)(dev **d, weight_set *w, const program *p, const int max_rows[AXIS_COUNT], const cache_options *o,
                err *e);
    void (*close)(dev *d);
    int (*compile)(dev *d, segment *s, err *e); /* after arena_layout; takes memory for the arena too */
    void (*discard)(dev *d, segment *s);        /* undoes compile; also after it failed */

    /* Columns col0 … col0+cols-1 of rows 0 … rows-1 of an input, or of the result of a COLL, from [rows, cols]; whole
     * rows row0 … row0+rows-1 of an activation that s->out or a COLL names. Of int8 activations: all rows of the step,
     * in wire order (tensor/act_q8.h), and col0 is a multiple of the block. */
    int (*act_put)(dev *d, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, const void *from, err *e);
    int (*act_get)(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, void *to, err *e);
    /* Begins one stretch of one step and returns; the step stays as it is until the last one's wait. Page copies come
     * first, in stretch 0. */
    int (*start)(dev *d, const segment *s, uint32_t stretch, const step *st, err *e);
    int (*wait)(dev *d, err *e); /* until that is over */
    /* Whether a call has failed so that the device computes nothing any more. NULL: none ever does. */
    bool (*is_lost)(const dev *d);
    const row_ways *ways; /* NULL: there are none */
    /* The k best logits of each row, as logits_best_list has them, into to [rows][k]. */
    int (*pick)(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, int32_t k, best_logit *to, err *e);

    /* A page as bytes: of each state of the group that the device holds, tiles of keys by head, then of values (layout:
     * ops/held.h, core/kv_codes.h; sizes: kv_page_bytes). Group GROUP_MAX: a slot, each op's state after another. */
    int (*page_get)(dev *d, int group, int32_t page, uint8_t *to, err *e);
    int (*page_put)(dev *d, int group, int32_t page, const uint8_t *from, err *e);

    /* Name and length of the fused run that starts at op i of a compiled segment; NULL: no run. Results inside a run
     * are not written, unless a step has taps. */
    const char *(*fused)(const segment *s, uint32_t i, uint32_t *n);
    const wire_ops *(*wire)(void);        /* codecs by the best instructions of this processor; NULL: it has none */
    uint64_t (*held_bytes)(const dev *d); /* memory taken for pages, slots and working memory of kernels */
};

/* An entry of a list of backends. */
typedef struct backend_use {
    const backend *be; /* NULL: the end of the list */
    const void *own;   /* weight_options.own */
} backend_use;

/* Codecs of this process, for rows of all devices: those of the first backend that has some. */
static inline const wire_ops *backend_wire(const backend_use *list)
{
    while (list->be && !list->be->wire) list++;
    return list->be ? list->be->wire() : &wire_reference;
}
