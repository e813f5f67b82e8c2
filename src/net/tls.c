/* tls.c - see tls.h. The only file that knows GnuTLS.
 *
 * The cipher is pinned: left to itself GnuTLS 3.7 picks CHACHA20 for pre-shared keys, at 140 MB/s instead of 1 GB/s.
 * Where the processor has AES instructions they come first, else CHACHA20 does; both sides accept both. */
#define _GNU_SOURCE
#include "net/tls.h"

#include "base/mem.h"
#include "net/tcp.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

enum { IN_BYTES = 128 << 10 }; /* one call of the kernel brings several records */
static const char IDENTITY[] = "inferflow";

struct tls {
    gnutls_session_t session;
    gnutls_psk_client_credentials_t as_client;
    gnutls_psk_server_credentials_t as_server;
    gnutls_packet_t packet; /* what tls_recv gave last */
    uint8_t key[KEY_BYTES];
    uint8_t *in; /* [IN_BYTES] read ahead, after the handshake */
    size_t in_at, in_n;
    int fd;
    bool server;
    atomic_ullong bytes_out;
};

static bool has_aes(void)
{
#if defined __x86_64__
    return __builtin_cpu_supports("aes");
#elif defined __aarch64__
    return getauxval(AT_HWCAP) & 1u << 3;
#else
    return false;
#endif
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *p, size_t n)
{
    tls *c = arg;
    if (!c->in) return recv(c->fd, p, n, MSG_DONTWAIT);
    if (c->in_at == c->in_n) {
        ssize_t got = recv(c->fd, c->in, IN_BYTES, MSG_DONTWAIT);
        if (got <= 0) return got;
        c->in_at = 0;
        c->in_n = (size_t)got;
    }
    if (n > c->in_n - c->in_at) n = c->in_n - c->in_at;
    memcpy(p, c->in + c->in_at, n);
    c->in_at += n;
    return (ssize_t)n;
}

static ssize_t push(gnutls_transport_ptr_t arg, const void *p, size_t n)
{
    tls *c = arg;
    atomic_fetch_add_explicit(&c->bytes_out, n, memory_order_relaxed); /* before the other side can have them */
    ssize_t sent = send(c->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    atomic_fetch_sub_explicit(&c->bytes_out, n - (sent > 0 ? (size_t)sent : 0), memory_order_relaxed);
    return sent;
}

/* GnuTLS asks before a record that was cut short is waited for; reads here never wait. */
static int never_wait(gnutls_transport_ptr_t arg, unsigned ms)
{
    (void)arg;
    (void)ms;
    errno = EAGAIN;
    return -1;
}

static int give_key(gnutls_session_t session, const char *identity, gnutls_datum_t *key)
{
    const tls *c = gnutls_session_get_ptr(session);
    if (strcmp(identity, IDENTITY) != 0) return -1;
    key->data = gnutls_malloc(KEY_BYTES);
    if (!key->data) return -1;
    memcpy(key->data, c->key, KEY_BYTES);
    key->size = KEY_BYTES;
    return 0;
}

static int set_credentials(tls *c)
{
    gnutls_datum_t key = {c->key, KEY_BYTES};
    int rc;
    if (c->server) {
        rc = gnutls_psk_allocate_server_credentials(&c->as_server);
        if (rc < 0) return rc;
        gnutls_psk_set_server_credentials_function(c->as_server, give_key);
        return gnutls_credentials_set(c->session, GNUTLS_CRD_PSK, c->as_server);
    }
    rc = gnutls_psk_allocate_client_credentials(&c->as_client);
    if (rc >= 0) rc = gnutls_psk_set_client_credentials(c->as_client, IDENTITY, &key, GNUTLS_PSK_KEY_RAW);
    return rc < 0 ? rc : gnutls_credentials_set(c->session, GNUTLS_CRD_PSK, c->as_client);
}

#define CIPHERS(list) "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:-GROUP-ALL:+GROUP-X25519:-CIPHER-ALL:" list

int tls_open(tls **out, int fd, bool server, const uint8_t key[KEY_BYTES], const char *name, err *e)
{
    tls *c = *out = mem_zero(1, sizeof *c);
    if (!c) {
        close(fd);
        return err_memory(e, NULL);
    }
    c->fd = fd;
    c->server = server;
    memcpy(c->key, key, KEY_BYTES);
    int rc = gnutls_init(&c->session, (server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NO_SIGNAL | GNUTLS_NONBLOCK |
                                          GNUTLS_NO_TICKETS | GNUTLS_NO_SIGNAL);
    if (rc >= 0)
        rc = gnutls_priority_set_direct(
            c->session,
            has_aes() ? CIPHERS("+AES-128-GCM:+CHACHA20-POLY1305") : CIPHERS("+CHACHA20-POLY1305:+AES-128-GCM"), NULL);
    if (rc >= 0) rc = set_credentials(c);
    if (rc >= 0 && name)
        rc = gnutls_alpn_set_protocols(c->session, &(gnutls_datum_t){(void *)name, (unsigned)strlen(name)}, 1, 0);
    if (rc < 0) {
        tls_close(c);
        *out = NULL;
        return err_set(e, rc == GNUTLS_E_MEMORY_ERROR ? ERR_MEMORY : ERR_IO, "TLS: %s", gnutls_strerror(rc));
    }
    gnutls_session_set_ptr(c->session, c);
    gnutls_transport_set_ptr(c->session, c);
    gnutls_transport_set_pull_function(c->session, pull);
    gnutls_transport_set_pull_timeout_function(c->session, never_wait);
    gnutls_transport_set_push_function(c->session, push);
    gnutls_handshake_set_timeout(c->session, GNUTLS_INDEFINITE_TIMEOUT); /* the caller keeps the time */
    return OK;
}

static int wait_for(const tls *c) { return gnutls_record_get_direction(c->session) ? TLS_WAIT_WRITE : TLS_WAIT_READ; }

/* What a failed call means. */
static int failure(int rc, err *e)
{
    switch (rc) {
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_INVALID_SESSION: /* a call failed before */
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR: return err_set(e, ERR_IO, "the connection ended");
    case GNUTLS_E_MEMORY_ERROR: return err_memory(e, NULL);
    default: return err_set(e, ERR_FORMAT, "TLS: %s", gnutls_strerror(rc));
    }
}

/* What a failed handshake means: the messages of contract and log. */
static int shake_failure(const tls *c, int rc, err *e)
{
    switch (rc) {
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    case GNUTLS_E_RECORD_OVERFLOW:
        return err_set(e, ERR_FORMAT, "%s is no TLS 1.3", c->server ? "what it sends" : "the reply");
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
    case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
    case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
    case GNUTLS_E_NO_CIPHER_SUITES: return err_set(e, ERR_FORMAT, "the key is not accepted");
    default: return failure(rc, e);
    }
}

int tls_shake(tls *c, err *e)
{
    int rc;
    do rc = gnutls_handshake(c->session);
    while (rc == GNUTLS_E_INTERRUPTED);
    if (rc == GNUTLS_E_AGAIN) return wait_for(c);
    if (rc < 0) {
        if (gnutls_error_is_fatal(rc)) gnutls_alert_send_appropriate(c->session, rc);
        return shake_failure(c, rc, e);
    }
    c->in = mem_alloc(IN_BYTES);
    return c->in ? OK : err_memory(e, NULL);
}

bool tls_knows(const tls *c) { return gnutls_handshake_get_last_out(c->session) == GNUTLS_HANDSHAKE_FINISHED; }

bool tls_named(const tls *c)
{
    gnutls_datum_t name;
    return gnutls_alpn_get_selected_protocol(c->session, &name) == 0;
}

int tls_recv(tls *c, span *record, err *e)
{
    gnutls_datum_t data = {NULL, 0};
    ssize_t rc;
    if (c->packet) gnutls_packet_deinit(c->packet);
    c->packet = NULL;
    do rc = gnutls_record_recv_packet(c->session, &c->packet);
    while (rc == GNUTLS_E_INTERRUPTED);
    if (rc == GNUTLS_E_AGAIN) return TLS_WAIT_READ;
    if (rc < 0) return failure((int)rc, e);
    if (rc > 0) gnutls_packet_get(c->packet, &data, NULL);
    *record = span_of(data.data, data.size);
    return OK;
}

int tls_send(tls *c, const void *p, size_t n, err *e)
{
    ssize_t rc;
    do rc = gnutls_record_send(c->session, p, n);
    while (rc == GNUTLS_E_INTERRUPTED);
    if (rc == GNUTLS_E_AGAIN) return TLS_WAIT_WRITE;
    return rc < 0 ? failure((int)rc, e) : OK;
}

void tls_bye(tls *c) { gnutls_bye(c->session, GNUTLS_SHUT_WR); }

void tls_cut(tls *c) { shutdown(c->fd, SHUT_RDWR); }

/* Bytes that nobody read would make the kernel reset the connection at its close, and the other side might lose what it
 * was told last: why it is refused. */
static void drop_unread(int fd)
{
    enum { MOST = 16 };
    char unread[4096];
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < MOST && recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0; i++) continue;
}

void tls_close(tls *c)
{
    if (!c) return;
    if (c->packet) gnutls_packet_deinit(c->packet);
    if (c->session) gnutls_deinit(c->session);
    if (c->as_client) gnutls_psk_free_client_credentials(c->as_client);
    if (c->as_server) gnutls_psk_free_server_credentials(c->as_server);
    drop_unread(c->fd);
    close(c->fd);
    mem_free(c->in);
    mem_free(c);
}

int tls_socket(const tls *c) { return c->fd; }
uint64_t tls_bytes_out(const tls *c) { return atomic_load(&c->bytes_out); }
