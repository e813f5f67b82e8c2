/* api_page.c - GET /: the web page (page.html), which needs no other host.
 *
 * Its Content-Security-Policy allows nothing but this server and the one style and the one script of the file, named by
 * their digests. */
#define _GNU_SOURCE
#include "base/base64.h"
#include "base/embed.h"
#include "base/sha256.h"
#include "serve/api_list.h"

#include <pthread.h>
#include <string.h>

static char policy[512];

/* Adds " 'sha256-…'" of what stands between two marks. */
static void add_digest(buf *to, span page, const char *from, const char *upto)
{
    uint8_t digest[SHA256_BYTES];
    const uint8_t *a = memmem(page.p, page.n, from, strlen(from));
    const uint8_t *b = a ? memmem(a, page.n - (size_t)(a - page.p), upto, strlen(upto)) : NULL;
    if (!b) return;
    a += strlen(from);
    sha256_of(a, (size_t)(b - a), digest);
    buf_str(to, " 'sha256-");
    base64_encode(span_of(digest, sizeof digest), to);
    buf_byte(to, '\'');
}

static void make_policy(void)
{
    const span page = embedded_find("page.html");
    buf b = {0};
    buf_str(&b, "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'; style-src");
    add_digest(&b, page, "<style>", "</style>");
    buf_str(&b, "; script-src");
    add_digest(&b, page, "<script>", "</script>");
    if (b.n < sizeof policy) memcpy(policy, buf_cstr(&b), b.n + 1);
    buf_free(&b);
}

static void handle_page(server *s, exchange *x)
{
    (void)s;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const span page = embedded_find("page.html");
    pthread_once(&once, make_policy);
    x->status = 200;
    x->content_type = "text/html; charset=utf-8";
    exchange_add_header(x, "Content-Security-Policy", policy);
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cache-Control", "no-cache");
    buf_add(&x->out, page.p, page.n);
}

const route route_page = {.method = "GET", .path = "/", .open_to_all = true, .handle = handle_page};
