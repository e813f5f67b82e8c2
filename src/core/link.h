/* link.h - bytes between the ranks of a group: devices that hold parts of the same layers.
 *
 * Each rank has an end, which only one thread uses at a time. A channel from one rank to another holds one message: the
 * next may be posted when that one was taken. Nothing is copied where ranks share memory: the receiver reads the
 * sender's bytes. Sizes are known to both sides beforehand; a message of another size is an error, and where there are
 * no bytes there is no message. Between two ranks messages arrive in the order in which they were posted, over all
 * channels of one use, so that one stream of bytes can carry them. After opening nothing is allocated. */
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { LINK_RANKS_MAX = 64 };

typedef struct link_end link_end;

/* How bytes travel. All return at once but `wait`. */
typedef struct link_kind {
    const char *name;
    /* Sends n > 0 bytes, which stay as they are until `taken`. */
    int (*post)(link_end *l, int to, int channel, const void *bytes, uint64_t n, err *e);
    /* Whether the last message posted there, if any, needs its bytes no longer. */
    bool (*taken)(link_end *l, int to, int channel);
    /* *bytes: the message of a rank, n bytes, until `release`; NULL: it is not there yet. */
    int (*take)(link_end *l, int from, int channel, uint64_t n, const void **bytes, err *e);
    void (*release)(link_end *l, int from, int channel);
    /* Returns when `take` or `taken` may say something else than before the last wait; an error when a rank has given
     * up. */
    int (*wait)(link_end *l, err *e);
    /* This rank failed: `wait` of all ranks ends with `code` and a message that names this rank and says why. */
    void (*give_up)(link_end *l, int code, const char *why);
} link_kind;

struct link_end {
    const link_kind *kind;
    int rank, ranks;
    uint64_t posted; /* bytes, in all */
    /* Of links between processes, read by other threads (__atomic): the rank, plus one, for whose message it waits, 0:
     * none; and how often a wait has ended, which is twice a second at least. */
    int sought, waits_for;
    uint64_t waited;
};
