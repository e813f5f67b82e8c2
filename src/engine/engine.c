/* engine.c - opens a model for serving: model, tokenizer, plan, KV pages, working memory; and closes it. */
#include "engine/engine_state.h"
#include "plan/plan_show.h"

#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "core/kv_type.h"
#include "cpu/cpu.h"
#include "engine/backend_list.h"
#include "io/contents_disk.h"
#include "net/leader.h"
#include "plan/fit.h"
#include "plan/plan_memory.h"
#include "text/tokenizer_open.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The backends of this build, with their own options, and those that the caller adds. */
static void list_backends(const engine_options *o, const own_options *own, backend_use list[BACKENDS_MAX])
{
#define X(name, member) {&name, &own->member},
    const backend_use all[] = {BACKEND_LIST(X)};
#undef X
    size_t n = sizeof all / sizeof *all;
    memset(list, 0, BACKENDS_MAX * sizeof *list);
    memcpy(list, all, sizeof all);
    for (const backend_use *more = o->more_backends; more && more->be && n + 1 < BACKENDS_MAX; more++)
        list[n++] = *more;
}

int engine_devices_here(const engine_options *o, device_here *out, int most)
{
    const own_options own = {.cpu.isa = o->isa};
    backend_use backends[BACKENDS_MAX];
    list_backends(o, &own, backends);
    return devices_here(backends, out, most);
}

enum { LAYERS_FIT = -1 };

/* How many of all layers --gpu-layers and --no-gpu ask for; LAYERS_FIT: as many as fit. Of *moe layers the experts are
 * to be on the CPU. Not of --devices. */
static int ask_layers(const engine_options *o, const program *p, int *n, int *moe, err *e)
{
    const bool names = o->devices && strcmp(o->devices, "auto");
    const char *text = o->gpu_layers, *experts = o->cpu_moe ? "--cpu-moe" : o->n_cpu_moe ? "--n-cpu-moe" : NULL;
    const char *flag = text ? "--gpu-layers" : o->no_gpu ? "--no-gpu" : experts;
    const int all = p->n_enc + p->n_layer;
    char *end = "";
    *n = o->no_gpu ? 0 : LAYERS_FIT;
    *moe = o->cpu_moe || o->n_cpu_moe > p->n_layer ? all : o->n_cpu_moe ? p->n_enc + (int)o->n_cpu_moe : 0;
    if (flag && names) return err_set(e, ERR_USAGE, "%s: --devices names devices: give one of both", flag);
    if (experts && !p->n_used) return err_set(e, ERR_USAGE, "%s: the model has no experts", experts);
    if (!text) return OK;
    if (o->no_gpu) return err_set(e, ERR_USAGE, "--gpu-layers, --no-gpu: give one of both");
    const long asked = strcmp(text, "all") ? strtol(text, &end, 10) : all;
    if (*end || !*text || asked < 0) return err_set(e, ERR_USAGE, "--gpu-layers %s: a number of layers, or all", text);
    *n = asked < all ? (int)asked : all;
    return OK;
}

/* The devices with memory of their own, and the first that shares the process's. None: gpu[0].info.why. */
static int find_gpus(const backend_use *list, device_here gpu[FIT_DEVICES], device_here *rest)
{
    int n = 0;
    gpu[0] = (device_here){.info.why = "this build has no kernels for GPUs"};
    for (; list->be; list++) {
        const bool own = list->be->memory && list->be->memory(-1) != MEMORY_OF_PROCESS && list->be->weights_take;
        const bool process = list->be->memory && list->be->memory(-1) == MEMORY_OF_PROCESS;
        device_here is;
        if (process && !rest->be) device_look(list->be, -1, rest);
        for (int i = 0; own && n < FIT_DEVICES && device_look(list->be, i, &is); i++) {
            if (!is.info.why || !n) gpu[n] = is;
            n += !is.info.why;
        }
    }
    return n;
}

static bool weights_are_f32(const program *p)
{
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        dtype t = w->want != DTYPE_NONE ? w->want : w->pieces[0].type;
        if (!w->vector && t != DTYPE_F32) return false;
    }
    return true;
}

/* The type that --kv gives, else one as exact as weights and activations. */
static dtype kv_type(const engine *g, const plan *l)
{
    const engine_options *o = &g->options;
    const program *p = g->prog;
    bool short_head = false;

    if (o->kv && strcmp(o->kv, "q8") == 0) return DTYPE_Q8_B64; /* blocks as in kv_type.h */
    if (o->kv && strcmp(o->kv, "q4") == 0) return DTYPE_Q4_B32;
    if (o->kv) return dtype_by_name(o->kv);
    for (uint32_t i = 0; i < p->n_state; i++)
        short_head = short_head || (p->states[i].k_dim && p->states[i].k_dim <= KV_I16_DIM);
    if (short_head && plan_takes_int8(l)) return DTYPE_I16; /* of matrices that are as inexact */
    return weights_are_f32(p) ? DTYPE_F32 : DTYPE_F16;
}

/* Rows that a slot keeps apart: as many as there may be guesses in a step. */
static int slot_rows(const engine *g)
{
    const engine_options *o = &g->options;
    if (!program_slot_bytes(g->prog, 0)) return 0;
    return o->guesses                                     ? DRAFT_MAX
           : !o->draft                                    ? 0
           : o->draft_max > 0 && o->draft_max < DRAFT_MAX ? (int)o->draft_max
                                                          : DRAFT_MAX;
}

/* Slots of `bytes` each, two a sequence; fewer sequences where they would take more than half of the budget, but one
 * always fits. Besides, snapshots for sixteen texts of full length, where these take no more than an eighth. */
static int count_slots(const engine *g, uint64_t bytes, uint64_t budget)
{
    enum { FULL = 16 };
    const uint64_t most = FULL * ((uint64_t)g->info.ctx / SNAPSHOT_TOKENS + 1);
    uint64_t n = bytes ? budget / 4 / bytes : 0, snapshots = bytes ? budget / 8 / bytes : 0;
    if (n > (uint64_t)g->places) n = (uint64_t)g->places;
    if (snapshots > most) snapshots = most;
    return bytes ? 2 * (n ? (int)n : 1) + (int)snapshots : 0;
}

/* What pages may take of so many bytes. Where nobody said how many sequences run at once: no more than sixteen of full
 * length need, unless that is little. */
static uint64_t limit_pages(const engine *g, const uint64_t bytes[GROUP_MAX], uint64_t budget)
{
    enum { FULL = 16, LITTLE = 256 << 20 };
    double need = 0;
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        need += (double)bytes[i] * FULL *
                pages_needed(g->info.ctx, g->prog->group_window[i], g->chunk * plan_in_flight(g->plan));
    if (need < LITTLE) need = LITTLE;
    return g->options.max_batch || need > (double)budget ? budget : (uint64_t)need;
}

/* Tables of rotations. */
static uint64_t rope_bytes(const program *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_rope; i++)
        sum += (uint64_t)p->ropes[i].params.dims * (uint64_t)p->ropes[i].ctx * sizeof(float);
    return sum;
}

/* What of so many bytes is left for pages where others take pages beside these: the same number of theirs. */
static uint64_t leave_beside(const engine *g, const plan_room *r, uint64_t bytes)
{
    double own = 0;
    for (uint32_t i = 0; i < g->prog->n_group; i++) own += (double)r->page[i];
    const uint64_t left = bytes > g->options.beside ? bytes - g->options.beside : 0;
    return own > 0 ? (uint64_t)((double)left * own / (own + (double)g->options.beside_page)) : left;
}

/* Slots, and pages of each group: as many as the device with the least memory for them can hold. Refuses a context
 * that does not fit, before a page is touched. */
static int count_pages(engine *g, dtype kv, cache_options *cache, err *e)
{
    const program *p = g->prog;
    const uint64_t tables = rope_bytes(p); /* each memory has them */
    plan_room room;
    for (int m = 0; plan_memory(g->plan, m, kv, kv, &room); m++) {
        const uint64_t may = room.of_process ? room.left / 2 : room.left > tables ? room.left - tables : 0;
        const uint64_t slot = room.slot + (uint64_t)cache->slot_rows * room.slot_row;
        const int n_slot = count_slots(g, slot, may);
        const uint64_t slots = (uint64_t)n_slot * slot;
        const uint64_t budget = limit_pages(g, room.page, leave_beside(g, &room, may > slots ? may - slots : 0));
        double need = (double)(tables + slots);
        if (room.slot && (!cache->n_slot || n_slot < cache->n_slot)) cache->n_slot = n_slot;
        int32_t fit[GROUP_MAX] = {0};
        pages_plan(p, room.page, g->places, g->info.ctx, g->chunk * plan_in_flight(g->plan), budget, fit);
        for (uint32_t i = 0; i < p->n_group; i++) {
            if (m == 0 || fit[i] < cache->n_page[i]) cache->n_page[i] = fit[i];
            need += (double)fit[i] * (double)room.page[i];
        }
        if (need > (double)room.left && !plan_memory_node(g->plan, m)) /* a node says it of itself */
            return err_set(e, ERR_LIMIT,
                           "--ctx %d: a cache for that many tokens takes %.0f bytes, of which %" PRIu64
                           " are free: give a smaller --ctx, or --kv q8 or q4",
                           g->info.ctx, need, room.left);
    }
    return OK;
}

/* ---- the plan */

static batch_sizes sizes_of(const engine *g, int sequences)
{
    const int outs = sequences + SCORE_ROWS / 4;
    return (batch_sizes){.rows = (int)g->chunk + sequences,
                         .enc = g->info.n_enc_vocab ? g->info.ctx : 0, /* an encoder reads its input at once */
                         .outs = outs > SCORE_ROWS ? outs : SCORE_ROWS,
                         .sequences = sequences,
                         .ctx = g->info.ctx};
}

static dtype kv_type_of(void *ctx, const plan *l) { return kv_type(ctx, l); }

/* As the plan is opened, but for devices and nodes. */
static plan_options options_of_plan(const engine *g, const backend_use *backends)
{
    const batch_sizes max = sizes_of(g, g->places);
    return (plan_options){.backends = backends,
                          .max_rows = {[AXIS_TOK] = max.rows,
                                       [AXIS_OUT] = max.outs,
                                       [AXIS_ENC] = max.enc,
                                       [AXIS_EXP] = max.rows * g->prog->n_used,
                                       [AXIS_SEQ] = max.sequences},
                          .kv_host = g->options.no_kv_offload ? 100 : (int)g->options.kv_host,
                          .choices = g->options.choices};
}

/* How many layers lie on each GPU: `asked` of them, or as many as fit with one sequence. */
static int fit_gpus(const engine *g, fit_ask *a, int asked, int n[FIT_DEVICES], err *e)
{
    const program *p = a->p;
    const int all = p->n_enc + p->n_layer;
    const int64_t groups = a->n_gpu + 1 + (a->moe > 0), set = a->o->choices.in_flight, steps = set ? set : groups + 1;
    int sum = 0;
    a->slots = 2;
    a->slot_rows = slot_rows(g);
    a->beside = g->options.beside + rope_bytes(p);
    for (uint32_t i = 0; i < p->n_group; i++)
        a->pages[i] = pages_needed(g->info.ctx, p->group_window[i], g->chunk * steps);
    const int rc = fit_layers(n, a, asked == LAYERS_FIT ? all : asked, asked != LAYERS_FIT, e);
    for (int i = 0; i < a->n_gpu; i++) sum += n[i];
    if (rc || asked != LAYERS_FIT || sum == all) return rc;
    log_line(LOG_INFO, "%s%s has room for %s%d of %d layers, with one text of %d tokens; the others are on the CPU",
             a->gpu[0].name, a->n_gpu > 1 ? ", with the GPUs after it," : "", sum ? "the last " : "", sum, all,
             g->info.ctx);
    return OK;
}

/* "auto", where there are GPUs: which layers lie on them. */
static int choose_layers(engine *g, const backend_use *backends, err *e)
{
    const engine_options *o = &g->options;
    const plan_options po = options_of_plan(g, backends);
    device_here gpu[FIT_DEVICES], rest = {.be = NULL};
    int n[FIT_DEVICES] = {0}, asked, moe, rc = ask_layers(o, g->prog, &asked, &moe, e);
    if (rc || (o->devices && strcmp(o->devices, "auto"))) return rc;
    int n_gpu = find_gpus(backends, gpu, &rest);
    for (int i = 0; i < n_gpu && o->gpu; i++)
        if (!strcmp(gpu[i].name, o->gpu)) gpu[0] = gpu[i], n_gpu = 1;
    if (!n_gpu && asked > 0) return err_set(e, ERR_UNAVAILABLE, "--gpu-layers: there is no GPU: %s", gpu[0].info.why);
    if (!rest.be || (!n_gpu && asked == LAYERS_FIT)) return OK;
    fit_ask a = {.p = g->prog,
                 .o = &po,
                 .gpu = gpu,
                 .n_gpu = n_gpu,
                 .rest = rest.name,
                 .moe = moe,
                 .kv_type = kv_type_of,
                 .ctx = g};
    buf list = {0};
    if (asked) rc = fit_gpus(g, &a, asked, n, e);
    if (rc) return rc;
    device_list_close(&g->devices);
    if (!fit_list(&list, &a, n)) rc = err_memory(e, "a list of devices");
    else rc = device_list_parse(&g->devices, buf_cstr(&list), backends, e);
    buf_free(&list);
    return rc;
}

static int open_leader(engine *g, double patience, err *e)
{
    const engine_options *o = &g->options;
    const leader_options lo = {.key_file = o->key_file,
                               .timeout = o->peer_timeout,
                               .patience = patience,
                               .weights = o->weights,
                               .list = &g->told,
                               .sequences = g->places,
                               .inexact = o->choices.exact == EXACT_OFF,
                               .on_lost = peers_lost,
                               .kv_type = kv_type_of,
                               .ctx = g};
    return leader_open(&g->leader, g->model, &lo, e);
}

/* The devices chosen now, as the engine is described. */
static int tell_devices(engine *g, err *e)
{
    g->devices_text.n = 0;
    if (!device_list_text(&g->devices, &g->devices_text)) return err_memory(e, "the list of devices");
    g->info.devices = buf_cstr(&g->devices_text);
    return OK;
}

/* Limits steps to the rows and outputs that the current plan was opened for. */
static void limit_steps(engine *g)
{
    const batch_sizes max = sizes_of(g, g->places);
    g->info.max_batch = g->places;
    steps_limit(&g->steps, &max);
}

/* Places the program on its devices; the first time what is left of their memory becomes pages. */
static int place_engine(engine *g, bool first, double patience, err *e)
{
    const engine_options *o = &g->options;
    const own_options own = {.cpu = {.threads = g->info.threads, .isa = o->isa},
                             .cuda = {.cublas = o->cublas, .timeout = o->device_timeout}};
    backend_use backends[BACKENDS_MAX];
    list_backends(o, &own, backends);
    int rc = tell_devices(g, e);
    if (!rc && !o->remote && o->key_file) rc = open_leader(g, patience, e);
    if (rc) return rc;
    plan_options po = options_of_plan(g, backends);
    po.devices = &g->devices;
    po.remote = g->leader ? leader_remote(g->leader) : o->remote;
    rc = plan_open(&g->plan, g->prog, &po, e);
    if (!rc && first && o->before_pages) rc = o->before_pages(g, e);
    if (!rc && first) {
        g->cache.k_type = g->cache.v_type = g->kv_type = kv_type(g, g->plan);
        g->cache.touch = o->touch;
        g->cache.slot_rows = plan_keeps_rows(g->plan) ? slot_rows(g) : 0;
        rc = count_pages(g, g->kv_type, &g->cache, e);
    }
    if (!rc) rc = plan_ready(g->plan, &g->cache, NULL, e);
    if (!rc) limit_steps(g);
    return rc;
}

dtype engine_kv_type(const engine *g) { return kv_type(g, g->plan); }

void engine_unplace(engine *g)
{
    peers_part(g);
    plan_close(g->plan);
    leader_close(g->leader);
    g->plan = NULL;
    g->leader = NULL;
}

enum { SEQUENCES_LEAST = 16 }; /* where nobody said how many run at once, and memory is short */

/* Where a node lends too little for so many sequences at once it may do for fewer. */
static bool take_fewer(engine *g, int rc, int least)
{
    const bool may = (rc == ERR_MEMORY || rc == ERR_BUSY) && g->options.key_file && !g->options.max_batch &&
                     g->places > least;
    if (may) g->places /= 4;
    return may;
}

/* With as many sequences as memory allows; an attempt that failed is left as it is. */
static int place_most(engine *g, bool first, int least, double patience, err *e)
{
    const double until = clock_now() + patience;
    g->places = g->most;
    int rc = place_engine(g, first, patience, e);
    while (take_fewer(g, rc, least)) {
        const double left = until - clock_now();
        engine_unplace(g);
        *e = (err){0};
        rc = place_engine(g, first, engine_patience(left), e);
    }
    return rc;
}

int engine_place_again(engine *g, double patience, err *e)
{
    return place_most(g, false, g->info.max_batch, patience, e);
}

/* Nodes may start later than this process. */
static int place_waiting(engine *g, err *e)
{
    const struct timespec tick = {.tv_nsec = 250000000};
    const double until = clock_now() + g->options.peer_wait;
    bool said = false;
    for (;;) {
        err own = {0};
        int rc = place_most(g, true, SEQUENCES_LEAST, engine_patience(until - clock_now()), &own);
        const bool other = rc && spares_turn(&g->devices, own.who);
        const bool waits = rc == ERR_IO || rc == ERR_BUSY || (other && rc == ERR_UNAVAILABLE);
        if (!waits || !g->options.key_file || clock_now() >= until) return err_copy(e, &own);
        if (!said) log_line(LOG_WARN, "%s: waiting up to %.0f s for it", own.msg, g->options.peer_wait);
        said = true;
        engine_unplace(g);
        nanosleep(&tick, NULL);
    }
}

/* Options with texts of the engine's own: a plan may have to be made again. */
static int keep_options(engine *g, const engine_options *o, err *e)
{
#ifndef HAVE_CUDA
    if (o->cublas) return err_set(e, ERR_USAGE, "--cublas: this build has no CUDA backend");
#endif
    if (o->cublas && o->choices.exact != EXACT_OFF) return err_set(e, ERR_USAGE, "--cublas goes with --exact off");
    if (o->no_kv_offload && o->kv_host) return err_set(e, ERR_USAGE, "--kv-host, --no-kv-offload: give one of both");
    const char **texts[] = {&g->options.devices,  &g->options.weights, &g->options.isa,          &g->options.kv,
                            &g->options.key_file, &g->options.draft,   &g->options.draft_accept, &g->options.cublas};
    g->options = *o;
    g->options.choices.act_f32 = g->model->act_f32;
    int32_t *own = o->n_bans ? arena_alloc(&g->texts, (size_t)o->n_bans * sizeof *own) : NULL;
    if (o->n_bans && !own) return err_memory(e, "the engine");
    g->options.bans = own;
    g->options.n_bans = 0;
    for (int32_t i = 0; i < o->n_bans; i += o->bans[i] + 1) { /* those of ids that the vocabulary has */
        bool known = true;
        for (int32_t k = 1; k <= o->bans[i]; k++)
            known = known && o->bans[i + k] >= 0 && o->bans[i + k] < (int64_t)g->prog->vocab;
        if (!known) continue;
        memcpy(own + g->options.n_bans, o->bans + i, ((size_t)o->bans[i] + 1) * sizeof *own);
        g->options.n_bans += o->bans[i] + 1;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !(*texts[i] = arena_str(&g->texts, *texts[i]))) return err_memory(e, "the engine");
    return OK;
}

static int open_parts(engine *g, err *e)
{
    const program *p = g->prog;
    batch_sizes max = sizes_of(g, g->most);
    if (p->n_used && max.rows > INT32_MAX / p->n_used)
        return err_set(e, ERR_LIMIT, "steps of %d rows with %d experts each are too large: give a smaller --chunk",
                       max.rows, p->n_used);
    int rc = peers_open(g, e);
    if (!rc) rc = place_waiting(g, e);
    if (!rc) peers_look(g, true);
    if (!rc) peers_greet(g);
    g->served_by = g->devices;
    if (!rc) rc = kv_open(&g->kv, p, &g->cache, e);
    if (!rc) max.copies = kv_pages(&g->kv);
    g->ready = mem_array((size_t)max.sequences, sizeof *g->ready);
    if (!rc && !g->ready) rc = err_set(e, ERR_MEMORY, "out of memory for %d sequences", max.sequences);
    if (!rc) rc = steps_open(&g->steps, p, plan_in_flight(g->plan), &max, e);
    if (!rc) limit_steps(g);
    if (!rc)
        rc = draws_open(&g->draws, g->info.n_vocab, cpu_kernels(cpu_features(), false)->scan, g->most, g->info.threads,
                        e);
    if (!rc) g->sampler = draws_sampler(g->draws);
    if (!rc && g->model->weights) rc = ckpt_check_torn(g->model->weights, e);
    return rc;
}

/* Outputs of the program other than logits. */
static void describe_pooled(engine_info *i, const model *m)
{
    const program *p = m->prog;
    ref pooled = p->entries[ENTRY_POOL].out, scores = p->entries[ENTRY_SCORES].out;
    i->generates = p->entries[ENTRY_HEAD].out && !p->needs_whole_sequence && !p->labels;
    i->n_label = p->labels ? (int32_t)tensor_count(&p->tensors[p->entries[ENTRY_HEAD].out]) : 0;
    i->n_pooled = pooled ? (int32_t)tensor_count(&p->tensors[pooled]) : 0;
    i->n_score = scores ? (int32_t)tensor_count(&p->tensors[scores]) : 0;
    for (uint32_t k = 0; k < p->n_op; k++)
        if (p->ops[k].kind == OP_EMBED && p->ops[k].u.embed.by == EMBED_BY_TYPE)
            i->n_type = (int32_t)p->tensors[p->ops[k].in[0]].dim[0];
    i->embed_tokens = (int32_t)(m->texts.max_tokens < INT32_MAX ? m->texts.max_tokens : INT32_MAX);
    i->embed_prompt = m->texts.prompt;
    i->embed_unsupported_module = m->texts.unsupported_module;
}

/* The vocabulary of the program's encoder; 0: it has none. */
static int32_t encoder_vocab(const program *p)
{
    for (uint32_t i = p->entries[ENTRY_ENC].op0; i < p->entries[ENTRY_ENC].op1; i++)
        if (p->ops[i].kind == OP_EMBED && p->ops[i].u.embed.by == EMBED_BY_TOKEN)
            return (int32_t)p->tensors[p->ops[i].in[0]].dim[0];
    return 0;
}

/* Whether steps of so many rows leave most of what the devices have free to weights and pages: of a row some eight
 * activations of the widest kind. Where a window frees pages, rows on their way would hold them. */
static bool has_room_for(const program *p, const plan_preference *of, int64_t rows)
{
    enum { ALIVE = 8, PART = 8 };
    double weights = 0, widest = 0;
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        weights += (double)w->rows * (double)dtype_row_bytes(weight_held_type(w), (uint64_t)w->cols);
    }
    for (uint32_t i = 0; i < p->n_tensor; i++) {
        const tensor *t = &p->tensors[i];
        const double each = (double)tensor_count(t) * (t->axis == AXIS_EXP ? p->n_used : 1);
        if (t->kind == TENSOR_ACT && (t->axis == AXIS_TOK || t->axis == AXIS_EXP) && each > widest) widest = each;
    }
    for (uint32_t i = 0; i < p->n_group; i++)
        if (p->group_window[i]) return false;
    return ALIVE * PART * sizeof(float) * widest * (double)rows <= (double)of->free_bytes - weights / of->devices;
}

/* Rows of a step: as many as the devices prefer, or more where steps stay short: a quarter of a second. Small models
 * gain: on a CPU 5 M weights read prompts 1.4 times as fast by 512 rows as by 128, and the first tokens of 256 requests
 * come before any of these is over. */
static int64_t rows_of_step(const program *p, const plan_preference *of)
{
    enum { ANYWHERE = 512 };
    const double products = of->chunk_rate / 4;
    double weights = 1;
    int64_t rows = of->chunk;
    for (uint32_t i = 0; i < p->n_weight; i++) weights += (double)p->weights[i].rows * (double)p->weights[i].cols;
    while (rows > 0 && rows < of->chunk_most && 2 * (double)rows * weights <= products &&
           (rows < ANYWHERE || has_room_for(p, of, 2 * rows)))
        rows *= 2;
    return rows;
}

static void describe_engine(engine *g, const engine_options *o, const plan_preference *of)
{
    const model *m = g->model;
    bool whole = m->prog->needs_whole_sequence || m->prog->entries[ENTRY_POOL].out ||
                 m->prog->entries[ENTRY_SCORES].out; /* a step must hold the longest text */
    g->chunk = whole ? m->ctx : o->chunk > 0 ? o->chunk : rows_of_step(m->prog, of);
    if (g->chunk > m->ctx) g->chunk = m->ctx;
    g->info = (engine_info){.name = m->name,
                            .arch = m->arch,
                            .n_vocab = (int32_t)m->prog->vocab,
                            .dim = (int32_t)m->prog->dim,
                            .bans = g->options.bans,
                            .n_bans = g->options.n_bans,
                            .n_layer = m->prog->n_layer,
                            .ctx = m->ctx,
                            .chunk = (int)g->chunk,
                            .bos = m->bos,
                            .n_eos = m->n_eos,
                            .n_enc_vocab = encoder_vocab(m->prog),
                            .n_start = m->n_start,
                            .wraps = m->wraps,
                            .max_batch = o->max_batch > 0 ? (int)o->max_batch : of->sequences,
                            .threads = o->threads > 0 ? (int)o->threads : pool_default_threads()};
    g->most = g->places = g->info.max_batch;
    describe_pooled(&g->info, m);
    memcpy(g->info.eos, m->eos, sizeof g->info.eos);
    memcpy(g->info.start, m->start, sizeof g->info.start);
    g->info.format = m->weights ? ckpt_format(m->weights) : "none";
    g->info.path = m->weights ? ckpt_path(m->weights) : "";
}

int engine_of_model(engine **out, model *m, void (*drop)(model *m), const engine_options *o, err *e)
{
    *out = NULL;
    engine *g = mem_zero(1, sizeof *g);
    if (!g) {
        drop(m);
        return err_memory(e, "the engine");
    }
    cond_open(&g->changed);
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->trie_lock, NULL);
    g->model = m;
    g->prog = m->prog;
    g->drop = drop;
    g->used_room = 1;
    const own_options own = {0};
    backend_use backends[BACKENDS_MAX];
    list_backends(o, &own, backends);
    plan_preference of = {.chunk = 0};
    int rc = keep_options(g, o, e);
    if (!rc) rc = device_list_parse(&g->devices, o->devices, backends, e);
    if (!rc) of = plan_prefers(&g->devices, backends);
    describe_engine(g, o, &of);
    if (!rc) rc = choose_layers(g, backends, e);
    if (!rc) of = plan_prefers(&g->devices, backends);
    describe_engine(g, o, &of);
    g->step_sequences = (int)o->step_sequences;
    if (o->threads > pool_default_threads())
        log_line(LOG_WARN, "%d threads on %d cores are slower than %d", g->info.threads, pool_default_threads(),
                 pool_default_threads());
    if (!rc) rc = draft_open(&g->guesses, g, e);
    if (!rc) rc = open_parts(g, e);
    if (rc) {
        engine_close(g);
        return rc;
    }
    g->info.weight_bytes = plan_weight_bytes(g->plan, 1, &g->info.weight_count);
    g->info.isa = plan_isa(g->plan);
    if (!*g->info.isa) g->info.isa = cpu_kernels(cpu_features(), false)->isa; /* all devices are on nodes */
    *out = g;
    return 0;
}

/* The tokenizer that was asked for, else the model's; *out NULL without an error: it has none. */
static int open_tokenizer(tokenizer **out, const model *m, const engine_options *o, err *e)
{
    const char *path = o->tokenizer ? o->tokenizer : m->tokenizer_path, *pre = o->pre ? o->pre : m->tokenizer_pre;
    err none = {0};
    *out = NULL;
    if (path) return tokenizer_open(out, path, pre, e);
    int rc = tokenizer_of_model(out, m->weights, pre, &none);
    if (rc && pre) return err_set(e, rc, "%s", none.msg);
    if (rc && rc != ERR_NOT_FOUND) log_line(LOG_WARN, "no tokenizer, only token ids can be used: %s", none.msg);
    return OK;
}

/* The tokenizer of an encoder-decoder's output; *out NULL: the same as of its input. */
static int open_target(tokenizer **out, const model *m, const engine_options *o, err *e)
{
    const char *path = o->tokenizer ? o->tokenizer : m->tokenizer_path;
    err none = {0};
    *out = NULL;
    if (!m->prog->entries[ENTRY_ENC].out) return OK;
    int rc = path ? tokenizer_open_target(out, path, &none) : tokenizer_target_of_model(out, m->weights, &none);
    return rc && rc != ERR_NOT_FOUND ? err_set(e, rc, "%s", none.msg) : OK;
}

/* --verify */
static int verify_files(const model *m, err *e)
{
    char *cache = contents_cache_folder();
    const int rc = m->weights ? contents_verify(m->weights, cache, pool_default_threads(), e) : OK;
    mem_free(cache);
    return rc;
}

int engine_open_model(model **out, const engine_options *o, err *e)
{
    const model_options mo = {.spec_path = o->spec,
                              .model_path = o->model,
                              .weights = o->weights,
                              .act = o->act,
                              .ctx = (int)o->ctx,
                              .pooling = o->pooling,
                              .normalize = o->normalize,
                              .ignored_keys = o->ignore_key};
    *out = NULL;
    int rc = model_open(out, &mo, e);
    if (!rc && o->verify) rc = verify_files(*out, e);
    if (rc) {
        model_close(*out);
        *out = NULL;
    }
    return rc;
}

int engine_open_with(engine **out, model *m, const engine_options *o, err *e)
{
    tokenizer *t = NULL, *target = NULL;
    engine_options own = *o;
    own.verify = false;
    *out = NULL;
    int rc = open_tokenizer(&t, m, o, e);
    if (!rc) rc = open_target(&target, m, o, e);
    if (rc) model_close(m);
    else rc = engine_of_model(out, m, model_close, &own, e);
    if (rc) {
        tokenizer_close(t);
        tokenizer_close(target);
        return rc;
    }
    (*out)->tok = t;
    (*out)->target = target;
    const char *note = o->guesses ? NULL : plan_exact_note((*out)->plan);
    if (note) log_line(LOG_INFO, "%s", note);
    return OK;
}

int engine_open(engine **out, const engine_options *o, err *e)
{
    model *m;
    *out = NULL;
    const int rc = engine_open_model(&m, o, e);
    return rc ? rc : engine_open_with(out, m, o, e);
}

void engine_end_steps(engine *g)
{
    err ignored = {0};
    for (int rc; steps_under_way(&g->steps);)
        steps_lose_slots(&g->kv, steps_collect(&g->steps, g->plan, &rc, &ignored));
    sessions_free_gone(g);
}

void engine_close(engine *g)
{
    if (!g) return;
    peers_close(g);
    engine_end_steps(g);
    while (g->all) session_finish(g, g->all, FINISH_CANCELLED, NULL);
    sessions_free_gone(g);
    damage_close(g);
    disk_cache_close(&g->kv, g->plan);
    draft_close(&g->guesses);
    engine_unplace(g);
    own_list_free(&g->told);
    arena_free(&g->texts);
    mem_free(g->peers.list);
    mem_free(g->peers.before);
    device_list_close(&g->devices);
    buf_free(&g->devices_text);
    steps_close(&g->steps);
    kv_close(&g->kv);
    mem_free(g->ready);
    draws_close(g->draws);
    token_trie_close(g->trie);
    tokenizer_close(g->tok);
    tokenizer_close(g->target);
    g->drop(g->model);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->trie_lock);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

const engine_info *engine_describe(const engine *g) { return &g->info; }

const tokenizer *engine_tokenizer(const engine *g) { return g->tok; }

const tokenizer *engine_target_tokenizer(const engine *g) { return g->target ? g->target : g->tok; }

int engine_plan_text(const engine *g, bool dump, buf *out, err *e) { return plan_text(g->plan, dump, out, e); }

int engine_devices(const engine *g, engine_device *out, int most)
{
    const int all = g->plan ? plan_devices(g->plan) : 0, n = all < most ? all : most;
    for (int i = 0; i < n; i++) {
        out[i] = (engine_device){.group = plan_group_of(g->plan, i),
                                 .layers = plan_layers_of(g->plan, i),
                                 .busy = plan_busy(g->plan, i),
                                 .pretended_speed = plan_pretended_speed(g->plan, i)};
        plan_device_name(g->plan, i, out[i].name);
    }
    return n;
}

double engine_busy(const engine *g, int i) { return plan_busy(g->plan, i); }

int engine_plan_json(const engine *g, const double *seconds, json *root, err *e)
{
    return plan_json(g->plan, seconds, root, e);
}

void engine_tell(const engine *g, json *to) { plan_tell(g->plan, to); }
