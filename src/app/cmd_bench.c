/* cmd_bench.c - `inferflow bench`: prefill and decode speed of a model, beside what the machine could do at most.
 * (`bench allreduce` is in bench_allreduce.c, `bench link` in bench_link.c.)
 *
 * The bounds are measured again between repetitions, because the load of a machine changes; shares are of the best
 * of both. Prompts are pseudo-random ids, new in each repetition, so that no cache helps. Prefill ends when every
 * sequence has its first token (of an encoder: its vector or scores); decode is the n steps after it, all sequences
 * together. At a depth, each sequence first gets that many tokens, untimed. */
#include "app/app.h"
#include "app/bench_allreduce.h"
#include "app/bench_link.h"
#include "app/flags.h"
#include "base/clock.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cpu/cpu.h"
#include "cpu/cpu_probe.h"
#include "measure/auto_open.h"
#include "measure/busy.h"
#include "measure/cost.h"
#include "measure/embedding.h"
#include "measure/evaluate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { LIST_MAX = 16, DEPTH_STEP = 512, HASH_IDS = 24, NAME = 24 };

typedef struct bench_options {
    engine_options model;
    int64_t prompt, generate, reps;
    const char *batch, *depth; /* lists */
    allreduce_options allreduce;
} bench_options;

#define ROW(field, kind, ...) PARAM_ROW(bench_options, field, kind, __VA_ARGS__)

static const param bench_rows[] = {
    ROW(prompt, PARAM_INT, .otherwise = "512", .max = 1 << 20, .alias = "p",
        .doc = "tokens of each prompt; 0 measures decode only, after one token"),
    ROW(generate, PARAM_INT, .otherwise = "128", .max = 1 << 20, .alias = "n",
        .doc = "decode steps after the prompt; 0 measures prefill only (all that an encoder does)"),
    ROW(batch, PARAM_TEXT, .otherwise = "1", .words = "N,N,...", .alias = "b", .doc = "sequences at once"),
    ROW(depth, PARAM_TEXT, .otherwise = "0", .words = "N,N,...", .alias = "d",
        .doc = "cached tokens before the prompt, rounded up to whole steps of --chunk"),
    ROW(reps, PARAM_INT, .otherwise = "5", .min = 1, .max = 1000,
        .doc = "repetitions; the median, minimum and maximum are shown"),
};
static const size_t bench_row_count = sizeof bench_rows / sizeof *bench_rows;

static const flag_group bench_flags[] = {
    MODEL_FLAGS(bench_options, model),
    {"Measurement", bench_rows, &bench_row_count, 0},
    {"bench allreduce", allreduce_rows, &allreduce_row_count, offsetof(bench_options, allreduce)},
    {0},
};

/* ---- one repetition */

typedef struct progress {
    engine *g;
    int64_t made, first; /* tokens generated; sequences that have one, or their vector */
    err failed;          /* of the first sequence that was given up */
} progress;

/* A sequence that has its first token waits for the others. */
static bool on_token(void *ctx, const token_event *ev)
{
    progress *p = ctx;
    if (ev->error) err_set(&p->failed, ERR_UNAVAILABLE, "%s", ev->error);
    if (ev->token >= 0) p->made++;
    if (ev->token >= 0 && ev->index == 0) {
        p->first++;
        engine_pause(p->g, ev->query_id, true);
    }
    p->first += ev->pooled || ev->scores;
    return true;
}

typedef struct sample_times {
    double prefill, decode;           /* seconds */
    double prefill_rest, decode_rest; /* busy_rest */
    int64_t decoded;                  /* tokens */
} sample_times;

/* One setting of batch and depth. */
typedef struct bench_case {
    int batch;
    int64_t depth;  /* tokens of each sequence before its prompt */
    int64_t prompt; /* at least 1, measured or not */
} bench_case;

static int add_sequence(engine *g, const bench_options *o, const bench_case *c, uint64_t seed, int i, progress *p,
                        uint64_t *id, err *e)
{
    size_t n = (size_t)(c->depth + c->prompt);
    int32_t *ids = mem_array(n, sizeof *ids);
    if (!ids) return err_memory(e, "a prompt");
    for (size_t k = 0; k < n; k++)
        ids[k] = (int32_t)(rng_bits(seed, (uint64_t)i, (uint64_t)k) % (uint64_t)engine_describe(g)->n_vocab);
    query q = {.ids = ids,
               .n_ids = n,
               .max_tokens = o->generate + 1,
               .ignore_eos = true,
               .pooled = !engine_describe(g)->generates,
               .n_logprobs = -1,
               .unshared = true,
               .on_token = on_token,
               .ctx = p};
    int rc = engine_add_query(g, &q, id, e);
    mem_free(ids);
    return rc;
}

/* Tokens in the cache of the sequence that was added last. */
static int64_t last_past(engine *g)
{
    engine_slot last = {0};
    engine_slots(g, &last, 1);
    return last.past;
}

static int repetition(engine *g, const bench_options *o, const bench_case *c, uint64_t seed, busy_marks *m,
                      sample_times *t, err *e)
{
    progress p = {.g = g};
    uint64_t ids[4096];
    int rc = 0, batch = c->batch;
    bool more;
    *t = (sample_times){0};
    for (int i = 0; i < batch && !rc; i++) {
        rc = add_sequence(g, o, c, seed, i, &p, &ids[i], e);
        if (c->depth == 0 && i + 1 < batch) continue; /* all prompts together; at a depth one after another */
        more = true;
        while (!rc && more && last_past(g) < c->depth) rc = engine_infer(g, &more, e);
        double t0 = clock_now();
        busy_mark(m, g);
        while (!rc && p.first <= i && more) rc = engine_infer(g, &more, e);
        t->prefill += clock_now() - t0;
        t->prefill_rest = busy_rest(m, g, clock_now() - t0);
    }
    for (int i = 0; i < batch && !rc; i++) engine_pause(g, ids[i], false);
    more = true;
    int64_t before = p.made;
    double t1 = clock_now();
    busy_mark(m, g);
    while (!rc && more && p.made - before < o->generate * batch) rc = engine_infer(g, &more, e);
    t->decode = clock_now() - t1;
    t->decode_rest = busy_rest(m, g, t->decode);
    t->decoded = p.made - before;
    for (int i = 0; i < batch && !rc; i++) engine_cancel(g, ids[i]);
    while (!rc && more) rc = engine_infer(g, &more, e);
    return rc ? rc : err_copy(e, &p.failed);
}

/* ---- hash of the logits (of an encoder: the vector) of a fixed prompt: the same for every instruction set, chunk
 * and threads */

static int hash_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)first;
    (void)e;
    uint64_t *h = ((void **)ctx)[0];
    const engine *g = ((void **)ctx)[1];
    *h = fnv_add(*h, rows, (size_t)(n * engine_describe(g)->n_vocab) * sizeof *rows);
    return 0;
}

static int hash_pooled(engine *g, const int32_t *ids, size_t n, uint64_t *h, err *e)
{
    const engine_info *i = engine_describe(g);
    size_t all = (size_t)i->n_pooled + (size_t)i->n_score;
    float *x = mem_array(all, sizeof *x);
    if (!x) return err_memory(e, "a vector");
    embedding_job job = {
        .ids = ids, .n = n, .vector = i->n_pooled ? x : NULL, .scores = i->n_score ? x + i->n_pooled : NULL};
    int rc = embedding_run(g, &job, 1, NULL, NULL, e);
    if (!rc) *h = fnv_add(*h, x, all * sizeof *x);
    mem_free(x);
    return rc;
}

static int logits_hash(engine *g, char out[NAME], err *e)
{
    int32_t ids[HASH_IDS];
    uint64_t h = FNV_START;
    for (int i = 0; i < HASH_IDS; i++)
        ids[i] = (int32_t)(rng_bits(1, 2, (uint64_t)i) % (uint64_t)engine_describe(g)->n_vocab);
    size_t n = engine_describe(g)->ctx < HASH_IDS ? (size_t)engine_describe(g)->ctx : HASH_IDS;
    int rc = engine_describe(g)->generates ? engine_eval(g, ids, n, -1, hash_rows, (void *[]){&h, g}, e)
                                           : hash_pooled(g, ids, n, &h, e);
    snprintf(out, NAME, "%016" PRIx64, h);
    return rc;
}

/* ---- statistics and output */

typedef struct bounds {
    double read, flops, int8;
} bounds;

/* A measurement: the engine, its options, the bounds of the machine. */
typedef struct bench_run {
    engine *g;
    const bench_options *o;
    cpu_probe *probe;
    bounds best;
    busy_marks marks;
} bench_run;

typedef struct series {
    double median, least, most;
} series;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static series summarise(double *rates, int64_t n)
{
    qsort(rates, (size_t)n, sizeof *rates, compare_doubles);
    return (series){rates[n / 2], rates[0], rates[n - 1]};
}

/* A row of the result; `per_token` is what one token of this test costs. */
typedef struct bench_row {
    const char *test;
    bench_case at;
    series s;
    double rest; /* busy_rest, of the last repetition */
    step_cost per_token;
} bench_row;

/* Shares are of the best rates that the machine had during the measurement. */
static void report_row(json *rows, const bench_row *r, const bench_run *x)
{
    const bench_options *o = x->o;
    const bounds *b = &x->best;
    const step_cost *c = &r->per_token;
    const double bytes = c->weight_bytes + c->kv_bytes, most = r->s.most;
    json *row = json_add_object(rows, NULL);
    json_add_str(row, "test", r->test);
    json_add_str(row, "layout", engine_describe(x->g)->devices);
    json_add_str(row, "reduce", reduce_words[o->model.choices.reduce]);
    json_add_str(row, "wire", wire_infos[o->model.choices.wire].name);
    if (busy_as(&x->marks)) json_add_str(row, "as", busy_as(&x->marks));
    json_add_num(row, "communication_share", r->rest);
    json_add_num(row, "prompt", (double)o->prompt);
    json_add_num(row, "depth", (double)r->at.depth);
    json_add_num(row, "batch", (double)r->at.batch);
    json_add_num(row, "tokens_per_s", r->s.median);
    json_add_num(row, "tokens_per_s_min", r->s.least);
    json_add_num(row, "tokens_per_s_max", most);
    json_add_num(row, "bytes_per_token", bytes);
    json_add_num(row, "gb_per_s", most * bytes * 1e-9);
    json_add_num(row, "read_share", most * bytes / b->read);
    json_add_num(row, "gops", most * (c->flops + c->int8_ops) * 1e-9);
    json_add_num(row, "float_share", most * c->flops / b->flops);
    if (b->int8 > 0) json_add_num(row, "int8_share", most * c->int8_ops / b->int8);
    else json_add_null(row, "int8_share");
}

static void print_rows(const json *root)
{
    printf("%-8s %6s %6s %5s %10s %10s %10s %8s %6s %8s %6s %6s\n", "test", "depth", "prompt", "batch", "tokens/s",
           "least", "most", "GB/s", "read", "GOP/s", "float", "int8");
    for (const json *r = json_first(json_get(root, "rows")); r; r = json_next(r))
        printf("%-8s %6d %6d %5d %10.2f %10.2f %10.2f %8.2f %5.0f%% %8.1f %5.0f%% %5.0f%%\n",
               json_str(json_get(r, "test"), ""), (int)json_int(json_get(r, "depth"), 0),
               (int)json_int(json_get(r, "prompt"), 0), (int)json_int(json_get(r, "batch"), 0),
               json_num(json_get(r, "tokens_per_s"), 0), json_num(json_get(r, "tokens_per_s_min"), 0),
               json_num(json_get(r, "tokens_per_s_max"), 0), json_num(json_get(r, "gb_per_s"), 0),
               100 * json_num(json_get(r, "read_share"), 0), json_num(json_get(r, "gops"), 0),
               100 * json_num(json_get(r, "float_share"), 0), 100 * json_num(json_get(r, "int8_share"), 0));
    printf("read %.1f GB/s, float %.0f GFLOP/s, int8 %.2f TOP/s, %d threads, %s, %s; peak memory %.0f MiB; logits %s\n",
           json_num(json_get(root, "read_gb_per_s"), 0), json_num(json_get(root, "float_peak_gflops"), 0),
           json_num(json_get(root, "int8_peak_tops"), 0), (int)json_int(json_get(root, "threads"), 0),
           json_str(json_get(root, "isa"), ""), json_str(json_get(root, "cpu_model"), ""),
           json_num(json_get(root, "peak_rss_bytes"), 0) / (1 << 20), json_str(json_get(root, "logits_hash"), ""));
    const json *ways = json_first(json_get(root, "fetch"));
    if (ways) printf("weights fetched ahead, for one row and for two:");
    for (const json *w = ways; w; w = json_next(w)) {
        printf("%s %s", w == ways ? "" : ",", json_key(w));
        for (const json *way = json_first(w); way; way = json_next(way)) printf(" %s", json_str(way, ""));
    }
    if (ways) putchar('\n');
}

/* Numbers with commas between, each from `least` to `most`. */
static int parse_list(const char *flag, const char *text, int least, int most, int out[LIST_MAX], int *n, err *e)
{
    *n = 0;
    for (const char *s = text; *n < LIST_MAX; s++) {
        char *end;
        long v = strtol(s, &end, 10);
        if (end == s || v < least || v > most || (*end && *end != ',')) break;
        out[(*n)++] = (int)v;
        if (!*end) return 0;
        s = end;
    }
    return err_set(e, ERR_USAGE, "--%s %s: expected up to %d numbers from %d to %d, as in 1,2,4", flag, text, LIST_MAX,
                   least, most);
}

/* ---- the command */

/* Adds one or two rows. */
static int measure_case(bench_run *x, const bench_case *at, bench_row *rows, size_t *n, err *e)
{
    engine *g = x->g;
    const bench_options *o = x->o;
    double *prefill = mem_array((size_t)o->reps, sizeof *prefill), *decode = mem_array((size_t)o->reps, sizeof *decode);
    int rc = prefill && decode ? 0 : err_memory(e, "results");
    int64_t before = at->depth + at->prompt, during = before + 1 + o->generate / 2; /* on average while decoding */
    sample_times t = {0};
    for (int64_t i = 0; i < o->reps && !rc; i++) {
        x->best.read = cpu_probe_read(x->probe);
        x->best.flops = cpu_probe_float(x->probe);
        x->best.int8 = cpu_probe_integer(x->probe);
        rc = repetition(g, o, at, (uint64_t)(at->batch * 1000 + i), &x->marks, &t, e);
        prefill[i] = (double)(at->prompt * at->batch) / t.prefill;
        decode[i] = t.decode > 0 ? (double)t.decoded / t.decode : 0;
    }
    if (!rc && o->prompt) {
        const int64_t chunk = engine_describe(g)->chunk, steps = (o->prompt + chunk - 1) / chunk;
        step_cost c = engine_cost_of(g, o->prompt, 1, before);
        c.weight_bytes *= (double)steps / (double)o->prompt;
        c.kv_bytes /= (double)o->prompt;
        c.flops /= (double)o->prompt;
        c.int8_ops /= (double)o->prompt;
        rows[(*n)++] = (bench_row){"prefill", *at, summarise(prefill, o->reps), t.prefill_rest, c};
    }
    if (!rc && o->generate) {
        step_cost c = engine_cost_of(g, 1, 1, during);
        c.weight_bytes = engine_cost_of(g, at->batch, at->batch, during).weight_bytes / at->batch;
        rows[(*n)++] = (bench_row){"decode", *at, summarise(decode, o->reps), t.decode_rest, c};
    }
    mem_free(prefill);
    mem_free(decode);
    return rc;
}

/* Every batch is measured at every depth. */
typedef struct bench_grid {
    int batch[LIST_MAX], n_batch, depth[LIST_MAX], n_depth;
} bench_grid;

/* Each batch with each depth. *most: the tokens of the longest sequence. */
static int list_cases(const bench_options *o, const bench_grid *grid, bench_case at[LIST_MAX * LIST_MAX], int64_t *most)
{
    const int n = grid->n_batch * grid->n_depth;
    const int64_t chunk = o->model.chunk > 0 ? o->model.chunk : DEPTH_STEP;
    *most = 0;
    for (int i = 0; i < n; i++) {
        at[i] = (bench_case){.batch = grid->batch[i / grid->n_depth],
                             .depth = (grid->depth[i % grid->n_depth] + chunk - 1) / chunk * chunk,
                             .prompt = o->prompt ? o->prompt : 1};
        const int64_t all = at[i].depth + at[i].prompt + o->generate;
        *most = all > *most ? all : *most;
    }
    return n;
}

static int open_engine(engine **g, const bench_options *o, const bench_grid *grid, int64_t ctx, err *e)
{
    engine_options eo = o->model;
    for (int i = 0; i < grid->n_batch; i++)
        if (grid->batch[i] > eo.max_batch) eo.max_batch = grid->batch[i];
    if (ctx) eo.ctx = ctx;
    return auto_open(g, &eo, e);
}

/* Makes room for `most` tokens a sequence, also beyond the model's own maximum unless --ctx is given. */
static int widen(engine **g, const bench_options *o, const bench_grid *grid, int64_t most, err *e)
{
    const int64_t ctx = engine_describe(*g)->ctx;
    if (ctx >= most) return OK;
    engine_close(*g);
    *g = NULL;
    if (o->model.ctx)
        return err_set(e, ERR_USAGE, "depth, prompt and what follows it are %" PRId64 " tokens, --ctx is %" PRId64,
                       most, ctx);
    return open_engine(g, o, grid, most, e)
               ? err_wrap(e, "a context of %" PRId64 " for depth, prompt and what follows", most)
               : OK;
}

/* Of an encoder only prompts are measured. */
static int only_prompts(bench_options *o, const bench_grid *grid, err *e)
{
    o->generate = 0;
    if (!o->prompt) return err_set(e, ERR_USAGE, "an encoder has only prompts to measure, and --prompt is 0");
    for (int i = 0; i < grid->n_depth; i++)
        if (grid->depth[i]) return err_set(e, ERR_USAGE, "--depth: an encoder has no cache that could hold tokens");
    return OK;
}

static int measure_all(bench_run *x, const bench_case *at, int n_case, json *out, err *e)
{
    bench_row rows[2 * LIST_MAX * LIST_MAX];
    size_t n = 0;
    int rc = OK;
    for (int i = 0; i < n_case && !rc; i++) rc = measure_case(x, &at[i], rows, &n, e);
    for (size_t i = 0; i < n && !rc; i++) report_row(out, &rows[i], x);
    return rc;
}

static int bench_model(const bench_options *asked, const bench_grid *grid, json *root, err *e)
{
    bench_options own = *asked, *o = &own;
    bench_case cases[LIST_MAX * LIST_MAX];
    int64_t most;
    int n_case = 0;
    engine *g = NULL;
    bench_run x = {.o = o};
    char hash[NAME] = "";
    int rc = open_engine(&g, o, grid, 0, e);
    if (!rc && engine_describe(g)->n_enc_vocab)
        rc = err_set(e, ERR_USAGE, "bench measures decoders and encoders; this model is both, one after the other");
    if (!rc && !engine_describe(g)->generates) rc = only_prompts(o, grid, e);
    if (!rc) n_case = list_cases(o, grid, cases, &most);
    if (!rc) rc = widen(&g, o, grid, most, e);
    if (rc) {
        engine_close(g);
        return rc;
    }
    const engine_info *info = engine_describe(g);
    json_add_str(root, "model", info->name && *info->name ? info->name : info->path);
    json_add_num(root, "threads", info->threads);
    json *rows = json_add_array(root, "rows");
    x.g = g;
    rc = cpu_probe_open(&x.probe, info->threads, cpu_kernels_named(info->isa) ? info->isa : NULL,
                        (uint64_t)engine_cost_of(g, 1, 1, 1).weight_bytes, e);
    if (!rc) rc = logits_hash(g, hash, e);
    if (!rc) rc = busy_open(&x.marks, g, e);
    if (!rc) rc = measure_all(&x, cases, n_case, rows, e);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    json_add_num(root, "read_gb_per_s", x.best.read * 1e-9);
    json_add_num(root, "float_peak_gflops", x.best.flops * 1e-9);
    json_add_num(root, "int8_peak_tops", x.best.int8 * 1e-12);
    json_add_str(root, "cpu_model", cpu_model());
    json_add_str(root, "isa", info->isa);
    engine_tell(g, json_add_object(root, "fetch"));
    json_add_num(root, "peak_rss_bytes",
                 (double)use.ru_maxrss * 1024 - (double)cpu_probe_bytes(x.probe)); /* not ours */
    json_add_str(root, "logits_hash", hash);
    cpu_probe_close(x.probe);
    busy_close(&x.marks);
    engine_close(g);
    return rc;
}

static int bench_read(const bench_options *o, json *root, bool text, err *e)
{
    cpu_probe *probe;
    int threads = o->model.threads > 0 ? (int)o->model.threads : pool_default_threads();
    int rc = cpu_probe_open(&probe, threads, NULL, 0, e);
    if (rc) return rc;
    double best = 0;
    for (int64_t i = 0; i < o->reps; i++) best = cpu_probe_read(probe);
    json_add_int(root, "threads", threads);
    json_add_num(root, "gb_per_s", best * 1e-9);
    for (int i = 0; text && i < cpu_probe_patterns(probe); i++) {
        double rate;
        const char *name = cpu_probe_pattern(probe, i, &rate);
        printf("%-24s %7.1f GB/s\n", name, rate * 1e-9);
    }
    if (text) printf("best, %d threads%*s %7.1f GB/s\n", threads, threads > 9 ? 7 : 8, "", best * 1e-9);
    cpu_probe_close(probe);
    return 0;
}

static int run_allreduce(const invocation *v, err *e)
{
    static const char *const flags[] = {"devices", "isa",         "reps",     "bytes",        "codec", "algorithm",
                                        "nccl",    "codec_group", "key_file", "peer_timeout", NULL};
    const bench_options *o = v->options;
    json *root = json_new_object();
    int rc = flags_allow_only(v, flags, "bench allreduce", e);
    if (!rc) rc = bench_allreduce(&o->allreduce, &o->model, o->reps, root, e);
    if (!rc && v->json) rc = app_print_json(root, e);
    else if (!rc) bench_allreduce_print(root);
    json_free(root);
    return rc;
}

static int run_link(const invocation *v, err *e)
{
    static const char *const flags[] = {"peers", "devices", "key_file", NULL};
    const bench_options *o = v->options;
    json *root = json_new_object();
    int rc = flags_allow_only(v, flags, "bench link", e);
    if (!rc) rc = bench_link(o->model.peers, o->model.devices, o->model.key_file, root, e);
    if (!rc && v->json) rc = app_print_json(root, e);
    else if (!rc) bench_link_print(root);
    json_free(root);
    return rc;
}

static int run_speed(const invocation *v, bool read, err *e)
{
    const bench_options *o = v->options;
    bench_grid cases;
    int rc = parse_list("batch", o->batch, 1, 4096, cases.batch, &cases.n_batch, e);
    if (!rc) rc = parse_list("depth", o->depth, 0, 1 << 20, cases.depth, &cases.n_depth, e);
    if (!rc && !read && !o->prompt && !o->generate)
        rc = err_set(e, ERR_USAGE, "-p 0 and -n 0 leave nothing to measure");
    if (rc) return rc;
    json *root = json_new_object();
    rc = read ? bench_read(o, root, !v->json, e) : bench_model(o, &cases, root, e);
    if (!rc && v->json) rc = app_print_json(root, e);
    else if (!rc && !read) print_rows(root);
    json_free(root);
    return rc;
}

static int run_bench(const invocation *v, err *e)
{
    static const char *const read_flags[] = {"reps", "threads", NULL};
    const char *what = v->n_operand ? v->operand[0] : "";
    const bool read = strcmp(what, "read") == 0;
    int rc = OK;
    if (strcmp(what, "allreduce") == 0) return run_allreduce(v, e);
    if (strcmp(what, "link") == 0) return run_link(v, e);
    if (*what && !read)
        return err_set(e, ERR_USAGE, "bench %s: expected nothing, \"read\", \"allreduce\" or \"link\"", what);
    for (size_t i = 0; i < v->n_given && !read && !rc; i++) {
        const char *key = v->given[i]->key;
        if (param_find(allreduce_rows, allreduce_row_count, key))
            rc = err_set(e, ERR_USAGE, "--%s means nothing to bench without \"allreduce\"", key);
    }
    if (!rc && read) rc = flags_allow_only(v, read_flags, "bench read", e);
    return rc ? rc : run_speed(v, read, e);
}

const command command_bench = {
    .name = "bench",
    .summary = "prefill and decode speed beside the machine's own bounds",
    .operands = "[read|allreduce|link]",
    .operand_max = 1,
    .prints_json = true,
    .flags = bench_flags,
    .options_size = sizeof(bench_options),
    .notes = "`inferflow bench read` measures the read bandwidth alone.\n"
             "`inferflow bench allreduce --devices 'cpu:1&cpu:1'` measures how the devices of a group add up their\n"
             "partial sums, or gather columns: each is a thread, and memory is the link; with --key-file F those\n"
             "of nodes take part too, 'a:7071/cpu&b:7071/cpu'.\n"
             "`inferflow bench link --peers a:7071,b:7071 --key-file F` measures round trips of 8 KiB and the rate\n"
             "of one connection, from here to each node and between the nodes.\n"
             "\n"
             "read           share of the measured memory bandwidth of all threads (of a model that fits the\n"
             "               caches: of their bandwidth)\n"
             "float, int8    share of the measured multiply-add peak (int8: matrices with quantized weights)\n"
             "GB/s           weights and cached keys and values\n",
    .run = run_bench,
};
