/* engine.c - opens a model for serving: model, tokenizer, plan, KV pages, working memory; and closes it. */
#include "engine/engine_state.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "core/kv_type.h"
#include "engine/backend_list.h"
#include "text/tokenizer_open.h"

#include <inttypes.h>
#include <string.h>

/* CHUNK: prefill rows of a step: enough to be bound by arithmetic, few enough that activations stay in caches. */
enum { MAX_BATCH = 16, CHUNK = 128 };

static const backend *const backends[] = {
#define X(name) &name,
    BACKEND_LIST(X)
#undef X
        NULL,
};

static bool weights_are_f32(const program *p)
{
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        dtype t = w->want != DTYPE_NONE ? w->want : w->pieces[0].type;
        if (!w->vector && t != DTYPE_F32) return false;
    }
    return true;
}

/* Whether some matrix takes int8 activations, and every head fits a cache of i16. */
static bool takes_int8(const program *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_weight; i++) any = any || p->weights[i].packed;
    for (uint32_t i = 0; i < p->n_state; i++) any = any && p->states[i].k_dim <= KV_I16_DIM;
    return any;
}

/* The type that --kv gives, else one as exact as weights and activations. */
static dtype kv_type(const engine_options *o, const program *p)
{
    if (o->kv && strcmp(o->kv, "q8") == 0) return DTYPE_Q8_B64; /* blocks as in kv_type.h */
    if (o->kv && strcmp(o->kv, "q4") == 0) return DTYPE_Q4_B32;
    if (o->kv) return dtype_by_name(o->kv);
    if (takes_int8(p)) return DTYPE_I16;
    return weights_are_f32(p) ? DTYPE_F32 : DTYPE_F16;
}

/* Refuses a context that cannot fit, before a page is touched. */
static int count_pages(engine *g, dtype kv, int n_page[GROUP_MAX], err *e)
{
    const program *p = g->prog;
    uint64_t bytes[GROUP_MAX] = {0}, there = mem_available();
    double need = 0;
    for (uint32_t i = 0; i < p->n_state; i++) {
        const state *s = &p->states[i];
        bytes[s->group] += kv_page_bytes(s, kv, kv);
    }
    pages_plan(p, bytes, g->info.max_batch, g->info.ctx, g->chunk, there / 2, n_page);
    for (uint32_t i = 0; i < p->n_rope; i++) need += 4.0 * p->ropes[i].params.dims * p->ropes[i].ctx;
    for (uint32_t i = 0; i < p->n_group; i++) need += (double)n_page[i] * (double)bytes[i];
    if (need <= (double)there) return OK;
    return err_set(e, ERR_LIMIT,
                   "--ctx %d: a cache for that many tokens takes %.0f bytes, of which %" PRIu64
                   " are free: give a smaller --ctx, or --kv q8 or q4",
                   g->info.ctx, need, there);
}

static int open_parts(engine *g, const engine_options *o, err *e)
{
    const program *p = g->prog;
    int rows = (int)g->chunk + g->info.max_batch, outs = g->info.max_batch + SCORE_ROWS;
    int enc = g->info.n_enc_vocab ? g->info.ctx : 0; /* the longest input that an encoder reads at once */
    dtype kv = kv_type(o, p);
    plan_options po = {
        .devices = o->devices,
        .backends = backends,
        .dev = {.threads = g->info.threads, .inexact = o->exact && !strcmp(o->exact, "off"), .isa = o->isa}};
    int rc = 0;
    if (p->n_used && rows > INT32_MAX / p->n_used)
        return err_set(e, ERR_LIMIT, "steps of %d rows with %d experts each are too large: give a smaller --chunk",
                       rows, p->n_used);
    po.dev.k_type = po.dev.v_type = g->kv_type = kv;
    const int most[AXIS_COUNT] = {[AXIS_TOK] = rows,
                                  [AXIS_OUT] = outs,
                                  [AXIS_ENC] = enc,
                                  [AXIS_EXP] = rows * p->n_used,
                                  [AXIS_SEQ] = g->info.max_batch};
    memcpy(po.dev.max_rows, most, sizeof most);
    rc = count_pages(g, kv, po.dev.n_page, e);
    for (uint32_t i = 0; i < p->n_group && !rc; i++) rc = pages_open(&g->pages[i], po.dev.n_page[i], e);
    if (!rc) rc = batch_open(&g->rows, p, rows, enc, outs, g->info.max_batch, g->info.ctx, e);
    if (!rc) rc = sampler_open(&g->picker, g->info.n_vocab, e);
    if (!rc) rc = plan_open(&g->placed, g->served->prog, &po, e);
    if (!rc && g->served->weights) rc = ckpt_check_torn(g->served->weights, e);
    return rc;
}

/* Outputs of the program other than logits. */
static void describe_pooled(engine_info *i, const model *m)
{
    const program *p = m->prog;
    ref pooled = p->entries[ENTRY_POOL].out, scores = p->entries[ENTRY_SCORES].out;
    i->generates = p->entries[ENTRY_HEAD].out && !p->needs_whole_sequence;
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

static void describe(engine *g, const engine_options *o)
{
    const model *m = g->served;
    bool whole = m->prog->needs_whole_sequence ||
                 m->prog->entries[ENTRY_POOL].out; /* a step must hold the longest text */
    g->chunk = whole ? m->ctx : o->chunk > 0 ? o->chunk : CHUNK;
    if (g->chunk > m->ctx) g->chunk = m->ctx;
    g->info = (engine_info){.name = m->name,
                            .arch = m->arch,
                            .n_vocab = (int32_t)m->prog->vocab,
                            .dim = (int32_t)m->prog->dim,
                            .n_layer = m->prog->n_layer,
                            .ctx = m->ctx,
                            .bos = m->bos,
                            .n_eos = m->n_eos,
                            .n_enc_vocab = encoder_vocab(m->prog),
                            .n_start = m->n_start,
                            .max_batch = o->max_batch > 0 ? (int)o->max_batch : MAX_BATCH,
                            .threads = o->threads > 0 ? (int)o->threads : pool_default_threads()};
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
        return err_set(e, ERR_MEMORY, "out of memory for the engine");
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&g->lock, NULL);
    g->served = m;
    g->prog = m->prog;
    g->drop = drop;
    describe(g, o);
    int rc = open_parts(g, o, e);
    if (rc) {
        engine_close(g);
        return rc;
    }
    g->info.weight_bytes = plan_weight_bytes(g->placed, 1, &g->info.weight_count);
    g->info.isa = plan_isa(g->placed);
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

int engine_open(engine **out, const engine_options *o, err *e)
{
    model *m = NULL;
    tokenizer *t = NULL, *target = NULL;
    *out = NULL;
    model_options mo = {.spec_path = o->spec,
                        .model_path = o->model,
                        .weights = o->weights,
                        .act = o->act,
                        .ctx = (int)o->ctx,
                        .pooling = o->pooling,
                        .normalize = o->normalize};
    int rc = model_open(&m, &mo, e);
    if (rc) return rc;
    rc = open_tokenizer(&t, m, o, e);
    if (!rc) rc = open_target(&target, m, o, e);
    if (rc) model_close(m);
    else rc = engine_of_model(out, m, model_close, o, e);
    if (rc) {
        tokenizer_close(t);
        tokenizer_close(target);
        return rc;
    }
    (*out)->tok = t;
    (*out)->target = target;
    return OK;
}

void engine_close(engine *g)
{
    if (!g) return;
    while (g->all) session_finish(g, g->all, FINISH_CANCELLED, NULL);
    plan_close(g->placed);
    batch_close(&g->rows);
    for (int i = 0; i < GROUP_MAX; i++) pages_close(&g->pages[i]);
    sampler_close(g->picker);
    tokenizer_close(g->tok);
    tokenizer_close(g->target);
    g->drop(g->served);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

const engine_info *engine_describe(const engine *g) { return &g->info; }

const tokenizer *engine_tokenizer(const engine *g) { return g->tok; }

const tokenizer *engine_target_tokenizer(const engine *g) { return g->target ? g->target : g->tok; }

void engine_plan_json(const engine *g, json *root) { plan_json(g->placed, root); }

int engine_plan_text(engine *g, bool dump, buf *out, err *e)
{
    return plan_text(g->placed, dump, out) ? 0 : err_set(e, ERR_MEMORY, "out of memory for the text of the plan");
}
