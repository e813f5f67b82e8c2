/* t_hub_reply.c - heads of a hub's replies: names, sizes, ranges, and when to ask again. */
#include "tests/test.h"

#include "base/mem.h"
#include "hub/hub_reply.h"

static hub_head head_of(const char *lines)
{
    hub_head h;
    hub_head_begin(&h);
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1)
        hub_head_line(&h, span_of(lines, (size_t)(end - lines)));
    return h;
}

static void names_files(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *etag;
        int64_t bytes;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nETag: \"5d8c\"\r\nContent-Length: 70\r\n", "5d8c", 70},
        {"HTTP/2 200 \netag: W/\"5d8c\"\ncontent-length:70\n", "5d8c", 70},
        {"HTTP/1.1 200 OK\nETag: 5d8c\n", "5d8c", -1},
        {"HTTP/1.1 302 Found\nETag: \"other\"\nX-Linked-ETag: \"5f\"\nX-Linked-Size: 9000000000\nContent-Length: 3\n",
         "5f", 9000000000},
        {"HTTP/1.1 302 Found\nETag: \"5f\"\nContent-Length: 3\n", "5f", -1},
        {"HTTP/1.1 200 OK\nETag: \"../x\"\nContent-Length: -70\n", "", -1},
        {"HTTP/1.1 200 OK\nETag: \"a/b\"\nContent-Length: 7e3\n", "", -1},
        {"HTTP/1.1 200 OK\nETag: \".x\"\nContent-Length: 99999999999999999999\n", "", -1},
        {"HTTP/1.1 200 OK\nETag: \"\"\nContent-Length: \n", "", -1},
        {"HTTP/1.1 302 Found\nETag: \"5d\"\nContent-Length: 9\nHTTP/1.1 200 OK\nETag: \"5e\"\n", "5e", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const hub_head h = head_of(rows[i].lines);
        assert_string_equal(hub_head_etag(&h), rows[i].etag);
        assert_int_equal(hub_head_bytes(&h), rows[i].bytes);
    }
}

static void reads_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t from, total;
    } rows[] = {
        {"bytes 100-199/5000", 100, 5000}, {"bytes 0-0/*", 0, -1},  {"bytes 9-3/20", -1, -1},
        {"bytes */5000", -1, -1},          {"lines 1-2/3", -1, -1}, {"bytes 1-2", -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char lines[100];
        snprintf(lines, sizeof lines, "HTTP/1.1 206 Partial Content\nContent-Range: %s\n", rows[i].value);
        const hub_head h = head_of(lines);
        assert_int_equal(h.status, 206);
        assert_int_equal(h.from, rows[i].from);
        assert_int_equal(h.total, rows[i].total);
    }
}

static void knows_when_to_ask_again(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        int wait;
    } rows[] = {
        {"RateLimit: \"api\";r=0;t=55\n", 55},
        {"ratelimit: \"resolvers\"; r = 0; t=7\n", 7},
        {"RateLimit: limit=100, remaining=0, reset=50\n", 50},
        {"Retry-After: 12\n", 12},
        {"Retry-After: 12\nRateLimit: \"api\";r=0;t=3\n", 12},
        {"RateLimit-Policy: \"fixed window\";\"api\";q=500;w=300\n", -1},
        {"RateLimit: \"at=9\"\n", -1},
        {"Retry-After: soon\n", -1},
        {"Retry-After: -5\n", -1},
        {"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\n", -1},
        {"Retry-After: 99999999999\n", 1 << 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_int_equal(head_of(rows[i].lines).wait, rows[i].wait);
    char lines[100];
    const time_t then = time(NULL) + 90;
    strftime(lines, sizeof lines, "Retry-After: %a, %d %b %Y %H:%M:%S GMT\n", gmtime(&then));
    const int wait = head_of(lines).wait;
    assert_true(wait > 60 && wait <= 90);
}

static void lists_files(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int code;
        size_t n;
    } rows[] = {
        {"{\"sha\": \"c0\", \"siblings\": [{\"rfilename\": \"a\"}, {\"rfilename\": \"b/c\"}]}", OK, 2},
        {"{\"sha\": \"c0\"}", OK, 0},
        {"{\"sha\": \"../c0\", \"siblings\": []}", ERR_FORMAT, 0},
        {"{\"siblings\": []}", ERR_FORMAT, 0},
        {"[]", ERR_FORMAT, 0},
        {"", ERR_FORMAT, 0},
        {"{\"sha\": \"c0\", \"siblings\": [{\"rfilename\": \"a/../../b\"}]}", ERR_FORMAT, 0},
        {"{\"sha\": \"c0\", \"siblings\": [{\"rfilename\": \"a\\\\b\"}]}", ERR_FORMAT, 0},
        {"{\"sha\": \"c0\", \"siblings\": [{\"name\": \"a\"}]}", ERR_FORMAT, 0},
        {"{\"sha\": \"c0\", \"siblings\": [7]}", ERR_FORMAT, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hub_listing l;
        err e = {0};
        assert_int_equal(hub_listing_read(&l, span_str(rows[i].body), "org/name", &e), rows[i].code);
        if (!rows[i].code) assert_int_equal(l.n, rows[i].n);
        hub_listing_free(&l);
    }
    hub_listing l = {0};
    err e = {0};
    assert_ok(hub_listing_add(&l,
                              span_str("[{\"type\": \"file\", \"path\": \"a\"}, {\"type\": \"directory\", "
                                       "\"path\": \"d\"}]"),
                              "org/name", &e),
              &e);
    assert_int_equal(l.n, 1);
    assert_int_equal(hub_listing_add(&l, span_str("{\"error\": 1}"), "org/name", &e), ERR_FORMAT);
    hub_listing_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_files),
        cmocka_unit_test(reads_ranges),
        cmocka_unit_test(knows_when_to_ask_again),
        cmocka_unit_test(lists_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
