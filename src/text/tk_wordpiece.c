/* tk_wordpiece.c - see tk_wordpiece.h. */
#include "text/tk_wordpiece.h"

#include <string.h>

int wordpiece_build(wordpiece *m, const vocab *voc, span prefix, err *e)
{
    int rc = OK;
    for (uint32_t id = 0; id < voc->size && !rc; id++) {
        span p = voc->piece[id];
        if (!p.n || (voc->flag[id] & (PIECE_SPECIAL | PIECE_EXTRA)) || vocab_find(voc, p) != (int32_t)id) continue;
        rc = trie_put(&m->first, p, (int32_t)id, e);
        if (!rc && p.n > prefix.n && memcmp(p.p, prefix.p, prefix.n) == 0)
            rc = trie_put(&m->rest, span_of(p.p + prefix.n, p.n - prefix.n), (int32_t)id, e);
    }
    return rc;
}

int wordpiece_encode(const wordpiece *m, span word, token_list *out, err *e)
{
    size_t chars = 0, start = out->n, n;
    for (size_t i = 0; i < word.n; i++) chars += (word.p[i] & 0xc0) != 0x80;
    bool known = chars <= m->longest_word;
    for (size_t at = 0; known && at < word.n; at += n) {
        const trie *t = at ? &m->rest : &m->first;
        int32_t id = t->nodes ? trie_longest(t, span_of(word.p + at, word.n - at), &n) : -1;
        known = id >= 0;
        if (known && !token_list_add(out, id)) return err_memory(e, "the tokenizer");
    }
    if (known) return OK;
    out->n = start;
    if (m->unk < 0)
        return err_set(e, ERR_FORMAT, "the vocabulary has no unknown token, and no pieces for a word of the text");
    return token_list_add(out, m->unk) ? OK : err_memory(e, "the tokenizer");
}

void wordpiece_free(wordpiece *m)
{
    trie_free(&m->first);
    trie_free(&m->rest);
}
