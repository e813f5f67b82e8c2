/* ops_flow.c - branches, calls, ends, barriers. */
#include "tests/gpu/decode.h"
#include "tests/gpu/machine.h"
#include "tests/gpu/race.h"
#include "tests/gpu/warp.h"

#include <string.h>

static void branch(warp *w, const inst *in, uint32_t mask)
{
    group *g = warp_take(w, mask);
    if (in->target <= g->pc) w->spins++;
    g->pc = in->target;
}

/* Sends lanes of the running group each to its own place: at[l]. */
static void scatter(warp *w, uint32_t mask, const int32_t *at, int deeper)
{
    warp_take(w, mask);
    while (mask) {
        const int32_t pc = at[__builtin_ctz(mask)];
        uint32_t same = 0;
        for (uint32_t m = mask; m; m &= m - 1)
            if (at[__builtin_ctz(m)] == pc) same |= m & -m;
        mask &= ~same;
        group *g = &w->g[w->at];
        if (mask) { /* a group of their own */
            g->mask = mask;
            w->g[w->n_group] = *g;
            g = &w->g[w->n_group++];
            g->mask = same;
        }
        g->pc = pc;
        g->depth = (int16_t)(g->depth + deeper);
    }
}

static void branch_table(warp *w, const inst *in, uint32_t mask)
{
    const uint32_t *index = row(w, in->o[1]);
    int32_t at[LANES];
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (index[l] >= in->n) machine_fault(w, l, FAULT_LAUNCH, "entry %u of a table of %u", index[l], in->n);
        at[l] = in->x[index[l] < in->n ? index[l] : 0];
    }
    scatter(w, mask, at, 0);
}

/* A call copies parameters into the callee's frame, and its end copies results out: x has the pairs of offsets in a
 * lane's memory and the bytes; n of them are parameters, mode results. The first row of the frame behind the registers
 * keeps where to return to. */
static void copy_params(warp *w, uint32_t mask, const int32_t *x, int n)
{
    for (; n--; x += 3)
        for (uint32_t m = mask; m; m &= m - 1) {
            uint8_t *lane = w->local + (size_t)w->local_bytes * (size_t)__builtin_ctz(m);
            memcpy(lane + x[1], lane + x[0], (size_t)x[2]);
        }
}

static void call(warp *w, const inst *in, uint32_t mask)
{
    uint32_t *back = row_set(w, in->o[0]);
    group *g = warp_take(w, mask);
    copy_params(w, mask, in->x, in->n);
    EACH_LANE(mask, back[l] = (uint32_t)g->pc + 1;);
    g->pc = in->target;
    g->depth++;
}

static void call_address(warp *w, const inst *in, uint32_t mask)
{
    const program *p = w->block->of->p;
    const uint64_t *to = (const uint64_t *)row(w, in->o[1]);
    int32_t at[LANES];
    const int32_t pc = warp_take(w, mask)->pc;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t f = (to[l] - WINDOW_CODE) / 16;
        const ptx_function *fn = f < (uint64_t)p->m->n_function && to[l] % 16 == 0 ? &p->m->function[f] : NULL;
        if (!fn || !fn->body || fn->entry || fn->n_param != in->n || fn->n_result != in->mode) {
            machine_fault(w, l, FAULT_INSTRUCTION, "a call of %#llx, which is no such function",
                          (unsigned long long)to[l]);
            return;
        }
        at[l] = p->entry[f];
        row_set(w, p->frame[f] + fn->slots)[l] = (uint32_t)pc + 1;
        for (int k = 0; k < fn->n_param; k++) {
            uint8_t *lane = w->local + (size_t)w->local_bytes * (size_t)l;
            memcpy(lane + p->local[f] + fn->param[k].at, lane + in->x[3 * k], (size_t)in->x[3 * k + 2]);
        }
    }
    scatter(w, mask, at, 1);
}

/* Behind a call: results of the function that was called last, from where it left them. */
static void take_results(warp *w, const inst *in, uint32_t mask) { copy_params(w, mask, in->x, in->n); }

static void take_results_address(warp *w, const inst *in, uint32_t mask)
{
    const program *p = w->block->of->p;
    const uint64_t *to = (const uint64_t *)row(w, in->o[1]);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t f = (to[l] - WINDOW_CODE) / 16;
        uint8_t *lane = w->local + (size_t)w->local_bytes * (size_t)l;
        for (int k = 0; k < in->n; k++)
            memcpy(lane + in->x[3 * k], lane + p->local[f] + p->m->function[f].result[k].at, (size_t)in->x[3 * k + 2]);
    }
}

static void return_from(warp *w, const inst *in, uint32_t mask)
{
    scatter(w, mask, (const int32_t *)row(w, in->o[1]), -1);
}

static void end(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    warp_end(w, mask);
}

static void trap(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    machine_fault(w, __builtin_ctz(mask), FAULT_LAUNCH, "the kernel gives up");
}

static void sleep_for(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    warp_take(w, mask)->pc++;
    warp_sleep(w);
}

/* o[1]: which barrier; o[2]: how many threads; o[3]: the predicate of bar.red. */
static void barrier_at(warp *w, const inst *in, uint32_t mask)
{
    const int l = __builtin_ctz(mask);
    const uint32_t id = row(w, in->o[1])[l], count = in->o[2] == NO_ROW ? 0 : row(w, in->o[2])[l];
    if (id >= BARRIERS || count % LANES) {
        machine_fault(w, l, FAULT_LAUNCH, "barrier %u of %u threads", id, count);
        return;
    }
    if (in->o[3] != NO_ROW) {
        barrier *bar = &w->block->bar[id];
        const uint32_t yes = *row(w, in->o[3]) & mask;
        bar->sum += (uint32_t)__builtin_popcount(yes);
        bar->any |= yes != 0;
        bar->all &= yes == mask;
    }
    const bool arrive = in->mode == BARRIER_ARRIVE;
    if (arrive) warp_take(w, mask)->pc++;
    block_barrier(w, mask, (int)id, (int)count, arrive);
}

/* ---- decoding ---- */

static bool decode_branch(decoder *d)
{
    decode_word(d, "uni");
    decode_end(d, 1, 1);
    const int at = decode_label(d, &d->l->o[0])->at;
    inst *in = decode_emit(d, branch);
    in->flow = FLOW_SETS;
    in->aim = TARGET_LABEL;
    in->target = at;
    return true;
}

static bool decode_branch_table(decoder *d)
{
    if (!decode_word(d, "idx")) decode_stop(d, "not known");
    decode_word(d, "uni");
    decode_end(d, 2, 2);
    const ptx_label *t = decode_label(d, &d->l->o[1]);
    if (!t->n_target || t->n_target > 255) decode_stop(d, "a table of branches is missing, or too long");
    int32_t *x = decode_rows(d->p, t->n_target);
    for (int i = 0; i < t->n_target; i++) {
        const ptx_operand o = {.kind = OPERAND_SYMBOL, .name = t->target[i]};
        x[i] = decode_label(d, &o)->at;
    }
    const int32_t index = decode_source(d, &d->l->o[0], 'r');
    inst *in = decode_emit(d, branch_table);
    in->flow = FLOW_SETS;
    in->aim = TARGET_TABLE;
    in->o[1] = index;
    in->x = x;
    in->n = (uint8_t)t->n_target;
    return true;
}

/* The bytes of a lane's memory that a .param of the body stands for. */
static const ptx_variable *param_of_body(const decoder *d, const ptx_operand *o)
{
    const ptx_function *f = &d->p->m->function[d->function];
    const ptx_variable *best = NULL;
    for (int i = 0; o->kind == OPERAND_SYMBOL && i < f->n_variable; i++) {
        const ptx_variable *v = &f->variable[i];
        bool seen = false;
        for (int s = d->l->scope; s >= 0; s = f->scope_parent[s]) seen |= s == v->scope;
        if (seen && v->space == SPACE_PARAM && !strcmp(v->name, o->name) && (!best || best->scope <= v->scope))
            best = v;
    }
    if (!best) decode_stop(d, "a parameter that is no .param of this function");
    return best;
}

/* Where values are passed: of the caller's variables and of the callee's, if it is known. */
static int32_t *pass_list(decoder *d, const ptx_operand *list, const ptx_variable *formal, int n, int f, bool results)
{
    if ((list ? list->n : 0) != n) decode_stop(d, "not so many parameters");
    int32_t *x = decode_rows(d->p, 3 * n);
    for (int i = 0; i < n; i++) {
        const ptx_variable *v = param_of_body(d, &list->part[i]);
        if (formal && formal[i].bytes != v->bytes) decode_stop(d, "a parameter of another size");
        const int32_t here = (int32_t)(d->p->local[d->function] + v->at);
        const int32_t there = formal ? (int32_t)(d->p->local[f] + formal[i].at) : 0;
        x[3 * i] = results && formal ? there : here;
        x[3 * i + 1] = results && formal ? here : there;
        x[3 * i + 2] = (int32_t)v->bytes;
    }
    return x;
}

static bool decode_call(decoder *d)
{
    decode_word(d, "uni");
    decode_end(d, 1, 4);
    const ptx_line *l = d->l;
    const bool has_result = l->o[0].kind == OPERAND_LIST;
    const ptx_operand *target = &l->o[has_result], *args = l->n > has_result + 1 ? &l->o[has_result + 1] : NULL;
    if (args && args->kind != OPERAND_LIST) args = NULL;
    const ptx_operand *results = has_result ? &l->o[0] : NULL;
    const int f = target->kind == OPERAND_SYMBOL ? ptx_find_function(d->p->m, target->name) : -1;
    if (target->kind == OPERAND_SYMBOL && f < 0) decode_stop(d, target->name);
    const ptx_function *fn = f >= 0 ? &d->p->m->function[f] : NULL;
    const int n = fn ? fn->n_param : args ? args->n : 0, m = fn ? fn->n_result : results ? results->n : 0;
    int32_t *in_list = pass_list(d, args, fn ? fn->param : NULL, n, f, false);
    int32_t *out_list = pass_list(d, results, fn ? fn->result : NULL, m, f, true);
    const int32_t address = fn ? NO_ROW : decode_source(d, target, 'd');
    inst *in = decode_emit(d, fn ? call : call_address);
    in->flow = FLOW_SETS;
    in->x = in_list;
    in->n = (uint8_t)n;
    in->mode = (uint8_t)m;
    in->o[0] = fn ? d->p->frame[f] + fn->slots : NO_ROW;
    in->o[1] = address;
    in->aim = fn ? TARGET_FUNCTION : TARGET_NONE;
    in->target = f;
    if (!m) return true;
    in = decode_emit(d, fn ? take_results : take_results_address);
    in->x = out_list;
    in->n = (uint8_t)m;
    in->o[1] = address;
    return true;
}

static bool decode_return(decoder *d)
{
    const ptx_function *f = &d->p->m->function[d->function];
    decode_word(d, "uni");
    decode_end(d, 0, 0);
    const bool ends = f->entry || !strcmp(d->word[0], "exit");
    inst *in = decode_emit(d, ends ? end : return_from);
    in->flow = FLOW_SETS;
    if (!ends) in->o[1] = d->p->frame[d->function] + f->slots;
    return true;
}

static bool decode_barrier(decoder *d)
{
    static const char *const kinds[] = {"sync", "arrive", "red", NULL}, *const reds[] = {"popc", "and", "or", NULL};
    if (d->n_word > 1 && !strcmp(d->word[1], "warp")) return false;
    decode_word(d, "cta");
    const int kind = decode_one_of(d, kinds), red = kind == 2 ? decode_one_of(d, reds) : -1;
    if (kind < 0 || (kind == 2 && red < 0)) decode_stop(d, "not known");
    decode_word(d, "aligned");
    if (kind == 2 && !decode_word(d, red ? "pred" : "u32")) decode_stop(d, "not known");
    decode_end(d, kind == 2 ? 3 : kind == 1 ? 2 : 1, kind == 2 ? 4 : 2);
    const ptx_operand *o = d->l->o + (kind == 2);
    const int n = d->l->n - (kind == 2) - (kind == 2);
    const int32_t id = decode_source(d, &o[0], 'r'), count = n > 1 ? decode_source(d, &o[1], 'r') : NO_ROW;
    const int32_t result = kind == 2 ? decode_result(d, &d->l->o[0], red ? 'p' : 'r') : NO_ROW;
    const int32_t asked = kind == 2 ? decode_source(d, &d->l->o[d->l->n - 1], 'p') : NO_ROW;
    inst *in = decode_emit(d, barrier_at);
    in->flow = FLOW_SETS;
    in->o[0] = result, in->o[1] = id, in->o[2] = count, in->o[3] = asked;
    static const uint8_t modes[] = {BARRIER_POPC, BARRIER_AND, BARRIER_OR};
    in->mode = kind == 2 ? modes[red] : kind == 1 ? BARRIER_ARRIVE : BARRIER_SYNC;
    return true;
}

static bool decode_sleep(decoder *d)
{
    decode_word(d, "u32");
    decode_end(d, 1, 1);
    decode_source(d, &d->l->o[0], 'r');
    decode_emit(d, sleep_for)->flow = FLOW_SETS;
    return true;
}

/* Kernels that begin before the last one has ended. Lanes that wait come here again. */
static void wait_before(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    if (!block_wait_before(w->block)) {
        warp_take(w, mask);
        warp_sleep(w);
        return;
    }
    race_wait_before(w, mask);
    warp_take(w, mask)->pc++;
}

static void let_begin(warp *w, const inst *in, uint32_t mask)
{
    (void)in;
    warp_take(w, mask)->pc++;
    if (block_let_begin(w->block)) warp_sleep(w);
}

static bool decode_dependent(decoder *d)
{
    const bool waits = decode_word(d, "wait");
    if (!waits && !decode_word(d, "launch_dependents")) decode_stop(d, "not known");
    decode_end(d, 0, 0);
    inst *in = decode_emit(d, waits ? wait_before : let_begin);
    in->flow = FLOW_SETS;
    return true;
}

bool decode_flow(decoder *d)
{
    const char *op = d->word[0];
    if (!strcmp(op, "bra")) return decode_branch(d);
    if (!strcmp(op, "brx")) return decode_branch_table(d);
    if (!strcmp(op, "call")) return decode_call(d);
    if (!strcmp(op, "ret") || !strcmp(op, "exit")) return decode_return(d);
    if (!strcmp(op, "bar") || !strcmp(op, "barrier")) return decode_barrier(d);
    if (!strcmp(op, "nanosleep")) return decode_sleep(d);
    if (!strcmp(op, "griddepcontrol")) return decode_dependent(d);
    if (strcmp(op, "trap")) return false;
    decode_end(d, 0, 0);
    decode_emit(d, trap);
    return true;
}
