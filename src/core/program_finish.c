/* program_finish.c - checks and facts of a whole program: single assignment, cut points, hash.
 *
 * A cut point is found by liveness: an op before which exactly one activation is alive, and no state is between its
 * write and its read. There the rest of the model depends on a single tensor (the result of an encoder apart, which
 * every layer of a decoder reads); the plan divides layers wherever no state is open. */
#include "base/mem.h"
#include "core/program.h"

#include <string.h>

/* Last op that reads each tensor, UINT32_MAX when none does. */
static void find_last_use(const program *p, uint32_t *last)
{
    memset(last, 0xff, p->n_tensor * sizeof *last);
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (p->ops[i].in[k]) last[p->ops[i].in[k]] = i;
}

static int check_assignment(const program *p, uint8_t *written, err *e)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[o->in[k]];
            if (o->in[k] && t->kind == TENSOR_ACT && !written[o->in[k]])
                return err_set(e, ERR_SPEC, "op %u %s reads %s before it is written", i, op_info[o->kind].name,
                               t->name);
        }
        if (o->out && written[o->out]++)
            return err_set(e, ERR_SPEC, "op %u %s writes %s a second time", i, op_info[o->kind].name,
                           p->tensors[o->out].name);
    }
    return 0;
}

static int check_entries(const program *p, err *e)
{
    if (p->dim < 1 || p->n_layer < 0 || !p->hidden) return err_set(e, ERR_SPEC, "a program without hidden states");
    for (int32_t l = 0; l <= p->n_layer; l++)
        if (!p->hidden[l] || p->hidden[l] >= p->n_tensor || p->tensors[p->hidden[l]].kind != TENSOR_ACT)
            return err_set(e, ERR_SPEC, "no hidden state for layer %d", l);
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (p->entries[i].op0 > p->entries[i].op1 || p->entries[i].op1 > p->n_op)
            return err_set(e, ERR_SPEC, "entry %d is not inside the program", i);
    return 0;
}

void program_open_states(const program *p, uint8_t *open)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        if (p->ops[i].kind != OP_KV_PUT) continue;
        uint32_t end = i;
        for (uint32_t k = i + 1; k < p->n_op; k++) {
            if (p->ops[k].state != p->ops[i].state) continue;
            if (p->ops[k].kind == OP_KV_PUT) break;
            end = k;
        }
        for (uint32_t k = i + 1; k <= end; k++) open[k] = 1;
    }
}

static void find_cuts(program *p, const uint32_t *last, const uint8_t *open)
{
    int32_t live = 0;
    ref memory = p->entries[ENTRY_ENC].out; /* beside whatever else is handed over */
    p->n_cut = 0;
    uint32_t *die = p->cuts + p->n_op; /* how many activations die after op i: second half of the array, as scratch */
    memset(die, 0, p->n_op * sizeof *die);
    for (uint32_t t = 1; t < p->n_tensor; t++)
        if (t != memory && p->tensors[t].kind == TENSOR_ACT && last[t] != UINT32_MAX) die[last[t]]++;
    for (uint32_t i = 0; i < p->n_op; i++) {
        if (live == 1 && !open[i]) p->cuts[p->n_cut++] = i;
        live += p->ops[i].out && p->ops[i].out != memory && last[p->ops[i].out] != UINT32_MAX;
        live -= (int32_t)die[i];
    }
}

int program_finish(program *p, err *e)
{
    int rc = check_entries(p, e);
    if (rc) return rc;
    uint32_t *last = mem_array(p->n_tensor, sizeof *last);
    uint8_t *flags = mem_zero((size_t)p->n_tensor + p->n_op, 1);
    p->cuts = arena_array(&p->mem, (size_t)p->n_op * 2 + 1, sizeof *p->cuts);
    if (!last || !flags || !p->cuts) rc = err_memory(e, "the program");
    if (!rc) rc = check_assignment(p, flags, e);
    if (!rc) {
        find_last_use(p, last);
        program_open_states(p, flags + p->n_tensor);
        find_cuts(p, last, flags + p->n_tensor);
        program_identify(p, (span){0});
    }
    mem_free(last);
    mem_free(flags);
    return rc;
}
