/* t_net_door.c - strangers at a node's door: whoever has the key comes in, however many hold connections without it. */
#include "node_rig.h"

#include "net/tls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { STRANGERS = 1500 };

static int dialled(const char *name)
{
    const char *colon = strrchr(name, ':');
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    for (int i = 0; i < 100 && connect(fd, (struct sockaddr *)&at, sizeof at); i++) usleep(10000);
    return fd;
}

/* Shakes hands until it is done or refused. */
static int shaken(tls *c, err *e)
{
    int rc = TLS_WAIT_READ;
    for (int i = 0; i < 500 && (rc == TLS_WAIT_READ || rc == TLS_WAIT_WRITE); i++) {
        rc = tls_shake(c, e);
        if (rc) poll(&(struct pollfd){tls_socket(c), POLLIN, 0}, 1, 20);
    }
    return rc;
}

/* A leader far away has sent its first message; before its second one so many say one byte, or nothing, and hold on. */
static void leaders_come_in_past_strangers(void **unused)
{
    (void)unused;
    static int held[STRANGERS];
    struct rlimit r;
    uint8_t key[KEY_BYTES];
    err e = {0};
    nodes n;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < 4000) {
        skip_msg("too few descriptors");
        return;
    }
    nodes_open(&n, NULL, NULL);
    assert_ok(key_file_read(key, n.key, &e), &e);
    for (int says = 0; says < 2; says++) {
        tls *c;
        int fd = dialled(n.name[0]);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        assert_ok(tls_open(&c, fd, false, key, NULL, &e), &e);
        int rc = tls_shake(c, &e); /* OK: the node has answered already */
        assert_true(rc == TLS_WAIT_READ || rc == OK);
        poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000); /* the node has answered it */
        for (int i = 0; i < STRANGERS; i++) {
            held[i] = dialled(n.name[0]);
            if (says) (void)!write(held[i], "\x16", 1);
            if (i % 32 == 0) usleep(5000); /* so that they are read one after another */
        }
        if (rc) rc = shaken(c, &e);
        assert_ok(rc, &e);
        tls_close(c);
        for (int i = 0; i < STRANGERS; i++) close(held[i]);
    }
    nodes_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(leaders_come_in_past_strangers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
