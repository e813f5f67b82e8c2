/* api_page.c - GET /: the web page (src/serve/page), which needs no other host.
 *
 * The style sheet and the scripts go into the two empty elements of page.html, so that one file is sent. Its
 * Content-Security-Policy allows nothing but this server and that one style and one script, named by their digests. */
#define _GNU_SOURCE
#include "base/base64.h"
#include "base/embed.h"
#include "base/sha256.h"
#include "serve/api_list.h"

#include <pthread.h>
#include <string.h>

/* In the order in which they run. */
static const char *const styles[] = {"page.css", NULL};
static const char *const scripts[] = {"page_keep.js", "page_server.js", "page_markdown.js",
                                      "page_view.js", "page.js",        NULL};

static buf page, policy;

/* A file without the comment at its head. */
static span load_file(const char *name, const char *end_of_head)
{
    const span file = embedded_find(name);
    const uint8_t *at = memmem(file.p, file.n, end_of_head, strlen(end_of_head));
    const size_t n = at ? (size_t)(at - file.p) + strlen(end_of_head) : 0;
    return span_of(file.p + n, file.n - n);
}

/* Adds a file without the blanks at the beginning of its lines. */
static void add_lines(span file)
{
    for (bool begins = true; file.n; file = span_of(file.p + 1, file.n - 1)) {
        begins = begins && *file.p == ' ';
        if (!begins) buf_byte(&page, *file.p);
        begins = begins || *file.p == '\n';
    }
}

/* Moves what is left of the page up to behind `mark`, then adds files and, to the policy, the digest of them all. */
static void add_files(span *left, const char *mark, const char *const *names)
{
    uint8_t digest[SHA256_BYTES];
    const uint8_t *at = memmem(left->p, left->n, mark, strlen(mark));
    const size_t before = at ? (size_t)(at - left->p) + strlen(mark) : 0;
    buf_add(&page, left->p, before);
    *left = span_of(left->p + before, left->n - before);
    const size_t from = page.n;
    for (; *names; names++) {
        add_lines(load_file(*names, "*/\n"));
    }
    sha256_of(page.p + from, page.n - from, digest);
    buf_str(&policy, " 'sha256-");
    base64_encode(span_of(digest, sizeof digest), &policy);
    buf_byte(&policy, '\'');
}

static void make_page(void)
{
    span left = load_file("page.html", "-->\n");
    buf_str(&policy, "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                     "frame-ancestors 'none'; style-src");
    add_files(&left, "<style>", styles);
    buf_str(&policy, "; script-src");
    add_files(&left, "<script>", scripts);
    buf_add(&page, left.p, left.n);
}

static void handle_page(server *s, exchange *x)
{
    (void)s;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_page);
    if (page.bad || policy.bad) {
        reply_error(x, 500, NULL, NULL, "out of memory");
        return;
    }
    x->status = 200;
    x->content_type = "text/html; charset=utf-8";
    exchange_add_header(x, "Content-Security-Policy", buf_cstr(&policy));
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cache-Control", "no-cache");
    buf_add(&x->out, page.p, page.n);
}

const route route_page = {.method = "GET", .path = "/", .open_to_all = true, .handle = handle_page};
