/* t_serve_http_clients.c - clients that leave, are slow, or are many; what comes back when they have gone; an orderly
 * end. */
#include "http_rig.h"

static bool wait_running(int n, double seconds)
{
    engine_stats st;
    for (double end = clock_now() + seconds; clock_now() < end; usleep(2000)) {
        engine_get_stats(srv.g, &st);
        if (st.running == n) return true;
    }
    return false;
}

static bool wait_active(int n, double seconds)
{
    for (double end = clock_now() + seconds; clock_now() < end; usleep(2000))
        if (http_active(listener) == n) return true;
    return false;
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 8192; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Clients that end in the middle of a head or a body, by half or whole, leave nothing behind for long. */
static void those_who_hang_up_are_forgotten(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"content\":",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"co",
        "POST /tokenize HTTP/1.1\r\nHost: localh",
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    enum { CLIENTS = 40 };
    int fd[CLIENTS], before = count_descriptors();
    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = dial();
        put(fd[i], parts[i % 4]);
        shutdown(fd[i], SHUT_WR);
    }
    usleep(20000);
    for (int i = 0; i < CLIENTS; i++) close(fd[i]);
    double end = clock_now() + 2 * test_slowness();
    while (count_descriptors() > before && clock_now() < end) usleep(20000);
    assert_true(count_descriptors() <= before);
    int one = dial(); /* what was whole is answered */
    put(one, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n{\"content\":\"ab\"}");
    shutdown(one, SHUT_WR);
    assert_true(get(one, "]}", 2));
    close(one);
}

/* Streams whose clients leave are forgotten too while others only keep their connection. */
static void streams_that_are_left_are_forgotten(void **state)
{
    (void)state;
    enum { IDLE = 40, STREAMS = 20 };
    int idle[IDLE], fd[STREAMS];
    fake.text = NULL;
    fake.delay_us = 2000;
    for (int i = 0; i < IDLE; i++) {
        idle[i] = dial();
        put(idle[i], "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_true(get(idle[i], "ok", 2));
    }
    int before = count_descriptors();
    for (int i = 0; i < STREAMS; i++) {
        fd[i] = dial();
        put(fd[i], post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":1000000}"));
        assert_true(get(fd[i], "data: {", 2));
    }
    for (int i = 0; i < STREAMS; i++) close(fd[i]);
    double end = clock_now() + 2 * test_slowness();
    while (count_descriptors() > before && clock_now() < end) usleep(20000);
    assert_true(count_descriptors() <= before);
    for (int i = 0; i < IDLE; i++) close(idle[i]);
    fake.delay_us = 0;
    assert_true(wait_active(0, 30));
}

static long resident_bytes(void)
{
    long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Six seconds after many connections have gone, memory is within 10 % and 8 MiB of what it was. */
static void memory_comes_back(void **state)
{
    (void)state;
#if defined(SANITIZED)
    skip_msg("a sanitizer has memory of its own");
    return;
#endif
    enum { IDLE = 1000, SLOW = 20 };
    static int fd[IDLE + SLOW];
    long before = resident_bytes(), peak;
    fake.text = NULL;
    for (int i = 0; i < IDLE; i++) {
        fd[i] = dial();
        if (fd[i] < 0) fail_msg("connection %d: %s", i, strerror(errno));
        if (i % 2) put(fd[i], "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (int i = IDLE; i < IDLE + SLOW; i++) {
        fd[i] = dial();
        put(fd[i], post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":60000}"));
    }
    for (int i = 0; i < 1000 && fake.paused < SLOW; i++) usleep(10000);
    peak = resident_bytes();
    for (int i = 0; i < IDLE + SLOW; i++) close(fd[i]);
    assert_true(wait_active(0, 5));
    long after = 0, most = before + before / 10 + (8 << 20);
    for (int i = 0; i < 60 && (!after || after > most); i++) {
        usleep(100000);
        after = resident_bytes();
    }
    printf("memory: %ld MiB before, %ld with clients, %ld after\n", before >> 20, peak >> 20, after >> 20);
    assert_true(after <= most);
}

/* Bodies that are handled beside: the replies are as ever, also of the next request on the connection. */
static void put_long(int fd)
{
    static char text[1 << 20];
    static const char body[] = "{\"prompt\":\"a\",\"max_tokens\":3";
    enum { BYTES = 600000 };
    int n = snprintf(text, sizeof text,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", BYTES);
    memset(text + n, ' ', BYTES);
    memcpy(text + n, body, sizeof body - 1);
    text[n + BYTES - 1] = '}';
    text[n + BYTES] = 0;
    put(fd, text);
}

static void long_bodies(void **state)
{
    (void)state;
    int fd[8];
    fake.text = "hello";
    for (int i = 0; i < 8; i++) put_long(fd[i] = dial());
    for (int i = 0; i < 8; i++) {
        assert_true(get(fd[i], "\"usage\"", 5));
        expect_status("200");
        put(fd[i], "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_true(get(fd[i], NULL, 5));
        assert_non_null(strstr(got, "\"ok\""));
        close(fd[i]);
    }
    put_long(fd[0] = dial());
    close(fd[0]); /* before its turn comes */
    assert_true(wait_active(0, 5));
}

static void streams_arrive_as_they_are_made(void **state)
{
    (void)state;
    fake.text = NULL;
    fake.delay_us = 50000;
    int fd = dial();
    double began = clock_now();
    put(fd, post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":20}"));
    assert_true(get(fd, "text/event-stream", 2));
    assert_true(clock_now() - began < 0.5);
    assert_true(get(fd, "data: {", 2) || strstr(got, "data: {"));
    assert_true(clock_now() - began < 0.9); /* not after all 20 tokens */
    assert_true(get(fd, "data: [DONE]", 5));
    close(fd);
    fake.delay_us = 0;
}

static void a_client_that_leaves_frees_its_query(void **state)
{
    (void)state;
    fake.text = NULL;
    for (int form = 0; form < 3; form++) {
        fake.delay_us = 1000;
        int fd = dial();
        put(fd, post_text(form == 1 ? "{\"prompt\":\"a\",\"max_tokens\":1000000}"
                                    : "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":1000000}"));
        assert_true(wait_running(1, 30));
        if (form == 2) { /* while nothing is sent: the engine is slow */
            fake.delay_us = 200000;
            usleep(50000);
        }
        double began = clock_now();
        close(fd);
        assert_true(wait_running(0, 30));
        assert_true(clock_now() - began < 1);
        assert_true(wait_active(0, 30));
    }
    fake.delay_us = 1000; /* closing the sending half counts as leaving */
    int fd = dial();
    put(fd, post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":1000000}"));
    assert_true(get(fd, "data: {", 2));
    shutdown(fd, SHUT_WR);
    assert_true(wait_running(0, 30));
    assert_true(get(fd, NULL, 2) || errno == ECONNRESET);
    close(fd);
    fake.delay_us = 0;
    assert_true(wait_active(0, 30));
}

/* What /metrics counts of an endpoint's requests with a status. */
static int count_requests(const char *path, const char *status)
{
    char name[120];
    raw("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    expect_status("200");
    snprintf(name, sizeof name, "requests_total{endpoint=\"%s\",status=\"%s\"} ", path, status);
    const char *at = strstr(got, name);
    return at ? atoi(at + strlen(name)) : 0;
}

/* A reply that nobody waits for is counted as 499 and not sent, whether its client left or closed its sending half. */
static void who_leaves_gets_no_invented_reply(void **state)
{
    (void)state;
    static const char *const path[] = {"/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses",
                                       "/completion"};
    static const char *const body[] = {
        "{\"prompt\":\"a\",\"max_tokens\":1000000}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1000000}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1000000}",
        "{\"input\":\"a\",\"max_output_tokens\":1000000}",
        "{\"prompt\":\"a\",\"n_predict\":1000000}",
    };
    fake.text = NULL;
    fake.delay_us = 1000;
    for (int i = 0; i < 15; i++) {
        const int k = i % 5, left = count_requests(path[k], "499"), failed = count_requests(path[k], "500"),
                  good = count_requests(path[k], "200");
        char text[500];
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", path[k],
                 strlen(body[k]), body[k]);
        int fd = dial();
        put(fd, text);
        if (i < 10) assert_true(wait_running(1, 30));
        if (i >= 5) {
            shutdown(fd, SHUT_WR);
            assert_true(get(fd, NULL, 2) || errno == ECONNRESET);
            if (n_got) fail_msg("%s: invented: %s", path[k], got);
        }
        close(fd);
        assert_true(wait_running(0, 30));
        assert_true(wait_active(0, 30));
        assert_int_equal(count_requests(path[k], "499"), left + 1);
        assert_int_equal(count_requests(path[k], "500"), failed);
        assert_int_equal(count_requests(path[k], "200"), good);
    }
    fake.delay_us = 0;
}

static void a_client_that_does_not_read_waits_alone(void **state)
{
    (void)state;
    fake.text = NULL;
    fake.paused = 0;
    int fd = dial();
    put(fd, post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":60000,\"seed\":1}"));
    for (int i = 0; i < 6000 && !fake.paused; i++) usleep(5000);
    assert_true(fake.paused > 0);
    int other = dial(); /* others are served meanwhile */
    put(other, post_text("{\"prompt\":\"a\",\"max_tokens\":100}"));
    assert_true(get(other, "cached_tokens", 2));
    close(other);
    size_t events = 0; /* and nothing was lost */
    char tail[41] = "", part[65536];
    for (ssize_t n; (n = recv(fd, part, sizeof part - 1, 0)) > 0;) {
        part[n] = 0;
        for (char *p = part; (p = strstr(p, "\"finish_reason\"")); p++) events++;
        snprintf(tail, sizeof tail, "%.40s", n > 40 ? part + n - 40 : part);
        if (strstr(tail, "[DONE]")) break;
    }
    close(fd);
    assert_non_null(strstr(tail, "[DONE]"));
    assert_true(events > 59900 && events <= 60000); /* a match may be cut by a read */
}

/* Large requests are read one after the other by a thread of their own. Behind 64 that wait the next ones are refused
 * at once; small ones are served meanwhile, and all that were taken are answered. */
static void large_requests_wait_in_turn(void **state)
{
    (void)state;
    enum { TAKEN = 64 + 1, MORE = 3, BYTES = 300 << 10 };
    static const char begin[] = "{\"max_tokens\":1,\"prompt\":\"";
    int fd[TAKEN + MORE];
    char *body = malloc(BYTES + 1), head[100];
    assert_non_null(body);
    fake.text = "x";
    memset(body, 'a', BYTES);
    body[BYTES] = 0;
    memcpy(body, begin, sizeof begin - 1);
    memcpy(body + BYTES - 2, "\"}", 2);
    snprintf(head, sizeof head, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
             BYTES);
    atomic_store(&fake.reading, true);
    for (int i = 0; i < TAKEN + MORE; i++) {
        fd[i] = dial();
        assert_true(fd[i] >= 0);
        put(fd[i], head);
        put(fd[i], body);
        if (!i) usleep(200000); /* the first is being read */
        if (i == TAKEN - 1) usleep(200000);
    }
    for (int i = TAKEN; i < TAKEN + MORE; i++) {
        get(fd[i], "}}", 5);
        expect_status("503");
        assert_non_null(strstr(got, "too many large requests at once"));
        close(fd[i]);
    }
    int small = dial();
    put(small, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(small, "ok", 2));
    close(small);
    atomic_store(&fake.reading, false);
    for (int i = 0; i < TAKEN; i++) {
        assert_true(get(fd[i], "\"finish_reason\"", 30));
        expect_status("200");
        close(fd[i]);
    }
    free(body);
    fake.text = NULL;
}

static void many_streams_at_once(void **state)
{
    (void)state;
    enum { STREAMS = 50, TOKENS = 200 };
    int fd[STREAMS];
    static size_t letters[STREAMS];
    bool done[STREAMS] = {false};
    fake.text = NULL;
    memset(letters, 0, sizeof letters);
    double began = clock_now();
    char body[100];
    snprintf(body, sizeof body, "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":%d}", TOKENS);
    for (int i = 0; i < STREAMS; i++) {
        fd[i] = dial();
        put(fd[i], post_text(body));
    }
    for (int left = STREAMS; left && clock_now() - began < 30;)
        for (int i = 0; i < STREAMS; i++) {
            char part[65536];
            if (done[i]) continue;
            ssize_t n = recv(fd[i], part, sizeof part - 1, MSG_DONTWAIT);
            if (n <= 0) continue;
            part[n] = 0;
            for (char *p = part; (p = strstr(p, "\"text\":\"")); p++) letters[i]++;
            if (strstr(part, "[DONE]")) {
                done[i] = true;
                left--;
            }
        }
    double seconds = clock_now() - began;
    for (int i = 0; i < STREAMS; i++) {
        assert_true(done[i]);
        assert_true(letters[i] >= TOKENS - 4);
        close(fd[i]);
    }
    printf("%d streams of %d tokens in %.3f s: %.0f events/s\n", STREAMS, TOKENS, seconds, STREAMS * TOKENS / seconds);
    assert_true(wait_active(0, 30));
}

static void slow_heads_are_closed(void **state)
{
    (void)state;
    int fd = dial(), kept = dial();
    put(kept, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(kept, "ok", 2));
    put(fd, "GET /health HTTP/1.1\r\nHo");
    put(kept, "GET /hea");
    double began = clock_now();
    for (int i = 0; i < 20; i++) { /* one byte now and then does not help */
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 300) > 0) break;
        put(fd, "s");
        put(kept, "l");
    }
    double seconds = clock_now() - began;
    assert_true(get(fd, NULL, 2) || errno == ECONNRESET);
    assert_true(get(kept, NULL, 2) || errno == ECONNRESET);
    assert_true(seconds > 1.8 && seconds < 5);
    close(fd);
    close(kept);
}

/* Last: what SIGTERM does. Streams finish, new connections are refused, then everything ends quickly. */
static void an_orderly_end(void **state)
{
    (void)state;
    fake.text = NULL;
    fake.delay_us = 20000;
    int fd = dial(), idle = dial(), refused;
    put(idle, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(idle, "ok", 2));
    put(fd, post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":30}"));
    assert_true(get(fd, "data: {", 2));
    atomic_store(&srv.draining, true);
    http_quiesce(listener);
    refused = dial();
    if (refused >= 0) { /* the last one in the kernel's queue is closed without an answer */
        put(refused, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        get(refused, "ok", 0.3);
        assert_null(strstr(got, "\"ok\""));
        close(refused);
    }
    put(idle, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    get(idle, "}}", 1);
    expect_status("503");
    assert_true(get(fd, "data: [DONE]", 5));
    close(idle);
    close(fd);
    double began = clock_now();
    http_close(listener);
    assert_true(clock_now() - began < 1);
    /* and with a stream that does not end */
    err e = {0};
    atomic_store(&srv.draining, false);
    assert_ok(http_open(&listener, &srv, &e), &e);
    fake.delay_us = 1000;
    fd = dial();
    put(fd, post_text("{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":1000000}"));
    assert_true(get(fd, "data: {", 2));
    began = clock_now();
    http_close(listener);
    assert_true(clock_now() - began < 1);
    assert_true(get(fd, NULL, 1) || errno == ECONNRESET);
    close(fd);
    /* and with long bodies that wait to be handled */
    assert_ok(http_open(&listener, &srv, &e), &e);
    int many[8];
    for (int i = 0; i < 8; i++) put_long(many[i] = dial());
    http_close(listener);
    for (int i = 0; i < 8; i++) close(many[i]);
    assert_ok(http_open(&listener, &srv, &e), &e);
    fake.delay_us = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_hang_up_are_forgotten),
        cmocka_unit_test(streams_that_are_left_are_forgotten),
        cmocka_unit_test(memory_comes_back),
        cmocka_unit_test(long_bodies),
        cmocka_unit_test(streams_arrive_as_they_are_made),
        cmocka_unit_test(a_client_that_leaves_frees_its_query),
        cmocka_unit_test(who_leaves_gets_no_invented_reply),
        cmocka_unit_test(a_client_that_does_not_read_waits_alone),
        cmocka_unit_test(large_requests_wait_in_turn),
        cmocka_unit_test(many_streams_at_once),
        cmocka_unit_test(slow_heads_are_closed),
        cmocka_unit_test(an_orderly_end),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
