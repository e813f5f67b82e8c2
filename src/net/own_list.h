/* own_list.h - on the leader: what its checkpoint holds, as nodes are told (net/catalogue.h). Made once; recoveries use
 * it again, and nodes that have it already are told its digest alone. */
#pragma once
#include "base/buf.h"
#include "models/model.h"

typedef struct own_list {
    buf text;
    uint8_t digest[SHA256_BYTES]; /* of it */
    uint32_t *order;              /* numbers in the checkpoint, by those in the list; NULL: not made yet */
    buf flat;                     /* for processes of protocol 2; empty: not made yet */
} own_list;

/* Each does nothing when its part is there. The first time the whole checkpoint is read. */
int own_list_make(own_list *l, const model *m, err *e);
int own_list_make_flat(own_list *l, const model *m, err *e);
void own_list_free(own_list *l);
