/* rank_weights.c - see rank_weights.h. */
#include "plan/rank_weights.h"

#include "base/mem.h"

/* The number of the weight that operand k of op i is; false: it is none. */
static bool is_weight(const program *p, uint32_t i, int k, uint32_t *number)
{
    const tensor *t = &p->tensors[p->ops[i].in[k]];
    *number = t->weight;
    return p->ops[i].in[k] && t->kind == TENSOR_WEIGHT;
}

void rank_weights_note(const program *p, bool *reads)
{
    for (uint32_t i = 0, n; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (is_weight(p, i, k, &n)) reads[n] = true;
}

static void note_bytes(rank_weights *w)
{
    w->bytes = w->be->weight_bytes(w->set);
    w->host = w->be->host_bytes ? w->be->host_bytes(w->set) : 0;
}

int rank_weights_open(rank_weights **out, const backend *be, program *p, const weight_options *o, err *e)
{
    bool *reads = mem_zero(p->n_weight + 1, sizeof *reads);
    rank_weights *w = *out = mem_zero(1, sizeof *w);
    if (!reads || !w) {
        mem_free(reads);
        mem_free(w);
        *out = NULL;
        return err_memory(e, "a list of weights");
    }
    *w = (rank_weights){.be = be, .how = *o, .p = p, .reads = reads, .refs = 1};
    rank_weights_note(p, reads);
    int rc = be->weights_open(&w->set, p, reads, o, e);
    if (!rc) note_bytes(w);
    return rc;
}

int rank_weights_read(rank_weights *w, err *e)
{
    int rc = w->be->weights_read(w->set, e);
    if (!rc) note_bytes(w);
    return rc;
}

static bool same_weight(const weight *a, const weight *b)
{
    return a->pieces == b->pieces && a->of == b->of && a->rows == b->rows && a->cols == b->cols && a->want == b->want &&
           a->parts == b->parts && a->packed == b->packed && a->row0 == b->row0 && a->run == b->run &&
           a->stride == b->stride && a->col0 == b->col0;
}

/* Whether all that the ops of a program read is there, as it is to be held. */
static bool has_weights(const rank_weights *w, const program *p)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            uint32_t n;
            if (!is_weight(p, i, k, &n)) continue;
            if (n >= w->p->n_weight || !w->reads[n] || !same_weight(&w->p->weights[n], &p->weights[n])) return false;
        }
    return true;
}

rank_weights *rank_weights_share(rank_weights *w, const backend *be, const program *p, const weight_options *o)
{
    const bool same = w->be == be && w->how.number == o->number && w->how.inexact == o->inexact;
    if (!same || !has_weights(w, p)) return NULL;
    __atomic_fetch_add(&w->refs, 1, __ATOMIC_RELAXED);
    return w;
}

void rank_weights_close(rank_weights *w)
{
    if (!w || __atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (w->set) w->be->weights_close(w->set);
    program_free(w->p);
    mem_free(w->reads);
    mem_free(w);
}
