/* token_trie.c - see token_trie.h. Tokens are sorted by their bytes; the trie is what their common beginnings are. */
#include "sample/token_trie.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int trie_bucket(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z') return byte - 'a';
    if (byte >= 'A' && byte <= 'Z') return 26 + byte - 'A';
    if (byte >= '0' && byte <= '9') return 52;
    if (byte == '\n' || byte == '\r' || byte == '\t') return 57;
    if (byte < 0x20 || byte == 0x7f) return 58;
    return byte == ' ' ? 53 : byte == '"' ? 54 : byte == '\\' ? 55 : strchr("{}[]:,", byte) ? 56 : 59;
}

/* Buckets of a run of bytes that begins at a character, and how many characters it has; where its end cuts one, the
 * beginning must be valid. */
static uint64_t buckets_of(span s, int *chars)
{
    uint64_t all = 0;
    *chars = 0;
    for (size_t i = 0, n; i < s.n; i += n, ++*chars) {
        n = utf8_valid_length(s.p + i, s.n - i);
        if (n == 1) {
            all |= UINT64_C(1) << trie_bucket(s.p[i]);
            continue;
        }
        all |= UINT64_C(1) << BUCKET_BEYOND_ASCII;
        if (n) continue;
        if (utf8_incomplete_tail(span_of(s.p + i, s.n - i)) != s.n - i) all |= UINT64_C(1) << BUCKET_INVALID;
        n = s.n - i;
    }
    return all;
}

static bool ends_text(const trie_source *from, int32_t id)
{
    for (int i = 0; i < from->n_end; i++)
        if (from->ends[i] == id) return true;
    return false;
}

static int read_bytes(token_trie *t, const trie_source *from, err *e)
{
    buf all = {0}, one = {0};
    for (int32_t id = 0; id < t->n_vocab; id++) {
        t->start[id] = (uint32_t)all.n;
        one.n = 0;
        if (!ends_text(from, id)) from->bytes(from->ctx, id, &one);
        if (one.n <= TRIE_TOKEN_BYTES) buf_add(&all, one.p, one.n);
    }
    t->start[t->n_vocab] = (uint32_t)all.n;
    const bool bad = all.bad || one.bad;
    buf_free(&one);
    t->bytes = all.p;
    return bad ? err_memory(e, "the bytes of a vocabulary") : OK;
}

typedef struct token {
    span text;
    int32_t id;
} token;

static int by_bytes(const void *a, const void *b)
{
    const token *x = a, *y = b;
    const size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    const int order = memcmp(x->text.p, y->text.p, n);
    if (order) return order;
    return x->text.n != y->text.n ? (x->text.n < y->text.n ? -1 : 1) : x->id - y->id;
}

/* Nodes in the order of a walk; skip: the node after the subtree. */
typedef struct walk_order {
    trie_node *node;
    uint32_t *skip, *order; /* order: walk_order.node by place in the trie */
    uint32_t n;
} walk_order;

/* Makes the nodes from sorted tokens: those of a token are the ones on the path that the last token had not. */
static void walk_tokens(walk_order *w, token_trie *t, const token *sorted, size_t n)
{
    uint32_t path[TRIE_TOKEN_BYTES + 1] = {0}; /* nodes on the way to the last token */
    size_t depth = 0;
    w->n = 1;
    for (size_t i = 0; i < n; i++) {
        const span s = sorted[i].text;
        size_t same = 0;
        while (i && same < s.n && same < sorted[i - 1].text.n && s.p[same] == sorted[i - 1].text.p[same]) same++;
        for (; depth > same; depth--) w->skip[path[depth]] = w->n;
        for (; depth < s.n; depth++) {
            path[depth + 1] = w->n;
            w->node[w->n++] = (trie_node){.first = (uint32_t)i, .byte = s.p[depth]};
        }
        for (size_t d = 0; d < s.n; d++) {
            trie_node *x = &w->node[path[d + 1]];
            const span rest = span_of(s.p + d, s.n - d);
            if (rest.n > x->height) x->height = (uint8_t)rest.n;
            int chars;
            x->buckets |= utf8_is_valid(span_of(s.p, d)) ? buckets_of(rest, &chars) : UINT64_C(1) << BUCKET_INVALID;
            x->last = (uint32_t)i + 1;
        }
        t->id[i] = sorted[i].id;
    }
    for (; depth > 0; depth--) w->skip[path[depth]] = w->n;
    w->skip[0] = w->n;
    w->node[0].last = (uint32_t)n;
}

/* Lays the nodes out level by level. */
static void lay_out(token_trie *t, const walk_order *w)
{
    uint32_t n = 1;
    w->order[0] = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t at = w->order[k];
        t->node[k] = w->node[at];
        t->node[k].child = n;
        for (uint32_t c = at + 1; c < w->skip[at]; c = w->skip[c]) w->order[n++] = c;
        t->node[k].n_child = (uint16_t)(n - t->node[k].child);
    }
    t->n_node = n;
}

static int make_nodes(token_trie *t, const token *sorted, size_t n, err *e)
{
    size_t cap = 1;
    for (size_t i = 0; i < n; i++) cap += sorted[i].text.n;
    walk_order w = {.node = mem_zero(cap, sizeof *w.node),
                    .skip = mem_array(cap, sizeof *w.skip),
                    .order = mem_array(cap, sizeof *w.order)};
    bool ok = w.node && w.skip && w.order && (t->id = mem_array(n + 1, sizeof *t->id));
    if (ok) walk_tokens(&w, t, sorted, n);
    ok = ok && (t->node = mem_array(w.n, sizeof *t->node));
    if (ok) lay_out(t, &w);
    mem_free(w.node);
    mem_free(w.skip);
    mem_free(w.order);
    return ok ? OK : err_memory(e, "the trie of a vocabulary");
}

int token_trie_open(token_trie **out, const trie_source *from, err *e)
{
    token_trie *t = *out = mem_zero(1, sizeof *t);
    size_t n = 0;
    int rc = ERR_MEMORY;
    if (t) {
        t->start = mem_array((size_t)from->n_vocab + 1, sizeof *t->start);
        t->buckets = mem_array((size_t)from->n_vocab, sizeof *t->buckets);
        t->chars = mem_zero((size_t)from->n_vocab, sizeof *t->chars);
    }
    token *sorted = mem_array((size_t)from->n_vocab + 1, sizeof *sorted);
    if (!t || !t->start || !t->buckets || !t->chars || !sorted) {
        err_memory(e, "the bytes of a vocabulary");
    } else {
        t->n_vocab = from->n_vocab;
        t->n_word = ((size_t)from->n_vocab + 63) / 64;
        t->n_end = from->n_end;
        if (from->n_end) memcpy(t->ends, from->ends, (size_t)from->n_end * sizeof *t->ends);
        rc = read_bytes(t, from, e);
    }
    for (int32_t id = 0; !rc && id < t->n_vocab; id++) {
        const span s = span_of(t->bytes + t->start[id], t->start[id + 1] - t->start[id]);
        int chars;
        t->buckets[id] = s.n ? buckets_of(s, &chars) : UINT64_C(1) << BUCKET_INVALID;
        if (!s.n) continue;
        sorted[n++] = (token){s, id};
        t->chars[id] = (uint8_t)chars;
        if (chars > t->most_chars) t->most_chars = chars;
    }
    if (!rc) {
        qsort(sorted, n, sizeof *sorted, by_bytes);
        rc = make_nodes(t, sorted, n, e);
    }
    mem_free(sorted);
    if (!rc) return OK;
    token_trie_close(t);
    *out = NULL;
    return rc;
}

bool token_trie_has(const token_trie *t, span bytes)
{
    const trie_node *x = &t->node[0];
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t k = 0;
        while (k < x->n_child && t->node[x->child + k].byte != bytes.p[i]) k++;
        if (k == x->n_child) return false;
        x = &t->node[x->child + k];
    }
    return bytes.n && trie_own_end(t, x) > x->first;
}

void token_trie_close(token_trie *t)
{
    if (!t) return;
    mem_free(t->node);
    mem_free(t->id);
    mem_free(t->bytes);
    mem_free(t->start);
    mem_free(t->buckets);
    mem_free(t->chars);
    mem_free(t);
}
