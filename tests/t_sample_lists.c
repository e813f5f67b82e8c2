/* t_sample_lists.c - the k best logits of a row in place of the row: picked as by sorting, and what samplers draw from
 * them is what they draw from the row. */
#include "test.h"

#include "base/rng.h"
#include "core/best_logit.h"
#include "sample/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 5000, ROWS = 800 };

static float row[VOCAB];
static uint64_t turn;

static int64_t draw(int64_t below) { return (int64_t)(rng_bits(11, 3, turn++) % (uint64_t)below); }

/* A row of some shape: ties, both zeros, values far apart, -inf, +inf, equal all. */
static void draw_row(int64_t n)
{
    const int64_t shape = draw(8);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(rng_uniform(11, 4, turn++) - 0.5) * 30;
        row[i] = shape == 0   ? roundf(x)
                 : shape == 1 ? (draw(2) ? 0.0f : -0.0f)
                 : shape == 2 ? x * 1e35f
                 : shape == 3 ? (draw(50) ? -INFINITY : x)
                              : x;
    }
    if (shape == 4) row[draw(n)] = INFINITY;
    if (shape == 5) row[draw(n)] = 60;
}

static int by_value(const void *a, const void *b)
{
    const best_logit *x = a, *y = b;
    return x->value > y->value ? -1 : x->value < y->value ? 1 : (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    const uint32_t x = (uint32_t)((const best_logit *)a)->id, y = (uint32_t)((const best_logit *)b)->id;
    return (x > y) - (x < y);
}

/* By sorting. */
static void list_by_definition(int64_t n, int32_t k, best_logit *to)
{
    static best_logit all[VOCAB + BEST_MAX];
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++)
        if (row[i] > -INFINITY) all[held++] = (best_logit){(int32_t)i, row[i]};
    qsort(all, (size_t)held, sizeof *all, by_value);
    for (int32_t i = 0; i < k; i++) to[i] = i < held ? all[i] : (best_logit){-1, -INFINITY};
    qsort(to, (size_t)k, sizeof *to, by_id);
}

static void lists_are_as_by_sorting(void **state)
{
    (void)state;
    best_logit got[BEST_MAX], want[BEST_MAX];
    for (int i = 0; i < ROWS; i++) {
        const int64_t n = draw(2) ? VOCAB : 1 + draw(700);
        const int32_t k = 2 + (int32_t)draw(BEST_MAX - 1);
        draw_row(n);
        list_by_definition(n, k, want);
        logits_best_list(row, n, k, got);
        assert_memory_equal(got, want, (size_t)k * sizeof *got);
        best_list l = {got, k, 0}; /* of parts of the row, as ranks have them */
        for (int64_t from = 0, to; from < n; from = to) {
            best_logit part[BEST_MAX];
            to = from + 1 + draw(n - from);
            logits_best_list(row + from, to - from, k, part);
            for (int32_t j = 0; j < k; j++)
                best_list_add(&l, (best_logit){part[j].id < 0 ? -1 : part[j].id + (int32_t)from, part[j].value});
        }
        best_list_end(&l);
        assert_memory_equal(got, want, (size_t)k * sizeof *got);
    }
    row[3] = NAN;
    logits_best_list(row, 20, 5, got);
    assert_true(got[0].id == 0 && isnan(got[0].value) && got[1].id == -1 && got[4].value == -INFINITY);
}

/* Samplers in all combinations with top-k. */
static sample_params draw_params(void)
{
    static const double few[] = {1, 0.9, 0.5, 0.01}, temperatures[] = {1, 0.7, 1e-3, 1e-30, 100};
    sample_params p = {0};
    param_defaults(sample_param_rows, sample_param_count, &p);
    p.temperature = temperatures[draw(5)];
    p.top_k = 2 + draw(BEST_MAX - 1);
    p.top_p = few[draw(4)];
    p.typical_p = few[draw(4)];
    p.tfs_z = few[draw(4)];
    p.min_p = draw(2) ? 0.05 : 0;
    p.mirostat = draw(3) ? 0 : 1 + draw(2);
    p.fsd_k = draw(4) ? 0 : 1 + draw(8);
    p.seed = draw(1000);
    return p;
}

static void lists_draw_as_their_rows(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    best_logit list[BEST_MAX];
    int32_t ids[12];
    assert_ok(sampler_open(&s, VOCAB, &scan_reference, &e), &e);
    for (int i = 0; i < 4 * ROWS; i++) {
        const int64_t n = draw(2) ? VOCAB : 16 + draw(3000);
        sample_params p = draw_params();
        const int32_t k = sampler_reads(&p, (int32_t)n);
        if (!k) continue;
        assert_int_equal(k, p.top_k);
        draw_row(n);
        logits_best_list(row, n, k, list);
        for (int j = 0; j < 12; j++) ids[j] = (int32_t)draw(n < 40 ? n : 40);
        sample_state was = {5}, one = {0}, two = {0};
        sample_input in = {.logits = row, .n_vocab = (int32_t)n, .prompt = ids, .n_prompt = 6, .generated = ids + 6};
        in.n_generated = 6;
        in.state = &was;
        in.next = &one;
        const int32_t want = sampler_pick(s, &p, &in);
        in.logits = NULL;
        in.best = list;
        in.n_best = k;
        in.next = &two;
        assert_int_equal(sampler_pick(s, &p, &in), want);
        assert_memory_equal(&one, &two, sizeof one);
    }
    sampler_close(s);
}

/* Guesses of a draft, and what holds of them. */
static void lists_guess_as_their_rows(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    best_logit list[BEST_MAX];
    assert_ok(sampler_open(&s, VOCAB, &scan_reference, &e), &e);
    for (int i = 0; i < ROWS; i++) {
        sample_params p = draw_params();
        const int32_t n = (int32_t)(draw(2) ? VOCAB : 16 + draw(3000)), k = sampler_reads(&p, n);
        if (!k) continue;
        draw_row(n);
        logits_best_list(row, n, k, list);
        sample_state one = {0}, two = {0};
        sample_input whole = {.logits = row, .n_vocab = n, .next = &one}, part = whole;
        part.logits = NULL;
        part.best = list;
        part.n_best = k;
        part.next = &two;
        guess_chances a = {0}, b = {0};
        const int32_t guess = sampler_guess(s, &p, &whole, &a);
        assert_int_equal(sampler_guess(s, &p, &part, &b), guess);
        assert_memory_equal(&a, &b, sizeof a);
        for (int rule = GUESS_SAME; rule <= GUESS_POOL; rule++)
            assert_int_equal(sampler_judge(s, &p, &part, (guess_rule)rule, guess, &a),
                             sampler_judge(s, &p, &whole, (guess_rule)rule, guess, &a));
    }
    sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_as_by_sorting),
        cmocka_unit_test(lists_draw_as_their_rows),
        cmocka_unit_test(lists_guess_as_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
