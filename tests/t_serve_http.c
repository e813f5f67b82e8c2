/* t_serve_http.c - requests and replies on real loopback sockets: framing, limits, certificates. */
#include "http_rig.h"

static void plain_requests(void **state)
{
    (void)state;
    int fd = dial();
    put(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(fd, "{\"status\":\"ok\"}", 2));
    expect_status("200");
    assert_non_null(strstr(got, "Content-Type: application/json\r\n"));
    put(fd, "GET /nothing?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* the connection stays */
    assert_true(get(fd, "}}", 2));
    expect_status("404");
    fake.text = "hello";
    put(fd, post_text("{\"prompt\":\"a\"}"));
    assert_true(get(fd, "cached_tokens", 2));
    expect_status("200");
    put(fd, "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(fd, "\r\n\r\n", 2));
    expect_status("200");
    put(fd, "BREW /coffee HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(fd, "}}", 2));
    expect_status("404");
    put(fd, "BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(fd, "}}", 2));
    expect_status("405");
    assert_non_null(strstr(got, "Allow: GET"));
    put(fd, "GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(get(fd, "ok", 2));
    put(fd, "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:5173\r\n"
            "Access-Control-Request-Method: POST\r\n\r\n");
    assert_true(get(fd, "\r\n\r\n", 2));
    expect_status("204");
    assert_non_null(strstr(got, "Access-Control-Allow-Origin: http://localhost:5173\r\n"));
    put(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
            "chunked\r\n\r\n5\r\n{\"con\r\nb\r\ntent\":\"ab\"}\r\n0\r\n\r\n");
    assert_true(get(fd, "]}", 2));
    expect_status("200");
    assert_non_null(strstr(got, "Connection: close\r\n")); /* chunks that a proxy reads otherwise hide no request */
    close(fd);
    fd = dial();
    put(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: "
            "4\r\n\r\n\x1f\x8b\b\b");
    assert_true(get(fd, "}}", 2));
    expect_status("415");
    assert_non_null(strstr(got, "Accept-Encoding: identity\r\n"));
    assert_non_null(strstr(got, "Content-Encoding: gzip: send the body as it is"));
    put(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: identity\r\nContent-Length: "
            "16\r\n\r\n{\"content\":\"ab\"}");
    assert_true(get(fd, "]}", 2));
    expect_status("200");
    close(fd);
}

static void framing_is_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: "
        "3\r\n\r\n0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2, 2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char two[700]; /* what is hidden behind must not be answered */
        snprintf(two, sizeof two, "%sGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", bad[i]);
        raw(two);
        bool refused = n_got == 0 || strncmp(got, "HTTP/1.1 4", 10) == 0;
        if (!refused || strstr(got, "\"object\":\"list\"")) fail_msg("taken: %s -> %s", bad[i], got);
        if (n_got && strstr(got + 1, "HTTP/1.1 4")) fail_msg("answered twice: %s -> %s", bad[i], got);
    }
    raw("GET /health HTTP/1.1\r\n\r\n");
    expect_status("400");
    assert_non_null(strstr(got, "Host is missing"));
    assert_null(strstr(got + 1, "HTTP/1.1")); /* answered once */
    raw("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n");
    assert_non_null(strstr(got, "Host stands twice"));
    static const char *const heads[] = {
        "GET /v1/models HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Y : 1\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX Y: 1\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Y: a\1b\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Y: a\177b\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Y: a\rb\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Y: a\r\n folded\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\nX-Y: a\r\n\r\n",
        "GET /v1/\1models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models\177 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n{}   ",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        raw(heads[i]);
        if (strncmp(got, "HTTP/1.1 400", 12) != 0) fail_msg("taken: %s -> %s", heads[i], got);
    }
    raw("nonsense\r\n\r\n");
    assert_true(n_got == 0 || strncmp(got, "HTTP/1.1 4", 10) == 0 || strncmp(got, "HTTP/1.0 4", 10) == 0);
}

/* A NUL byte wherever a head can have one; '@' stands for it. */
static void nul_bytes_are_refused(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GE@T /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET@ /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models@ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models@x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models@x?y=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models?y=@1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1@\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost@\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost@.example\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: a@@b\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: a@b: c\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: @\r\nY: 1\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nX: @@\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\n@X: 1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nX@: 1\r\nHost: localhost\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n@\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2@5\r\n\r\n{}",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[300];
        size_t n = strlen(heads[i]);
        memcpy(text, heads[i], n);
        for (char *at; (at = memchr(text, '@', n));) *at = 0;
        int fd = dial();
        assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
        get(fd, NULL, 0.5);
        close(fd);
        bool refused = n_got == 0 || strncmp(got, "HTTP/1.1 4", 10) == 0 || strncmp(got, "HTTP/1.0 505", 12) == 0;
        if (!refused) fail_msg("taken: %s -> %s", heads[i], got);
    }
    raw("GET /v1/models?a=b&c=d&e HTTP/1.1\r\nHost: localhost\r\nX:\r\nY: \r\nZ: a:b \xc3\xa9\t\r\n\r\n");
    expect_status("200");
}

static void large_heads_and_bodies(void **state)
{
    (void)state;
    static char big[80000];
    int fd = dial();
    put(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(big, 'x', 70000);
    big[70000] = 0;
    put(fd, big);
    put(fd, "\r\n\r\n");
    get(fd, "\r\n\r\n", 2);
    expect_status("431");
    close(fd);
    fd = dial();
    put(fd, "GET /");
    put(fd, big);
    put(fd, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    get(fd, "\r\n\r\n", 2);
    expect_status("414");
    close(fd);
    /* a declared length is refused before the body, and the refusal arrives although the client goes on sending */
    fd = dial();
    put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000\r\n\r\n");
    assert_true(get(fd, "}}", 2));
    expect_status("413");
    close(fd);
    for (int i = 0; i < 20; i++) {
        fd = dial();
        put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n");
        for (int k = 0; k < 40; k++) put(fd, big);
        assert_true(get(fd, "}}", 2));
        expect_status("413");
        close(fd);
    }
    fd = dial();
    put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000\r\nExpect: "
            "100-continue\r\n\r\n");
    assert_true(get(fd, "}}", 2));
    expect_status("413");
    close(fd);
    /* an undeclared one is read, not kept, and refused */
    fd = dial();
    put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int k = 0; k < 150; k++) {
        put(fd, "11170\r\n");
        put(fd, big);
        put(fd, "\r\n");
    }
    put(fd, "0\r\n\r\n");
    assert_true(get(fd, "}}", 3));
    expect_status("413");
    close(fd);
    fd = dial();
    put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_true(get(fd, "100 Continue", 2));
    put(fd, "{\"a\":");
    assert_true(get(fd, "}}", 2));
    expect_status("400");
    close(fd);
}

static const char *pem(const char *name, const char *kind)
{
    const char *path = temp_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "-----BEGIN %s-----\nAAAA\n-----END %s-----\n", kind, kind);
    fclose(f);
    return path;
}

/* What is wrong with a certificate and its key. */
static void certificates_and_keys(void **state)
{
    (void)state;
    static const char *const row[][2] = {{"CERTIFICATE", "holds no private key"},
                                         {"ENCRYPTED PRIVATE KEY", "is encrypted"},
                                         {"OPENSSH PRIVATE KEY", "is a key of OpenSSH"},
                                         {"PRIVATE KEY", "is not the key of"}};
    char cert[300], key[300];
    serve_options own = opt;
    server other;
    snprintf(cert, sizeof cert, "%s", pem("cert.pem", "CERTIFICATE"));
    for (int i = 0; i < 4; i++) {
        err e = {0};
        http *none;
        snprintf(key, sizeof key, "%s", pem("key.pem", row[i][0]));
        own.tls_cert = cert, own.tls_key = key;
        assert_ok(server_open(&other, &own, &e), &e);
        assert_int_equal(http_open(&none, &other, &e), ERR_USAGE);
        server_close(&other);
        if (!strstr(e.msg, row[i][1]) || !strstr(e.msg, key)) fail_msg("%s: %s", row[i][0], e.msg);
    }
}

static void pipelined_requests(void **state)
{
    (void)state;
    fake.text = "hello";
    static char text[1 << 17];
    snprintf(text, sizeof text, "%s%s%s", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
             post_text("{\"prompt\":\"a\",\"stream\":true}"),
             "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    int fd = dial();
    put(fd, text);
    assert_true(get(fd, NULL, 3));
    char *one = strstr(got, "\"ok\""), *two = strstr(got, "[DONE]"), *three = strstr(got, "\"list\"");
    assert_true(one && two && three && one < two && two < three);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_requests),        cmocka_unit_test(framing_is_strict),
        cmocka_unit_test(nul_bytes_are_refused), cmocka_unit_test(large_heads_and_bodies),
        cmocka_unit_test(certificates_and_keys), cmocka_unit_test(pipelined_requests),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
