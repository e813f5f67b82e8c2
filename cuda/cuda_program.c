/* cuda_program.c - the program as a device reads it: ops and tensors as they are, constants copied, rope sets and
 * states with device addresses. */
#include "cuda/cuda_state.h"

#include "base/mem.h"

#include <string.h>

enum { ALIGN = 256 };

static uint64_t aligned(uint64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static uint64_t constant_bytes(const tensor *t)
{
    return t->kind == TENSOR_CONST ? (uint64_t)tensor_count(t) * sizeof(float) : 0;
}

/* Copies constants one after another, and makes `to` point to them. */
static int send_constants(cuda_device *d, const program *p, tensor *to, err *e)
{
    uint64_t all = 0;
    for (uint32_t i = 1; i < p->n_tensor; i++) all += aligned(constant_bytes(&p->tensors[i]));
    d->constant = mem_zero(p->n_tensor, sizeof *d->constant);
    if (!d->constant) return err_set(e, ERR_MEMORY, "out of memory for a program");
    int rc = cuda_take(d, all, "constants", &d->constants, e);
    cu_address at = d->constants;
    for (uint32_t i = 1; i < p->n_tensor && !rc; i++) {
        const uint64_t bytes = constant_bytes(&p->tensors[i]);
        if (!bytes) continue;
        rc = cuda_send(d, at, p->tensors[i].data, bytes, e);
        to[i].data = (const float *)(uintptr_t)at;
        d->constant[i] = at;
        at += aligned(bytes);
    }
    return rc;
}

/* One array behind another of the block that holds the program. */
static void *append(uint8_t *host, uint64_t *used, const void *from, uint64_t bytes)
{
    void *to = memcpy(host + *used, from, bytes);
    *used += aligned(bytes);
    return to;
}

int cuda_program_send(cuda_device *d, const program *p, err *e)
{
    const uint64_t ops = p->n_op * sizeof *p->ops, tensors = p->n_tensor * sizeof *p->tensors,
                   states = p->n_state * sizeof *p->states, ropes = p->n_rope * sizeof *p->ropes;
    const uint64_t all = aligned(sizeof *p) + aligned(ops) + aligned(tensors) + aligned(states) + aligned(ropes);
    uint64_t used = aligned(sizeof *p), variants = (uint64_t)p->n_rope * CUDA_VARIANTS * sizeof(rope_variant);
    uint8_t *host = d->program ? NULL : mem_zero(1, all);
    if (d->program) return OK;
    if (!host) return err_set(e, ERR_MEMORY, "out of memory for a program");
    int rc = cuda_take(d, all, "the program", &d->program, e);
    if (!rc) rc = cuda_take(d, variants, "tables of positions", &d->rope_variants, e);
    if (!rc) {
        program *to = (program *)(void *)host;
        *to = *p;
        to->ops = (op *)(uintptr_t)(d->program + used);
        append(host, &used, p->ops, ops);
        tensor *t = (tensor *)(void *)(host + used);
        to->tensors = (tensor *)(uintptr_t)(d->program + used);
        append(host, &used, p->tensors, tensors);
        to->states = (state *)(uintptr_t)(d->program + used);
        append(host, &used, p->states, states);
        rope_set *r = (rope_set *)(void *)(host + used);
        to->ropes = (rope_set *)(uintptr_t)(d->program + used);
        append(host, &used, p->ropes, ropes);
        for (uint32_t i = 0; i < p->n_rope; i++)
            r[i].variant = (rope_variant *)(uintptr_t)(d->rope_variants + i * CUDA_VARIANTS * sizeof(rope_variant));
        rc = send_constants(d, p, t, e);
    }
    if (!rc) rc = cuda_send(d, d->program, host, all, e);
    if (!rc) rc = cuda_wait(d, e);
    mem_free(host);
    return rc;
}

/* Behind the struct run: the arrays of weights, pages and slots. */
int cuda_run_send(cuda_device *d, cuda_segment *s, err *e)
{
    const program *p = d->p;
    const uint64_t held = p->n_weight * sizeof *d->helds, kv = p->n_state * sizeof *d->kv,
                   slots = p->n_state * sizeof *d->slots;
    const uint64_t all = aligned(sizeof(run)) + aligned(held) + aligned(kv) + aligned(slots);
    uint64_t used = aligned(sizeof(run));
    uint8_t *host = mem_zero(1, all);
    if (!host) return err_set(e, ERR_MEMORY, "out of memory for a segment");
    int rc = cuda_take(d, all, "a segment", &s->run, e);
    if (!rc) {
        run *r = (run *)(void *)host;
        *r = (run){.p = (const program *)(uintptr_t)d->program,
                   .st = (const step *)(uintptr_t)s->step.at,
                   .act = (uint8_t *)(uintptr_t)s->act,
                   .scratch = (float *)(uintptr_t)d->scratch,
                   .scratch_floats = d->scratch_floats};
        r->held = (const held_weight *)(uintptr_t)(s->run + used);
        append(host, &used, d->helds, held);
        r->kv = (const kv_store *)(uintptr_t)(s->run + used);
        append(host, &used, d->kv, kv);
        r->slots = (const slot_store *)(uintptr_t)(s->run + used);
        append(host, &used, d->slots, slots);
        rc = cuda_send(d, s->run, host, all, e);
    }
    if (!rc) rc = cuda_wait(d, e);
    mem_free(host);
    return rc;
}
