/* cuda_program.c - the program in device memory: ops, tensors, states and rope sets, with device addresses in place of
 * pointers, and the constants; and the struct run of each segment. */
#include "cuda/cuda_state.h"

#include "base/mem.h"

#include <string.h>

static uint64_t constant_bytes(const tensor *t)
{
    return t->kind == TENSOR_CONST ? (uint64_t)tensor_count(t) * sizeof(float) : 0;
}

/* Copies constants one after another, and makes `to` point to them. */
static int send_constants(cuda_device *d, const program *p, tensor *to, err *e)
{
    uint64_t all = 0;
    for (uint32_t i = 1; i < p->n_tensor; i++) all += cuda_aligned(constant_bytes(&p->tensors[i]));
    d->constant = mem_zero(p->n_tensor, sizeof *d->constant);
    if (!d->constant) return err_memory(e, "a program");
    int rc = cuda_take(&d->q, all, "constants", &d->constants, e);
    cu_address at = d->constants;
    for (uint32_t i = 1; i < p->n_tensor && !rc; i++) {
        const uint64_t bytes = constant_bytes(&p->tensors[i]);
        if (!bytes) continue;
        rc = cuda_send(&d->q, at, p->tensors[i].data, bytes, e);
        to[i].data = (const float *)(uintptr_t)at;
        d->constant[i] = at;
        at += cuda_aligned(bytes);
    }
    return rc;
}

/* Memory of the host that becomes a block of the device: one array after another. */
typedef struct packer {
    uint8_t *host;
    cu_address at; /* of the block */
    uint64_t used;
} packer;

/* Appends an array, and gives its address on the device. */
static void *append(packer *k, const void *from, uint64_t bytes)
{
    const uint64_t at = k->used;
    memcpy(k->host + at, from, bytes);
    k->used += cuda_aligned(bytes);
    return (void *)(uintptr_t)(k->at + at);
}

int cuda_program_send(cuda_device *d, const program *p, err *e)
{
    const uint64_t ops = p->n_op * sizeof *p->ops, tensors = p->n_tensor * sizeof *p->tensors,
                   states = p->n_state * sizeof *p->states, ropes = p->n_rope * sizeof *p->ropes,
                   variants = (uint64_t)p->n_rope * CUDA_VARIANTS * sizeof(rope_variant);
    const uint64_t all = cuda_aligned(sizeof *p) + cuda_aligned(ops) + cuda_aligned(tensors) + cuda_aligned(states) +
                         cuda_aligned(ropes);
    if (d->program) return OK;
    packer k = {.host = mem_zero(1, all), .used = cuda_aligned(sizeof *p)};
    if (!k.host) return err_memory(e, "a program");
    int rc = cuda_take(&d->q, all, "the program", &d->program, e);
    if (!rc) rc = cuda_take(&d->q, variants, "tables of positions", &d->rope_variants, e);
    k.at = d->program;
    if (!rc) {
        program *to = (program *)(void *)k.host;
        *to = *p;
        to->ops = append(&k, p->ops, ops);
        tensor *t = (tensor *)(void *)(k.host + k.used);
        to->tensors = append(&k, p->tensors, tensors);
        to->states = append(&k, p->states, states);
        rope_set *r = (rope_set *)(void *)(k.host + k.used);
        to->ropes = append(&k, p->ropes, ropes);
        for (uint32_t i = 0; i < p->n_rope; i++)
            r[i].variant = (rope_variant *)(uintptr_t)(d->rope_variants + i * CUDA_VARIANTS * sizeof(rope_variant));
        rc = send_constants(d, p, t, e);
    }
    if (!rc) rc = cuda_send(&d->q, d->program, k.host, all, e);
    if (!rc) rc = cuda_wait(&d->q, e);
    mem_free(k.host);
    return rc;
}

/* Behind the struct run: the arrays of weights, pages and slots. */
int cuda_run_send(cuda_device *d, cuda_segment *s, err *e)
{
    const program *p = d->p;
    const uint64_t held = p->n_weight * sizeof *d->w->helds, kv = p->n_state * sizeof *d->kv,
                   slots = p->n_state * sizeof *d->slots;
    const uint64_t all = cuda_aligned(sizeof(run)) + cuda_aligned(held) + cuda_aligned(kv) + cuda_aligned(slots);
    packer k = {.host = mem_zero(1, all), .used = cuda_aligned(sizeof(run))};
    if (!k.host) return err_memory(e, "a segment");
    int rc = cuda_take(&d->q, all, "a segment", &s->run, e);
    k.at = s->run;
    if (!rc) {
        *(run *)(void *)k.host = (run){.p = (const program *)(uintptr_t)d->program,
                                       .st = (const step *)(uintptr_t)s->step.at,
                                       .act = (uint8_t *)(uintptr_t)s->act,
                                       .held = append(&k, d->w->helds, held),
                                       .kv = append(&k, d->kv, kv),
                                       .slots = append(&k, d->slots, slots),
                                       .scratch = (float *)(uintptr_t)d->scratch,
                                       .scratch_floats = d->scratch_floats};
        rc = cuda_send(&d->q, s->run, k.host, all, e);
    }
    if (!rc) rc = cuda_wait(&d->q, e);
    mem_free(k.host);
    return rc;
}
