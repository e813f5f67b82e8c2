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

/* Buckets of a run of bytes that begins at a character; where its end cuts one, the beginning must be valid. */
static uint64_t buckets_of(span s)
{
    uint64_t all = 0;
    for (size_t i = 0, n; i < s.n; i += n) {
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
    return bad ? err_set(e, ERR_MEMORY, "out of memory for the bytes of a vocabulary") : OK;
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

/* Makes the nodes from sorted tokens: those of a token are the ones on the path that the last token had not. */
static int make_nodes(token_trie *t, const token *sorted, size_t n, err *e)
{
    uint32_t path[TRIE_TOKEN_BYTES + 1] = {0}; /* nodes on the way to the last token */
    size_t cap = 1, depth = 0;
    for (size_t i = 0; i < n; i++) cap += sorted[i].text.n;
    t->node = mem_zero(cap + 1, sizeof *t->node);
    t->id = mem_array(n + 1, sizeof *t->id);
    if (!t->node || !t->id) return err_set(e, ERR_MEMORY, "out of memory for the trie of a vocabulary");
    t->n_node = 1;
    for (size_t i = 0; i < n; i++) {
        const span s = sorted[i].text;
        size_t same = 0;
        while (i && same < s.n && same < sorted[i - 1].text.n && s.p[same] == sorted[i - 1].text.p[same]) same++;
        for (; depth > same; depth--) t->node[path[depth]].skip = t->n_node;
        for (; depth < s.n; depth++) {
            path[depth + 1] = t->n_node;
            t->node[t->n_node++] = (trie_node){.first = (uint32_t)i, .byte = s.p[depth], .depth = (uint8_t)(depth + 1)};
        }
        for (size_t d = 0; d <= s.n; d++) {
            trie_node *x = &t->node[path[d]];
            const span rest = span_of(s.p + d, s.n - d);
            /* a node within a character: what follows its first bytes cannot be valid */
            const bool within = !utf8_is_valid(span_of(s.p, d));
            if (rest.n > x->height) x->height = (uint8_t)rest.n;
            x->below |= within ? UINT64_C(1) << BUCKET_INVALID : rest.n ? buckets_of(rest) : 0;
        }
        t->id[i] = sorted[i].id;
    }
    for (; depth > 0; depth--) t->node[path[depth]].skip = t->n_node;
    t->node[0].skip = t->n_node;
    t->node[t->n_node].first = (uint32_t)n;
    void *less = mem_resize(t->node, t->n_node + 1, sizeof *t->node);
    if (less) t->node = less;
    return OK;
}

int token_trie_open(token_trie **out, const trie_source *from, err *e)
{
    token_trie *t = *out = mem_zero(1, sizeof *t);
    size_t n = 0;
    int rc = ERR_MEMORY;
    if (t) t->start = mem_array((size_t)from->n_vocab + 1, sizeof *t->start);
    token *sorted = mem_array((size_t)from->n_vocab + 1, sizeof *sorted);
    if (!t || !t->start || !sorted) {
        err_set(e, ERR_MEMORY, "out of memory for the bytes of a vocabulary");
    } else {
        t->n_vocab = from->n_vocab;
        t->n_word = ((size_t)from->n_vocab + 63) / 64;
        t->n_end = from->n_end;
        memcpy(t->ends, from->ends, (size_t)from->n_end * sizeof *t->ends);
        rc = read_bytes(t, from, e);
    }
    for (int32_t id = 0; !rc && id < t->n_vocab; id++)
        if (t->start[id + 1] > t->start[id])
            sorted[n++] = (token){span_of(t->bytes + t->start[id], t->start[id + 1] - t->start[id]), id};
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
    uint32_t at = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t child = at + 1;
        while (child < t->node[at].skip && t->node[child].byte != bytes.p[i]) child = t->node[child].skip;
        if (child >= t->node[at].skip) return false;
        at = child;
    }
    return bytes.n && t->node[at + 1].first > t->node[at].first;
}

void token_trie_close(token_trie *t)
{
    if (!t) return;
    mem_free(t->node);
    mem_free(t->id);
    mem_free(t->bytes);
    mem_free(t->start);
    mem_free(t);
}
