/* tk_unigram.c - see tk_unigram.h. */
#include "text/tk_unigram.h"

#include "base/mem.h"
#include "base/utf8.h"

/* Makes room for nodes 0 .. n - 1; those from *nodes on have no spelling yet. */
static bool extend_lattice(unigram_work *w, size_t *nodes, size_t n)
{
    void *p = w->node;
    if (!mem_grow(&p, &w->cap, n, sizeof *w->node)) return false;
    w->node = p;
    while (*nodes < n) w->node[(*nodes)++] = (unigram_node){0, UINT32_MAX, -1};
    return true;
}

static void offer(const unigram *u, unigram_node *end, double score, size_t start, int32_t id)
{
    if (u->single) score = (float)score;
    if (end->start == UINT32_MAX || score > end->score) *end = (unigram_node){score, (uint32_t)start, id};
}

/* Offers every piece that begins at text[at], where a character of `len` bytes is. */
static bool spell_from(const unigram *u, unigram_work *w, span text, size_t at, size_t len, size_t *nodes)
{
    double before = w->node[at].score;
    bool single = false;
    uint32_t step = 0;
    for (size_t k = at; u->pieces.nodes && k < text.n && (step = trie_step(&u->pieces, step, text.p[k])); k++) {
        int32_t id = trie_value(&u->pieces, step);
        if (id < 0) continue;
        if (k + 1 >= *nodes && !extend_lattice(w, nodes, k + 2)) return false;
        offer(u, &w->node[k + 1], u->score[id] + before, at, id);
        single = single || k + 1 - at == len;
    }
    if (single) return true;
    if (at + len >= *nodes && !extend_lattice(w, nodes, at + len + 1)) return false;
    offer(u, &w->node[at + len], u->unk_score + before, at, u->unk);
    return true;
}

static bool add_piece(const unigram *u, token_list *out, int32_t id)
{
    return token_list_add(out, u->number ? u->number[id] : id);
}

static bool emit_unknown(const unigram *u, span text, token_list *out)
{
    bool bytes = u->fall_back;
    if (!u->single || u->number) { /* these look the whole run up once more */
        int32_t whole = bytes && u->number ? -1 : vocab_find_known(u->voc, text);
        if (whole >= 0 && !(u->voc->flag[whole] & PIECE_SPECIAL)) return token_list_add(out, whole);
    }
    for (size_t i = 0; i < text.n && bytes; i++) bytes = u->byte_piece[text.p[i]] >= 0;
    for (size_t i = 0; i < text.n && bytes; i++)
        if (!add_piece(u, out, u->byte_piece[text.p[i]])) return false;
    return bytes || token_list_add(out, u->number ? u->number_unk : u->unk);
}

/* The best spelling of a stretch: nodes 0 .. text.n. */
static int emit(const unigram *u, unigram_node *node, span text, token_list *out, err *e)
{
    /* walk back, turning the links around */
    uint32_t end = (uint32_t)text.n, next = end;
    while (end > 0) {
        uint32_t start = node[end].start;
        node[end].start = next;
        next = end;
        end = start;
    }
    for (uint32_t at = 0; at < text.n; at = end, next = node[end].start) {
        end = next;
        if (node[end].id != u->unk) {
            if (!add_piece(u, out, node[end].id)) return err_memory(e, "the tokenizer");
            continue;
        }
        while (end < text.n && node[node[end].start].id == u->unk) end = node[end].start;
        if (u->unk < 0)
            return err_set(e, ERR_FORMAT, "the vocabulary has no unknown token, and no piece for \"%.*s\"",
                           (int)(end - at < 60 ? end - at : 60), (const char *)text.p + at);
        if (!emit_unknown(u, span_of(text.p + at, end - at), out)) return err_memory(e, "the tokenizer");
    }
    return OK;
}

int unigram_encode(const unigram *u, unigram_work *w, span text, token_list *out, err *e)
{
    if (text.n >= INT32_MAX) return err_set(e, ERR_LIMIT, "text of more than 2 GiB");
    double score = 0;
    while (text.n) { /* a stretch: up to where no piece reaches across */
        size_t nodes = 0, at = 0, len;
        if (!extend_lattice(w, &nodes, 1)) return err_memory(e, "the tokenizer");
        w->node[0].score = score;
        do {
            utf8_decode(text.p + at, text.n - at, &len);
            if (!spell_from(u, w, text, at, len, &nodes)) return err_memory(e, "the tokenizer");
            at += len;
        } while (at < text.n && (at + 1 < nodes || w->node[at].id == u->unk));
        score = w->node[at].score;
        int rc = emit(u, w->node, span_of(text.p, at), out, e);
        if (rc) return rc;
        text = span_of(text.p + at, text.n - at);
    }
    return OK;
}

void unigram_free(unigram *u)
{
    mem_free(u->score);
    trie_free(&u->pieces);
    *u = (unigram){0};
}

void unigram_work_free(unigram_work *w)
{
    mem_free(w->node);
    *w = (unigram_work){0};
}
