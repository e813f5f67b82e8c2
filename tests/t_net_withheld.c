/* t_net_withheld.c - a node that is there and does not say one thing: each message of MSG_LIST in turn is withheld,
 * either way, by somebody in the middle. Whoever leads notices in time, and the text is the undisturbed one, at a
 * spare. CASE=STEP runs those of one message.
 *
 * All cases run at once, for most of their time is waiting. */
#include "frame_relay.h"
#include "node_rig.h"

#include "app/bench_allreduce.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_state.h"
#include "net/link_speed.h"
#include "net/progress.h"

enum { TOKENS = 60, EARLY = 10 };

/* What the disturbance is. */
typedef enum { TEXT, IDLE, DRAIN, LOSS, LINK, SUMS } what;

/* Devices: A, B and C are nodes, the last one the spare of the others; R and S are relays before A and B. T and U are
 * relays before nodes that one case each has for itself: the first drains, to the second nobody has told a list. */
typedef struct withheld {
    int kind, ways;
    const char *name, *devices;
    int after;   /* tokens; -1: from the start */
    int skip;    /* so many pass before the first that does not */
    double most; /* seconds until it is noticed; 0: it need not be */
    what how;
    const char *says; /* the error with which it ends; NULL: with the text */
    /* what came of it */
    const nodes *at;
    nodes *others;
    relay *by[4];
    pthread_t thread;
    char fault[ERR_MSG_MAX + 200];
    double took;
    int ids[TOKENS], n;
    char error[ERR_MSG_MAX];
} withheld;

#define W(kind, ways, ...)                                                                                             \
    {                                                                                                                  \
        MSG_##kind, RELAY_##ways, #kind, __VA_ARGS__                                                                   \
    }
#define STILL 5.0 /* net/leader.c, STEP_LEAST */

static withheld all[] = {
    W(HELLO, UP, "R/cpu|C/cpu;cpu", -1, 0, 5),
    W(HELLO, DOWN, "R/cpu|C/cpu;cpu", -1, 0, 5, TEXT, "what it says first is no hello"), /* but an ANSWER: final */
    W(PING, BOTH, "R/cpu|C/cpu;cpu", EARLY, 0, 8, IDLE), /* 5 s of probes keep it warm, then 3 s of silence */
    W(PONG, BOTH, "R/cpu|C/cpu;cpu", EARLY, 0, 0),
    W(PROBE, BOTH, "R/cpu|C/cpu;cpu", EARLY, 0, 0, IDLE),
    W(LEASE, UP, "R/cpu|C/cpu;cpu", -1, 0, PROGRESS_IDLE),
    W(ANSWER, DOWN, "R/cpu|C/cpu;cpu", -1, 0, PROGRESS_IDLE), /* to LEASE, and to READY */
    W(ANSWER, DOWN, "R/cpu|C/cpu;cpu", -1, 1, PROGRESS_IDLE),
    W(MEMORY, UP, "R/cpu|C/cpu;R/cpu|C/cpu", -1, 0, PROGRESS_IDLE),
    W(READY, UP, "R/cpu|C/cpu;cpu", -1, 0, PROGRESS_IDLE),
    W(JOIN, BOTH, "A/cpu;S/cpu|C/cpu", -1, 0, 10),   /* lease.c, JOIN_SECONDS */
    W(ANSWER, DOWN, "A/cpu;S/cpu|C/cpu", -1, 1, 10), /* to JOIN */
    W(STEP, UP, "R/cpu|C/cpu;cpu", EARLY, 0, STILL),
    W(DONE, DOWN, "R/cpu|C/cpu;cpu", EARLY, 0, STILL),
    W(DATA, UP, "R/cpu|C/cpu;cpu", EARLY, 0, STILL),
    W(DATA, DOWN, "R/cpu|C/cpu;cpu", EARLY, 0, STILL),
    W(DATA, BOTH, "A/cpu&S/cpu|C/cpu", EARLY, 0, STILL),
    W(TAKEN, BOTH, "cpu&R/cpu|C/cpu", EARLY, 0, STILL),
    W(GIVE_UP, BOTH, "R/cpu;S/cpu|C/cpu", EARLY, 0, 0, LOSS),
    W(GET, DOWN, "R/cpu*1.1|C/cpu;cpu", -1, 0, PROGRESS_BUSY), /* shares that give nodes parts of their own */
    W(PIECE, UP, "R/cpu*1.2|C/cpu;cpu", -1, 0, PROGRESS_BUSY),
    W(GET_LIST, DOWN, "U/cpu|C/cpu;cpu", -1, 0, PROGRESS_BUSY),
    W(LIST, UP, "U/cpu|C/cpu;cpu", -1, 0, PROGRESS_BUSY),
    W(DRAINING, DOWN, "T/cpu|C/cpu;cpu", EARLY, 0, 0, DRAIN),
    W(MEASURE, UP, "R", -1, 0, 12, LINK),
    W(ANSWER, DOWN, "R", -1, 0, 12, LINK),
    W(TRIAL, UP, "A/cpu&S/cpu", -1, 0, PROGRESS_IDLE, SUMS),
    W(TEST, UP, "A/cpu&S/cpu", -1, 0, PROGRESS_IDLE, SUMS),
    W(ANSWER, DOWN, "A/cpu&S/cpu", -1, 2, PROGRESS_IDLE, SUMS),
};
enum { CASES = sizeof all / sizeof *all };

static void fault(withheld *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fault(withheld *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!w->fault[0]) vsnprintf(w->fault, sizeof w->fault, fmt, ap);
    va_end(ap);
}

/* ---- one case */

static const char *written(const withheld *w, const char *form, char to[1000])
{
    size_t n = 0;
    for (; *form; form++)
        if (*form >= 'A' && *form <= 'C') n += (size_t)sprintf(to + n, "%s", w->at->name[*form - 'A']);
        else if (*form >= 'R' && *form <= 'U') n += (size_t)sprintf(to + n, "%s", w->by[*form - 'R']->name);
        else to[n++] = *form;
    to[n] = 0;
    return to;
}

static void begin(withheld *w)
{
    for (int i = 0; i < 4; i++)
        if (w->by[i]) relay_withhold(w->by[i], w->kind, w->ways, w->skip);
}

/* When something was first withheld; 0: nothing was. */
static double began_at(const withheld *w)
{
    double at = 0;
    for (int i = 0; i < 4; i++) {
        const double first = w->by[i] ? atomic_load(&w->by[i]->first) : 0;
        if (first && (!at || first < at)) at = first;
    }
    return at;
}

static bool hear(void *ctx, const token_event *ev)
{
    withheld *w = ctx;
    if (ev->token >= 0 && w->n < TOKENS) w->ids[w->n++] = ev->token;
    if (ev->finish == FINISH_ERROR) snprintf(w->error, sizeof w->error, "%s", ev->error);
    return true;
}

static void ask(withheld *w, engine *g, int tokens)
{
    static const int32_t ids[] = {5, 6, 7};
    const query q = {.ids = ids,
                     .n_ids = 3,
                     .max_tokens = tokens,
                     .ignore_eos = true,
                     .n_logprobs = -1,
                     .beams = 1,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .on_token = hear,
                     .ctx = w};
    err e = {0};
    if (engine_add_query(g, &q, NULL, &e)) fault(w, "%s", e.msg);
}

static void disturb(withheld *w)
{
    begin(w);
    if (w->how == LOSS) relay_cut(w->by[1]);
    if (w->how == DRAIN) {
        node_drain(w->others->at[0]);
        usleep(300000);
        nodes_drop(w->others, 0);
    }
}

static void text_over(withheld *w, const char *devices)
{
    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = devices,
                              .threads = 1,
                              .ctx = 128,
                              .peer_wait = 25,
                              .key_file = w->at ? (char *)w->at->key : NULL};
    err e = {0};
    engine *g;
    if (w->after < 0) begin(w);
    if (engine_open(&g, &o, &e)) return fault(w, "%s", e.msg);
    ask(w, g, w->how == IDLE ? EARLY : TOKENS);
    bool more = true, done = w->after < 0;
    for (int rc = 0; more && !rc;) {
        rc = engine_infer(g, &more, &e);
        if (rc) fault(w, "%s", e.msg);
        if (done || w->n < EARLY) continue;
        done = true;
        disturb(w);
    }
    if (w->how == IDLE) {
        while (more) engine_infer(g, &more, &e);
        usleep(10000000);
        w->n = 0;
        ask(w, g, TOKENS);
        for (more = true; more;)
            if (engine_infer(g, &more, &e)) return fault(w, "%s", e.msg);
    }
    engine_close(g);
}

static void sums_over(withheld *w, const char *devices)
{
    const allreduce_options o = {"4K", "f16", "two_step"};
    const engine_options m = {.devices = devices, .choices.codec_group = 128, .key_file = (char *)w->at->key};
    json *root = json_new_object();
    err e = {0};
    begin(w);
    if (!bench_allreduce(&o, &m, 1, root, &e)) fault(w, "nothing was missed");
    json_free(root);
}

static void link_over(withheld *w)
{
    link_speed speed;
    address to;
    err e = {0};
    begin(w);
    if (address_parse(&to, w->at->name[2], false, &e)) fault(w, "%s", e.msg);
    else if (!link_measure(&speed, &w->by[0]->at, &to, &w->by[0]->self, &e)) fault(w, "nothing was missed");
}

static void *run(void *arg)
{
    withheld *w = arg;
    char devices[1000];
    written(w, w->devices, devices);
    if (w->how == SUMS) sums_over(w, devices);
    else if (w->how == LINK) link_over(w);
    else text_over(w, devices);
    w->took = clock_now();
    return NULL;
}

/* ---- all of them */

static const char *const way_name[] = {"", "up", "down", "both"};

static void open_relays(withheld *w, const nodes *n, const nodes *others)
{
    const char *const to[] = {n->name[0], n->name[1], others->name[0], others->name[1]};
    for (int i = 0; i < 4; i++) {
        if (!strchr(w->devices, 'R' + i)) continue;
        w->by[i] = mem_zero(1, sizeof *w->by[i]);
        assert_non_null(w->by[i]);
        relay_open(w->by[i], n->key, to[i]);
    }
}

static void close_relays(withheld *w)
{
    for (int i = 0; i < 4; i++) {
        if (w->by[i]) relay_close(w->by[i]);
        mem_free(w->by[i]);
    }
}

static void nobody_waits_for_ever(void **unused)
{
    (void)unused;
    withheld plain = {.after = EARLY};
    nodes n, others;
    int wrong = 0;
    text_over(&plain, "cpu");
    assert_int_equal(plain.n, TOKENS);
    nodes_open(&others, NULL, NULL);
    nodes_open(&n, NULL, NULL); /* with another key, in the same file */
    nodes_again(&others);
    const char *only = getenv("CASE");
    for (int i = 0; i < CASES; i++) {
        if (only && strcmp(only, all[i].name)) all[i].kind = 0;
        if (!all[i].kind) continue;
        all[i].at = &n;
        all[i].others = &others;
        open_relays(&all[i], &n, &others);
        assert_int_equal(pthread_create(&all[i].thread, NULL, run, &all[i]), 0);
    }
    const double slack = 3 * test_slowness();
    for (int i = 0; i < CASES; i++) {
        withheld *w = &all[i];
        if (!w->kind) continue;
        pthread_join(w->thread, NULL);
        const double from = began_at(w), took = w->took - from;
        if (w->says && strstr(w->fault, w->says)) w->fault[0] = 0;
        else if (w->how < LINK && !w->fault[0] &&
                 (w->error[0] || w->n != TOKENS || memcmp(w->ids, plain.ids, sizeof w->ids)))
            fault(w, "%d tokens, other ones: %s", w->n, w->error);
        if (w->most && !from) fault(w, "nothing was withheld");
        if (w->most && took > w->most + slack) fault(w, "%.1f s, at most %.1f + %.1f", took, w->most, slack);
        printf("%-9s %-4s %-24s %5.1f s %s\n", w->name, way_name[w->ways], w->devices, from ? took : 0, w->fault);
        wrong += w->fault[0] != 0;
        close_relays(w);
    }
    nodes_close(&n);
    nodes_close(&others);
    assert_int_equal(wrong, 0);
}

/* ---- a text that ends nodes */

typedef struct killed {
    relay *by;
    atomic_bool over;
} killed;

/* The node ends whenever it would say that a step is done. */
static void *end_again_and_again(void *arg)
{
    killed *k = arg;
    for (int seen = 0, now; !atomic_load(&k->over); usleep(2000)) {
        now = atomic_load(&k->by->withheld);
        if (now == seen) continue;
        seen = now;
        relay_drop(k->by);
    }
    return NULL;
}

/* A text in whose steps a node was lost twice, without a token in between, runs alone; the third time it ends. The
 * other one, which was in the first two of these steps, is as if nothing had been. */
static void a_text_that_ends_nodes_is_given_up(void **unused)
{
    (void)unused;
    withheld plain = {.after = EARLY}, deadly = {0}, other = {0};
    nodes n;
    relay r;
    err e = {0};
    engine *g;
    pthread_t thread;
    text_over(&plain, "cpu");
    nodes_open(&n, NULL, NULL);
    relay_open(&r, n.key, n.name[0]);
    killed k = {.by = &r};
    char devices[TCP_NAME_MAX + 8];
    snprintf(devices, sizeof devices, "%.200s/cpu", r.name);
    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = devices,
                              .threads = 1,
                              .ctx = 128,
                              .peer_wait = 60,
                              .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_int_equal(pthread_create(&thread, NULL, end_again_and_again, &k), 0);
    ask(&deadly, g, TOKENS);
    ask(&other, g, TOKENS);
    relay_withhold(&r, MSG_DONE, RELAY_DOWN, 0);
    for (bool more = true; more;) {
        assert_ok(engine_infer(g, &more, &e), &e);
        if (deadly.error[0]) relay_withhold(&r, 0, 0, 0);
    }
    if (!strstr(deadly.error, "3 times while this text was computed")) fail_msg("\"%s\"", deadly.error);
    assert_int_equal(deadly.n, 0);
    assert_string_equal(other.error, "");
    assert_int_equal(other.n, TOKENS);
    assert_memory_equal(other.ids, plain.ids, sizeof plain.ids);
    atomic_store(&k.over, true);
    pthread_join(thread, NULL);
    engine_close(g);
    relay_close(&r);
    nodes_close(&n);
}

/* A message that is new has a case. */
static void each_message_has_its_case(void **unused)
{
    static const struct {
        const char *name;
        int kind;
    } list[] = {
#define X(name, number, ...) {#name, number},
        MSG_LIST(X)
#undef X
    };
    (void)unused;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bool any = false;
        for (int k = 0; k < CASES; k++) any = any || all[k].kind == list[i].kind;
        if (!any) fail_msg("no case withholds %s", list[i].name);
    }
}

int main(void)
{
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_message_has_its_case),
                                       cmocka_unit_test(a_text_that_ends_nodes_is_given_up),
                                       cmocka_unit_test(nobody_waits_for_ever)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
