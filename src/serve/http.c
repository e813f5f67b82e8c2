/* http.c - see http.h. The only file that includes microhttpd.h (0.9.75).
 *
 * The library parses, times and sends; this file adds what it lacks (each point was seen to fail without it):
 * - framing: a missing Host (the library would answer twice), two Content-Length, Content-Length with
 *   Transfer-Encoding, other codings, blanks before a colon and control bytes are refused (request smuggling);
 * - chunks whose lines end in LF alone are taken: so a chunked request is the last of its connection, and nothing that
 *   a proxy took for its body is answered;
 * - replies that come later: the connection sleeps inside the stream's lock, so a wake-up cannot be lost;
 * - clients that leave, heads that never end: watch.c;
 * - a refusal sent before the body was read must survive the bytes still on their way: the socket lingers;
 * - a daemon must not be stopped while a connection sleeps: streams are left first;
 * - a long body takes long to parse and tokenize: its connection sleeps until slow_lane.h has done it.
 * - a Content-Length that is no number it would answer with two heads: refuse_length.
 * Some heads it answers itself in HTML: too long (431, 414), or broken (400). */
#define _GNU_SOURCE
#include "serve/http.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "serve/exchange.h"
#include "serve/slow_lane.h"
#include "serve/watch.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    POOL_BYTES = 36 << 10, /* per connection: also the largest head. Above 32 KiB pools are mapped, and leave nothing */
    CHUNK = 16 << 10,      /* of a live reply */
    DRAIN_BYTES = 1 << 20, /* a refused body up to this size is read before the refusal, which keeps the connection */
    DRAIN_CHUNKED = 64 << 20, /* a chunked body that grew too large is read up to here for the sake of a 413 */
    BODIES_BYTES = 512 << 20, /* all bodies being received together */
    SEND_SECONDS = 600,       /* a client that reads nothing */
    LONG_BYTES = 256 << 10,   /* a body from which on others need not wait for it: 0.15 s of work */
    LONG_MOST = 64,           /* of these at once */
    CONNECTIONS_MAX = 16384,
    OLD_MAX = 4
};

struct http {
    server *srv;
    struct MHD_Daemon *daemon, *old[OLD_MAX]; /* old: of earlier certificates */
    watch *w;
    slow_lane *lane;
    int port, listen_fd;
    atomic_int receiving, active; /* requests whose body comes; requests at work */
    atomic_llong body_bytes;
    bool quiesced;
};

/* One request on one connection. */
typedef struct call {
    http *h;
    struct MHD_Connection *conn;
    int fd;
    exchange x;
    buf body;
    uint64_t body_seen;
    bool receiving, handled, refused, unread, queued; /* unread: refused before its body came */
    bool chunked;
    int status;
    slow_work work; /* of a long body */
    bool sleeps;    /* until that is done */
} call;

static const char *request_header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* What belongs to a connection, not to one of its requests. */
typedef struct client {
    int fd;
    bool in_head; /* the first line of a request was read, the head is not complete; then: */
    pthread_t thread;
    struct client *prev, *next; /* of the thread's heads */
    bool linger;                /* a refusal was sent before the body was read */
    bool clipped;               /* the target of the request has control bytes */
} client;

static client *client_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static _Thread_local client *heads; /* of which this thread of the library reads the rest */

static void begin_head(client *who)
{
    if (who->in_head) return;
    who->in_head = true;
    who->thread = pthread_self();
    who->prev = NULL;
    who->next = heads;
    if (heads) heads->prev = who;
    heads = who;
}

static void end_head(client *who)
{
    if (!who->in_head || !pthread_equal(who->thread, pthread_self())) return; /* another's: that thread has ended */
    who->in_head = false;
    if (who->next) who->next->prev = who->prev;
    if (who->prev) who->prev->next = who->next;
    else heads = who->next;
}

typedef struct framing {
    int lengths, codings, hosts;
    bool strange, dirty; /* a length or coding that is none; names with blanks, control bytes */
    int64_t length;
} framing;

static bool is_word(const char *s)
{
    const char *p = s;
    while (isalnum((unsigned char)*p) || (*p && strchr("!#$%&'*+-.^_`|~", *p))) p++;
    return p > s && !*p;
}

static bool is_clean(const char *s)
{
    for (; *s; s++)
        if ((*s > 0 && *s < ' ' && *s != '\t') || *s == 127) return false;
    return true;
}

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    framing *f = ctx;
    if (!value) value = "";
    f->dirty |= !is_word(name) || !is_clean(value);
    if (strcasecmp(name, "content-length") == 0) {
        f->lengths++;
        size_t digits = strspn(value, "0123456789");
        f->length = strtoll(value, NULL, 10);
        f->strange |= digits == 0 || digits > 18 || value[digits];
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        f->codings++;
        f->strange |= strcasecmp(value, "chunked") != 0;
    } else if (strcasecmp(name, "host") == 0) {
        f->hosts++;
    }
    return MHD_YES;
}

/* Before 1.0 the library cuts names and values at a NUL byte, which two servers in a row may read differently. The head
 * lies in its buffer with 0 in place of CR, of LF, and of each line's first colon: any other 0 is the client's. */
static bool is_uncut(struct MHD_Connection *conn, const char *method, const char *url, const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (MHD_VERSION >= 0x01000000 || !info) return true;
    const char *end = method + info->header_size, *line = version + strlen(version);
    if (url != method + strlen(method) + 1 || line + 2 > end || line[1]) return false;
    for (line += 2; line < end && *line;) {
        const char *colon = memchr(line, 0, (size_t)(end - line)),
                   *stop = colon && colon + 1 < end ? memchr(colon + 1, 0, (size_t)(end - colon - 1)) : NULL;
        if (!stop || stop + 2 > end || stop[1]) return false;
        line = stop + 2;
    }
    return end - line == 2 && !line[0] && !line[1];
}

/* The target of a request, when its first line was read: what follows it must be the version. */
static void *look_at_target(void *ctx, const char *target, struct MHD_Connection *conn)
{
    (void)ctx;
    client *who = client_of(conn);
    const unsigned char *p = (const unsigned char *)target;
    while (*p > ' ' && *p != 127) p++;
    if (who) begin_head(who);
    if (who) who->clipped = *p || (MHD_VERSION < 0x01000000 && memcmp(p + 1, "HTTP/", 5) != 0);
    return NULL;
}

/* NULL: nothing is wrong with it. */
static const char *misframing(const framing *f, bool uncut, const char *version)
{
    if (f->dirty || !uncut) return "the head has a blank before a colon, a control byte or a line without CR";
    if (f->strange || f->lengths > 1 || f->codings > 1 || (f->lengths && f->codings))
        return "the length of the body is not clear: Content-Length and Transfer-Encoding";
    if (!f->hosts && strcmp(version, "HTTP/1.1") == 0) return "Host is missing in the head";
    if (f->hosts > 1) return "Host stands twice in the head";
    return NULL;
}

static void suspend_call(void *ctx) { MHD_suspend_connection(((call *)ctx)->conn); }
static void resume_call(void *ctx) { MHD_resume_connection(((call *)ctx)->conn); }

static ssize_t read_live(void *ctx, uint64_t at, char *to, size_t max)
{
    (void)at;
    call *c = ctx;
    ssize_t n = stream_read(c->x.later, to, max);
    if (n >= 0) return n;
    /* END_WITH_ERROR would leave the connection closed but not freed until its thread has something else to do. */
    if (stream_is_gone(c->x.later)) shutdown(c->fd, SHUT_RDWR);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result queue_response(call *c, struct MHD_Response *r, int status, const char *content_type)
{
    if (!r) return MHD_NO;
    if (content_type) MHD_add_response_header(r, "Content-Type", content_type);
    for (int i = 0; i < c->x.n_header; i++) MHD_add_response_header(r, c->x.header[i].name, c->x.header[i].value);
    if (c->unread || c->chunked) MHD_add_response_header(r, "Connection", "close");
    c->status = status;
    c->queued = true;
    enum MHD_Result rc = MHD_queue_response(c->conn, (unsigned)status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result send_whole(call *c, int status, const char *content_type, const buf *b)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(b->n, b->n ? b->p : (uint8_t *)"", MHD_RESPMEM_MUST_COPY);
    return queue_response(c, r, status, content_type);
}

/* The reply of a stream, when there is something to say; else the connection sleeps and this is called again. */
static enum MHD_Result send_later(call *c)
{
    int status;
    const char *content_type;
    bool live;
    if (!stream_ready(c->x.later, &status, &content_type, &live)) return MHD_YES;
    if (stream_is_gone(c->x.later)) { /* nobody is there for a reply, and there is none: the connection ends */
        shutdown(c->fd, SHUT_RDWR);
        return MHD_NO;
    }
    if (live) {
        exchange_add_header(&c->x, "Cache-Control", "no-cache");
        exchange_add_header(&c->x, "X-Accel-Buffering", "no");
        return queue_response(c, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK, read_live, c, NULL), status,
                              content_type);
    }
    buf whole = {0};
    char part[CHUNK];
    ssize_t n;
    while ((n = stream_read(c->x.later, part, sizeof part)) > 0) buf_add(&whole, part, (size_t)n);
    enum MHD_Result rc = whole.bad ? MHD_NO : send_whole(c, status, content_type, &whole);
    buf_free(&whole);
    return rc;
}

/* The whole request is here, or as much as is wanted. */
static void end_receiving(call *c)
{
    if (!c->receiving) return;
    c->receiving = false;
    atomic_fetch_add(&c->h->active, 1);
    atomic_fetch_sub(&c->h->receiving, 1);
}

/* A number of the client's address, without its port. */
static uint64_t address_of(const struct sockaddr *a)
{
    uint64_t part[2] = {0};
    if (a->sa_family == AF_INET) memcpy(part, &((const struct sockaddr_in *)a)->sin_addr, sizeof(struct in_addr));
    if (a->sa_family == AF_INET6) memcpy(part, &((const struct sockaddr_in6 *)a)->sin6_addr, sizeof part);
    return rng_mix(rng_mix(part[0]) ^ part[1]);
}

static void name_client(const struct sockaddr *a, char *to, size_t size)
{
    const void *at = a->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                                             : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
    if ((a->sa_family != AF_INET && a->sa_family != AF_INET6) || !inet_ntop(a->sa_family, at, to, (socklen_t)size))
        *to = 0;
}

/* The head is complete: everything that can be refused without the body. */
static enum MHD_Result begin_call(http *h, struct MHD_Connection *conn, const char *url, const char *method,
                                  const char *version, void **slot)
{
    call *c = mem_zero(1, sizeof *c);
    if (!c) return MHD_NO;
    *slot = c;
    c->h = h;
    c->conn = conn;
    c->fd = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    c->receiving = true;
    atomic_fetch_add(&h->receiving, 1);
    watch_body(h->w, c->fd);
    framing f = {0};
    MHD_get_connection_values(conn, MHD_HEADER_KIND, count_header, &f);
    client *who = client_of(conn);
    if (who) end_head(who);
    exchange *x = &c->x;
    x->misframed = misframing(&f, is_uncut(conn, method, url, version) && who && !who->clipped, version);
    const struct sockaddr *from = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    x->address = address_of(from);
    name_client(from, x->client, sizeof x->client);
    x->method = method;
    x->path = url;
    x->authorization = request_header(conn, "Authorization");
    x->api_key = request_header(conn, "X-Api-Key");
    x->origin = request_header(conn, "Origin");
    x->host = request_header(conn, "Host");
    x->content_encoding = request_header(conn, "Content-Encoding");
    x->wanted_headers = request_header(conn, "Access-Control-Request-Headers");
    x->client_id = request_header(conn, "X-Request-Id");
    x->content_length = f.lengths ? f.length : -1;
    c->chunked = f.codings > 0;
    if (!exchange_admit(h->srv, x)) {
        c->refused = true;
        c->unread = x->misframed || f.codings > 0 || f.length > DRAIN_BYTES ||
                    (f.length > 0 && request_header(conn, "Expect"));
    }
    if (c->unread) end_receiving(c);
    return c->unread ? send_whole(c, x->status, x->content_type, &x->out) : MHD_YES;
}

static enum MHD_Result take_body(call *c, const char *data, size_t *n)
{
    http *h = c->h;
    c->body_seen += *n;
    if (!c->refused && c->body_seen > (uint64_t)h->srv->o->max_body) {
        exchange_refuse_size(h->srv, &c->x, (int64_t)c->body_seen);
        c->refused = true;
    }
    bool fits = !c->refused;
    if (fits && atomic_fetch_add(&h->body_bytes, (long long)*n) + (long long)*n > BODIES_BYTES) {
        atomic_fetch_sub(&h->body_bytes, (long long)*n);
        reply_error(&c->x, 503, NULL, "overloaded", "too many large requests at once; try again");
        c->refused = true;
        fits = false;
    }
    if (fits && !buf_add(&c->body, data, *n)) return MHD_NO;
    *n = 0;
    return c->body_seen > DRAIN_CHUNKED ? MHD_NO : MHD_YES;
}

static call *call_of(slow_work *w) { return (call *)((char *)w - offsetof(call, work)); }

/* Not for a client that has left. */
static void handle_long(slow_work *w)
{
    call *c = call_of(w);
    char some;
    if (recv(c->fd, &some, 1, MSG_PEEK | MSG_DONTWAIT) == 0) reply_error(&c->x, 499, NULL, NULL, "the client has left");
    else exchange_handle(c->h->srv, &c->x);
}

static void wake_long(slow_work *w)
{
    call *c = call_of(w);
    if (!c->x.status && !c->x.later) reply_error(&c->x, 503, NULL, "shutting_down", "the server is shutting down");
    MHD_resume_connection(c->conn);
}

/* The connection sleeps until that is done. False: it does not, as too many are there, which is the reply. */
static bool handle_later(call *c)
{
    if (slow_lane_waiting(c->h->lane) >= LONG_MOST) {
        reply_error(&c->x, 503, NULL, "overloaded", "too many large requests at once; try again");
        return false;
    }
    c->work = (slow_work){.run = handle_long, .done = wake_long};
    c->sleeps = true;
    watch_reply(c->h->w, c->fd, NULL);
    MHD_suspend_connection(c->conn);
    slow_lane_put(c->h->lane, &c->work);
    return true;
}

/* The exchange was handled: the body is needed no more. */
static void end_handling(call *c)
{
    exchange *x = &c->x;
    atomic_fetch_sub(&c->h->body_bytes, (long long)c->body.n);
    buf_free(&c->body);
    if (x->later) stream_attach(x->later, &(stream_waiter){c, suspend_call, resume_call});
    watch_reply(c->h->w, c->fd, x->later);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *conn, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **slot)
{
    http *h = ctx;
    call *c = *slot;
    if (!c) return begin_call(h, conn, url, method, version, slot);
    if (*n) return take_body(c, data, n);
    if (c->queued) return MHD_YES;
    end_receiving(c);
    exchange *x = &c->x;
    if (!c->refused && !c->handled) {
        c->handled = true;
        x->body = buf_span(&c->body);
        if (c->body_seen > (uint64_t)h->srv->o->max_body)
            x->body.n = (size_t)c->body_seen; /* too large: refused unread */
        if (x->body.n >= LONG_BYTES && handle_later(c)) return MHD_YES;
        if (!x->status) exchange_handle(h->srv, x);
        end_handling(c);
    } else if (c->sleeps) {
        c->sleeps = false;
        end_handling(c);
    }
    return x->later ? send_later(c) : send_whole(c, x->status, x->content_type, &x->out);
}

static void on_completed(void *ctx, struct MHD_Connection *conn, void **slot, enum MHD_RequestTerminationCode why)
{
    (void)conn;
    http *h = ctx;
    call *c = *slot;
    if (!c) return;
    *slot = NULL;
    watch_idle(h->w, c->fd);
    if (c->x.later) stream_leave(c->x.later); /* nothing happens when it had ended */
    exchange_finish(h->srv, &c->x, why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? c->status : 499);
    stream_drop(c->x.later);
    if (c->body.n) atomic_fetch_sub(&h->body_bytes, (long long)c->body.n);
    buf_free(&c->body);
    client *who = client_of(c->conn);
    if (who && (c->unread || c->chunked)) who->linger = true;
    atomic_fetch_sub(c->receiving ? &h->receiving : &h->active, 1);
    mem_free(c);
}

static void on_connection(void *ctx, struct MHD_Connection *conn, void **slot, enum MHD_ConnectionNotificationCode what)
{
    http *h = ctx;
    int fd = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        client *who = *slot = mem_zero(1, sizeof(client));
        if (who) who->fd = fd;
        watch_add(h->w, fd);
    } else {
        client *who = *slot;
        if (who) end_head(who);
        watch_remove(h->w, fd, who && who->linger);
        mem_free(who);
        *slot = NULL;
    }
}

/* A Content-Length that is no number: the library has found it, and would now send its head twice, and HTML. Where it
 * is plain whose head that is, the one reply is ours, and the socket takes no other. */
static void refuse_length(const http *h, client *who)
{
    exchange x = {0};
    reply_error(&x, 400, NULL, "bad_framing", "the length of the body is not clear: Content-Length");
    buf whole = {0};
    buf_printf(&whole,
               "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n%s",
               x.out.n, buf_cstr(&x.out));
    if (!h->srv->o->tls_cert && !whole.bad && send(who->fd, whole.p, whole.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_line(LOG_DEBUG, "http: %s", strerror(errno));
    shutdown(who->fd, SHUT_WR);
    who->linger = true;
    buf_free(&whole);
    buf_free(&x.out);
}

__attribute__((format(printf, 2, 0))) static void log_library(void *ctx, const char *fmt, va_list ap)
{
    const http *h = ctx;
    char line[400];
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    if (strstr(line, "Content-Length' header") && heads && !heads->next) refuse_length(h, heads);
    log_line(LOG_DEBUG, "http: %s", line);
}

/* Escapes in paths stay as they are: no path of ours has any. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *conn, char *s)
{
    (void)ctx, (void)conn;
    return strlen(s);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int bind_socket(http *h, err *e)
{
    const serve_options *o = h->srv->o;
    char port[16];
    snprintf(port, sizeof port, "%d", (int)o->port);
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
    int rc = getaddrinfo(o->host, port, &hint, &list);
    if (rc)
        return err_set(e, ERR_USAGE, "%s: %s; choose another with %s", o->host, gai_strerror(rc), h->srv->addressed);
    int fd = -1, why = 0;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
            h->srv->loopback = is_loopback(a->ai_addr);
            break;
        }
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd < 0)
        return err_set(e, ERR_IO, "cannot listen on %s:%s: %s; choose another with %s", o->host, port, strerror(why),
                       h->srv->addressed);
    struct sockaddr_storage got;
    socklen_t n = sizeof got;
    getsockname(fd, (struct sockaddr *)&got, &n);
    h->port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                              : ((struct sockaddr_in *)&got)->sin_port);
    h->listen_fd = fd;
    return OK;
}

/* Raises the limit of descriptors as far as allowed; returns how many connections fit. */
static unsigned raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return 512;
    rlim_t before = r.rlim_cur;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r)) r.rlim_cur = before;
    rlim_t room = r.rlim_cur > 128 ? r.rlim_cur - 64 : r.rlim_cur / 2;
    return room < CONNECTIONS_MAX ? (unsigned)room : CONNECTIONS_MAX;
}

static int read_tls(const serve_options *o, buf *cert, buf *key, err *e)
{
    if (!o->tls_cert && !o->tls_key) return OK;
    if (!o->tls_cert || !o->tls_key) return err_set(e, ERR_USAGE, "--tls-cert and --tls-key belong together");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return err_set(e, ERR_USAGE, "--tls-cert: the installed libmicrohttpd has no TLS");
    int rc = file_read(cert, o->tls_cert, 1 << 20, e);
    if (!rc) rc = file_read(key, o->tls_key, 1 << 20, e);
    if (!rc && !strstr(buf_cstr(cert), "-----BEGIN CERTIFICATE-----"))
        rc = err_set(e, ERR_USAGE, "--tls-cert: %s holds no certificate (PEM)", o->tls_cert);
    if (!rc && !strstr(buf_cstr(key), "PRIVATE KEY-----"))
        rc = err_set(e, ERR_USAGE, "--tls-key: %s holds no private key (PEM)", o->tls_key);
    if (!rc && (strstr(buf_cstr(key), "ENCRYPTED") || strstr(buf_cstr(key), "OPENSSH PRIVATE KEY-----")))
        rc = err_set(e, ERR_USAGE, "--tls-key: %s is %s: write it anew with openssl pkey -in OLD -out NEW", o->tls_key,
                     strstr(buf_cstr(key), "ENCRYPTED") ? "encrypted" : "a key of OpenSSH");
    if (!rc) file_warn_readable(o->tls_key);
    return rc;
}

/* TLS 1.2 and 1.3, with keys that are made for each connection, and ciphers that prove what they carry. */
static const char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:"
                                     "+AES-128-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD";

/* Threads around the listening socket; with TLS where cert is not empty. */
static struct MHD_Daemon *run_daemon(http *h, buf *cert, buf *key)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
             room = raise_descriptors();
    unsigned threads = (unsigned)h->srv->o->http_threads;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, buf_cstr(cert)},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, buf_cstr(key)},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
                                   {MHD_OPTION_END, 0, NULL}};
    if (cert->n) flags |= MHD_USE_TLS;
    else tls[0] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (threads < 2) pool[0] = pool[1];
    if (room < threads * 4) room = threads * 4;
    int fd = fcntl(h->listen_fd, F_DUPFD_CLOEXEC, 0); /* the daemon's own, which a failure closes */
    if (fd < 0) return NULL;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, log_library, h,
                            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes,
                            NULL, MHD_OPTION_URI_LOG_CALLBACK, look_at_target, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT, room, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)SEND_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_ARRAY, tls,
                            MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}

static unsigned long descriptors_left(void)
{
    struct rlimit r;
    return getrlimit(RLIMIT_NOFILE, &r) ? 0 : (unsigned long)r.rlim_cur;
}

static int start_daemon(http *h, struct MHD_Daemon **out, err *e)
{
    buf cert = {0}, key = {0};
    int rc = read_tls(h->srv->o, &cert, &key, e);
    *out = rc ? NULL : run_daemon(h, &cert, &key);
    if (!rc && !*out)
        rc = cert.n ? err_set(e, ERR_USAGE, "%s is not the key of %s, or one of them is damaged", h->srv->o->tls_key,
                              h->srv->o->tls_cert)
                    : err_set(e, ERR_IO, "cannot start the HTTP threads: %s (ulimit -n: %lu descriptors)",
                              strerror(errno), descriptors_left());
    buf_free(&cert);
    buf_free(&key);
    return rc;
}

static void stop_listening(struct MHD_Daemon *d)
{
    MHD_socket fd = MHD_quiesce_daemon(d);
    if (fd != MHD_INVALID_SOCKET) close(fd);
}

/* Daemons of earlier certificates end with their last connection. */
static int find_old_place(http *h)
{
    int place = -1;
    for (int i = 0; i < OLD_MAX; i++) {
        const union MHD_DaemonInfo *n = h->old[i] ? MHD_get_daemon_info(h->old[i], MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
                                                  : NULL;
        if (h->old[i] && n && n->num_connections == 0) {
            MHD_stop_daemon(h->old[i]);
            h->old[i] = NULL;
        }
        if (!h->old[i]) place = i;
    }
    return place;
}

/* The library reads a certificate once; so a second daemon takes over the listening socket. */
int http_reload(http *h, err *e)
{
    struct MHD_Daemon *now;
    if (!h->srv->o->tls_cert || h->quiesced) return OK;
    int place = find_old_place(h), rc = place < 0 ? ERR_BUSY : start_daemon(h, &now, e);
    if (place < 0) return err_set(e, rc, "connections with %d earlier certificates are open; try again later", OLD_MAX);
    if (rc) return rc;
    stop_listening(h->daemon);
    h->old[place] = h->daemon;
    h->daemon = now;
    return OK;
}

int http_open(http **out, server *s, err *e)
{
    http *h = *out = mem_zero(1, sizeof *h);
    if (!h) return err_memory(e, NULL);
    h->srv = s;
    h->listen_fd = -1;
    int rc = watch_open(&h->w, (double)s->o->head_timeout, e);
    if (!rc) rc = slow_lane_open(&h->lane, e);
    if (!rc) rc = bind_socket(h, e);
    if (!rc) rc = start_daemon(h, &h->daemon, e);
    if (rc) {
        http_close(h);
        *out = NULL;
    }
    return rc;
}

int http_port(const http *h) { return h->port; }
int http_active(const http *h) { return atomic_load(&h->active); }
int http_receiving(const http *h) { return atomic_load(&h->receiving); }

void http_quiesce(http *h)
{
    if (h->quiesced || !h->daemon) return;
    h->quiesced = true;
    stop_listening(h->daemon);
    close(h->listen_fd);
    h->listen_fd = -1;
}

void http_close(http *h)
{
    if (!h) return;
    http_quiesce(h);
    if (h->daemon) {
        slow_lane_end(h->lane);
        watch_leave_all(h->w); /* a sleeping connection would abort the library */
        for (int i = 0; i < 100 && http_active(h); i++) {
            usleep(10000);
            watch_leave_all(h->w);
        }
        for (int i = 0; i < OLD_MAX; i++)
            if (h->old[i]) MHD_stop_daemon(h->old[i]);
        MHD_stop_daemon(h->daemon);
    }
    if (h->listen_fd >= 0) close(h->listen_fd);
    slow_lane_close(h->lane);
    watch_close(h->w);
    mem_free(h);
}
