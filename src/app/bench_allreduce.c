/* bench_allreduce.c - see bench_allreduce.h. Each device of the group is a thread here; the measuring itself is
 * comm/coll_measure.h, which other links serve as well. */
#include "app/bench_allreduce.h"

#include "base/mem.h"
#include "comm/coll_list.h"
#include "comm/coll_measure.h"
#include "comm/link_threads.h"
#include "cpu/cpu.h"
#include "engine/backend_list.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 4096, ROW_BYTES = 2 * COLS };
static const int64_t bytes_max = (int64_t)1 << 32;

#define ROW(field, kind, ...) PARAM_ROW(allreduce_options, field, kind, __VA_ARGS__)
const param allreduce_rows[] = {
    ROW(bytes, PARAM_TEXT, .otherwise = "1M,16M", .words = "N,N,...",
        .doc = "sizes of the tensor as f16, in rows of 8K; K, M, G: KiB, MiB, GiB"),
    ROW(codec, PARAM_TEXT, .otherwise = "f16,int8,int6,int4", .words = "NAME,...",
        .doc = "f32, f16, int8, int4, int6 (int4, then int8), and the symmetric int8s, int4s"),
    ROW(algorithm, PARAM_TEXT, .otherwise = "ring,two_step,one_shot", .words = "NAME,...",
        .doc = "ring, two_step, one_shot, gather"),
};
const size_t allreduce_row_count = sizeof allreduce_rows / sizeof *allreduce_rows;

/* ---- lists */

/* The next word of a list with commas; after the last the list is NULL. */
static bool next_word(const char **list, span *word)
{
    if (!*list) return false;
    *word = span_of(*list, strcspn(*list, ","));
    *list = (*list)[word->n] ? *list + word->n + 1 : NULL;
    return true;
}

static int parse_bytes(span word, int64_t *n, err *e)
{
    static const char units[] = "KMG";
    int64_t v = 0;
    size_t i = 0;
    for (; i < word.n && word.p[i] >= '0' && word.p[i] <= '9' && v <= bytes_max; i++) v = 10 * v + word.p[i] - '0';
    const char *unit = i > 0 && i + 1 == word.n ? memchr(units, word.p[i], 3) : NULL;
    if (unit) v = v <= bytes_max ? v << 10 * (unit - units + 1) : v;
    if (i == 0 || (i < word.n && !unit) || v < 2 || v > bytes_max || v % (v < ROW_BYTES ? 2 : ROW_BYTES))
        return err_set(e, ERR_USAGE, "--bytes %.*s: expected an even number below 8K, or a multiple of 8K up to 4G",
                       (int)word.n, (const char *)word.p);
    *n = v;
    return OK;
}

static int parse_codec(span word, wire_pair *codec, err *e)
{
    for (const wire_pair *w = wire_pairs; w->name; w++) {
        *codec = *w;
        if (span_is(word, w->name)) return OK;
    }
    return err_set(e, ERR_USAGE, "--codec %.*s: there are f32, f16, int8, int6, int4, int8s, int4s", (int)word.n,
                   (const char *)word.p);
}

static int parse_algorithm(span word, const coll_kind **kind, err *e)
{
    static const coll_kind *const all[] = {COLL_LIST};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *kind = all[i];
        if (span_is(word, all[i]->name)) return OK;
    }
    return err_set(e, ERR_USAGE, "--algorithm %.*s: there are ring, two_step, one_shot, gather", (int)word.n,
                   (const char *)word.p);
}

/* ---- one row of the result */

typedef struct rank_thread {
    pthread_t thread;
    link_end *end;
    coll_test test;
    void *memory;
    uint64_t bytes;
    coll_score score;
    int rc;
    err why;
} rank_thread;

static void *rank_main(void *arg)
{
    rank_thread *r = arg;
    r->rc = coll_measure(r->end, 0, &r->test, r->memory, &r->score, &r->why);
    if (r->rc) r->end->kind->give_up(r->end, r->rc, r->why.msg);
    return NULL;
}

/* Runs the test on all ranks; their memory stays until all are done. */
static int run_ranks(const coll_test *t, const wire_ops *const *wire, int ranks, coll_score *to, err *e)
{
    link_group *group = NULL;
    rank_thread *all = mem_zero((size_t)ranks, sizeof *all);
    int rc = all ? link_threads_open(&group, ranks, COLL_CHANNELS, e)
                 : err_set(e, ERR_MEMORY, "out of memory for ranks");
    int started = 0;
    for (int r = 0; r < ranks && !rc; r++) {
        all[r].end = link_threads_end(group, r);
        all[r].test = *t;
        all[r].test.wire = wire[r];
        all[r].bytes = coll_measure_bytes(t, r, ranks);
        all[r].memory = mem_map(all[r].bytes);
        if (!all[r].memory) rc = err_set(e, ERR_MEMORY, "out of memory for rank %d of %d", r, ranks);
    }
    for (int r = 0; r < ranks && !rc; r++, started += !rc)
        if (pthread_create(&all[r].thread, NULL, rank_main, &all[r]))
            rc = err_set(e, ERR_IO, "cannot start a thread for rank %d of %d", r, ranks);
    if (rc && started) all[0].end->kind->give_up(link_threads_end(group, started), rc, "it could not be started");
    for (int r = 0; r < started; r++) pthread_join(all[r].thread, NULL);
    for (int r = 0; r < started && !rc; r++)
        if (all[r].rc) rc = err_set(e, all[r].rc, "%s", all[r].why.msg);
    if (!rc) *to = all[0].score;
    for (int r = 0; r < ranks && all; r++) mem_unmap(all[r].memory, all[r].bytes);
    link_threads_close(group);
    mem_free(all);
    return rc;
}

static void report(json *rows, const coll_test *t, int64_t bytes, int ranks, const coll_score *s)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->hash);
    json *row = json_add_object(rows, NULL);
    json_add_str(row, "algorithm", t->kind->name);
    json_add_str(row, "codec", t->codec.name);
    json_add_num(row, "bytes", (double)bytes);
    json_add_num(row, "seconds", s->seconds);
    json_add_num(row, "seconds_min", s->seconds_min);
    json_add_num(row, "seconds_max", s->seconds_max);
    json_add_num(row, "payload_bytes", s->payload);
    json_add_num(row, "socket_bytes", 0); /* threads */
    json_add_num(row, "hops", t->kind->hops(ranks));
    json_add_num(row, "error", s->error);
    json_add_bool(row, "equal_on_all_ranks", s->equal);
    json_add_str(row, "hash", hash);
}

/* ---- the command */

/* The devices of the one group, and how each codes. Returns their number. */
static int list_ranks(const char *devices, const char *isa, const wire_ops *wire[DEVICES_MAX], err *e)
{
#define X(name, options) {&name, NULL},
    static const backend_use backends[] = {BACKEND_LIST(X){NULL, NULL}};
#undef X
    device_entry entry[DEVICES_MAX];
    const cpu_table *table = isa ? cpu_kernels_named(isa) : NULL;
    if (isa && !table) return err_set(e, ERR_USAGE, "--isa %s: this processor does not have it", isa);
    const int n = devices_parse(devices, backends, entry, e);
    if (n == 1 || (n > 0 && entry[n - 1].group > 0))
        return err_set(e, ERR_USAGE,
                       "--devices %s: bench allreduce takes one group of several devices, as in "
                       "'cpu:1&cpu:1'",
                       devices ? devices : "auto");
    for (int i = 0; i < n; i++) {
        wire[i] = entry[i].be->wire ? entry[i].be->wire() : &wire_reference;
        if (table) wire[i] = table->wire;
    }
    return n;
}

/* Measures one combination; none for a codec that is a pair where there is only one step. */
static int measure_one(coll_test *t, span algorithm, span codec, span size, const wire_ops *const *wire, int ranks,
                       json *rows, err *e)
{
    coll_score s = {0};
    int64_t bytes = 0;
    int rc = parse_algorithm(algorithm, &t->kind, e);
    if (!rc) rc = parse_codec(codec, &t->codec, e);
    if (!rc) rc = parse_bytes(size, &bytes, e);
    if (rc) return rc;
    if (!rows || (!t->kind->reduces && t->codec.partial != t->codec.sum)) return OK;
    t->cols = bytes < ROW_BYTES ? bytes / 2 : COLS;
    t->rows = bytes / 2 / t->cols;
    rc = run_ranks(t, wire, ranks, &s, e);
    if (!rc) report(rows, t, bytes, ranks, &s);
    return rc;
}

/* Every combination; rows NULL: only whether all lists are right. */
static int each_one(const allreduce_options *o, coll_test *t, const wire_ops *const *wire, int ranks, json *rows,
                    err *e)
{
    span size, codec, algorithm;
    int rc = OK;
    for (const char *sizes = o->bytes; next_word(&sizes, &size);)
        for (const char *codecs = o->codec; next_word(&codecs, &codec);)
            for (const char *algorithms = o->algorithm; next_word(&algorithms, &algorithm) && !rc;)
                rc = measure_one(t, algorithm, codec, size, wire, ranks, rows, e);
    return rc;
}

int bench_allreduce(const allreduce_options *o, const engine_options *m, int64_t reps, json *root, err *e)
{
    const wire_ops *wire[DEVICES_MAX];
    coll_test t = {.group = m->codec_group, .reps = reps, .seed = 1};
    int rc = each_one(o, &t, NULL, 0, NULL, e);
    const int ranks = rc ? rc : list_ranks(m->devices, m->isa, wire, e);
    if (ranks < 0) return ranks;
    json_add_num(root, "ranks", ranks);
    return each_one(o, &t, wire, ranks, json_add_array(root, "rows"), e);
}

void bench_allreduce_print(const json *root)
{
    printf("%d ranks\n%-9s %-6s %11s %10s %10s %10s %13s %5s %10s %6s  %s\n", (int)json_int(json_get(root, "ranks"), 0),
           "algorithm", "codec", "bytes", "ms", "least", "most", "sent by each", "hops", "error", "equal", "hash");
    for (const json *r = json_first(json_get(root, "rows")); r; r = json_next(r))
        printf("%-9s %-6s %11" PRId64 " %10.3f %10.3f %10.3f %13.0f %5d %10.2e %6s  %s\n",
               json_str(json_get(r, "algorithm"), ""), json_str(json_get(r, "codec"), ""),
               json_int(json_get(r, "bytes"), 0), 1e3 * json_num(json_get(r, "seconds"), 0),
               1e3 * json_num(json_get(r, "seconds_min"), 0), 1e3 * json_num(json_get(r, "seconds_max"), 0),
               json_num(json_get(r, "payload_bytes"), 0), (int)json_int(json_get(r, "hops"), 0),
               json_num(json_get(r, "error"), 0), json_bool(json_get(r, "equal_on_all_ranks"), false) ? "yes" : "no",
               json_str(json_get(r, "hash"), ""));
}
