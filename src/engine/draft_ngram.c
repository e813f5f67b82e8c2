/* draft_ngram.c - guesses from the text itself: where its last tokens stood before, the same may follow (prompt lookup
 * decoding, Saxena 2023). Free of cost, and good where texts repeat: code, tables, quotations, summaries, loops. */
#include "engine/draft.h"

enum { NGRAM_MIN = 2, NGRAM_MAX = 5, LOOK_BACK = 1 << 16 };

/* How many tokens before `i` are those before the end. */
static int same_before(const int32_t *ids, int64_t n, int64_t i)
{
    int k = 0;
    while (k < NGRAM_MAX && k < i && ids[i - 1 - k] == ids[n - 1 - k]) k++;
    return k;
}

static int guess(const int32_t *ids, int64_t n_ids, int32_t *to, int n)
{
    int64_t after = 0;
    int longest = NGRAM_MIN - 1;
    const int64_t stop = n_ids > LOOK_BACK ? n_ids - LOOK_BACK : 0;
    for (int64_t i = n_ids - 1; i > stop && longest < NGRAM_MAX; i--) { /* of equals the latest */
        const int same = same_before(ids, n_ids, i);
        if (same > longest) longest = same, after = i;
    }
    if (!after) return 0;
    for (int k = 0; k < n; k++) to[k] = after + k < n_ids ? ids[after + k] : to[after + k - n_ids];
    return n;
}

const draft_source draft_ngram = {"ngram", guess};
