/* hub_http.c - see hub_http.h. */
#include "hub/hub_http.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hub/curl_face.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CONNECT_SECONDS = 15, SILENT_SECONDS = 15, HOPS_MAX = 6, OTHER_BODY_MAX = 1 << 16, BUFFER = 1 << 18 };

static struct {
#define X(result, name, parameters) result(*name) parameters;
    CURL_LIST(X)
#undef X
    bool there;
} lib;

static void load_library(void)
{
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};
    void *so = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !so; i++) so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    lib.there = so != NULL;
#define X(result, name, parameters)                                                                                    \
    lib.there = lib.there && (lib.name = (result(*) parameters)dlsym(so, "curl_" #name)) != NULL;
    CURL_LIST(X)
#undef X
    if (lib.there) lib.there = lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct hub_http {
    CURL *curl;
    /* of the request under way */
    hub_request *q;
    hub_head *head; /* of the reply under way */
    hub_head own;   /* of the last reply of the request's own host, once it has led to another one */
    bool away;
    uint64_t skip;  /* bytes of the body before `from`: the server sends the whole file */
    uint64_t other; /* bytes of a body that is not taken */
    bool begun, full, silent;
    double last; /* clock_now when it began, or when bytes of the file came */
    err *e;
    char why[CURL_ERROR_SIZE];
};

int hub_http_open(hub_http **out, err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    if (!lib.there) return err_set(e, ERR_IO, "libcurl.so.4 is not on this machine: downloads need it");
    hub_http *h = *out = mem_zero(1, sizeof *h);
    if (!h || !(h->curl = lib.easy_init())) {
        mem_free(h);
        return err_memory(e, NULL);
    }
    return OK;
}

void hub_http_close(hub_http *h)
{
    if (!h) return;
    lib.easy_cleanup(h->curl);
    mem_free(h);
}

static size_t on_head(char *p, size_t size, size_t n, void *of)
{
    hub_http *h = of;
    hub_head_line(h->head, span_of(p, size * n));
    return size * n;
}

/* Whether the body that begins is the one that was asked for. */
static int check_body(hub_http *h)
{
    const hub_request *q = h->q;
    const hub_head *head = h->head;
    const char *etag = hub_head_etag(h->away ? &h->own : head);
    h->skip = 0;
    if (q->etag && *etag && strcmp(etag, q->etag) != 0)
        return err_set(h->e, ERR_FORMAT, "the file has changed since the download began");
    if (!q->total) return OK;
    const int64_t said = head->status == 206 ? head->total : head->length, total = (int64_t)q->total;
    if (said >= 0 && said != total)
        return err_set(h->e, ERR_FORMAT, "the hub sends %lld bytes, and said %lld", (long long)said, (long long)total);
    if (head->status == 206 && head->from != (int64_t)q->from)
        return err_set(h->e, ERR_FORMAT, "the hub sends other bytes than were asked for");
    if (head->status == 200) h->skip = q->from;
    return OK;
}

static int take_body(hub_http *h, const char *p, size_t n)
{
    hub_request *q = h->q;
    if (h->skip) {
        const size_t skipped = h->skip < n ? (size_t)h->skip : n;
        h->skip -= skipped;
        p += skipped;
        n -= skipped;
    }
    const uint64_t left = q->total ? q->end - q->from : n;
    const bool whole = h->head->status == 200 && q->end < q->total;
    if (n > left && !whole) return err_set(h->e, ERR_FORMAT, "the hub sends more bytes than it said");
    const size_t taken = n > left ? (size_t)left : n;
    const int rc = taken ? q->take(q->to, p, taken, h->e) : OK;
    if (!rc) q->from += taken;
    h->full = n > left;
    return rc;
}

/* Returning less than came ends the transfer. */
static size_t on_body(char *p, size_t size, size_t n, void *of)
{
    hub_http *h = of;
    const size_t bytes = size * n;
    const int status = h->head->status;
    if ((status != 200 && status != 206) || h->q->head) {
        h->other += bytes;
        h->full = h->other > OTHER_BODY_MAX;
        return h->full ? 0 : bytes;
    }
    if (!h->begun && check_body(h)) return 0;
    h->begun = true;
    h->last = clock_now();
    atomic_store(h->q->heard, h->last);
    return take_body(h, p, bytes) || h->full ? 0 : bytes;
}

/* Called about once a second: whether to end. Heads that trickle are silence, too. */
static int on_progress(void *of, long long a, long long b, long long c, long long d)
{
    (void)a, (void)b, (void)c, (void)d;
    hub_http *h = of;
    h->silent = clock_now() - h->last > SILENT_SECONDS;
    return h->silent || atomic_load(h->q->stop);
}

/* "https://host:port" of a URL; 0: it has another scheme, a user or no host. */
static size_t origin_of(const char *url)
{
    const size_t scheme = strncasecmp(url, "https://", 8) == 0 ? 8 : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
    const size_t n = scheme ? strcspn(url + scheme, "/?#") : 0;
    return n && !memchr(url + scheme, '@', n) ? scheme + n : 0;
}

static bool same_origin(const char *a, const char *b)
{
    const size_t n = origin_of(a);
    return n && n == origin_of(b) && strncasecmp(a, b, n) == 0;
}

static int check_url(const char *from, const char *url, err *e)
{
    if (!origin_of(url))
        return err_set(e, ERR_FORMAT, "the hub leads to %.100s: only http and https are followed", url);
    if (strncasecmp(from, "https:", 6) == 0 && strncasecmp(url, "https:", 6) != 0)
        return err_set(e, ERR_FORMAT, "the hub leads from https to %.100s", url);
    return OK;
}

/* What kind of failure a code of libcurl is. */
static int fail_transfer(hub_http *h, CURLcode code, err *e)
{
    const char *why = *h->why ? h->why : lib.easy_strerror(code);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        if (h->silent) return err_set(e, ERR_UNAVAILABLE, "nothing came for %d seconds", SILENT_SECONDS);
        return err_set(e, ERR_CANCELLED, "cancelled");
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT: return err_set(e, ERR_FORMAT, "%s", why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_OUT_OF_MEMORY: return err_set(e, ERR_IO, "%s", why);
    default: return err_set(e, ERR_UNAVAILABLE, "%s", why);
    }
}

static void set_request(hub_http *h, const char *url, struct curl_slist *lines)
{
    const hub_request *q = h->q;
    CURL *c = h->curl;
    char range[64];
    lib.easy_setopt(c, CURLOPT_URL, url);
    lib.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib.easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    lib.easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER);
    lib.easy_setopt(c, CURLOPT_USERAGENT, "inferflow");
    lib.easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
    lib.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    lib.easy_setopt(c, CURLOPT_HEADERDATA, h);
    lib.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    lib.easy_setopt(c, CURLOPT_WRITEDATA, h);
    lib.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    lib.easy_setopt(c, CURLOPT_XFERINFODATA, h);
    lib.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    lib.easy_setopt(c, CURLOPT_HTTPHEADER, lines);
    lib.easy_setopt(c, CURLOPT_HTTPGET, 1L);
    lib.easy_setopt(c, CURLOPT_NOBODY, q->head ? 1L : 0L);
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)q->from, (unsigned long long)q->end - 1);
    lib.easy_setopt(c, CURLOPT_RANGE, q->total ? range : NULL);
}

/* One request and its reply; *next: where that leads, "" if nowhere. */
static int ask_once(hub_http *h, const char *url, buf *next, err *e)
{
    const hub_request *q = h->q;
    char line[1100];
    struct curl_slist *lines = NULL;
    snprintf(line, sizeof line, "Authorization: Bearer %.1000s", q->token);
    lines = lib.slist_append(NULL, "Accept-Encoding: identity"); /* ranges are of the file, not of its packed form */
    if (lines && *q->token && same_origin(q->url, url)) lib.slist_append(lines, line);
    if (!lines) return err_memory(e, NULL);
    hub_head_begin(h->head);
    h->begun = h->full = h->silent = false;
    h->last = clock_now();
    h->other = 0;
    h->why[0] = 0;
    h->e = e;
    set_request(h, url, lines);
    const CURLcode code = lib.easy_perform(h->curl);
    char *to = NULL;
    lib.easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &to);
    next->n = 0;
    if (to && h->head->status >= 300 && h->head->status < 400) buf_str(next, to);
    lib.slist_free_all(lines);
    if (e->code) return e->code;
    if (next->bad) return err_memory(e, NULL);
    return code == CURLE_OK || h->full ? OK : fail_transfer(h, code, e);
}

/* What the last reply says, with what the request's own host has said of the file. */
static void keep_names(hub_head *head, const hub_head *own)
{
    memcpy(head->etag, own->etag, sizeof head->etag);
    memcpy(head->linked_etag, own->linked_etag, sizeof head->linked_etag);
    memcpy(head->commit, own->commit, sizeof head->commit);
    if (own->linked_bytes >= 0) head->linked_bytes = own->linked_bytes;
}

static int follow(hub_http *h, buf *url, buf *next, err *e)
{
    hub_request *q = h->q;
    hub_head *head = h->head;
    h->away = false;
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        const char *at = buf_cstr(url);
        int rc = ask_once(h, at, next, e);
        if (rc) return rc;
        if (h->away && *hub_head_etag(&h->own)) keep_names(head, &h->own);
        const bool named = *hub_head_etag(head) && hub_head_bytes(head) >= 0;
        if (!next->n) return OK;
        if ((rc = check_url(at, buf_cstr(next), e))) return rc;
        if (!same_origin(q->url, buf_cstr(next))) {
            if (q->head && named) return OK;
            if (!h->away) h->own = *head;
            h->away = true;
        }
        url->n = 0;
        buf_add(url, next->p, next->n);
        if (url->bad) return err_memory(e, NULL);
    }
    return err_set(e, ERR_FORMAT, "the hub redirects more than %d times", HOPS_MAX);
}

int hub_http_ask(hub_http *h, hub_request *q, hub_head *head, err *e)
{
    buf url = {0}, next = {0};
    h->q = q;
    h->head = head;
    buf_str(&url, q->url);
    int rc = check_url("", q->url, e);
    if (!rc) rc = follow(h, &url, &next, e);
    const bool well = !rc && (head->status == 200 || head->status == 206) && !q->head;
    if (well && q->total && q->from < q->end) rc = err_set(e, ERR_UNAVAILABLE, "the connection ended too early");
    buf_free(&url);
    buf_free(&next);
    return rc;
}

bool hub_url_add(buf *url, const char *text)
{
    for (; *text; text++) {
        const char c = *text;
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || strchr("-._~/", c)) buf_byte(url, (uint8_t)c);
        else buf_printf(url, "%%%02X", (unsigned)(uint8_t)c);
    }
    return !url->bad;
}
