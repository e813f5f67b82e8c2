/* t_net_link.c - collectives over connections: the same bytes as over threads, whoever shares a process; a rank that
 * fails or is lost ends the others' waiting; hostile messages end the connection. */
#include "net_rig.h"

#include "base/fnv.h"
#include "comm/coll_list.h"
#include "net/link_tls.h"

enum { RANKS = 4, ROUNDS = 60, COLS = 700, ROWS_MAX = 40, GROUP = 128, MEMORY = 8 * ROWS_MAX * COLS * 4 };

/* ---- a thread for each rank; ranks of one process share a group, the others connections */

typedef struct site {
    peer *p; /* of the one that was dialled, when it has come in */
    mailboxes *b;
    atomic_bool lost;
} site;

typedef struct world {
    int ranks, process[RANKS];
    link_group *local[RANKS]; /* by process */
    site at[RANKS][RANKS];    /* [rank][other rank] */
    link_tls *end[RANKS];
    door *d;
    address where;
    peer_self self;
    site *expects; /* where the door puts who comes next */
    atomic_bool came;
    int rc[RANKS];
    err e[RANKS];
    uint64_t digest[RANKS][ROUNDS];
    uint64_t posted[RANKS];
    void *memory[RANKS]; /* of collectives: may be read until the mailboxes are closed */
    int fails;           /* rank that fails in the middle; -1: none */
} world;

static void *site_receiver(void *ctx, peer *p, const frame_head *h, msg_receiver kind)
{
    (void)p, (void)h;
    return kind == FOR_MAILBOXES ? ((site *)ctx)->b : NULL;
}

static void site_lost(void *ctx, peer *p, const err *why)
{
    (void)p;
    site *s = ctx;
    mailboxes_lost(s->b, why);
    atomic_store(&s->lost, true);
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static void put_site(void *ctx, peer *p)
{
    world *w = ctx;
    site *s = w->expects;
    peer_use use = {.ctx = s, .receiver = site_receiver, .lost = site_lost};
    if (peer_start(p, &use, NULL) || mailboxes_join(s->b, p, 0, NULL)) abort();
    s->p = p;
    atomic_store(&w->came, true);
}

static void connect_ranks(world *w, int a, int b)
{
    site *to = &w->at[a][b];
    peer_use use = {.ctx = to, .receiver = site_receiver, .lost = site_lost};
    err e = {0};
    w->expects = &w->at[b][a];
    atomic_store(&w->came, false);
    assert_ok(peer_dial(&to->p, &w->where, &w->self, &use, &e), &e);
    assert_ok(mailboxes_join(to->b, to->p, 0, &e), &e);
    double until = clock_now() + 10;
    while (!atomic_load(&w->came) && clock_now() < until) usleep(500);
    assert_true(atomic_load(&w->came));
}

static void open_world(world *w, int ranks, const int *process)
{
    uint64_t bytes[COLL_CHANNELS];
    err e = {0};
    *w = (world){.ranks = ranks, .where = {"127.0.0.1", 0}, .fails = -1};
    memcpy(w->self.key, rig_key, KEY_BYTES);
    assert_ok(hello_init(&w->self.me, &e), &e);
    door_use use = {w, always, put_site};
    assert_ok(door_open(&w->d, &w->where, &w->self, &use, &e), &e);
    for (int i = 0; i < COLL_CHANNELS; i++) bytes[i] = (uint64_t)ROWS_MAX * COLS * sizeof(float);
    for (int a = 0; a < ranks; a++) {
        mailboxes *to[RANKS] = {NULL};
        w->process[a] = process[a];
        if (!w->local[process[a]]) assert_ok(link_threads_open(&w->local[process[a]], ranks, COLL_CHANNELS, &e), &e);
        for (int b = 0; b < ranks; b++)
            if (process[a] != process[b]) {
                assert_ok(mailboxes_open(&w->at[a][b].b, COLL_CHANNELS, bytes, "other", &e), &e);
                to[b] = w->at[a][b].b;
            }
        assert_ok(link_tls_open(&w->end[a], w->local[process[a]], a, 0, COLL_CHANNELS, to, &e), &e);
    }
    for (int a = 0; a < ranks; a++)
        for (int b = a + 1; b < ranks; b++)
            if (process[a] != process[b]) connect_ranks(w, a, b);
}

static void close_world(world *w)
{
    door_close(w->d);
    for (int a = 0; a < w->ranks; a++)
        for (int b = 0; b < w->ranks; b++) peer_close(w->at[a][b].p);
    for (int a = 0; a < w->ranks; a++)
        for (int b = 0; b < w->ranks; b++) mailboxes_close(w->at[a][b].b);
    for (int a = 0; a < w->ranks; a++) {
        link_tls_close(w->end[a]);
        link_threads_close(w->local[a]);
        if (w->memory[a]) mem_unmap(w->memory[a], MEMORY);
    }
}

/* ---- what ranks do: gathers and sums in turn, of sizes that change and are sometimes 0 */

typedef struct parts {
    const uint64_t *bytes;
    uint64_t digest;
} parts;

static int add_part(void *self, int rank, const void *part, err *e)
{
    parts *p = self;
    (void)e;
    p->digest += fnv_add(FNV_START, part, p->bytes[rank]) * (uint64_t)(2 * rank + 1);
    return OK;
}

static uint64_t gather_size(int round, int rank)
{
    uint64_t x = rng_bits(1, (uint64_t)round, (uint64_t)rank);
    return x % 3 == 0 ? 0 : 1 + x / 3 % (x % 2 ? 300 : 60000);
}

typedef struct worker {
    world *w;
    int rank;
} worker;

static int do_round(world *w, int rank, coll *c, int round, err *e)
{
    static const coll_kind *const kinds[] = {&coll_gather, &coll_two_step, &coll_gather, &coll_one_shot};
    uint64_t bytes[RANKS];
    float *x = NULL;
    parts p = {.bytes = bytes};
    coll_job job = {.kind = kinds[round % 4], .bytes = bytes, .put = add_part, .self = &p};
    for (int r = 0; r < w->ranks; r++) bytes[r] = gather_size(round, r);
    if (job.kind->reduces) {
        job.rows = (int64_t)(rng_bits(3, (uint64_t)round, 0) % (ROWS_MAX + 1));
        job.cols = COLS;
        job.group = GROUP;
        job.partial = round % 8 < 4 ? WIRE_INT4 : WIRE_F32;
        job.sum = round % 8 < 4 ? WIRE_INT8 : WIRE_F32;
        job.wire = &wire_reference;
        job.x = x = mem_zero(1 + (size_t)(job.rows * job.cols), sizeof *x);
        for (int64_t i = 0; i < job.rows * job.cols; i++)
            x[i] = (float)(rng_uniform((uint64_t)round, (uint64_t)rank, (uint64_t)i) - 0.5);
    }
    if (rng_bits(4, (uint64_t)round, (uint64_t)rank) % 8 == 0) usleep(500);
    int rc = coll_enter(c, e);
    if (!rc && !job.kind->reduces)
        for (uint64_t i = 0; i < bytes[rank]; i++) ((uint8_t *)coll_own(c))[i] = rig_byte((uint64_t)(round + rank), i);
    if (!rc) {
        coll_begin(c, &job);
        rc = coll_run(c, e);
    }
    w->digest[rank][round] = job.kind->reduces ? fnv_add(FNV_START, x, (uint64_t)(job.rows * job.cols) * sizeof *x)
                                               : p.digest;
    mem_free(x);
    return rc;
}

static void *work(void *arg)
{
    worker *k = arg;
    world *w = k->w;
    link_end *l = link_tls_end(w->end[k->rank]);
    void *memory = w->memory[k->rank] = mem_map(MEMORY);
    coll c;
    int rc = OK;
    coll_open(&c, l, 0, memory, MEMORY);
    for (int round = 0; round < ROUNDS && !rc; round++) {
        if (w->fails == k->rank && round == ROUNDS / 2) rc = err_set(&w->e[k->rank], ERR_IO, "a fault");
        if (!rc) rc = do_round(w, k->rank, &c, round, &w->e[k->rank]);
    }
    for (int half = 0; half < 2 && !rc; half++, c.turn++) rc = coll_enter(&c, &w->e[k->rank]);
    if (rc && (w->fails < 0 || w->fails == k->rank)) l->kind->give_up(l, rc, w->e[k->rank].msg);
    w->rc[k->rank] = rc;
    w->posted[k->rank] = l->posted;
    return NULL;
}

static void run_world(world *w)
{
    worker k[RANKS];
    pthread_t t[RANKS];
    for (int r = 0; r < w->ranks; r++) {
        k[r] = (worker){w, r};
        pthread_create(&t[r], NULL, work, &k[r]);
    }
    for (int r = 0; r < w->ranks; r++) pthread_join(t[r], NULL);
}

static void all_links_bring_the_same_bytes(void **unused)
{
    (void)unused;
    static const int layout[][RANKS] = {{0, 0, 0, 0}, {0, 1, 2, 3}, {0, 0, 1, 1}, {0, 1, 1, 2}};
    static world want, w;
    for (int ranks = 2; ranks <= RANKS; ranks++)
        for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
            open_world(&w, ranks, layout[i]);
            run_world(&w);
            for (int r = 0; r < ranks; r++) assert_ok(w.rc[r], &w.e[r]);
            if (i == 0) want = w;
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(w.posted[r], want.posted[r]);
                assert_memory_equal(w.digest[r], want.digest[0], sizeof w.digest[r]);
            }
            close_world(&w);
        }
}

static void a_rank_that_fails_ends_the_others(void **unused)
{
    (void)unused;
    static const int layout[RANKS] = {0, 1, 1, 2};
    static world w;
    for (int fails = 0; fails < RANKS; fails++) {
        char says[60];
        open_world(&w, RANKS, layout);
        w.fails = fails;
        run_world(&w);
        snprintf(says, sizeof says, "rank %d of %d: a fault", fails, RANKS);
        for (int r = 0; r < RANKS; r++)
            if (r != fails) {
                assert_int_equal(w.rc[r], ERR_IO);
                if (!strstr(w.e[r].msg, says)) fail_msg("%s", w.e[r].msg);
            }
        close_world(&w);
    }
}

typedef struct waiter {
    link_end *l;
    int rc;
    err e;
} waiter;

static void *wait_once(void *arg)
{
    waiter *k = arg;
    while (!(k->rc = k->l->kind->wait(k->l, &k->e))) continue;
    return NULL;
}

static void a_lost_connection_ends_waiting(void **unused)
{
    (void)unused;
    static const int layout[RANKS] = {0, 1};
    static world w;
    pthread_t t;
    open_world(&w, 2, layout);
    waiter k = {.l = link_tls_end(w.end[1])};
    pthread_create(&t, NULL, wait_once, &k);
    usleep(20000);
    peer_drop(w.at[0][1].p, &(err){ERR_IO, "pulled"});
    pthread_join(t, NULL);
    assert_int_equal(k.rc, ERR_IO);
    assert_non_null(strstr(k.e.msg, "other: "));
    close_world(&w);
}

/* A connection that is closed while much is on its way: whoever still sends does so in vain. */
static void closing_stops_senders(void **unused)
{
    (void)unused;
    static const int layout[RANKS] = {0, 1};
    static world w;
    for (int turn = 0; turn < 20; turn++) {
        err e = {0};
        open_world(&w, 2, layout);
        link_end *l = link_tls_end(w.end[0]);
        w.memory[0] = mem_map(MEMORY);
        for (int c = 0; c < COLL_CHANNELS; c++)
            assert_ok(l->kind->post(l, 1, c, w.memory[0], c % 2 ? 100 : ROWS_MAX * COLS * 4, &e), &e);
        if (turn % 3 == 1) usleep(200);
        peer_close(w.at[0][1].p);
        w.at[0][1].p = NULL;
        l->kind->post(l, 1, 1, w.memory[0], 50, &e); /* in vain, or not free */
        close_world(&w);
    }
}

/* What a process could send that knows the key: each ends the connection, none is written anywhere. */
static void hostile_messages_end_the_connection(void **unused)
{
    (void)unused;
    static const int layout[RANKS] = {0, 1};
    enum { MOST = ROWS_MAX * COLS * 4 };
    static const struct {
        frame_head h;
        int times;
    } row[] = {
        {{8, MSG_DATA, COLL_CHANNELS}, 1},
        {{8, MSG_DATA, 0xffff}, 1},
        {{MOST + 1, MSG_DATA, 0}, 1},
        {{0, MSG_DATA, 0}, 1},
        {{8, MSG_DATA, 1}, 2},
        {{8, MSG_DATA, 1 | 1 << 16}, 1},
        {{0, MSG_TAKEN, 1 << 16}, 1},
        {{0, MSG_TAKEN, (uint64_t)200 << 32}, 1},
        {{0, MSG_TAKEN, (uint64_t)1 << 48}, 1},
        {{1, MSG_TAKEN, 0}, 1},
        {{3, MSG_GIVE_UP, 0}, 1},
        {{ERR_MSG_MAX + 1, MSG_GIVE_UP, 0}, 1},
        {{8, MSG_GIVE_UP, 0}, 1},
        {{MOST, MSG_DATA, 0}, 2},
    };
    static uint8_t zeros[MOST + 1];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        static world w;
        open_world(&w, 2, layout);
        for (int k = 0; k < row[i].times; k++) peer_send(w.at[0][1].p, PEER_CONTROL, &row[i].h, zeros, NULL);
        double until = clock_now() + 10;
        while (!atomic_load(&w.at[1][0].lost) && clock_now() < until) usleep(500);
        if (!atomic_load(&w.at[1][0].lost)) fail_msg("row %zu", i);
        close_world(&w);
    }
}

int main(void)
{
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_links_bring_the_same_bytes),      cmocka_unit_test(a_rank_that_fails_ends_the_others),
        cmocka_unit_test(a_lost_connection_ends_waiting),      cmocka_unit_test(closing_stops_senders),
        cmocka_unit_test(hostile_messages_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
