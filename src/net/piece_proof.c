/* piece_proof.c - see piece_proof.h. A group: consecutive runs in one MiB of a tensor. */
#include "net/piece_proof.h"

#include "base/hash_tree.h"

#include <string.h>

typedef struct group {
    uint32_t run, end; /* of the request */
    uint64_t at;       /* of the tensor */
    size_t n;          /* bytes of the tree */
    bool want[TREE_LEAVES];
} group;

bool piece_proof_fits(const piece_ask *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->run[i].at / TREE_BYTES != (a->run[i].at + a->run[i].n - 1) / TREE_BYTES) return false;
    return true;
}

/* The group that begins with this run of a tensor of so many bytes. */
static void find_group(group *g, const piece_ask *a, uint32_t run, uint64_t bytes)
{
    const byte_run *first = &a->run[run];
    g->run = run;
    g->at = first->at / TREE_BYTES * TREE_BYTES;
    g->n = (size_t)(bytes - g->at < TREE_BYTES ? bytes - g->at : TREE_BYTES);
    memset(g->want, 0, sizeof g->want);
    for (g->end = run; g->end < a->n; g->end++) {
        const byte_run *r = &a->run[g->end];
        if (r->entry != first->entry || r->at / TREE_BYTES * TREE_BYTES != g->at) return;
        tree_want(g->want, (size_t)(r->at - g->at), (size_t)r->n);
    }
}

uint32_t piece_proof_bytes(const piece_ask *a, uint64_t (*bytes_of)(const void *ctx, uint32_t i), const void *ctx)
{
    size_t sum = 0;
    group g;
    for (uint32_t i = 0; i < a->n; i = g.end) {
        find_group(&g, a, i, bytes_of(ctx, a->run[i].entry));
        sum += tree_proof_bytes(g.want, g.n);
    }
    return (uint32_t)sum;
}

void piece_prove(const piece_ask *a, const ckpt *c, const uint32_t *order, uint8_t *proof)
{
    group g;
    for (uint32_t i = 0; i < a->n; i = g.end) {
        const ckpt_entry *t = ckpt_at(c, order[a->run[i].entry]);
        find_group(&g, a, i, t->bytes);
        tree_prove(g.want, t->data + g.at, g.n, proof);
        proof += tree_proof_bytes(g.want, g.n);
    }
}

int piece_proof_check(const piece_ask *a, const catalogue *told, span proof, uint8_t *room, uint8_t *bytes, err *e)
{
    cursor c = cursor_of(proof);
    group g;
    for (uint32_t i = 0; i < a->n; i = g.end) {
        const listed *x = &told->tensor[a->run[i].entry];
        find_group(&g, a, i, x->t.bytes);
        const span own = cursor_take(&c, tree_proof_bytes(g.want, g.n));
        if (c.bad || !tree_check(g.want, own, x->root + g.at / TREE_BYTES * SHA256_BYTES, room, g.n))
            return err_set(e, ERR_FORMAT, "bytes of tensor '%.100s' that the leader sent are not those of its list",
                           x->t.name);
        for (uint32_t k = g.run; k < g.end; bytes += a->run[k++].n)
            memcpy(bytes, room + (a->run[k].at - g.at), (size_t)a->run[k].n);
    }
    return cursor_left(&c) ? err_set(e, ERR_FORMAT, "a piece of weights is too long") : OK;
}
