/* hub_pull.c - see hub_pull.h. Threads take what is next: first what the hub says of each file, then parts of files,
 * one file after another, so that few are unfinished at any time. Files that another program downloads come last. */
#include "hub/hub_pull.h"

#include "base/cond.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "hub/hub_ask.h"
#include "hub/hub_blob.h"
#include "hub/hub_choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LISTING_MAX = 64 << 20,
    INDEX_MAX = 1 << 28,
    CONNECTIONS_MAX = 64,
    PAGES_MAX = 1000,
    LONG = 1 << 20,
    WORTH = 32 << 20
};
/* Seconds until threads look again, and after which one more connection is used for long files, of which two, and one
 * more for each 32 MB to come, are used: what each of them has under way is lost when the download is killed. */
static const double look_again = 0.2, apart = 0.5;

/* A file goes through these. ASKED and CHECKED: a thread is at it. */
typedef enum { NEW, ASKED, KNOWN, OPEN, CHECKED, DONE } pull_state;

typedef struct pull_file {
    const char *name;
    pull_state state;
    char etag[HUB_WORD];
    uint64_t bytes;
    hub_blob blob;
    uint32_t next_part, parts_left;
} pull_file;

typedef struct pull {
    hub_client client;
    hub_cache cache;
    hub_listing list;
    pull_file *file;
    size_t n_file;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double began;
    int started;        /* threads */
    size_t working;     /* threads that have not ended */
    bool told_wait;     /* said that another program is waited for */
    atomic_ullong come; /* bytes that are here */
    unsigned long long total;
    err failed; /* the first error */
} pull;

typedef struct job {
    pull *p;
    pull_file *f;
    uint32_t part; /* of an OPEN file */
    bool waits;    /* its thread leaves long files to the threads before it, for now */
} job;

static void fail_pull(pull *p, const err *own)
{
    pthread_mutex_lock(&p->lock);
    if (own->code != ERR_CANCELLED) err_copy(&p->failed, own);
    atomic_store(&p->client.stop, true);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* "ENDPOINT/ORG/NAME/resolve/COMMIT/FILE" */
static bool file_url(const pull *p, const pull_file *f, buf *url)
{
    buf_printf(url, "%s/%s/resolve/%s/", p->client.endpoint, p->client.repo, p->list.commit);
    return hub_url_add(url, f->name) && buf_byte(url, 0);
}

/* ---- what a thread does */

static int ask_file(pull *p, hub_http *h, pull_file *f, err *e)
{
    buf url = {0};
    hub_head head;
    hub_request q = {.head = true, .file = f->name};
    if (!file_url(p, f, &url)) return err_memory(e, NULL);
    q.url = (const char *)url.p;
    int rc = hub_ask(&p->client, h, &q, &head, e);
    buf_free(&url);
    if (rc) return rc;
    if (!*hub_head_etag(&head) || hub_head_bytes(&head) < 0)
        return err_set(e, ERR_FORMAT, "%s/%s: the hub does not say its ETag and size", p->client.repo, f->name);
    if (*head.commit && strcmp(head.commit, p->list.commit) != 0)
        return err_set(e, ERR_FORMAT, "%s/%s: of commit %.40s, and not %.40s", p->client.repo, f->name, head.commit,
                       p->list.commit);
    snprintf(f->etag, sizeof f->etag, "%s", hub_head_etag(&head));
    f->bytes = (uint64_t)hub_head_bytes(&head);
    return OK;
}

static int take_part(void *to, const void *p, size_t n, err *e)
{
    const job *j = to;
    atomic_fetch_add(&j->p->come, n);
    return hub_blob_add(&j->f->blob, j->part, p, n, e);
}

static int fetch_part(hub_http *h, job *j, err *e)
{
    pull *p = j->p;
    hub_blob *b = &j->f->blob;
    buf url = {0};
    hub_head head;
    if (!file_url(p, j->f, &url)) return err_memory(e, NULL);
    hub_request q = {.url = (const char *)url.p,
                     .file = j->f->name,
                     .from = j->part * b->part_bytes + b->done[j->part],
                     .end = hub_blob_end(b, j->part),
                     .total = b->bytes,
                     .etag = j->f->etag,
                     .take = take_part,
                     .to = j};
    int rc = hub_ask(&p->client, h, &q, &head, e);
    buf_free(&url);
    return rc;
}

/* A file that has just become whole, or was there. */
static void end_file(pull *p, pull_file *f)
{
    pthread_mutex_lock(&p->lock);
    hub_blob_close(&f->blob);
    f->state = DONE;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static int finish_file(pull *p, pull_file *f, err *e)
{
    int rc = hub_blob_finish(&f->blob, e);
    if (rc) return err_wrap(e, "%s/%s", p->client.repo, f->name);
    end_file(p, f);
    return OK;
}

/* ---- what is next; under the lock */

/* The next part of an open file that is not whole; false: all are given out. */
static bool next_part(pull_file *f, uint32_t *part)
{
    const hub_blob *b = &f->blob;
    while (f->next_part < b->n_part) {
        *part = f->next_part++;
        if (*part * b->part_bytes + b->done[*part] < hub_blob_end(b, *part)) return true;
        f->parts_left--;
    }
    return false;
}

/* Opens the blob of a file whose name is known. ERR_BUSY: not now. */
static int open_file(pull *p, pull_file *f, err *e)
{
    bool there = hub_cache_has(&p->cache, p->list.commit, f->name, f->etag, f->bytes);
    int rc = there ? OK : hub_blob_open(&f->blob, &p->cache, f->etag, f->bytes, &there, e);
    if (rc) return rc;
    f->state = there ? DONE : OPEN;
    f->next_part = 0;
    f->parts_left = there ? 0 : f->blob.n_part;
    uint64_t have = there ? f->bytes : 0;
    for (uint32_t i = 0; i < f->parts_left; i++) have += f->blob.done[i];
    atomic_fetch_add(&p->come, have);
    return OK;
}

static pull_file *find_state(pull *p, pull_state state, pull_file *from)
{
    for (pull_file *f = from; f < p->file + p->n_file; f++)
        if (f->state == state) return f;
    return NULL;
}

/* 1: *j is to be done, 0: all is done or has failed, -1: others are at what is left. */
static int next_job(pull *p, job *j, err *e)
{
    if (atomic_load(&p->client.stop)) return 0;
    if ((j->f = find_state(p, NEW, p->file))) {
        j->f->state = ASKED;
        return 1;
    }
    for (pull_file *f = p->file; (f = find_state(p, OPEN, f)); f++) {
        j->f = f;
        if (j->waits && f->bytes > LONG) continue;
        if (next_part(f, &j->part)) return 1;
        if (!f->parts_left) { /* it was whole when it was opened */
            f->state = CHECKED;
            return 1;
        }
    }
    for (pull_file *f = p->file; (f = find_state(p, KNOWN, f)); f++) {
        if (j->waits && f->bytes > LONG) continue;
        err own = {0};
        const int rc = open_file(p, f, &own);
        if (!rc) return next_job(p, j, e);
        if (rc != ERR_BUSY) return err_copy(e, &own), 0;
        if (!p->told_wait) hub_tell(&p->client, own.msg);
        p->told_wait = true;
    }
    for (pull_file *f = p->file; f < p->file + p->n_file; f++)
        if (f->state != DONE) return -1;
    return 0;
}

static int do_job(hub_http *h, job *j, err *e)
{
    pull *p = j->p;
    pull_file *f = j->f;
    if (f->state == CHECKED) return finish_file(p, f, e);
    const bool asks = f->state == ASKED;
    int rc = asks ? ask_file(p, h, f, e) : fetch_part(h, j, e);
    if (rc) return rc;
    pthread_mutex_lock(&p->lock);
    if (asks) f->state = KNOWN, p->total += f->bytes;
    const bool whole = !asks && --f->parts_left == 0;
    if (whole) f->state = CHECKED;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return whole ? finish_file(p, f, e) : OK;
}

static void *work(void *of)
{
    pull *p = of;
    hub_http *h = NULL;
    err own = {0};
    int rc = hub_http_open(&h, &own);
    pthread_mutex_lock(&p->lock);
    const int number = p->started++;
    pthread_mutex_unlock(&p->lock);
    while (!rc) {
        job j = {.p = p};
        pthread_mutex_lock(&p->lock);
        const double left = (double)p->total - (double)atomic_load(&p->come);
        j.waits = number && (clock_now() < p->began + apart * number || number > 1 + (int)(left / WORTH));
        const int what = next_job(p, &j, &own);
        if (what < 0) cond_wait(&p->changed, &p->lock, clock_now() + look_again);
        pthread_mutex_unlock(&p->lock);
        if (!what) break;
        if (what > 0) rc = do_job(h, &j, &own);
    }
    hub_http_close(h);
    if (own.code) fail_pull(p, &own);
    pthread_mutex_lock(&p->lock);
    p->working--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- */

/* Brings all files that are not DONE; this thread shows how far they are. */
static int fetch_files(pull *p, int connections, err *e)
{
    pthread_t thread[CONNECTIONS_MAX];
    int n = 0;
    p->working = (size_t)connections;
    p->started = 0;
    p->began = clock_now();
    for (; n < connections; n++)
        if (pthread_create(&thread[n], NULL, work, p)) break;
    pthread_mutex_lock(&p->lock);
    p->working -= (size_t)(connections - n);
    while (p->working) {
        cond_wait(&p->changed, &p->lock, clock_now() + look_again);
        const unsigned long long come = atomic_load(&p->come), total = p->total;
        if (!find_state(p, NEW, p->file) && !find_state(p, ASKED, p->file) && come < total)
            log_progress(p->client.repo, "bytes", come, total);
    }
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    if (!n) err_set(&p->failed, ERR_IO, "no thread could be started");
    log_progress_end();
    for (pull_file *f = p->file; f < p->file + p->n_file; f++)
        if (f->state == OPEN || f->state == CHECKED) hub_blob_close(&f->blob);
    return err_copy(e, &p->failed);
}

/* Files of the choice that are not in the list yet. */
static int add_files(pull *p, const hub_choice *c, err *e)
{
    pull_file *all = mem_resize(p->file, c->n + 1, sizeof *all);
    if (!all) return err_memory(e, NULL);
    p->file = all;
    for (size_t i = p->n_file; i < c->n; i++) {
        bool listed = false;
        for (size_t k = 0; k < p->list.n; k++) listed |= strcmp(p->list.name[k], c->name[i]) == 0;
        if (!listed)
            return err_set(e, ERR_NOT_FOUND, "%s: %s names %.200s, and the hub has no such file", p->client.repo,
                           c->index ? c->index : "the index", c->name[i]);
        all[p->n_file++] = (pull_file){.name = c->name[i]};
    }
    return OK;
}

static int add_shards(pull *p, hub_choice *c, err *e)
{
    char *path = NULL;
    json *index = NULL;
    for (size_t i = 0; i < p->n_file && !path; i++)
        if (strcmp(p->file[i].name, c->index) == 0) path = file_join(p->cache.blobs, p->file[i].etag);
    int rc = path ? json_read(&index, path, INDEX_MAX, e) : err_memory(e, NULL);
    if (!rc) rc = hub_choose_shards(c, index, c->index, e);
    json_free(index);
    mem_free(path);
    return rc ? err_wrap(e, "%s", p->client.repo) : add_files(p, c, e);
}

static int take_listing(void *to, const void *p, size_t n, err *e)
{
    buf *b = to;
    if (b->n + n > LISTING_MAX) return err_set(e, ERR_LIMIT, "its list of files is longer than %d bytes", LISTING_MAX);
    return buf_add(b, p, n) ? OK : err_memory(e, NULL);
}

/* A JSON of the hub, at a URL that the buffer holds. */
static int ask_json(pull *p, hub_http *h, buf *url, buf *body, hub_head *head, err *e)
{
    hub_request q = {.url = buf_cstr(url), .take = take_listing, .to = body};
    body->n = 0;
    return url->bad ? err_memory(e, NULL) : hub_ask(&p->client, h, &q, head, e);
}

/* Adds all pages of the tree. */
static int read_tree(pull *p, hub_http *h, buf *url, buf *body, err *e)
{
    hub_head head;
    const size_t n = strlen(p->client.endpoint);
    url->n = 0;
    buf_printf(url, "%s/api/models/%s/tree/%s?recursive=true&expand=false", p->client.endpoint, p->client.repo,
               p->list.commit);
    for (int page = 0; page < PAGES_MAX; page++) {
        int rc = ask_json(p, h, url, body, &head, e);
        if (!rc) rc = hub_listing_add(&p->list, buf_span(body), p->client.repo, e);
        if (rc || !*head.next) return rc;
        url->n = 0;
        if (*head.next == '/') buf_str(url, p->client.endpoint);
        else if (strncmp(head.next, p->client.endpoint, n) != 0 || head.next[n] != '/')
            return err_set(e, ERR_FORMAT, "%s: its list goes on at another host: %.100s", p->client.repo, head.next);
        buf_str(url, head.next);
    }
    return err_set(e, ERR_LIMIT, "%s: its list has more than %d pages", p->client.repo, PAGES_MAX);
}

static int read_listing(pull *p, const hub_name *name, err *e)
{
    buf url = {0}, body = {0};
    hub_http *h = NULL;
    hub_head head;
    buf_printf(&url, "%s/api/models/%s/revision/", p->client.endpoint, name->repo);
    for (const char *s = name->revision; *s; s++) { /* a branch may have slashes */
        const char one[2] = {*s, 0};
        if (*s == '/') buf_str(&url, "%2F");
        else hub_url_add(&url, one);
    }
    int rc = hub_http_open(&h, e);
    if (!rc) rc = ask_json(p, h, &url, &body, &head, e);
    if (!rc) rc = hub_listing_read(&p->list, buf_span(&body), name->repo, e);
    if (!rc && !p->list.n) rc = read_tree(p, h, &url, &body, e);
    hub_http_close(h);
    buf_free(&url);
    buf_free(&body);
    return rc;
}

static int link_files(pull *p, const hub_name *name, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < p->n_file && !rc; i++) {
        const pull_file *f = &p->file[i];
        if (!hub_cache_has(&p->cache, p->list.commit, f->name, f->etag, f->bytes))
            rc = hub_cache_link(&p->cache, p->list.commit, f->name, f->etag, e);
    }
    return rc ? rc : hub_cache_note(&p->cache, name->revision, p->list.commit, e);
}

static int run_pull(pull *p, const hub_name *name, int connections, err *e)
{
    hub_choice c = {0};
    int rc = read_listing(p, name, e);
    if (!rc) rc = hub_choose(&c, p->list.name, p->list.n, name->pick, name->repo, e);
    if (!rc) rc = add_files(p, &c, e);
    if (!rc) rc = fetch_files(p, connections, e);
    if (!rc && c.index && !(rc = add_shards(p, &c, e))) rc = fetch_files(p, connections, e);
    if (!rc) rc = link_files(p, name, e);
    hub_choice_free(&c);
    return rc;
}

static bool is_offline(void)
{
    const char *v = getenv("HF_HUB_OFFLINE");
    static const char *const yes[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; v && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(v, yes[i]) == 0) return true;
    return false;
}

int hub_pull(const hub_name *name, const char *endpoint, int connections, char **path, err *e)
{
    pull p = {.lock = PTHREAD_MUTEX_INITIALIZER};
    char host[1000];
    const char *said = getenv("HF_ENDPOINT");
    if (!endpoint) endpoint = said && *said ? said : "https://huggingface.co";
    size_t n = strlen(endpoint);
    while (n && endpoint[n - 1] == '/') n--;
    if (n >= sizeof host) return err_set(e, ERR_USAGE, "%.100s…: too long for an endpoint", endpoint);
    snprintf(host, sizeof host, "%.*s", (int)n, endpoint);
    p.client.endpoint = host;
    p.client.repo = name->repo;
    atomic_store(&p.client.heard, clock_now());
    hub_cache_token(p.client.token, sizeof p.client.token);
    cond_open(&p.changed);
    *path = NULL;
    int rc = hub_cache_open(&p.cache, name->repo, e);
    if (!rc && !is_offline()) rc = run_pull(&p, name, connections, e);
    if (!rc && (rc = hub_cache_find(&p.cache, name, path, e)) && is_offline())
        err_wrap(e, "HF_HUB_OFFLINE is set: nothing is downloaded");
    pthread_cond_destroy(&p.changed);
    mem_free(p.file);
    hub_listing_free(&p.list);
    hub_cache_close(&p.cache);
    return rc;
}
