/* sample.c - see sample.h: the draw.
 *
 * Candidates are (logit, id) pairs ordered by logit, then by lower id, so every cut has one answer. A heap built in O(V) gives
 * them best first: top-k pops k, top-p pops until the mass is reached, min-p until the ratio to the best is passed; nothing is ever
 * sorted whole. Probabilities use our own exp, so the same logits give the same token on every machine. */
#include "sample/sample.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

struct sampler {
    int32_t n_vocab;
    float *logit;    /* [n_vocab] adjusted */
    int32_t *heap;   /* [n_vocab] ids; the popped ones stand at the end, best last */
    uint32_t *count; /* [n_vocab] in generated text; zero between calls */
    uint8_t *seen;   /* [n_vocab] in prompt or generated text; zero between calls */
};

const param sample_param_rows[] = {
    {"temperature", PARAM_FLOAT, offsetof(sample_params, temperature), "1", 0, 100, "T",
     "0 always takes the likeliest token", "temp"},
    {"top_k", PARAM_INT, offsetof(sample_params, top_k), "0", 0, 1e9, "K", "only the K likeliest tokens; 0 = all",
     NULL},
    {"top_p", PARAM_FLOAT, offsetof(sample_params, top_p), "1", 0, 1, "P", "only the likeliest tokens that sum to P",
     NULL},
    {"min_p", PARAM_FLOAT, offsetof(sample_params, min_p), "0", 0, 1, "P",
     "only tokens at least P times as likely as the best", NULL},
    {"repetition_penalty", PARAM_FLOAT, offsetof(sample_params, repetition_penalty), "1", 0.01, 100, "F",
     "divides the logits of tokens seen before; 1 = off", "repeat_penalty"},
    {"presence_penalty", PARAM_FLOAT, offsetof(sample_params, presence_penalty), "0", -2, 2, "F",
     "taken from the logits of tokens generated before", NULL},
    {"frequency_penalty", PARAM_FLOAT, offsetof(sample_params, frequency_penalty), "0", -2, 2, "F",
     "the same, for each time a token was generated", NULL},
    {"seed", PARAM_INT, offsetof(sample_params, seed), "-1", -1, 0x1p63, "N", "same seed, same text; -1 draws one",
     NULL},
};
const size_t sample_param_count = sizeof sample_param_rows / sizeof *sample_param_rows;

int sampler_open(sampler **out, int32_t n_vocab, err *e)
{
    *out = NULL;
    if (n_vocab <= 0) return err_set(e, ERR_SPEC, "a vocabulary of %d tokens cannot be sampled from", n_vocab);
    sampler *s = mem_zero(1, sizeof *s);
    size_t n = (size_t)n_vocab;
    if (s) {
        s->n_vocab = n_vocab;
        s->logit = mem_array(n, sizeof *s->logit);
        s->heap = mem_array(n, sizeof *s->heap);
        s->count = mem_zero(n, sizeof *s->count);
        s->seen = mem_zero(n, 1);
    }
    if (!s || !s->logit || !s->heap || !s->count || !s->seen) {
        sampler_close(s);
        return err_set(e, ERR_MEMORY, "out of memory for sampling from %d tokens", n_vocab);
    }
    *out = s;
    return OK;
}

void sampler_close(sampler *s)
{
    if (!s) return;
    mem_free(s->logit);
    mem_free(s->heap);
    mem_free(s->count);
    mem_free(s->seen);
    mem_free(s);
}

static bool in_vocab(const sampler *s, int32_t id) { return id >= 0 && id < s->n_vocab; }

static void penalise_once(sampler *s, const sample_params *p, int32_t id)
{
    if (!in_vocab(s, id) || s->seen[id]) return;
    s->seen[id] = 1;
    float f = (float)p->repetition_penalty, *l = &s->logit[id];
    *l = *l > 0 ? *l / f : *l * f;
}

static void apply_penalties(sampler *s, const sample_params *p, const sample_input *in)
{
    if (p->repetition_penalty != 1) {
        for (int64_t i = 0; i < in->n_prompt; i++) penalise_once(s, p, in->prompt[i]);
        for (int64_t i = 0; i < in->n_generated; i++) penalise_once(s, p, in->generated[i]);
        for (int64_t i = 0; i < in->n_prompt; i++)
            if (in_vocab(s, in->prompt[i])) s->seen[in->prompt[i]] = 0;
        for (int64_t i = 0; i < in->n_generated; i++)
            if (in_vocab(s, in->generated[i])) s->seen[in->generated[i]] = 0;
    }
    if (p->presence_penalty != 0 || p->frequency_penalty != 0) {
        for (int64_t i = 0; i < in->n_generated; i++)
            if (in_vocab(s, in->generated[i])) s->count[in->generated[i]]++;
        for (int64_t i = 0; i < in->n_generated; i++) {
            int32_t id = in->generated[i];
            if (!in_vocab(s, id) || !s->count[id]) continue;
            s->logit[id] -= (float)(p->presence_penalty + p->frequency_penalty * s->count[id]);
            s->count[id] = 0;
        }
    }
}

static void adjust(sampler *s, const sample_params *p, const sample_input *in)
{
    for (int32_t i = 0; i < s->n_vocab; i++)
        s->logit[i] = i < in->n_vocab && !isnan(in->logits[i]) ? in->logits[i] : -INFINITY;
    apply_penalties(s, p, in);
    for (int32_t i = 0; i < in->n_bias; i++)
        if (in_vocab(s, in->bias[i].id)) s->logit[in->bias[i].id] += in->bias[i].bias;
    for (int32_t i = 0; i < in->n_banned; i++)
        if (in_vocab(s, in->banned[i])) s->logit[in->banned[i]] = -INFINITY;
}

static int32_t argmax(const float *l, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (l[i] > l[best]) best = i;
    return best;
}

static bool before(const float *l, int32_t a, int32_t b) { return l[a] > l[b] || (l[a] == l[b] && a < b); }

static void sift_down(int32_t *heap, int32_t n, int32_t i, const float *l)
{
    int32_t id = heap[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(l, heap[child + 1], heap[child])) child++;
        if (!before(l, heap[child], id)) break;
        heap[i] = heap[child];
    }
    heap[i] = id;
}

/* Moves the best of heap[0..n) to heap[n-1] and returns it. */
static int32_t heap_pop(int32_t *heap, int32_t n, const float *l)
{
    int32_t best = heap[0];
    heap[0] = heap[n - 1];
    sift_down(heap, n - 1, 0, l);
    return heap[n - 1] = best;
}

static double weight_of(float logit, float best, double temperature)
{
    return fm_exp((float)(((double)logit - best) / temperature));
}

/* Draws in id order from the whole vocabulary. */
static int32_t draw_from_all(const sampler *s, float best, double temperature, double u)
{
    double total = 0, sum = 0;
    for (int32_t i = 0; i < s->n_vocab; i++) total += weight_of(s->logit[i], best, temperature);
    int32_t last = argmax(s->logit, s->n_vocab);
    for (int32_t i = 0; i < s->n_vocab; i++) {
        double w = weight_of(s->logit[i], best, temperature);
        if (w > 0 && (sum += w) > u * total) return i;
    }
    return last;
}

/* Pops the candidates that pass top-k, top-p and min-p, best first, and draws among them. */
static int32_t draw_from_best(sampler *s, const sample_params *p, float best, double u)
{
    int32_t n = s->n_vocab, kept = 0, limit = p->top_k > 0 && p->top_k < n ? (int32_t)p->top_k : n;
    const double t = p->temperature;
    for (int32_t i = 0; i < n; i++) s->heap[i] = i;
    for (int32_t i = n / 2; i-- > 0;) sift_down(s->heap, n, i, s->logit);
    double mass = 0; /* of what top-p refers to: all, or the top k */
    if (limit == n)
        for (int32_t i = 0; i < n; i++) mass += weight_of(s->logit[i], best, t);
    else {
        for (int32_t i = 0; i < limit; i++) mass += weight_of(s->logit[heap_pop(s->heap, n - i, s->logit)], best, t);
    }
    double sum = 0;
    for (; kept < limit; kept++) {
        if (kept && sum >= p->top_p * mass) break;
        int32_t id = limit == n ? heap_pop(s->heap, n - kept, s->logit) : s->heap[n - 1 - kept];
        double w = weight_of(s->logit[id], best, t);
        if (kept && (w == 0 || w < p->min_p)) break; /* the best has weight 1 */
        sum += w;
    }
    double at = 0;
    for (int32_t i = 0; i < kept; i++) {
        int32_t id = s->heap[n - 1 - i];
        if ((at += weight_of(s->logit[id], best, t)) > u * sum) return id;
    }
    return s->heap[n - 1];
}

int32_t sampler_pick(sampler *s, const sample_params *p, const sample_input *in)
{
    adjust(s, p, in);
    int32_t top = argmax(s->logit, s->n_vocab);
    float best = s->logit[top];
    if (p->temperature <= 0 || !isfinite(best)) return top;
    double u = rng_uniform((uint64_t)p->seed, (uint64_t)p->choice, (uint64_t)(in->n_prompt + in->n_generated));
    bool filtered = (p->top_k > 0 && p->top_k < s->n_vocab) || p->top_p < 1 || p->min_p > 0;
    return filtered ? draw_from_best(s, p, best, u) : draw_from_all(s, best, p->temperature, u);
}

float sampler_logprobs(sampler *s, const float *logits, int32_t n_vocab, int32_t id, top_logprob *best, int32_t n)
{
    if (n_vocab > s->n_vocab) n_vocab = s->n_vocab;
    float top = -INFINITY;
    for (int32_t i = 0; i < n_vocab; i++)
        if (logits[i] > top) top = logits[i];
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (!isnan(logits[i])) sum += fm_exp(logits[i] - top);
    float norm = (float)((double)top + log(sum));
    int32_t held = 0;
    for (int32_t i = 0; i < n_vocab && n > 0; i++) {
        float v = isnan(logits[i]) ? -INFINITY : logits[i] - norm;
        if (held == n && v <= best[held - 1].logprob) continue;
        int32_t at = held < n ? held++ : n - 1;
        for (; at > 0 && best[at - 1].logprob < v; at--) best[at] = best[at - 1];
        best[at] = (top_logprob){i, v};
    }
    return in_vocab(s, id) && id < n_vocab ? logits[id] - norm : -INFINITY;
}
