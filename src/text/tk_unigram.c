/* tk_unigram.c - see tk_unigram.h. */
#include "text/tk_unigram.h"

#include "base/mem.h"
#include "base/utf8.h"

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory in the tokenizer"); }

static void offer(const unigram *u, unigram_node *end, double score, uint32_t start, int32_t id)
{
    if (u->single) score = (float)score;
    if (end->start == UINT32_MAX || score > end->score) *end = (unigram_node){score, start, id};
}

static void best_paths(const unigram *u, unigram_node *node, span text)
{
    for (size_t i = 0; i <= text.n; i++) node[i] = (unigram_node){0, UINT32_MAX, -1};
    for (size_t i = 0, len; i < text.n; i += len) {
        utf8_decode(text.p + i, text.n - i, &len);
        bool single = false;
        uint32_t at = 0;
        for (size_t k = i; u->pieces.nodes && k < text.n && (at = trie_step(&u->pieces, at, text.p[k])); k++) {
            int32_t id = trie_value(&u->pieces, at);
            if (id < 0) continue;
            offer(u, &node[k + 1], u->score[id] + node[i].score, (uint32_t)i, id);
            single = single || k + 1 - i == len;
        }
        if (!single) offer(u, &node[i + len], u->unk_score + node[i].score, (uint32_t)i, u->unk);
    }
}

static bool add(const unigram *u, token_list *out, int32_t id)
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
        if (!add(u, out, u->byte_piece[text.p[i]])) return false;
    return bytes || token_list_add(out, u->number ? u->number_unk : u->unk);
}

int unigram_encode(const unigram *u, unigram_work *w, span text, token_list *out, err *e)
{
    if (text.n >= INT32_MAX) return err_set(e, ERR_LIMIT, "text of more than 2 GiB");
    void *p = w->node;
    if (!mem_grow(&p, &w->cap, text.n + 1, sizeof *w->node)) return no_memory(e);
    w->node = p;
    best_paths(u, w->node, text);
    /* walk back, turning the links around */
    uint32_t end = (uint32_t)text.n, next = end;
    while (end > 0) {
        uint32_t start = w->node[end].start;
        w->node[end].start = next;
        next = end;
        end = start;
    }
    for (uint32_t at = 0; at < text.n; at = end, next = w->node[end].start) {
        end = next;
        if (w->node[end].id != u->unk) {
            if (!add(u, out, w->node[end].id)) return no_memory(e);
            continue;
        }
        while (end < text.n && w->node[w->node[end].start].id == u->unk) end = w->node[end].start;
        if (u->unk < 0)
            return err_set(e, ERR_FORMAT, "the vocabulary has no unknown token, and no piece for \"%.*s\"",
                           (int)(end - at < 60 ? end - at : 60), (const char *)text.p + at);
        if (!emit_unknown(u, span_of(text.p + at, end - at), out)) return no_memory(e);
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
