/* t_net_names.c - key files, addresses, hellos: as they were written, or refused by what is wrong. */
#include "net_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- key files */

static void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void key_files_keep_32_bytes(void **unused)
{
    (void)unused;
    const char *path = temp_path("key");
    uint8_t key[2][KEY_BYTES];
    struct stat st;
    err e = {0};
    unlink(path);
    assert_ok(key_file_write(path, &e), &e);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, 2 * KEY_BYTES + 1);
    assert_ok(key_file_read(key[0], path, &e), &e);
    assert_int_equal(key_file_write(path, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "a key is not replaced"));
    e = (err){0};
    unlink(path);
    assert_ok(key_file_write(path, &e), &e);
    assert_ok(key_file_read(key[1], path, &e), &e);
    assert_memory_not_equal(key[0], key[1], KEY_BYTES);
    unlink(path);
}

#define HEX16 "0123456789abcDEF"

static void other_key_files_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        mode_t mode;
        const char *says; /* NULL: it is a key */
    } row[] = {
        {HEX16 HEX16 HEX16 HEX16, 0600, NULL},
        {HEX16 HEX16 HEX16 HEX16 " \r\n\n", 0400, NULL},
        {HEX16 HEX16 HEX16 HEX16, 0640, "others may read this key"},
        {HEX16 HEX16 HEX16 HEX16, 0604, "others may read this key"},
        {"", 0600, "0 hex digits: a key is 64 of them"},
        {HEX16 HEX16 HEX16 "0123456789abcde", 0600, "63 hex digits"},
        {HEX16 HEX16 HEX16 HEX16 "0", 0600, "65 hex digits"},
        {HEX16 HEX16 HEX16 HEX16 HEX16, 0600, "more than 71 hex digits"},
        {HEX16 HEX16 HEX16 "0123456789abcdeg", 0600, "byte 64 is no hex digit"},
        {"\n" HEX16 HEX16 HEX16 HEX16, 0600, "byte 1 is no hex digit"},
        {HEX16 HEX16 HEX16 HEX16 "\nmore", 0600, "byte 65 is no hex digit"},
    };
    const char *path = temp_path("key");
    uint8_t key[KEY_BYTES];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        err e = {0};
        unlink(path);
        write_text(path, row[i].text, row[i].mode);
        int rc = key_file_read(key, path, &e);
        if (!row[i].says) assert_ok(rc, &e);
        else assert_int_equal(rc, ERR_FORMAT);
        if (row[i].says && (!strstr(e.msg, row[i].says) || strncmp(e.msg, path, strlen(path)) != 0))
            fail_msg("row %zu: %s", i, e.msg);
        if (!row[i].says) assert_int_equal(key[15], 0xef);
    }
    unlink(path);
    err e = {0};
    assert_int_equal(key_file_read(key, path, &e), ERR_NOT_FOUND);
    e = (err){0};
    assert_int_equal(key_file_read(key, "/", &e), ERR_FORMAT);
}

/* ---- addresses */

static void addresses_are_host_and_port(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *host;
        int port; /* -1: refused with what `host` says */
    } row[] = {
        {"a:7071", "a", 7071},
        {"127.0.0.1:1", "127.0.0.1", 1},
        {"[::1]:65535", "::1", 65535},
        {"[fe80::1%eth0]:9", "fe80::1%eth0", 9},
        {"a", "an address is HOST:PORT", -1},
        {":7071", "an address is HOST:PORT", -1},
        {"", "an address is HOST:PORT", -1},
        {"::1:7071", "stands in brackets", -1},
        {"[::1:7071", "the ']' is missing", -1},
        {"[]:7071", "the ']' is missing", -1},
        {"a:", "a port is a number from 1 to 65535, not \"\"", -1},
        {"a:0", "a port is a number from 1 to 65535, not \"0\"", -1},
        {"a:65536", "not \"65536\"", -1},
        {"a:7x", "not \"7x\"", -1},
        {"a:-7", "not \"-7\"", -1},
        {"a: 7", "not \" 7\"", -1},
        {"a:99999999999999999999", "not \"9999", -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        address a;
        char text[TCP_NAME_MAX];
        err e = {0};
        int rc = address_parse(&a, row[i].text, false, &e);
        if (row[i].port < 0) {
            assert_int_equal(rc, ERR_USAGE);
            if (!strstr(e.msg, row[i].host)) fail_msg("%s: %s", row[i].text, e.msg);
            continue;
        }
        assert_ok(rc, &e);
        assert_string_equal(a.host, row[i].host);
        assert_int_equal(a.port, row[i].port);
        address_print(&a, text);
        assert_string_equal(text, row[i].text);
    }
    address a;
    err e = {0};
    assert_ok(address_parse(&a, "a:0", true, &e), &e);
}

/* ---- hello */

static void hello_of_test(hello *h)
{
    err e = {0};
    assert_ok(hello_init(h, &e), &e);
    h->n_device = 2;
    h->device[0] = (hello_device){"cpu", "a processor", 1 << 30, 8};
    h->device[1] = (hello_device){"cuda:0", "another", (uint64_t)80 << 30, 0};
    h->role = HELLO_BULK;
    h->inexact = true;
    memset(h->token, 7, HELLO_TOKEN);
}

static void hellos_come_back_as_written(void **unused)
{
    (void)unused;
    hello h, back;
    buf b = {0};
    err e = {0};
    hello_of_test(&h);
    assert_true(hello_write(&b, &h));
    assert_ok(hello_read(&back, buf_span(&b), &e), &e);
    assert_memory_equal(&h, &back, sizeof h);
    for (size_t n = 0; n < b.n; n++) {
        err cut = {0};
        assert_int_equal(hello_read(&back, span_of(b.p, n), &cut), ERR_FORMAT);
    }
    buf_byte(&b, 0);
    assert_int_equal(hello_read(&back, buf_span(&b), &e), ERR_FORMAT);
    buf_free(&b);
    h.n_device = HELLO_DEVICES;
    for (int i = 0; i < HELLO_DEVICES; i++) {
        memset(&h.device[i], 0, sizeof *h.device);
        memset(h.device[i].name, 'n', HELLO_NAME - 1);
        memset(h.device[i].what, 'w', HELLO_NAME - 1);
    }
    assert_true(hello_write(&b, &h));
    assert_true(b.n <= msg_find(MSG_HELLO)->bytes_max);
    e = (err){0};
    assert_ok(hello_read(&back, buf_span(&b), &e), &e);
    assert_memory_equal(&h, &back, sizeof h);
    buf_free(&b);
}

/* A hello of a protocol to come: its range is understood, whatever follows. */
static void other_protocols_are_named(void **unused)
{
    (void)unused;
    static const struct {
        uint16_t mine[2], theirs[2];
        const char *says;
    } row[] = {
        {{1, 2}, {3, 4}, "speaks protocol 3 to 4, this is 1 to 2"},
        {{3, 3}, {1, 2}, "speaks protocol 1 to 2, this is 3"},
        {{1, 2}, {2, 9}, NULL},
        {{1, 1}, {1, 1}, NULL},
    };
    hello mine, theirs;
    hello_of_test(&mine);
    theirs = mine;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        err e = {0};
        mine.protocol_min = row[i].mine[0], mine.protocol_max = row[i].mine[1];
        theirs.protocol_min = row[i].theirs[0], theirs.protocol_max = row[i].theirs[1];
        assert_int_equal(hello_check(&mine, &theirs, true, &e), row[i].says ? ERR_FORMAT : OK);
        if (row[i].says) assert_string_equal(e.msg, row[i].says);
    }
    static const uint8_t future[] = {'I', 'N', 'F', 'L', 200, 0, 201, 0, 1, 2, 3};
    err e = {0};
    assert_ok(hello_read(&theirs, span_of(future, sizeof future), &e), &e);
    hello_of_test(&mine);
    assert_int_equal(hello_check(&mine, &theirs, false, &e), ERR_FORMAT);
    char want[80];
    snprintf(want, sizeof want, "speaks protocol 200 to 201, this is %d to %d", PROTOCOL_MIN, PROTOCOL_MAX);
    assert_string_equal(e.msg, want);
}

static void arithmetic_must_be_the_same(void **unused)
{
    (void)unused;
    for (int exact = 0; exact < 4; exact++)
        for (int dialled = 0; dialled < 2; dialled++) {
            hello mine, theirs;
            err e = {0};
            hello_of_test(&mine);
            theirs = mine;
            mine.arithmetic = 6;
            theirs.arithmetic = 7;
            mine.inexact = exact & 1;
            theirs.inexact = exact & 2;
            bool fits = dialled ? mine.inexact : theirs.inexact;
            assert_int_equal(hello_check(&mine, &theirs, dialled, &e), fits ? OK : ERR_FORMAT);
            if (!fits) assert_string_equal(e.msg, "computes by arithmetic 7, this is 6 (--exact off)");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_files_keep_32_bytes),     cmocka_unit_test(other_key_files_are_refused),
        cmocka_unit_test(addresses_are_host_and_port), cmocka_unit_test(hellos_come_back_as_written),
        cmocka_unit_test(other_protocols_are_named),   cmocka_unit_test(arithmetic_must_be_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
