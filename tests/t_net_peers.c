/* t_net_peers.c - who gets in at the door and who does not; and what peers notice. */
#include "net_rig.h"

#include "net/link_speed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- the door */

enum { PEERS = 16 };

typedef struct house {
    door *d;
    address at;
    peer_self self;
    atomic_int entered, lost, room;
    pthread_mutex_t lock;
    peer *in[PEERS];
    char why[ERR_MSG_MAX]; /* of the one lost last */
} house;

static void on_lost(void *ctx, peer *p, const err *why)
{
    house *h = ctx;
    (void)p;
    pthread_mutex_lock(&h->lock);
    snprintf(h->why, sizeof h->why, "%s", why->msg);
    pthread_mutex_unlock(&h->lock);
    atomic_fetch_add(&h->lost, 1);
}

static bool has_room(void *ctx) { return atomic_load(&((house *)ctx)->entered) < atomic_load(&((house *)ctx)->room); }

static peer_use house_use(house *h) { return (peer_use){.ctx = h, .lost = on_lost}; }

static void on_enter(void *ctx, peer *p)
{
    house *h = ctx;
    peer_use use = house_use(h);
    err e = {0};
    int i = atomic_load(&h->entered);
    if (i >= PEERS || peer_start(p, &use, &e)) abort();
    h->in[i] = p;
    atomic_store(&h->entered, i + 1);
}

static void self_of_test(peer_self *s, uint32_t silence_ms)
{
    err e = {0};
    *s = (peer_self){.patience = 0};
    memcpy(s->key, rig_key, KEY_BYTES);
    assert_ok(hello_init(&s->me, &e), &e);
    s->me.silence_ms = silence_ms;
}

static void open_house(house *h, uint32_t silence_ms)
{
    err e = {0};
    *h = (house){.at = {"127.0.0.1", 0}, .lock = PTHREAD_MUTEX_INITIALIZER};
    atomic_store(&h->room, PEERS);
    self_of_test(&h->self, silence_ms);
    door_use use = {h, has_room, on_enter};
    assert_ok(door_open(&h->d, &h->at, &h->self, &use, &e), &e);
}

static void close_house(house *h)
{
    door_close(h->d);
    for (int i = 0; i < atomic_load(&h->entered); i++) peer_close(h->in[i]);
}

/* Waits until a count has come to n. */
static void await(atomic_int *count, int n)
{
    double until = clock_now() + 10;
    while (atomic_load(count) < n && clock_now() < until) usleep(1000);
    assert_int_equal(atomic_load(count), n);
}

static int refused_by_now(house *h, int n)
{
    double until = clock_now() + 10;
    while ((int)door_refused(h->d) < n && clock_now() < until) usleep(1000);
    return (int)door_refused(h->d);
}

static void peers_find_each_other(void **unused)
{
    (void)unused;
    house h, client = {.lock = PTHREAD_MUTEX_INITIALIZER};
    peer_self self;
    err e = {0};
    open_house(&h, 3000);
    self_of_test(&self, 3000);
    self.me.n_device = 1;
    self.me.device[0] = (hello_device){"cpu", "x", 5, 6};
    peer *p[3];
    peer_use use = house_use(&client);
    for (int i = 0; i < 3; i++) assert_ok(peer_dial(&p[i], &h.at, &self, &use, &e), &e);
    await(&h.entered, 3);
    assert_int_equal(peer_hello(p[0])->node, h.self.me.node);
    assert_int_equal(peer_hello(h.in[0])->node, self.me.node);
    assert_string_equal(peer_hello(h.in[0])->device[0].name, "cpu");
    for (int way = 0; way < 2; way++)
        for (uint32_t n = 0; n <= FRAME_SMALL; n += FRAME_SMALL / 4) {
            double seconds = 0;
            assert_ok(peer_ping(p[1], way, n, &seconds, &e), &e);
            assert_ok(peer_ping(h.in[2], way, n, &seconds, &e), &e);
            assert_true(seconds > 0 && seconds < 3);
        }
    const uint64_t sent = peer_sent(p[1]);
    assert_true(sent > 4 * FRAME_SMALL);
    usleep(1800000); /* a sign of life every 0.75 s at least */
    assert_int_equal(peer_sent(p[1]), sent);
    assert_int_equal(door_refused(h.d), 0);
    peer_close(p[0]);
    await(&h.lost, 1);
    assert_string_equal(h.why, "it ended the connection");
    close_house(&h); /* while two are there */
    await(&client.lost, 2);
    for (int i = 1; i < 3; i++) peer_close(p[i]);
}

/* Where nothing listens, the message names the address. */
static void nobody_is_named(void **unused)
{
    (void)unused;
    house h;
    peer_self self;
    peer *p;
    err e = {0};
    char name[TCP_NAME_MAX];
    open_house(&h, 3000);
    close_house(&h);
    self_of_test(&self, 3000);
    peer_use use = house_use(&h);
    address_print(&h.at, name);
    assert_int_equal(peer_dial(&p, &h.at, &self, &use, &e), ERR_IO);
    assert_null(p);
    assert_true(strncmp(e.msg, name, strlen(name)) == 0);
    assert_non_null(strstr(e.msg, "Connection refused"));
}

static void expect_refusal(house *h, const peer_self *self, int code, const char *says, int refused)
{
    peer *p;
    err e = {0};
    char want[600];
    peer_use use = house_use(h);
    snprintf(want, sizeof want, "127.0.0.1:%d: %s", h->at.port, says);
    assert_int_equal(peer_dial(&p, &h->at, self, &use, &e), code);
    assert_null(p);
    assert_string_equal(e.msg, want);
    assert_int_equal(refused_by_now(h, refused), refused);
}

/* The other key, another protocol, another arithmetic: refused on both sides, with what is wrong; then a good one. */
static void who_does_not_fit_stays_outside(void **unused)
{
    (void)unused;
    house h, client = {.lock = PTHREAD_MUTEX_INITIALIZER};
    peer_self good, bad;
    err e = {0};
    open_house(&h, 3000);
    self_of_test(&good, 3000);
    bad = good;
    bad.key[31] ^= 1;
    expect_refusal(&h, &bad, ERR_FORMAT, "the key is not accepted", 2); /* both connections */
    bad = good;
    bad.me.protocol_min = PROTOCOL_MAX + 1, bad.me.protocol_max = PROTOCOL_MAX + 2;
    char says[100];
    snprintf(says, sizeof says, "speaks protocol %d to %d, this is %d to %d", PROTOCOL_MIN, PROTOCOL_MAX,
             PROTOCOL_MAX + 1, PROTOCOL_MAX + 2);
    expect_refusal(&h, &bad, ERR_FORMAT, says, 3);
    bad = good;
    bad.me.arithmetic++;
    snprintf(says, sizeof says, "computes by arithmetic %u, this is %u (--exact off)", good.me.arithmetic,
             bad.me.arithmetic);
    expect_refusal(&h, &bad, ERR_FORMAT, says, 4);
    atomic_store(&h.room, 0);
    expect_refusal(&h, &good, ERR_BUSY, "has no room for another leader", 5);
    atomic_store(&h.room, PEERS);
    bad.me.inexact = true;
    peer *p[2];
    peer_use use = house_use(&client);
    assert_ok(peer_dial(&p[0], &h.at, &bad, &use, &e), &e);
    assert_ok(peer_dial(&p[1], &h.at, &good, &use, &e), &e);
    for (int i = 0; i < 2; i++) peer_close(p[i]);
    close_house(&h);
}

/* One connection up to a hello. */
static frames *knock(house *h, const hello *mine)
{
    tls *c;
    err e = {0};
    int rc, fd = tcp_dial(&h->at, 5, &e);
    assert_true(fd >= 0);
    assert_ok(tls_open(&c, fd, false, rig_key, hello_name(mine), &e), &e);
    while ((rc = tls_shake(c, &e)) > 0) tcp_wait(fd, rc == TLS_WAIT_WRITE, clock_now() + 5);
    assert_ok(rc, &e);
    assert_int_equal(tls_named(c), hello_name(mine) != NULL);
    frames *f = frames_open(c);
    assert_non_null(f);
    assert_ok(peer_greet(f, mine, &e), &e);
    return f;
}

/* The reply. */
static int hear(frames *f, hello *theirs, double seconds)
{
    frame_sink sink = peer_greeting(theirs);
    err e = {0};
    return frame_take(f, &sink, clock_now() + seconds, &e);
}

static frames *knock_and_hear(house *h, const hello *mine, hello *theirs, int *rc)
{
    frames *f = knock(h, mine);
    *rc = hear(f, theirs, 5);
    return f;
}

/* Where who dials makes the token up, either connection may come first, and the first message with the hello. */
static void quick_pairs_find_each_other(void **unused)
{
    (void)unused;
    house h;
    peer_self self;
    hello control, bulk, reply;
    err e = {0};
    open_house(&h, 3000);
    self_of_test(&self, 3000);
    control = self.me;
    memset(control.token, 7, HELLO_TOKEN);
    bulk = control;
    bulk.role = HELLO_BULK;
    for (int turn = 0; turn < 2; turn++) {
        frames *first = knock(&h, turn ? &bulk : &control);
        if (turn) assert_int_equal(hear(first, &reply, 0.1), FRAME_NONE);
        if (!turn) assert_ok(frame_send(first, &(frame_head){3, MSG_LEASE, 0}, "abc", &e), &e);
        frames *second = knock(&h, turn ? &control : &bulk);
        assert_int_equal(hear(second, &reply, 5), OK);
        assert_int_equal(reply.answer, HELLO_WELCOME);
        assert_int_equal(hear(first, &reply, 5), OK);
        assert_int_equal(reply.answer, HELLO_WELCOME);
        await(&h.entered, turn + 1);
        if (turn) assert_ok(frame_send(second, &(frame_head){3, MSG_LEASE, 0}, "abc", &e), &e);
        await(&h.lost, turn + 1);
        assert_string_equal(h.why, "a message of kind 32, which has no place here"); /* this house takes none */
        frames_close(first);
        frames_close(second);
    }
    assert_int_equal(refused_by_now(&h, 0), 0);
    bulk.node ^= 1;
    frames *thief = knock(&h, &bulk), *alone = knock(&h, &control);
    assert_int_equal(hear(alone, &reply, 5), OK);
    assert_int_equal(hear(thief, &reply, 7), FRAME_END); /* its other connection did not come */
    assert_int_equal(refused_by_now(&h, 2), 2);
    frames_close(thief);
    frames_close(alone);
    close_house(&h);
}

/* Bulk connections of an older process: with no token, a made up one, that of another process, one that was used. */
static void foreign_bulk_connections_are_refused(void **unused)
{
    (void)unused;
    house h;
    peer_self self;
    hello mine, reply, again;
    int rc;
    open_house(&h, 60000);
    self_of_test(&self, 60000);
    mine = self.me;
    mine.protocol_max = PROTOCOL_QUICK - 1;
    mine.role = HELLO_BULK;
    frames *alone = knock_and_hear(&h, &mine, &reply, &rc);
    assert_int_equal(rc, OK);
    assert_int_equal(reply.answer, HELLO_UNKNOWN_TOKEN);
    assert_int_equal(refused_by_now(&h, 1), 1);
    mine.role = HELLO_CONTROL;
    frames *control = knock_and_hear(&h, &mine, &reply, &rc);
    assert_int_equal(rc, OK);
    assert_int_equal(reply.answer, HELLO_WELCOME);
    mine.role = HELLO_BULK;
    memcpy(mine.token, reply.token, HELLO_TOKEN);
    mine.node ^= 1;
    frames *thief = knock_and_hear(&h, &mine, &again, &rc);
    assert_int_equal(again.answer, HELLO_UNKNOWN_TOKEN);
    mine.node ^= 1;
    mine.token[0] ^= 1;
    frames *guess = knock_and_hear(&h, &mine, &again, &rc);
    assert_int_equal(again.answer, HELLO_UNKNOWN_TOKEN);
    mine.token[0] ^= 1;
    frames *bulk = knock_and_hear(&h, &mine, &again, &rc);
    assert_int_equal(again.answer, HELLO_WELCOME);
    await(&h.entered, 1);
    frames *replay = knock_and_hear(&h, &mine, &again, &rc);
    assert_int_equal(again.answer, HELLO_UNKNOWN_TOKEN);
    assert_int_equal(refused_by_now(&h, 4), 4);
    frames *all[] = {alone, control, thief, guess, bulk, replay};
    for (int i = 0; i < 6; i++) frames_close(all[i]);
    close_house(&h);
}

/* Frames that have no place: before the hello, after it, of unknown kinds, too large by their head. */
static void wrong_messages_end_the_connection(void **unused)
{
    (void)unused;
    static const frame_head first[] = {
        {8, MSG_PING, 0}, {UINT32_MAX, MSG_HELLO, 0}, {4097, MSG_HELLO, 0}, {3, 77, 0}, {20, MSG_HELLO, 1}};
    static const frame_head later[] = {{20, MSG_HELLO, 0}, {0, 0, 0}, {9, 77, 0}, {UINT32_MAX, MSG_PING, 1}};
    static uint8_t record[TLS_RECORD];
    house h;
    peer_self self;
    err e = {0};
    open_house(&h, 3000);
    self_of_test(&self, 3000);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        tls *c;
        int rc, fd = tcp_dial(&h.at, 5, &e);
        assert_ok(tls_open(&c, fd, false, rig_key, NULL, &e), &e);
        while ((rc = tls_shake(c, &e)) > 0) tcp_wait(fd, rc == TLS_WAIT_WRITE, clock_now() + 5);
        assert_ok(rc, &e);
        size_t n = FRAME_HEAD + (first[i].bytes < FRAME_SMALL ? first[i].bytes : FRAME_SMALL);
        memcpy(record, &first[i].bytes, 4);
        memcpy(record + 4, &first[i].kind, 2);
        assert_ok(tls_send(c, record, n, &e), &e);
        assert_int_equal(refused_by_now(&h, (int)i + 1), (int)i + 1);
        tls_close(c);
    }
    for (int i = 0; i < (int)(sizeof later / sizeof *later); i++) {
        hello mine = self.me, theirs, bulk_reply;
        int rc;
        mine.protocol_max = PROTOCOL_QUICK - 1;
        mine.role = HELLO_CONTROL;
        frames *control = knock_and_hear(&h, &mine, &theirs, &rc);
        mine.role = HELLO_BULK;
        memcpy(mine.token, theirs.token, HELLO_TOKEN);
        frames *bulk = knock_and_hear(&h, &mine, &bulk_reply, &rc);
        await(&h.entered, i + 1);
        size_t n = FRAME_HEAD + (later[i].bytes < FRAME_SMALL ? later[i].bytes : FRAME_SMALL);
        memcpy(record, &later[i].bytes, 4);
        memcpy(record + 4, &later[i].kind, 2);
        assert_ok(tls_send(frames_tls(i % 2 ? bulk : control), record, n, &e), &e);
        await(&h.lost, i + 1);
        frames_close(control);
        frames_close(bulk);
    }
    close_house(&h);
}

/* A recorded conversation, sent again byte for byte, gets no further than the handshake. */
typedef struct tape {
    int fd[2];             /* client, server */
    uint8_t said[1 << 16]; /* by the client */
    size_t n;
} tape;

static void *play_middle(void *arg)
{
    tape *t = arg;
    struct pollfd p[2] = {{t->fd[0], POLLIN, 0}, {t->fd[1], POLLIN, 0}};
    uint8_t some[4096];
    for (;;) {
        poll(p, 2, 5000);
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents) continue;
            ssize_t n = read(t->fd[i], some, sizeof some);
            if (n <= 0) return NULL;
            if (i == 0 && t->n + (size_t)n <= sizeof t->said)
                memcpy(t->said + t->n, some, (size_t)n), t->n += (size_t)n;
            if (write(t->fd[!i], some, (size_t)n) != n) return NULL;
        }
    }
}

static void replayed_handshakes_are_refused(void **unused)
{
    (void)unused;
    static tape t;
    house h;
    peer_self self;
    hello mine, reply;
    int client[2], rc;
    tls *c;
    err e = {0};
    pthread_t middle;
    open_house(&h, 3000);
    self_of_test(&self, 3000);
    mine = self.me;
    rig_sockets(client);
    t.fd[0] = client[1];
    t.fd[1] = tcp_dial(&h.at, 5, &e);
    t.n = 0;
    pthread_create(&middle, NULL, play_middle, &t);
    assert_ok(tls_open(&c, client[0], false, rig_key, NULL, &e), &e);
    while ((rc = tls_shake(c, &e)) > 0) tcp_wait(client[0], rc == TLS_WAIT_WRITE, clock_now() + 5);
    assert_ok(rc, &e);
    frames *f = frames_open(c);
    frame_sink sink = peer_greeting(&reply);
    assert_ok(peer_greet(f, &mine, &e), &e);
    assert_ok(frame_take(f, &sink, clock_now() + 5, &e), &e);
    frames_close(f);
    pthread_join(middle, NULL);
    close(t.fd[0]);
    close(t.fd[1]);
    int before = refused_by_now(&h, 1); /* its bulk connection did not come */
    assert_true(t.n > 300);
    int fd = tcp_dial(&h.at, 5, &e);
    assert_int_equal(write(fd, t.said, t.n), (ssize_t)t.n);
    assert_int_equal(refused_by_now(&h, before + 1), before + 1);
    assert_int_equal(atomic_load(&h.entered), 0);
    close(fd);
    close_house(&h);
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &pages, &resident), 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 10 000 connections that say nothing, a few that say it slowly, many that say nonsense: one that is honest gets in all
 * the time, and memory stays. */
static void floods_do_not_keep_others_out(void **unused)
{
    (void)unused;
    enum { FLOOD = 10000, OPEN = 400 };
    static int fd[OPEN];
    house h, client = {.lock = PTHREAD_MUTEX_INITIALIZER};
    peer_self self;
    err e = {0};
    peer *p;
    open_house(&h, 20000);
    self_of_test(&self, 20000);
    peer_use use = house_use(&client);
    assert_ok(peer_dial(&p, &h.at, &self, &use, &e), &e);
    long before = resident_kib();
    double slowest = 0;
    for (int i = 0; i < FLOOD; i++) {
        int *at = &fd[i % OPEN];
        if (i >= OPEN) close(*at);
        *at = tcp_dial(&h.at, 5, &e);
        assert_true(*at >= 0);
        if (i % 7 == 0) assert_true(send(*at, "\x16\x03\x01\x02\x00\x01", 1 + (size_t)i % 6, MSG_NOSIGNAL) > 0);
        if (i % 11 == 0) send(*at, "not at all TLS", 14, MSG_NOSIGNAL);
        if (i % 1000 == 999) {
            peer *honest;
            double t = clock_now();
            assert_ok(peer_dial(&honest, &h.at, &self, &use, &e), &e);
            if (clock_now() - t > slowest) slowest = clock_now() - t;
            peer_close(honest);
        }
    }
    double seconds;
    assert_ok(peer_ping(p, PEER_CONTROL, 8, &seconds, &e), &e);
    for (int i = 0; i < OPEN; i++) close(fd[i]);
    assert_true(refused_by_now(&h, FLOOD) >= FLOOD);
    long grown = resident_kib() - before;
    printf("flood: honest connections took %.1f ms at most, memory grew by %ld KiB\n", slowest * 1e3, grown);
#if !defined(SANITIZED)
    assert_true(grown < 64 << 10);
#endif
    peer_close(p);
    close_house(&h);
}

/* A connection that stands still half-way is closed after its time. */
static void slow_ones_are_closed(void **unused)
{
    (void)unused;
    house h;
    err e = {0};
    open_house(&h, 3000);
    double t = clock_now();
    int fd = tcp_dial(&h.at, 5, &e);
    char c[100];
    assert_true(fd >= 0);
    assert_int_equal(send(fd, "\x16\x03\x01\x02\x00\x01", 6, 0), 6);
    while (!door_refused(h.d) && clock_now() - t < 20) {
        send(fd, "", 1, MSG_NOSIGNAL);
        usleep(300000);
    }
    double took = clock_now() - t;
    assert_true(took > 4.5 && took < 5 + 2 * test_slowness());
    while (tcp_wait(fd, false, clock_now() + 5) && recv(fd, c, sizeof c, 0) > 0) continue;
    assert_true(recv(fd, c, sizeof c, 0) <= 0);
    close(fd);
    close_house(&h);
}

/* A process whose connections are fine but which says nothing counts as dead after the silence; one that has nothing to
 * say but lives stays. */
static void silence_is_noticed(void **unused)
{
    (void)unused;
    house h, client = {.lock = PTHREAD_MUTEX_INITIALIZER};
    peer_self self;
    hello mine, theirs, bulk_reply;
    int rc;
    err e = {0};
    peer *lively;
    open_house(&h, 1000);
    self_of_test(&self, 1000);
    peer_use use = house_use(&client);
    assert_ok(peer_dial(&lively, &h.at, &self, &use, &e), &e);
    await(&h.entered, 1);
    mine = self.me;
    mine.role = HELLO_CONTROL;
    frames *control = knock_and_hear(&h, &mine, &theirs, &rc);
    mine.role = HELLO_BULK;
    memcpy(mine.token, theirs.token, HELLO_TOKEN);
    frames *bulk = knock_and_hear(&h, &mine, &bulk_reply, &rc);
    await(&h.entered, 2);
    double t = clock_now();
    await(&h.lost, 1);
    double took = clock_now() - t;
    assert_non_null(strstr(h.why, "silent for 1."));
    assert_true(took > 0.8 && took < 3 * test_slowness());
    usleep(1500000);
    assert_int_equal(atomic_load(&h.lost), 1);
    assert_int_equal(atomic_load(&client.lost), 0);
    assert_true(peer_rtt(lively) > 0);
    frames_close(control);
    frames_close(bulk);
    peer_close(lively);
    close_house(&h);
}

static void links_are_measured(void **unused)
{
    (void)unused;
    house h;
    peer_self self;
    link_speed speed = {0};
    err e = {0};
    open_house(&h, 3000);
    self_of_test(&self, 3000);
    assert_ok(link_measure(&speed, NULL, &h.at, &self, &e), &e);
    printf("8 KiB there and back: %.1f us, p99 %.1f us; one connection: %.0f MB/s\n", speed.rtt_p50 * 1e6,
           speed.rtt_p99 * 1e6, speed.bytes_per_s * 1e-6);
    assert_true(speed.rtt_p50 > 0 && speed.rtt_p50 <= speed.rtt_p99);
    assert_true(speed.bytes_per_s > 1e6);
    close_house(&h);
}
int main(void)
{
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_find_each_other),
        cmocka_unit_test(nobody_is_named),
        cmocka_unit_test(who_does_not_fit_stays_outside),
        cmocka_unit_test(foreign_bulk_connections_are_refused),
        cmocka_unit_test(quick_pairs_find_each_other),
        cmocka_unit_test(wrong_messages_end_the_connection),
        cmocka_unit_test(replayed_handshakes_are_refused),
        cmocka_unit_test(floods_do_not_keep_others_out),
        cmocka_unit_test(slow_ones_are_closed),
        cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(links_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
