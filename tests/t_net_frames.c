/* t_net_frames.c - TLS and frames: what one end sends the other gets, in any sizes, from several threads; keys that
 * differ, foreign bytes and records out of order are refused. */
#include "net_rig.h"

#include <unistd.h>

static void both_ends_agree_on_a_key(void **unused)
{
    (void)unused;
    tls *c[2];
    span got = {0};
    err e = {0};
    rig_pair(c);
    for (int from = 0; from < 2; from++) {
        uint8_t bytes[TLS_RECORD];
        rig_fill(bytes, (uint64_t)from, sizeof bytes);
        const uint64_t before = tls_bytes_out(c[from]);
        assert_ok(tls_send(c[from], bytes, sizeof bytes, &e), &e);
        assert_int_equal(tls_bytes_out(c[from]) - before, TLS_RECORD + TLS_AROUND);
        assert_true(tcp_wait(tls_socket(c[!from]), false, clock_now() + 5));
        int rc;
        while ((rc = tls_recv(c[!from], &got, &e)) > 0) tcp_wait(tls_socket(c[!from]), false, clock_now() + 5);
        assert_ok(rc, &e);
        assert_true(span_eq(got, span_of(bytes, sizeof bytes)));
    }
    tls_bye(c[0]);
    assert_true(tcp_wait(tls_socket(c[1]), false, clock_now() + 5));
    assert_ok(tls_recv(c[1], &got, &e), &e);
    assert_int_equal(got.n, 0);
    for (int i = 0; i < 2; i++) tls_close(c[i]);
}

static void another_key_is_refused(void **unused)
{
    (void)unused;
    for (int turn = 0; turn < 3; turn++) {
        uint8_t other[KEY_BYTES];
        tls *c[2];
        int fd[2], rc[2];
        err e[2] = {{0}, {0}};
        memcpy(other, rig_key, sizeof other);
        other[turn * 15] ^= 1 << turn;
        rig_sockets(fd);
        for (int i = 0; i < 2; i++) assert_ok(tls_open(&c[i], fd[i], i == 1, i ? rig_key : other, NULL, &e[i]), &e[i]);
        rig_shake(c, rc, e);
        assert_int_equal(rc[0], ERR_FORMAT);
        assert_string_equal(e[0].msg, "the key is not accepted");
        assert_int_equal(rc[1], ERR_FORMAT);
        assert_string_equal(e[1].msg, "the key is not accepted");
        for (int i = 0; i < 2; i++) tls_close(c[i]);
    }
}

/* One end is TLS, the other sends plain bytes. */
static void foreign_bytes_are_refused(void **unused)
{
    (void)unused;
    static const char *const says[] = {"GET / HTTP/1.1\r\n\r\n",
                                       "SSH-2.0-x\r\n",
                                       "\x16\x03\x01\xff\xff\x01",
                                       "",
                                       "\x16\x03\x03\x00\x04\x01\x00\x00\x00",
                                       "\xff\xff\xff\xff\xff\xff\xff\xff"};
    static const size_t n[] = {18, 11, 6, 0, 9, 8};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
            tls *c;
            int fd[2], rc;
            err e = {0};
            rig_sockets(fd);
            assert_ok(tls_open(&c, fd[side], side == 1, rig_key, NULL, &e), &e);
            assert_int_equal(send(fd[!side], says[i], n[i], 0), n[i]);
            shutdown(fd[!side], SHUT_WR);
            while ((rc = tls_shake(c, &e)) > 0) tcp_wait(fd[side], false, clock_now() + 5);
            assert_true(rc < 0 && *e.msg);
            tls_close(c);
            close(fd[!side]);
        }
}

/* ---- frames */

typedef struct sender {
    frames *f;
    uint32_t bytes;
    uint64_t channel; /* of the first */
    int count, rc;
    pthread_t thread;
} sender;

static void *send_all(void *arg)
{
    sender *s = arg;
    uint8_t *p = mem_alloc(s->bytes);
    for (int i = 0; i < s->count && !s->rc; i++) {
        frame_head h = {s->bytes, 9, s->channel + (uint64_t)i};
        rig_fill(p, h.channel, h.bytes);
        s->rc = frame_send(s->f, &h, p, NULL);
    }
    mem_free(p);
    return NULL;
}

static int receive(frames *f, rig_sink *to, int count, err *e)
{
    frame_sink sink = rig_sink_of(to);
    int rc = OK;
    while (!rc && to->frames < count) rc = frame_take(f, &sink, clock_now() + 10, e);
    return rc;
}

static void open_both(frames *f[2])
{
    tls *c[2];
    rig_pair(c);
    for (int i = 0; i < 2; i++) assert_non_null(f[i] = frames_open(c[i]));
}

static void close_both(frames *f[2])
{
    for (int i = 0; i < 2; i++) frames_close(f[i]);
}

static void frames_of_any_size_arrive(void **unused)
{
    (void)unused;
    static const uint32_t sizes[] = {0, 1, 17, FRAME_SMALL - 1, FRAME_SMALL, FRAME_SMALL + 1, 2 * FRAME_SMALL, 1 << 20};
    frames *f[2];
    err e = {0};
    open_both(f);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sender s = {f[i % 2], sizes[i], 100 * i, 3, 0, 0};
        rig_sink got = {.most = sizes[i]};
        pthread_create(&s.thread, NULL, send_all, &s);
        assert_ok(receive(f[1 - i % 2], &got, 3, &e), &e);
        pthread_join(s.thread, NULL);
        assert_int_equal(got.bytes, 3 * (uint64_t)sizes[i]);
        for (uint64_t k = 0; k < 3; k++) assert_int_equal(got.channel[k], 100 * i + k);
    }
    close_both(f);
}

/* Small frames of three threads get through between the records of large ones, which stay whole. */
static void small_frames_pass_large_ones(void **unused)
{
    (void)unused;
    enum { SMALL = 200 };
    frames *f[2];
    err e = {0};
    open_both(f);
    /* larger than what sockets hold: they are under way as long as nobody reads */
    sender large[2] = {{f[0], 32 << 20, 1, 1, 0, 0}, {f[0], 24 << 20, 2, 1, 0, 0}};
    sender small[2] = {{f[0], 100, 1000, SMALL, 0, 0}, {f[0], FRAME_SMALL, 5000, SMALL, 0, 0}};
    rig_sink got = {.most = 32 << 20};
    for (int i = 0; i < 2; i++) pthread_create(&large[i].thread, NULL, send_all, &large[i]);
    frame_sink sink = rig_sink_of(&got);
    for (int i = 0; i < 50; i++) assert_ok(frame_take(f[1], &sink, clock_now() + 10, &e), &e);
    for (int i = 0; i < 2; i++) pthread_create(&small[i].thread, NULL, send_all, &small[i]);
    usleep(100000); /* until they wait for their turn */
    assert_ok(receive(f[1], &got, 2 * SMALL + 2, &e), &e);
    for (int i = 0; i < 2; i++) pthread_join(large[i].thread, NULL), pthread_join(small[i].thread, NULL);
    assert_int_equal(got.large, 2);
    int before = 0;
    uint64_t next[2] = {1000, 5000};
    for (int i = 0; i < got.frames; i++) {
        if (got.channel[i] <= 2) break;
        before++;
    }
    for (int i = 0; i < got.frames; i++)
        if (got.channel[i] > 2) {
            int which = got.channel[i] >= 5000;
            assert_int_equal(got.channel[i], next[which]++);
        }
    assert_true(before > 10); /* many came while the first large frame was under way */
    close_both(f);
}

/* What costs beside the payload: from 256 KiB on at most 1 %. */
static void heads_are_small(void **unused)
{
    (void)unused;
    frames *f[2];
    err e = {0};
    open_both(f);
    uint64_t before = tls_bytes_out(frames_tls(f[0]));
    sender s = {f[0], 256 << 10, 7, 4, 0, 0};
    rig_sink got = {.most = 256 << 10};
    pthread_create(&s.thread, NULL, send_all, &s);
    assert_ok(receive(f[1], &got, 4, &e), &e);
    pthread_join(s.thread, NULL);
    assert_true(tls_bytes_out(frames_tls(f[0])) - before <= (uint64_t)4 * (256 << 10) * 101 / 100);
    close_both(f);
}

/* A record as the tests write it: head fields, then n bytes. */
typedef struct raw {
    uint32_t bytes;
    uint16_t kind, further;
    uint64_t channel;
    uint32_t n;
} raw;

static void send_raw(frames *f, const raw *r)
{
    static uint8_t p[TLS_RECORD];
    err e = {0};
    memcpy(p, &r->bytes, 4);
    memcpy(p + 4, &r->kind, 2);
    memcpy(p + 6, &r->further, 2);
    memcpy(p + 8, &r->channel, 8);
    for (uint32_t i = 0; i < r->n; i++) p[FRAME_HEAD + i] = rig_byte(r->channel, r->further * FRAME_SMALL + i);
    assert_ok(tls_send(frames_tls(f), p, FRAME_HEAD + r->n, &e), &e);
}

static void records_out_of_order_are_refused(void **unused)
{
    (void)unused;
    enum { L = FRAME_SMALL + 10, MOST = 1 << 20 };
    static const struct {
        raw record[3];
        int n;
        const char *says;
    } row[] = {
        {{{5, 9, 0, 1, 4}}, 1, "a frame of 5 bytes has 4"},
        {{{5, 9, 0, 1, 6}}, 1, "a frame of 5 bytes has 6"},
        {{{5, 9, 2, 1, 5}}, 1, "a record without the head of a frame"},
        {{{L, 9, 1, 1, 10}}, 1, "a record of a frame that is not under way"},
        {{{UINT32_MAX, 9, 0, 1, FRAME_SMALL}}, 1, "4294967295 bytes are more than 1048576"},
        {{{MOST + 1, 9, 0, 1, FRAME_SMALL}}, 1, "1048577 bytes are more than 1048576"},
        {{{L, 9, 0, 1, FRAME_SMALL - 1}}, 1, "16367 bytes of a frame where 16378 are left"},
        {{{L, 9, 0, 1, FRAME_SMALL}, {L, 9, 0, 2, FRAME_SMALL}}, 2, "a large frame begins inside another"},
        {{{L, 9, 0, 1, FRAME_SMALL}, {L, 9, 1, 2, 10}}, 2, "a record of a frame that is not under way"},
        {{{L, 9, 0, 1, FRAME_SMALL}, {L, 8, 1, 1, 10}}, 2, "a record of a frame that is not under way"},
        {{{L, 9, 0, 1, FRAME_SMALL}, {L, 9, 1, 1, 11}}, 2, "11 bytes of a frame where 10 are left"},
        {{{L, 9, 0, 1, FRAME_SMALL}, {L, 9, 1, 1, 10}, {L, 9, 1, 1, 0}},
         3,
         "a record of a frame that is not under way"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        frames *f[2];
        err e = {0};
        rig_sink got = {.most = MOST};
        open_both(f);
        for (int k = 0; k < row[i].n; k++) send_raw(f[0], &row[i].record[k]);
        int rc = receive(f[1], &got, 100, &e);
        assert_true(rc < 0);
        assert_string_equal(e.msg, row[i].says);
        mem_free(got.room);
        close_both(f);
    }
    for (size_t n = 1; n < FRAME_HEAD; n++) {
        frames *f[2];
        err e = {0};
        rig_sink got = {.most = MOST};
        open_both(f);
        assert_ok(tls_send(frames_tls(f[0]), "0123456789abcdef", n, &e), &e);
        assert_int_equal(receive(f[1], &got, 1, &e), ERR_FORMAT);
        close_both(f);
    }
}

/* A writer that waits for a peer that takes nothing wakes up when the connection is cut. */
static void cut_wakes_writers(void **unused)
{
    (void)unused;
    frames *f[2];
    open_both(f);
    sender s = {f[0], 1 << 20, 1, 64, 0, 0};
    pthread_create(&s.thread, NULL, send_all, &s);
    usleep(200000); /* whatever was sent by now, 64 MiB are more than a kernel keeps */
    double t = clock_now();
    frames_cut(f[0]);
    pthread_join(s.thread, NULL);
    assert_true(clock_now() - t < 1 * test_slowness());
    assert_int_equal(s.rc, ERR_IO);
    assert_false(frame_offer(f[0], &(frame_head){0, 9, 1}, NULL));
    close_both(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_agree_on_a_key),         cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(foreign_bytes_are_refused),        cmocka_unit_test(frames_of_any_size_arrive),
        cmocka_unit_test(small_frames_pass_large_ones),     cmocka_unit_test(heads_are_small),
        cmocka_unit_test(records_out_of_order_are_refused), cmocka_unit_test(cut_wakes_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
