/* t_sample_cuts.c - cuts and strategies: cases worked by hand, cuts of long rows against sorting everything, FSD
 * against its definition over lists of n-grams, draws by chi-square, the mean surprise of mirostat. */
#include "test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "sample/sample_step.h"
#include "sample/strategy.h"

#include <math.h>

static sample_params defaults(void)
{
    sample_params p = {0};
    param_defaults(sample_param_rows, sample_param_count, &p);
    return p;
}

/* ---- candidates of their own */
typedef struct rig {
    candidates c;
    scan_columns first, own, spare;
    float *by, *sums;
} rig;

static scan_columns columns_of(int64_t n)
{
    const size_t room = (size_t)scan_room(n);
    return (scan_columns){mem_zero(room, 4), mem_zero(room, 4), mem_zero(room, 4)};
}

static void columns_free(scan_columns *s)
{
    mem_free(s->key);
    mem_free(s->weight);
    mem_free(s->id);
}

static void rig_open(rig *r, const float *logits, int32_t n, double temperature)
{
    *r = (rig){.first = columns_of(n), .own = columns_of(n), .spare = columns_of(n)};
    r->by = mem_zero((size_t)scan_room(n), 4);
    r->sums = mem_zero((size_t)scan_room(n), 4);
    r->c = (candidates){&scan_reference, r->first, n, 0, r->sums, r->own, r->spare, r->by, n};
    for (int32_t i = 0; i < n; i++) r->first.id[i] = i;
    candidates_weigh(&r->c, scan_reference.take(logits, n, r->first.key), temperature);
}

static void rig_close(rig *r)
{
    columns_free(&r->first);
    columns_free(&r->own);
    columns_free(&r->spare);
    mem_free(r->by);
    mem_free(r->sums);
}

static const sample_step *step_of(const sample_params *p)
{
    for (int i = 0; i < sample_step_count; i++)
        if (sample_steps[i]->is_on(p)) return sample_steps[i];
    return NULL;
}

/* What one parameter keeps of probabilities, as a bit mask of ids. */
static unsigned kept(const float *probability, int32_t n, const sample_params *p)
{
    float logits[16];
    for (int32_t i = 0; i < n; i++) logits[i] = logf(probability[i]);
    rig r;
    unsigned mask = 0;
    rig_open(&r, logits, n, 1);
    step_of(p)->cut(&r.c, p);
    for (int64_t i = 0; i < r.c.n; i++)
        if (r.c.at.weight[i] > 0) mask |= 1u << r.c.at.id[i];
    rig_close(&r);
    return mask;
}

static void cuts_worked_by_hand(void **state)
{
    (void)state;
    static const float quarters[4] = {0.5f, 0.25f, 0.125f, 0.125f};
    sample_params p = defaults();
    /* H = 1.75 bits; the surprises 1, 2, 3, 3 are 0.75, 0.25, 1.25, 1.25 away */
    p.typical_p = 0.2;
    assert_int_equal(kept(quarters, 4, &p), 2);
    p.typical_p = 0.3;
    assert_int_equal(kept(quarters, 4, &p), 3);
    p.typical_p = 0.8;
    assert_int_equal(kept(quarters, 4, &p), 7);
    p.typical_p = 0; /* the nearest one is always left */
    assert_int_equal(kept(quarters, 4, &p), 2);
    p = defaults();
    p.top_p = 0;
    assert_int_equal(kept(quarters, 4, &p), 1);
    /* first differences 0.1 0.15 0.05 0.06 0.03; second 0.05 0.1 0.01 0.03, of 0.19: 0.263 0.789 0.842 1 */
    static const float falling[6] = {0.4f, 0.3f, 0.15f, 0.1f, 0.04f, 0.01f};
    p = defaults();
    p.tfs_z = 0.8;
    assert_int_equal(kept(falling, 6, &p), 3);
    p.tfs_z = 0.95;
    assert_int_equal(kept(falling, 6, &p), 7);
    p.tfs_z = 0.1;
    assert_int_equal(kept(falling, 6, &p), 1);
    p.tfs_z = 0;
    assert_int_equal(kept(falling, 6, &p), 1);
    static const float two[2] = {0.5f, 0.5f};
    assert_int_equal(kept(two, 2, &p), 3);
    p = defaults();
    p.top_k = 3; /* of the tie the lower id stays */
    assert_int_equal(kept(quarters, 4, &p), 7);
    p = defaults();
    p.min_p = 0.3;
    assert_int_equal(kept(falling, 6, &p), 7);
}

/* ---- long rows against sorting */
static const float *sort_by;

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return sort_by[x] > sort_by[y] ? -1 : sort_by[x] < sort_by[y] ? 1 : x - y;
}

static void make_row(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        const double u = rng_uniform(seed, 0, (uint64_t)i) + 1e-9, v = rng_uniform(seed, 1, (uint64_t)i);
        const double normal = sqrt(-2 * log(u)) * cos(6.28318530718 * v);
        x[i] = (float)(seed % 4 == 0   ? floor(3 * normal) / 2
                       : seed % 4 == 1 ? 0.3 * normal
                       : seed % 4 == 2 ? 6 * normal
                                       : 3);
        if (seed % 5 == 0 && v < 0.3) x[i] = -INFINITY;
    }
}

/* The kept ids are the best by `key`, as many as `enough` says: so many (counts), or so much of their mass. */
static void expect_best(const rig *r, const float *key, const float *w, int32_t n, bool counts, double enough)
{
    static int32_t order[20000];
    static bool is[20000];
    for (int32_t i = 0; i < n; i++) {
        order[i] = i;
        is[i] = false;
    }
    sort_by = key;
    qsort(order, (size_t)n, sizeof *order, compare_ids);
    int64_t left = 0;
    for (int64_t i = 0; i < r->c.n; i++) {
        assert_true(i == 0 || r->c.at.id[i] > r->c.at.id[i - 1]);
        if (!(r->c.at.key[i] > -INFINITY)) continue;
        is[r->c.at.id[i]] = true;
        left++;
    }
    double got = 0, before = 0;
    for (int64_t i = 0; i < left; i++) {
        assert_true(is[order[i]]);
        before = got;
        got += counts ? 1 : (double)w[order[i]];
    }
    assert_true(left > 0 && got >= enough * (1 - 1e-6));
    if (left > 1) assert_true(before < enough * (1 + 1e-6));
}

static void long_rows_are_cut_as_by_sorting(void **state)
{
    (void)state;
    static float row[20000], key[20000], w[20000], distance[20000];
    for (uint64_t seed = 1; seed < 60; seed++) {
        const int32_t n = 1 + (int32_t)(rng_bits(seed, 9, 9) % 20000), k = 1 + (int32_t)(rng_bits(seed, 9, 8) % 3000);
        const double share = seed % 7 ? rng_uniform(seed, 9, 7) : 0; /* 0: the best one alone */
        rig r;
        make_row(row, n, seed);
        rig_open(&r, row, n, 0.7);
        if (!(r.c.mass > 0)) {
            rig_close(&r);
            continue;
        }
        memcpy(key, r.c.at.key, (size_t)n * sizeof *key);
        memcpy(w, r.c.at.weight, (size_t)n * sizeof *w);
        const double mass = r.c.mass;
        int32_t finite = 0;
        for (int32_t i = 0; i < n; i++) finite += key[i] > -INFINITY;
        sample_params p = defaults();
        if (k < finite) {
            candidates_keep_best(&r.c, k);
            expect_best(&r, key, w, n, true, k);
        }
        rig_close(&r);
        rig_open(&r, row, n, 0.7);
        p.top_p = share;
        step_of(&p)->cut(&r.c, &p);
        expect_best(&r, key, w, n, false, share * mass);
        rig_close(&r);
        rig_open(&r, row, n, 0.7);
        double mean = 0;
        for (int32_t i = 0; i < n; i++) mean += w[i] > 0 ? (double)w[i] * (double)key[i] : 0;
        scan_reference.distance(key, n, (float)(mean / mass), distance);
        p = defaults();
        p.typical_p = share;
        step_of(&p)->cut(&r.c, &p);
        if (seed % 4 != 3) expect_best(&r, distance, w, n, false, share * mass);
        rig_close(&r);
        rig_open(&r, row, n, 0.7);
        const int32_t listed = candidates_list(&r.c, 100);
        sort_by = key;
        for (int32_t i = 1; i < listed; i++) assert_true(compare_ids(&r.c.spare.id[i - 1], &r.c.spare.id[i]) < 0);
        assert_int_equal(listed, finite < 100 ? finite : 100);
        rig_close(&r);
    }
}

/* ---- FSD */
static void fsd_worked_by_hand(void **state)
{
    (void)state;
    err e = {0};
    sampler *s;
    const float l[3] = {logf(0.5f), logf(0.3f), logf(0.2f)};
    const int32_t ids[5] = {0, 1, 0, 1, 0};
    sample_input in = {.logits = l, .n_vocab = 3, .prompt = ids, .n_prompt = 3, .generated = ids + 3, .n_generated = 2};
    sample_params p = defaults();
    p.strategy = "fsd";
    assert_ok(strategy_apply(&p, "here", &e), &e);
    assert_ok(sampler_open(&s, 3, &scan_reference, &e), &e);
    /* a of 0: 3/5; of 1: 0.9 * 1/2 + 0.1 * 0.9 * 2/3 + 0.01 * 2/5; of 2: 0. Scores -0.05, -0.107, 0.1 */
    assert_int_equal(sampler_pick(s, &p, &in), 2);
    p.fsd_k = 2;
    assert_int_equal(sampler_pick(s, &p, &in), 0);
    p.fsd_alpha = 0.9; /* 0.05 - 0.54, 0.03 - 0.4626 */
    assert_int_equal(sampler_pick(s, &p, &in), 1);
    sampler_close(s);
}

/* The definition, over the list of all n-grams. */
static double naive_penalty(const int32_t *ids, int n_ids, int32_t v, const sample_params *p)
{
    double w = 1, a = 0;
    for (int n = (int)p->fsd_n - 1; n >= 0; n--) {
        int all = 0, own = 0;
        for (int i = n; i < n_ids; i++) {
            bool same = n <= n_ids;
            for (int k = 1; k <= n && same; k++) same = ids[i - k] == ids[n_ids - k];
            all += same;
            own += same && ids[i] == v;
        }
        if (!own) continue;
        a += n ? w * p->fsd_beta * own / (all + 1) : w * own / all;
        w *= 1 - p->fsd_beta;
    }
    return a;
}

static void fsd_equals_a_naive_script(void **state)
{
    (void)state;
    enum { V = 12 };
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, V, &scan_reference, &e), &e);
    for (uint64_t seed = 0; seed < 300; seed++) {
        float l[V];
        int32_t ids[60], order[V];
        double sum = 0;
        const int n = (int)(seed % 60);
        for (int i = 0; i < V; i++) {
            l[i] = (float)(4 * rng_uniform(seed, 3, (uint64_t)i));
            order[i] = i;
            sum += exp((double)l[i]);
        }
        for (int i = 0; i < n; i++) ids[i] = (int32_t)(rng_bits(seed, 4, (uint64_t)i) % 4);
        sample_params p = defaults();
        p.fsd_k = 5;
        p.fsd_n = 1 + (int64_t)(seed % 5);
        p.fsd_alpha = rng_uniform(seed, 5, 0);
        sort_by = l;
        qsort(order, V, sizeof *order, compare_ids);
        int32_t best = -1;
        double most = 0;
        for (int i = 0; i < 5; i++) {
            const double score = (1 - p.fsd_alpha) * exp((double)l[order[i]]) / sum -
                                 p.fsd_alpha * naive_penalty(ids, n, order[i], &p);
            if (best >= 0 && score <= most) continue;
            best = order[i];
            most = score;
        }
        const sample_input in = {.logits = l, .n_vocab = V, .prompt = ids, .n_prompt = n};
        assert_int_equal(sampler_pick(s, &p, &in), best);
    }
    sampler_close(s);
}

/* ---- draws */
static double chi_square(const sample_params *base, const float *l, int n, const double *want, int draws)
{
    err e = {0};
    sampler *s;
    int hits[64] = {0};
    double sum = 0;
    assert_ok(sampler_open(&s, n, &scan_reference, &e), &e);
    for (int i = 0; i < draws; i++) {
        sample_params p = *base;
        p.seed = i;
        hits[sampler_pick(s, &p, &(sample_input){.logits = l, .n_vocab = n})]++;
    }
    for (int i = 0; i < n; i++) {
        if (want[i] == 0) assert_int_equal(hits[i], 0);
        else sum += (hits[i] - want[i] * draws) * (hits[i] - want[i] * draws) / (want[i] * draws);
    }
    sampler_close(s);
    return sum;
}

static void draws_by_chi_square(void **state)
{
    (void)state;
    enum { N = 20 };
    float l[N];
    double want[N], sum = 0;
    for (int i = 0; i < N; i++) l[i] = (float)sin(i * 1.7) * 2;
    sample_params p = defaults();
    p.temperature = 1.3;
    for (int i = 0; i < N; i++) sum += want[i] = exp((double)l[i] / 1.3);
    for (int i = 0; i < N; i++) want[i] /= sum;
    assert_true(chi_square(&p, l, N, want, 20000) < 43.8); /* 19 degrees of freedom, 0.1 % */
    sort_by = l;
    int32_t order[N];
    for (int i = 0; i < N; i++) order[i] = i;
    qsort(order, N, sizeof *order, compare_ids);
    sum = 0;
    for (int i = 0; i < N; i++) want[order[i]] *= i < 10;
    for (int i = 0; i < N; i++) sum += want[i];
    for (int i = 0; i < N; i++) want[i] /= sum;
    p.top_k = 10;
    assert_true(chi_square(&p, l, N, want, 20000) < 27.9); /* 9 */
}

/* How many of the best mirostat keeps, of n sorted probabilities. */
static int mirostat_kept(const double *p, int n, int version, double mu)
{
    int k = 0;
    if (version == 2) {
        while (k < n && -log2(p[k]) <= mu) k++;
        return k ? k : 1;
    }
    double tb = 0, tt = 0;
    for (int i = 0; i < 99; i++) {
        const double t = log((i + 2.0) / (i + 1.0));
        tb += t * log(p[i] / p[i + 1]);
        tt += t * t;
    }
    const double s = tb / tt, eps = s - 1;
    k = (int)pow(eps * exp2(mu) / (1 - pow(n, -eps)), 1 / s);
    return k < 1 ? 1 : k > n ? n : k;
}

static void mirostat_holds_its_surprise(void **state)
{
    (void)state;
    enum { V = 4000, STEPS = 1500 };
    static float l[V];
    static int32_t order[V];
    static double share[V];
    err e = {0};
    sampler *s;
    assert_ok(sampler_open(&s, V, &scan_reference, &e), &e);
    for (int version = 1; version <= 2; version++) {
        sample_params p = defaults();
        sample_state now = {0}, next = {0};
        double surprise = 0;
        p.mirostat = version;
        p.mirostat_tau = 3;
        assert_true(sampler_has_state(&p));
        for (int t = 0; t < STEPS; t++) {
            for (int i = 0; i < V; i++)
                l[i] = (float)(-1.1 * log(i + 1.0) + 0.5 * rng_uniform(7, (uint64_t)t, (uint64_t)i));
            p.seed = t;
            const sample_input in = {.logits = l, .n_vocab = V, .state = t ? &now : NULL, .next = &next};
            const double mu = t ? (double)now.mu : 6;
            double sum = 0, mass = 0, own = 0;
            const int32_t id = sampler_pick(s, &p, &in);
            for (int i = 0; i < V; i++) order[i] = i;
            sort_by = l;
            qsort(order, V, sizeof *order, compare_ids);
            for (int i = 0; i < V; i++) sum += share[i] = exp((double)l[order[i]]);
            for (int i = 0; i < V; i++) share[i] /= sum;
            const int k = mirostat_kept(share, V, version, mu);
            double nearest = 1e9, own_surprise = 0;
            for (int n = k > 1 ? k - 1 : 1; n <= k + 1; n++) { /* k is rounded down, here from doubles */
                mass = own = 0;
                for (int i = 0; i < n && i < V; i++) {
                    mass += share[i];
                    if (order[i] == id) own = share[i];
                }
                const double off = fabs(mu - 0.1 * (log2(mass / own) - 3) - (double)next.mu);
                if (own == 0 || off >= nearest || (version == 2 && n != k)) continue;
                nearest = off;
                own_surprise = log2(mass / own);
            }
            assert_true(nearest < 1e-4);
            surprise += own_surprise;
            const float first = next.mu;
            assert_true(sampler_pick(s, &p, &in) == id && next.mu == first); /* of its arguments alone */
            now = next;
        }
        surprise /= STEPS;
        printf("mirostat %d: %.3f bits\n", version, surprise);
        assert_true(fabs(surprise - 3) < 0.15);
    }
    sampler_close(s);
}

static void strategies_are_defaults(void **state)
{
    (void)state;
    err e = {0};
    sample_params p = defaults();
    p.top_p = 0.5;
    p.strategy = "sample.top_k";
    assert_ok(strategy_apply(&p, "x", &e), &e);
    assert_true(p.top_k == 8 && p.top_p == 1 && p.temperature == 1);
    p.strategy = "random_fsd";
    assert_ok(strategy_apply(&p, "x", &e), &e);
    assert_true(p.top_k == 0 && p.fsd_k == 6 && p.fsd_steps == 10 && p.fsd_alpha == 0.5);
    p.strategy = "greedy";
    assert_ok(strategy_apply(&p, "x", &e), &e);
    assert_int_equal(sampler_reads(&p, 32000), 1);
    p.strategy = "nonsense";
    assert_int_equal(strategy_apply(&p, "--strategy", &e), ERR_USAGE);
    assert_memory_equal(e.msg, "--strategy: 'nonsense' is not one of std|", 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_worked_by_hand),     cmocka_unit_test(long_rows_are_cut_as_by_sorting),
        cmocka_unit_test(fsd_worked_by_hand),      cmocka_unit_test(fsd_equals_a_naive_script),
        cmocka_unit_test(draws_by_chi_square),     cmocka_unit_test(mirostat_holds_its_surprise),
        cmocka_unit_test(strategies_are_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
