/* bench_allreduce.c - see bench_allreduce.h. Each device of the group is a thread here or a rank on a node
 * (net/trial.h); the measuring itself is comm/coll_measure.h. Devices that their backend joins do it among themselves
 * (comm/coll_devices.h), and where NCCL is found there are rows of it: a measure only, since its order of sums is not
 * ours. */
#include "app/bench_allreduce.h"

#include "comm/coll_choose.h"
#include "comm/coll_devices.h"
#include "cpu/cpu.h"
#include "engine/backend_list.h"
#include "net/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COLS = 4096, ROW_BYTES = 2 * COLS };
static const int64_t bytes_max = (int64_t)1 << 32;

#define ROW(field, kind, ...) PARAM_ROW(allreduce_options, field, kind, __VA_ARGS__)
const param allreduce_rows[] = {
    ROW(bytes, PARAM_TEXT, .otherwise = "1M,16M", .words = "N,N,...",
        .doc = "sizes of the tensor as f16, in rows of 8K or in one; K, M, G: KiB, MiB, GiB"),
    ROW(codec, PARAM_TEXT, .otherwise = "f16,int8,int6,int4", .words = "NAME,...",
        .doc = "f32, f16, int8, int4, int6 (int4, then int8), and the symmetric int8s, int4s"),
    ROW(algorithm, PARAM_TEXT, .otherwise = "ring,two_step,one_shot,nccl", .words = "NAME,...",
        .doc = "ring, two_step, one_shot, gather; between GPUs two_step, one_shot, and nccl in f32 and f16"),
    ROW(nccl, PARAM_TEXT, .rare = true, .words = "FILE", .path = PATH_FILE,
        .doc = "the library of algorithm nccl, which is measured only: no answer is made by it (default: libnccl.so.2, "
               "where the loader has it)"),
};
const size_t allreduce_row_count = sizeof allreduce_rows / sizeof *allreduce_rows;

/* ---- lists */

static int parse_bytes(span word, int64_t *n, err *e)
{
    int64_t v;
    if (!param_bytes(word, &v) || v < 2 || v > bytes_max)
        return err_set(e, ERR_USAGE, "--bytes %.*s: expected 2 to 4G", (int)word.n, (const char *)word.p);
    *n = v + v % 2; /* whole elements */
    return OK;
}

/* The test of one combination; reps 0: none, for a codec that is a pair where there is only one step. */
static int parse_test(coll_test *t, span algorithm, span codec, span size, err *e)
{
    const wire_pair *w = coll_codec_named(codec);
    int64_t bytes = 0;
    t->kind = span_is(algorithm, coll_library.name) ? &coll_library : coll_named(algorithm);
    if (!t->kind)
        return err_set(e, ERR_USAGE, "--algorithm %.*s: there are ring, two_step, one_shot, gather, nccl",
                       (int)algorithm.n, (const char *)algorithm.p);
    if (!w)
        return err_set(e, ERR_USAGE, "--codec %.*s: there are f32, f16, int8, int6, int4, int8s, int4s", (int)codec.n,
                       (const char *)codec.p);
    int rc = parse_bytes(size, &bytes, e);
    if (rc) return rc;
    t->codec = *w;
    t->cols = bytes % ROW_BYTES ? bytes / 2 : COLS;
    t->rows = bytes / 2 / t->cols;
    if (!t->kind->reduces && w->partial != w->sum) t->reps = 0;
    return OK;
}

/* ---- one row of the result */

static void report_score(json *rows, const coll_test *t, int ranks, const coll_score *s)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->hash);
    json *row = json_add_object(rows, NULL);
    json_add_str(row, "algorithm", t->kind->name);
    json_add_str(row, "codec", t->codec.name);
    json_add_num(row, "bytes", 2.0 * (double)(t->rows * t->cols));
    json_add_num(row, "seconds", s->seconds);
    json_add_num(row, "seconds_min", s->seconds_min);
    json_add_num(row, "seconds_max", s->seconds_max);
    if (t->kind != &coll_library) { /* which sends nobody knows what */
        json_add_num(row, "payload_bytes", s->payload);
        json_add_num(row, "socket_bytes", s->sockets);
        json_add_num(row, "hops", t->kind->hops(ranks));
    }
    json_add_num(row, "error", s->error);
    json_add_bool(row, "equal_on_all_ranks", s->equal);
    json_add_str(row, "hash", hash);
}

/* ---- the command */

/* The devices of the one group, and how each of this process codes. */
static int list_ranks(const char *devices, const char *isa, trial_layout *l, const wire_ops *wire[DEVICES_MAX], err *e)
{
#define X(name, options) {&name, NULL},
    static const backend_use backends[] = {BACKEND_LIST(X){NULL, NULL}};
#undef X
    const cpu_table *table = isa ? cpu_kernels_named(isa) : NULL;
    if (isa && !table) return err_set(e, ERR_USAGE, "--isa %s: this processor does not have it", isa);
    const device_list *all = &l->devices;
    const int rc = device_list_parse(&l->devices, devices, backends, e);
    if (rc) return rc;
    if (all->n == 1 || device_at(all, all->n - 1)->group > 0)
        return err_set(e, ERR_USAGE,
                       "--devices %s: bench allreduce takes one group of several devices, as in "
                       "'cpu:1&cpu:1'",
                       devices ? devices : "auto");
    for (int i = 0; i < all->n; i++) wire[i] = table ? table->wire : backend_wire(backends);
    return OK;
}

typedef struct visit {
    int (*one)(struct visit *v, const coll_test *t, err *e);
    trial_layout *layout;
    trial *trial;
    const backend *joins; /* the devices' backend joins them; NULL: they are ranks of a trial */
    coll_devices *devices;
    int64_t devices_rows, devices_cols; /* what they have room for */
    int64_t tests, library_tests;
    err no_library; /* why there are no more rows of the library */
    json *rows, *nccl;
} visit;

/* The backend that has all devices, if it may join them. */
static const backend *joining_backend(const device_list *all)
{
    const backend *be = device_at(all, 0)->be;
    for (int i = 0; i < all->n; i++)
        if (device_at(all, i)->node[0] || device_at(all, i)->be != be) return NULL;
    return coll_devices_can(be, coll_named(span_str("two_step"))) ? be : NULL;
}

static bool is_plain(const wire_pair *w) { return w->partial == w->sum && (w->sum == WIRE_F32 || w->sum == WIRE_F16); }

/* Joined devices make no other sums than those in one and in two steps, and their library's. */
static bool is_made(const visit *v, const coll_test *t)
{
    if (t->kind == &coll_library) return v->joins && v->joins->ways->join->library && is_plain(&t->codec);
    return !v->joins || coll_devices_can(v->joins, t->kind);
}

/* The largest message of all tests. */
static int note_bytes(visit *v, const coll_test *t, err *e)
{
    (void)e;
    if (!is_made(v, t)) return OK;
    const uint64_t bytes = v->joins ? 0 : trial_message_bytes(t, v->layout->devices.n);
    if (bytes > v->layout->bytes) v->layout->bytes = bytes;
    v->tests++;
    v->library_tests += t->kind == &coll_library;
    return OK;
}

static int measure_devices(visit *v, const coll_test *t, coll_score *s, err *e)
{
    const device_list *all = &v->layout->devices;
    int number[DEVICES_MAX], rc = OK;
    if (v->devices && (v->devices_rows != t->rows || v->devices_cols != t->cols)) {
        coll_devices_close(v->devices);
        v->devices = NULL;
    }
    for (int i = 0; i < all->n; i++) number[i] = device_at(all, i)->number;
    if (!v->devices) rc = coll_devices_open(&v->devices, v->joins, number, all->n, t->rows, t->cols, e);
    v->devices_rows = t->rows;
    v->devices_cols = t->cols;
    if (!rc && t->kind != &coll_library) return coll_devices_measure(v->devices, t, s, e);
    if (!rc) coll_devices_measure_library(v->devices, t, s, &v->no_library);
    return rc;
}

static int measure_one(visit *v, const coll_test *t, err *e)
{
    coll_score s;
    const bool library = t->kind == &coll_library;
    if (!is_made(v, t) || (library && v->no_library.code)) return OK;
    const int rc = v->joins ? measure_devices(v, t, &s, e) : trial_run(v->trial, t, &s, e);
    if (!rc && !(library && v->no_library.code)) report_score(v->rows, t, v->layout->devices.n, &s);
    return rc;
}

/* Looks for the library. An error only where its path was given. */
static int find_library(visit *v, const char *path, json *root, err *e)
{
    const char *version;
    if (!v->library_tests && path)
        return err_set(e, ERR_USAGE,
                       "--nccl: there is nothing to measure: it goes with --algorithm nccl, --codec f32 "
                       "or f16, and NVIDIA GPUs");
    if (!v->library_tests) return OK;
    v->nccl = json_add_object(root, "nccl");
    const int rc = v->joins->ways->join->library->find(path, &version, &v->no_library);
    if (!rc) json_add_str(v->nccl, "version", version);
    return rc && path ? err_copy(e, &v->no_library) : OK;
}

/* Every combination. */
static int each_one(const allreduce_options *o, const coll_test *with, visit *v, err *e)
{
    span size, codec, algorithm;
    int rc = OK;
    for (const char *sizes = o->bytes; list_next(&sizes, &size);)
        for (const char *codecs = o->codec; list_next(&codecs, &codec);)
            for (const char *algorithms = o->algorithm; list_next(&algorithms, &algorithm) && !rc;) {
                coll_test t = *with;
                rc = parse_test(&t, algorithm, codec, size, e);
                if (!rc && t.reps) rc = v->one(v, &t, e);
            }
    return rc;
}

int bench_allreduce(const allreduce_options *o, const engine_options *m, int64_t reps, json *root, err *e)
{
    const coll_test with = {.group = m->choices.codec_group, .reps = reps, .seed = 1};
    trial_layout layout = {.bytes = 0};
    trial_options to = {.devices = m->devices, .layout = &layout, .key_file = m->key_file, .timeout = m->peer_timeout};
    visit v = {.one = note_bytes, .layout = &layout};
    int rc = list_ranks(m->devices, m->isa, &layout, to.wire, e);
    if (!rc) v.joins = joining_backend(&layout.devices);
    if (!rc) rc = each_one(o, &with, &v, e);
    if (!rc && !v.tests)
        rc = err_set(e, ERR_USAGE, "--algorithm %s: between these devices there are %s", o->algorithm,
                     v.joins ? "two_step, one_shot, nccl in f32 and f16" : "ring, two_step, one_shot, gather");
    if (!rc) rc = find_library(&v, o->nccl, root, e);
    if (!rc && !v.joins) rc = trial_open(&v.trial, &to, e);
    if (!rc) {
        json_add_num(root, "ranks", layout.devices.n);
        v.rows = json_add_array(root, "rows");
        v.one = measure_one;
        rc = each_one(o, &with, &v, e);
        if (v.no_library.code) json_add_str(v.nccl, "why", v.no_library.msg);
        coll_devices_close(v.devices);
        trial_close(v.trial);
    }
    device_list_close(&layout.devices);
    return rc;
}

/* A number without decimals, "-" where there is none. */
static void print_count(const json *row, const char *key, int width)
{
    const json *n = json_get(row, key);
    if (n) printf(" %*.0f", width, json_num(n, 0));
    else printf(" %*s", width, "-");
}

static void print_row(const json *r)
{
    printf("%-9s %-6s %11" PRId64 " %10.3f %10.3f %10.3f", json_str(json_get(r, "algorithm"), ""),
           json_str(json_get(r, "codec"), ""), json_int(json_get(r, "bytes"), 0),
           1e3 * json_num(json_get(r, "seconds"), 0), 1e3 * json_num(json_get(r, "seconds_min"), 0),
           1e3 * json_num(json_get(r, "seconds_max"), 0));
    print_count(r, "payload_bytes", 13);
    print_count(r, "socket_bytes", 13);
    print_count(r, "hops", 5);
    printf(" %10.2e %6s  %s\n", json_num(json_get(r, "error"), 0),
           json_bool(json_get(r, "equal_on_all_ranks"), false) ? "yes" : "no", json_str(json_get(r, "hash"), ""));
}

void bench_allreduce_print(const json *root)
{
    const json *nccl = json_get(root, "nccl"), *version = json_get(nccl, "version"), *why = json_get(nccl, "why");
    printf("%d ranks\n%-9s %-6s %11s %10s %10s %10s %13s %13s %5s %10s %6s  %s\n",
           (int)json_int(json_get(root, "ranks"), 0), "algorithm", "codec", "bytes", "ms", "least", "most",
           "sent by each", "into sockets", "hops", "error", "equal", "hash");
    for (const json *r = json_first(json_get(root, "rows")); r; r = json_next(r)) print_row(r);
    if (version && !why)
        printf("NCCL %s sums in an order of its own: no answer is made by it\n", json_str(version, ""));
    if (why) printf("no row of NCCL: %s\n", json_str(why, ""));
}
