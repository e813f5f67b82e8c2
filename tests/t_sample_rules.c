/* t_sample_rules.c - every sampling rule by a case worked by hand, the distribution of draws, determinism. */
#include "test.h"

#include "base/rng.h"
#include "sample/sample_step.h"

#include <math.h>

static sample_params defaults(void)
{
    sample_params p;
    memset(&p, 0, sizeof p);
    param_defaults(sample_param_rows, sample_param_count, &p);
    return p;
}

/* Which ids come up in 2000 draws, as a bit mask; counts in `hits`. */
static unsigned drawn(const sample_params *base, const float *logits, int32_t n, int hits[])
{
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, n, &scan_reference, &e), &e);
    unsigned mask = 0;
    for (int i = 0; i < n; i++) hits[i] = 0;
    for (int i = 0; i < 2000; i++) {
        sample_params p = *base;
        p.seed = i;
        int32_t id = sampler_pick(s, &p, &(sample_input){.logits = logits, .n_vocab = n});
        hits[id]++;
        mask |= 1u << id;
    }
    sampler_close(s);
    return mask;
}

/* Probabilities 0.5, 0.25, 0.125, 0.125. */
static const float quarters[4] = {2 * 0.69314718f, 0.69314718f, 0, 0};

static void greedy_takes_lowest_id_of_a_tie(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, 5, &scan_reference, &e), &e);
    sample_params p = defaults();
    p.temperature = 0;
    const float l[5] = {1, NAN, 3, 3, -INFINITY};
    assert_int_equal(sampler_pick(s, &p, &(sample_input){.logits = l, .n_vocab = 5}), 2);
    const int32_t ban[1] = {2};
    assert_int_equal(sampler_pick(s, &p, &(sample_input){.logits = l, .n_vocab = 5, .banned = ban, .n_banned = 1}), 3);
    const logit_bias bias[1] = {{0, 5}};
    assert_int_equal(sampler_pick(s, &p, &(sample_input){.logits = l, .n_vocab = 5, .bias = bias, .n_bias = 1}), 0);
    const uint64_t mask = 1u << 1 | 1u << 3 | 1u << 4;
    assert_int_equal(sampler_pick(s, &p, &(sample_input){.logits = l, .n_vocab = 5, .allowed = &mask}), 3);
    sampler_close(s);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    int hits[4];
    sample_params p = defaults();
    assert_int_equal(drawn(&p, quarters, 4, hits), 15);
    assert_in_range(hits[0], 920, 1080); /* 1000 +- 3.6 sigma */
    assert_in_range(hits[1], 425, 575);
    assert_in_range(hits[2], 195, 305);
    p.top_k = 3; /* the same through the heap: 4/7, 2/7, 1/7; of the tie the lower id stays */
    assert_int_equal(drawn(&p, quarters, 4, hits), 7);
    assert_in_range(hits[0], 1060, 1225);
}

static void filters_keep_what_they_say(void **state)
{
    (void)state;
    int hits[4];
    sample_params p = defaults();
    p.top_p = 0.74;
    assert_int_equal(drawn(&p, quarters, 4, hits), 3);
    p.top_p = 0.4;
    assert_int_equal(drawn(&p, quarters, 4, hits), 1);
    p.top_p = 1;
    p.min_p = 0.3;
    assert_int_equal(drawn(&p, quarters, 4, hits), 3);
    p.min_p = 0;
    p.top_k = 2;
    p.top_p = 0.6; /* of the top two, 0.5 is 2/3 */
    assert_int_equal(drawn(&p, quarters, 4, hits), 1);
    p = defaults();
    p.temperature = 0.05;
    assert_int_equal(drawn(&p, quarters, 4, hits), 1);
}

static void penalties_change_the_winner(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, 3, &scan_reference, &e), &e);
    sample_params p = defaults();
    p.temperature = 0;
    const float l[3] = {4, 3, -1};
    const int32_t prompt[2] = {0, 0}, generated[2] = {0, 0};
    sample_input in = {.logits = l, .n_vocab = 3, .prompt = prompt, .n_prompt = 2};
    p.repetition_penalty = 1.2; /* 4/1.2 = 3.33: once, however often it was seen */
    assert_int_equal(sampler_pick(s, &p, &in), 0);
    p.repetition_penalty = 1.4; /* 2.86 */
    assert_int_equal(sampler_pick(s, &p, &in), 1);
    assert_int_equal(sampler_pick(s, &p, &in), 1); /* nothing is left over from the call before */
    p = defaults();
    p.temperature = 0;
    p.frequency_penalty = 0.6; /* twice */
    assert_int_equal(sampler_pick(s, &p, &in), 0);
    in.generated = generated;
    in.n_generated = 2;
    assert_int_equal(sampler_pick(s, &p, &in), 1);
    p.frequency_penalty = 0;
    p.presence_penalty = 0.9;
    assert_int_equal(sampler_pick(s, &p, &in), 0);
    sampler_close(s);
}

/* With the defaults every step of the list is off, and an end of the range of one parameter turns it on; each does one
 * of three things. */
static void every_step_rests_with_the_defaults(void **state)
{
    (void)state;
    const sample_params off = defaults();
    sample_params ends[2 * SAMPLE_PARAM_N];
    int n = 0;
#define X(kind, name, otherwise, low, high, ...)                                                                       \
    ends[n] = off, ends[n++].name = low;                                                                               \
    ends[n] = off, ends[n++].name = high;
    SAMPLE_PARAM_LIST(X)
#undef X
    for (int i = 0; i < sample_step_count; i++) {
        const sample_step *t = sample_steps[i];
        int on = 0;
        for (int k = 0; k < n; k++) on += t->is_on(&ends[k]);
        assert_int_equal(!!t->adjust + !!t->cut + !!t->draw, 1);
        assert_false(t->is_on(&off));
        assert_true(on > 0);
    }
    assert_true(sample_steps[sample_step_count - 1]->draw && !sample_steps[0]->draw);
}

static void logprobs_are_of_the_raw_distribution(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, 4, &scan_reference, &e), &e);
    top_logprob best[3];
    float lp = sampler_logprobs(s, quarters, 4, 1, best, 3);
    assert_true(fabsf(lp - logf(0.25f)) < 1e-6f);
    assert_int_equal(best[0].id, 0);
    assert_int_equal(best[1].id, 1);
    assert_int_equal(best[2].id, 2);
    assert_true(fabsf(best[0].logprob - logf(0.5f)) < 1e-6f);
    sampler_close(s);
}

static void draws_depend_on_seed_choice_and_position_only(void **state)
{
    (void)state;
    assert_true(rng_bits(1, 2, 3) == rng_bits(1, 2, 3));
    assert_true(rng_bits(1, 2, 3) != rng_bits(2, 1, 3) && rng_bits(1, 2, 3) != rng_bits(1, 3, 2));
    double sum = 0;
    for (int i = 0; i < 10000; i++) sum += rng_uniform(7, 0, (uint64_t)i);
    assert_true(fabs(sum / 10000 - 0.5) < 0.01);
}

/* ---- guesses */

enum { GUESS_VOCAB = 40, GUESS_DRAWS = 60000 };

/* Chi-square of how often each token came, by the probabilities that it should have. */
static double chi_square(const int came[], const double p[], int *degrees)
{
    double sum = 0;
    *degrees = -1;
    for (int i = 0; i < GUESS_VOCAB; i++) {
        const double expected = p[i] * GUESS_DRAWS;
        if (p[i] == 0) assert_int_equal(came[i], 0);
        if (p[i] == 0) continue;
        sum += (came[i] - expected) * (came[i] - expected) / expected;
        ++*degrees;
    }
    return sum;
}

/* Which tokens a rule gives where another model guesses (chances: it tells them), or one token is always guessed. */
static void judge_often(guess_rule rule, const sample_params *base, const float *logits, const float *other, int came[],
                        int *held)
{
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, GUESS_VOCAB, &scan_reference, &e), &e);
    memset(came, 0, GUESS_VOCAB * sizeof *came);
    *held = 0;
    for (int i = 0; i < GUESS_DRAWS; i++) {
        sample_params p = *base;
        guess_chances q;
        p.seed = i;
        const sample_input in = {.logits = logits, .n_vocab = GUESS_VOCAB},
                           theirs = {.logits = other, .n_vocab = GUESS_VOCAB};
        const int32_t guess = other ? sampler_guess(s, &p, &theirs, &q) : 3;
        const int32_t id = sampler_judge(s, &p, &in, rule, guess, other ? &q : NULL);
        *held += id == guess;
        came[id]++;
    }
    sampler_close(s);
}

static void guesses_change_no_chances(void **state)
{
    (void)state;
    float logits[GUESS_VOCAB], other[GUESS_VOCAB];
    double p[GUESS_VOCAB] = {0}, mass = 0, both = 0, theirs[GUESS_VOCAB], all = 0;
    sample_params cut = defaults();
    int came[GUESS_VOCAB], held, degrees;
    cut.top_k = 25;
    for (int i = 0; i < GUESS_VOCAB; i++) logits[i] = (float)(i * 37 % GUESS_VOCAB) / 10; /* 0, 0.1, … in some order */
    for (int i = 0; i < GUESS_VOCAB; i++) other[i] = logits[i] + (float)(i * 7 % 5) / 4;
    for (int i = 0; i < GUESS_VOCAB; i++) mass += p[i] = logits[i] > 1.45f ? exp((double)logits[i]) : 0;
    for (int i = 0; i < GUESS_VOCAB; i++) p[i] /= mass;
    judge_often(GUESS_EXACT, &cut, logits, NULL, came, &held);
    assert_true(chi_square(came, p, &degrees) < 24 + 5 * sqrt(48));
    assert_int_equal(degrees, 24);
    judge_often(GUESS_EXACT, &cut, logits, other, came, &held);
    assert_true(chi_square(came, p, &degrees) < 24 + 5 * sqrt(48));
    /* as many hold as can: the sum of the lesser chances of each, of guesses among their 25 best */
    for (int i = 0; i < GUESS_VOCAB; i++) {
        int better = 0;
        for (int k = 0; k < GUESS_VOCAB; k++) better += other[k] > other[i] || (other[k] == other[i] && k < i);
        all += theirs[i] = better < 25 ? exp((double)other[i]) : 0;
    }
    for (int i = 0; i < GUESS_VOCAB; i++) both += p[i] < theirs[i] / all ? p[i] : theirs[i] / all;
    assert_true(fabs((double)held / GUESS_DRAWS - both) < 0.01);
    judge_often(GUESS_SAME, &cut, logits, other, came, &held);
    assert_true(chi_square(came, p, &degrees) < 24 + 5 * sqrt(48));
    judge_often(GUESS_POOL, &cut, logits, other, came, &held);
    assert_true((double)held / GUESS_DRAWS > both);
    for (int i = 0; i < GUESS_VOCAB; i++) assert_true(p[i] > 0 || !came[i]);
}

/* Without a temperature the best is drawn, whatever is guessed. */
static void guesses_without_temperature(void **state)
{
    (void)state;
    sample_params p = defaults();
    sampler *s;
    err e = {0};
    guess_chances q;
    const float l[4] = {1, 3, 2, 3};
    const sample_input in = {.logits = l, .n_vocab = 4};
    p.temperature = 0;
    assert_ok(sampler_open(&s, 4, &scan_reference, &e), &e);
    for (int rule = GUESS_SAME; rule <= GUESS_POOL; rule++)
        assert_int_equal(sampler_judge(s, &p, &in, (guess_rule)rule, 2, NULL), 1);
    assert_int_equal(sampler_guess(s, &p, &in, &q), 1);
    assert_int_equal(q.n, 1);
    sampler_close(s);
}

/* Conversations read well where nobody said how to draw, and are drawn as told where somebody did. */
static void conversations_have_defaults_of_their_own(void **state)
{
    (void)state;
    sample_params p = {0};
    param_defaults(sample_param_rows, sample_param_count, &p);
    p.seed = 7;
    assert_true(sample_for_conversation(&p));
    assert_true(p.temperature == 0.8 && p.top_k == 40 && p.top_p == 0.95 && p.min_p == 0.05 && p.seed == 7);
    for (int i = 0; i < 4; i++) {
        param_defaults(sample_param_rows, sample_param_count, &p);
        if (i == 0) p.temperature = 0;
        if (i == 1) p.top_p = 0.9;
        if (i == 2) p.strategy = "std";
        if (i == 3) p.repetition_penalty = 1.1;
        const sample_params told = p;
        assert_false(sample_for_conversation(&p));
        assert_memory_equal(&p, &told, sizeof p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_have_defaults_of_their_own),
        cmocka_unit_test(greedy_takes_lowest_id_of_a_tie),
        cmocka_unit_test(guesses_change_no_chances),
        cmocka_unit_test(guesses_without_temperature),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(filters_keep_what_they_say),
        cmocka_unit_test(penalties_change_the_winner),
        cmocka_unit_test(every_step_rests_with_the_defaults),
        cmocka_unit_test(logprobs_are_of_the_raw_distribution),
        cmocka_unit_test(draws_depend_on_seed_choice_and_position_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
