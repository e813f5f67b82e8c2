/* best_logit.c - see best_logit.h: a heap whose root is the one that goes next; most of a row is below it. */
#include "core/best_logit.h"
#include "core/logit_check.h"

enum { AT_ONCE = 16 }; /* logits that are compared with the root together */

/* Whether a goes before b. */
static bool goes_first(best_logit a, best_logit b) { return a.value < b.value || (a.value == b.value && a.id > b.id); }
static bool has_lower_id(best_logit a, best_logit b) { return (uint32_t)a.id < (uint32_t)b.id; }

static void swap(best_logit *a, best_logit *b)
{
    const best_logit was = *a;
    *a = *b;
    *b = was;
}

static void sink(best_logit *at, int32_t i, int32_t n)
{
    for (int32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && goes_first(at[k + 1], at[k])) k++;
        if (!goes_first(at[k], at[i])) return;
        swap(&at[k], &at[i]);
    }
}

void best_list_add(best_list *l, best_logit x)
{
    if (!(x.value > -INFINITY)) return;
    if (l->n < l->k) {
        int32_t i = l->n++;
        l->at[i] = x;
        for (; i && goes_first(l->at[i], l->at[(i - 1) / 2]); i = (i - 1) / 2) swap(&l->at[i], &l->at[(i - 1) / 2]);
    } else if (x.value > l->at[0].value) {
        l->at[0] = x;
        sink(l->at, 0, l->n);
    }
}

void best_list_end(best_list *l)
{
    for (int32_t i = l->n; i < l->k; i++) l->at[i] = (best_logit){-1, -INFINITY};
    int32_t gap = 1; /* Shell's sort */
    while (gap < l->n / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int32_t i = gap; i < l->n; i++)
            for (int32_t k = i; k >= gap && has_lower_id(l->at[k], l->at[k - gap]); k -= gap)
                swap(&l->at[k], &l->at[k - gap]);
}

static float best_of(const float *row)
{
    float m[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) m[i] = row[i];
    for (int w = AT_ONCE / 2; w; w /= 2)
        for (int i = 0; i < w; i++) m[i] = m[i + w] > m[i] ? m[i + w] : m[i];
    return m[0];
}

void logits_best_list(const float *row, int64_t n, int32_t k, best_logit *to)
{
    best_list l = {to, k, 0};
    int64_t i = 0;
    if (k == 1) {
        *to = logits_have_nan(row, n) ? (best_logit){0, NAN} : logits_best(row, n);
        return;
    }
    if (logits_have_nan(row, n)) {
        best_list_end(&l);
        to[0] = (best_logit){0, NAN};
        return;
    }
    for (; i + AT_ONCE <= n; i += AT_ONCE)
        if (l.n < k || best_of(row + i) > to[0].value)
            for (int64_t j = i; j < i + AT_ONCE; j++) best_list_add(&l, (best_logit){(int32_t)j, row[j]});
    for (; i < n; i++) best_list_add(&l, (best_logit){(int32_t)i, row[i]});
    best_list_end(&l);
}
