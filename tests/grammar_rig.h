/* grammar_rig.h - grammars over a vocabulary for tests: how far a text is allowed, texts drawn from masks. */
#pragma once
#include "tests/grammar_vocab.h"
#include "tests/test.h"

#include "base/mem.h"

typedef enum { RIG_NEVER, RIG_PART, RIG_WHOLE } rig_answer;

/* How far a text is allowed, byte by byte; each step's mask must agree with where the text goes. */
static inline rig_answer rig_match(grammar *g, span text)
{
    int32_t *ids = mem_array(text.n + 1, sizeof *ids);
    uint64_t allowed[(RIG_VOCAB + 63) / 64];
    grammar_place at = {0};
    grammar_next next = {0};
    for (size_t i = 0; i < text.n; i++) ids[i] = text.p[i];
    for (size_t i = 0; i <= text.n; i++) {
        err e = {0};
        const int rc = grammar_follow(g, &at, ids, (int64_t)i, true, allowed, &next, &e);
        assert_ok(rc, &e);
        if (i == text.n) continue;
        if (!next.over && (allowed[text.p[i] >> 6] >> (text.p[i] & 63) & 1)) continue;
        grammar_place again = {0};
        assert_int_not_equal(grammar_follow(g, &again, ids, (int64_t)i + 1, true, NULL, &next, &e), OK);
        mem_free(ids);
        return RIG_NEVER;
    }
    mem_free(ids);
    if (!next.over) assert_int_equal(allowed[RIG_END >> 6] >> (RIG_END & 63) & 1, next.complete);
    return next.complete ? RIG_WHOLE : RIG_PART;
}

/* A text of tokens that are drawn evenly from the masks, at most n; whether it came to its end. Each mask is compared
 * with what every token does by itself. */
static inline bool rig_draw(grammar *g, uint64_t seed, int n, buf *out)
{
    const token_trie *t = rig_trie();
    int32_t ids[512];
    uint64_t allowed[(RIG_VOCAB + 63) / 64], draw = seed * 2 + 1;
    grammar_place at = {0};
    assert_true(n <= 512);
    for (int made = 0; made <= n; made++) {
        grammar_next next;
        err e = {0};
        assert_ok(grammar_follow(g, &at, ids, made, true, allowed, &next, &e), &e);
        if (next.over) return true;
        int32_t able[RIG_VOCAB], n_able = 0;
        for (int32_t id = 0; id < RIG_VOCAB; id++) {
            const bool is = allowed[id >> 6] >> (id & 63) & 1;
            grammar_place one = at;
            grammar_next ignored;
            err why = {0};
            ids[made < 512 ? made : 511] = id;
            if (id != RIG_END && made < 511)
                assert_int_equal(is, grammar_follow(g, &one, ids, made + 1, true, NULL, &ignored, &why) == OK);
            if (is) able[n_able++] = id;
        }
        assert_true(n_able > 0);
        draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int32_t id = able[(draw >> 33) % (uint64_t)n_able];
        if (id == RIG_END) return true;
        if (made == n) return false;
        ids[made] = id;
        buf_add(out, t->bytes + t->start[id], t->start[id + 1] - t->start[id]);
    }
    return false;
}
