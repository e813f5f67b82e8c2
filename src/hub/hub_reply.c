/* hub_reply.c - see hub_reply.h. RateLimit is read as the IETF draft has it, `"api";r=0;t=55`, and as drafts before it
 * had it, `limit=100, remaining=0, reset=50`. */
#define _GNU_SOURCE
#include "hub/hub_reply.h"

#include "base/json.h"
#include "base/mem.h"
#include "hub/hub_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { WAIT_MAX = 1 << 20 };

void hub_head_begin(hub_head *h)
{
    *h = (hub_head){.linked_bytes = -1, .length = -1, .from = -1, .total = -1, .wait = -1};
}

static void copy_value(char *to, size_t cap, span s)
{
    const size_t n = s.n < cap - 1 ? s.n : cap - 1;
    if (n) memcpy(to, s.p, n);
    to[n] = 0;
}

/* A whole number from the start of a text; -1: none, or too large. */
static int64_t read_number(const char *s, const char **end)
{
    int64_t v = 0;
    const char *at = s;
    if (end) *end = s;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (v > (INT64_MAX - 9) / 10) return -1;
        v = v * 10 + (*at - '0');
    }
    if (end) *end = at;
    return at > s ? v : -1;
}

static int64_t whole_number(const char *s)
{
    const char *end;
    const int64_t v = read_number(s, &end);
    return v >= 0 && !*end ? v : -1;
}

/* `W/"5f…"` -> 5f…; what cannot name a file is left out. */
static void read_etag(char to[HUB_WORD], const char *s)
{
    if (strncmp(s, "W/", 2) == 0) s += 2;
    size_t n = strlen(s);
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') s++, n -= 2;
    to[0] = 0;
    if (n >= HUB_WORD) return;
    memcpy(to, s, n);
    to[n] = 0;
    if (!hub_name_is_plain(to)) to[0] = 0;
}

/* "bytes 100-199/5000" */
static void read_range(hub_head *h, const char *s)
{
    const char *end;
    if (strncasecmp(s, "bytes ", 6) != 0) return;
    const int64_t from = read_number(s + 6, &end), to = *end == '-' ? read_number(end + 1, &end) : -1;
    if (from < 0 || to < from || *end != '/') return;
    h->from = from;
    h->total = whole_number(end + 1);
}

static void wait_longer(hub_head *h, int64_t seconds)
{
    if (seconds > h->wait) h->wait = seconds < WAIT_MAX ? (int)seconds : WAIT_MAX;
}

static void read_rate_limit(hub_head *h, const char *s)
{
    const char *t = strstr(s, "t=");
    while (t && t > s && !strchr("; ,", t[-1])) t = strstr(t + 1, "t=");
    if (!t && (t = strstr(s, "reset="))) t += 4;
    if (t) wait_longer(h, read_number(t + 2, NULL));
}

/* Seconds, or a date. */
static void read_retry(hub_head *h, const char *s)
{
    struct tm at = {0};
    const int64_t seconds = whole_number(s);
    if (seconds >= 0) wait_longer(h, seconds);
    else if (strptime(s, "%a, %d %b %Y %H:%M:%S GMT", &at)) wait_longer(h, (int64_t)(timegm(&at) - time(NULL)));
}

/* `<URL>; rel="next"` */
static void read_link(hub_head *h, const char *s)
{
    const char *end = *s == '<' ? strchr(s, '>') : NULL;
    if (end && strstr(end, "rel=\"next\"")) copy_value(h->next, sizeof h->next, span_of(s + 1, (size_t)(end - s - 1)));
}

void hub_head_line(hub_head *h, span line)
{
    char text[1024];
    const uint8_t *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (span_starts(line, "HTTP/")) {
        copy_value(text, sizeof text, line);
        const char *blank = strchr(text, ' ');
        hub_head_begin(h);
        h->status = blank ? (int)(read_number(blank + 1, NULL) % 1000) : 0;
        return;
    }
    if (!colon) return;
    const span key = span_of(line.p, (size_t)(colon - line.p)),
               value = span_without_blanks(span_of(colon + 1, line.n - key.n - 1));
    char name[40];
    if (key.n >= sizeof name || value.n >= sizeof text) return;
    copy_value(name, sizeof name, key);
    copy_value(text, sizeof text, value);
    if (strcasecmp(name, "ETag") == 0) read_etag(h->etag, text);
    else if (strcasecmp(name, "X-Linked-Etag") == 0) read_etag(h->linked_etag, text);
    else if (strcasecmp(name, "X-Repo-Commit") == 0) read_etag(h->commit, text);
    else if (strcasecmp(name, "X-Linked-Size") == 0) h->linked_bytes = whole_number(text);
    else if (strcasecmp(name, "Content-Length") == 0) h->length = whole_number(text);
    else if (strcasecmp(name, "Content-Range") == 0) read_range(h, text);
    else if (strcasecmp(name, "RateLimit") == 0) read_rate_limit(h, text);
    else if (strcasecmp(name, "Retry-After") == 0) read_retry(h, text);
    else if (strcasecmp(name, "Link") == 0) read_link(h, text);
    else if (strcasecmp(name, "X-Error-Code") == 0) copy_value(h->code, sizeof h->code, value);
    else if (strcasecmp(name, "X-Error-Message") == 0) copy_value(h->reason, sizeof h->reason, value);
}

const char *hub_head_etag(const hub_head *h) { return *h->linked_etag ? h->linked_etag : h->etag; }

int64_t hub_head_bytes(const hub_head *h)
{
    const bool redirects = h->status >= 300 && h->status < 400;
    return h->linked_bytes >= 0 || redirects ? h->linked_bytes : h->length;
}

/* ---- */

static int add_name(hub_listing *l, const char *name, const char *what, err *e)
{
    if (!hub_name_stays(name))
        return err_set(e, ERR_FORMAT, "%s: the hub lists \"%.80s\", which is no file in its folder", what, name);
    if (!mem_grow((void **)&l->name, &l->cap, l->n + 1, sizeof *l->name)) return err_memory(e, NULL);
    if (!(l->name[l->n] = mem_str(name))) return err_memory(e, NULL);
    l->n++;
    return OK;
}

int hub_listing_read(hub_listing *l, span body, const char *what, err *e)
{
    json *j = NULL;
    *l = (hub_listing){0};
    int rc = json_parse(&j, body, what, e);
    const char *commit = json_str(json_get(j, "sha"), "");
    const json *files = json_get(j, "siblings");
    if (!rc && !hub_name_is_plain(commit))
        rc = err_set(e, ERR_FORMAT, "%s: what the hub says of it names no commit (sha)", what);
    if (!rc) snprintf(l->commit, sizeof l->commit, "%s", commit);
    for (const json *f = json_first(files); f && !rc; f = json_next(f))
        rc = add_name(l, json_str(json_get(f, "rfilename"), ""), what, e);
    json_free(j);
    return rc;
}

int hub_listing_add(hub_listing *l, span page, const char *what, err *e)
{
    json *j = NULL;
    int rc = json_parse(&j, page, what, e);
    if (!rc && json_type(j) != JSON_ARRAY)
        rc = err_set(e, ERR_FORMAT, "%s: what the hub calls its tree is no list", what);
    for (const json *f = json_first(j); f && !rc; f = json_next(f))
        if (strcmp(json_str(json_get(f, "type"), "file"), "file") == 0)
            rc = add_name(l, json_str(json_get(f, "path"), ""), what, e);
    json_free(j);
    return rc;
}

void hub_listing_free(hub_listing *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->name[i]);
    mem_free(l->name);
    *l = (hub_listing){0};
}
