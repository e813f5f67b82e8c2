/* draft_ngram.c - guesses from the text itself: where its last tokens stood before, the same may follow (prompt lookup
 * decoding, Saxena 2023). Free of cost, and good where texts repeat: code, tables, quotations, summaries, loops. */
#include "engine/draft.h"

enum { NGRAM_MIN = 2, NGRAM_MAX = 16, LOOK_BACK = 1 << 16 };

/* How many tokens before `i` are those before the end. */
static int same_before(const int32_t *ids, int64_t n, int64_t i)
{
    int k = 0;
    while (k < NGRAM_MAX && k < i && ids[i - 1 - k] == ids[n - 1 - k]) k++;
    return k;
}

static void guess_one(session *s)
{
    const int32_t *ids = s->ids;
    int32_t *to = s->ids + s->n_ids;
    int64_t after = 0;
    int longest = NGRAM_MIN - 1;
    const int64_t stop = s->n_ids > LOOK_BACK ? s->n_ids - LOOK_BACK : 0;
    for (int64_t i = s->n_ids - 1; i > stop && longest < NGRAM_MAX; i--) { /* of equals the latest */
        const int same = same_before(ids, s->n_ids, i);
        if (same > longest) longest = same, after = i;
    }
    if (!after) s->draft.n = 0;
    for (int k = 0; k < s->draft.n; k++) to[k] = ids[after + k]; /* guesses too, where the text is a loop */
}

static void ngram_guess(void *self, session **who, int n)
{
    (void)self;
    for (int i = 0; i < n; i++) guess_one(who[i]);
}

const draft_kind draft_ngram = {.name = "ngram", .guess = ngram_guess};
