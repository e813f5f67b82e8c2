/* rank_weights.h - the weights of a rank, which ranks of other plans may share: counted references. */
#pragma once
#include "core/backend.h"

typedef struct rank_weights {
    const backend *be;
    weight_options how;
    program *p;  /* whose weights they are; freed with them */
    bool *reads; /* [p->n_weight] those that its ops read */
    weight_set *set;
    uint64_t bytes; /* that do not lie in mapped files */
    uint64_t host;  /* of them, in memory of the process that the device reads over the bus */
    int refs;       /* __atomic */
} rank_weights;

/* Notes which weights the ops of a program read: [n_weight]. */
void rank_weights_note(const program *p, bool *reads);
/* Of what the ops of a program read, as yet without values. *out is to be closed after an error too, unless it is NULL:
 * then the program is still the caller's. */
int rank_weights_open(rank_weights **out, const backend *be, program *p, const weight_options *o, err *e);
int rank_weights_read(rank_weights *w, err *e);
/* One more reference, for a program that is a slice of the same one: NULL where the device is another one, or lacks
 * weights that its ops read. */
rank_weights *rank_weights_share(rank_weights *w, const backend *be, const program *p, const weight_options *o);
void rank_weights_close(rank_weights *w); /* one less; NULL ok */
