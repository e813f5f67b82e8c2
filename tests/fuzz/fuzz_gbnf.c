/* fuzz_gbnf.c - grammars as text. A byte 0xff ends the grammar; what follows is matched byte by byte: what the mask
 * allows must be what can be read, and a text that is no end can be continued. */
#include "tests/grammar_vocab.h"

#include "sample/gbnf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0xff, n) : NULL;
    const span text = span_of(data, end ? (size_t)(end - data) : n);
    grammar *g;
    err e = {0};
    if (gbnf_compile(&g, text, rig_trie(), &e)) {
        if (g || !e.msg[0]) abort();
        return 0;
    }
    uint64_t allowed[(RIG_VOCAB + 63) / 64];
    grammar_place at = {0};
    grammar_next next;
    int32_t ids[64];
    for (int64_t made = 0; made < 64; made++) {
        const int rc = grammar_follow(g, &at, ids, made, true, allowed, &next, &e);
        if (rc && e.code != ERR_LIMIT) abort();
        if (rc || next.over) break;
        int32_t id = end && end + 1 + made < data + n ? end[1 + made] : 'a';
        for (int32_t k = 0; k < RIG_VOCAB && !(allowed[id >> 6] >> (id & 63) & 1); k++) id = (id + 1) % RIG_VOCAB;
        if (!(allowed[id >> 6] >> (id & 63) & 1)) abort();
        if (id == RIG_END) break;
        ids[made] = id;
    }
    grammar_drop(g);
    return 0;
}
