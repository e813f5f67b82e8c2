/* derive_parts.c - see derive_parts.h.
 *
 * Names are cut at dots; the first number is the layer's. The last word and those between it and the layer tell the
 * role of a matrix: `proj` below attn is the output, below mlp the down-projection. Where two readings remain, other
 * tensors decide: `w1` is a gate where there is a `w3`. */
#include "models/derive/derive_parts.h"

#include "base/map.h"
#include "base/mem.h"
#include "tensor/quant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 1 << 20, STEM_MAX = 400, PARTS_MAX = 4096 };

const char *part_key(part_role role)
{
    static const char *const keys[] = {"",
#define X(id, key, layer) key,
                                       PART_LIST(X)
#undef X
    };
    return keys[role];
}

/* ---- grouping */

static bool strip_suffix(char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    if (n <= k || strcmp(s + n - k, end) != 0) return false;
    s[n - k] = 0;
    return true;
}

/* "a.3.b.0.weight" -> "a.{i}.b.{j}"; *layer = 3, *inner = 0, or -1. False when the name is too long or odd. */
static bool pattern_of(const char *name, char out[STEM_MAX], int *layer, int *inner, bool *bias)
{
    char stem[STEM_MAX];
    size_t n = 0;
    *layer = *inner = -1;
    if (strlen(name) >= STEM_MAX || strpbrk(name, "{}|()\"")) return false;
    for (const char *p = name; *p; p++)
        if (!isgraph((unsigned char)*p)) return false;
    snprintf(stem, sizeof stem, "%s", name);
    *bias = strip_suffix(stem, ".bias");
    if (!*bias) strip_suffix(stem, ".weight");
    for (const char *p = stem; *p;) {
        size_t k = strcspn(p, "."), digits = strspn(p, "0123456789");
        bool number = k && digits == k && k < 7;
        if (n + (number ? 3 : k) + 2 > STEM_MAX) return false;
        if (number) {
            int *which = *layer < 0 ? layer : inner;
            memcpy(out + n, which == layer ? "{i}" : "{j}", 3), n += 3;
            *which = atoi(p);
        } else {
            memcpy(out + n, p, k), n += k;
        }
        p += k;
        if (*p) out[n++] = *p++;
    }
    out[n] = 0;
    return true;
}

static int group(parts *p, const ckpt *c, err *e)
{
    map seen = {0};
    int rc = OK;
    for (uint32_t i = 0; i < ckpt_count(c) && !rc; i++) {
        char stem[STEM_MAX];
        int layer, inner;
        bool bias;
        const ckpt_entry *t = ckpt_at(c, i);
        if (!pattern_of(t->name, stem, &layer, &inner, &bias)) continue;
        uint32_t at = map_get_str(&seen, stem);
        if (at == MAP_NONE && p->n == PARTS_MAX)
            rc = err_set(e, ERR_LIMIT, "%s: more than %d kinds of tensors", ckpt_path(c), PARTS_MAX);
        else if (at == MAP_NONE) {
            const char *copy = arena_str(&p->mem, stem);
            at = (uint32_t)p->n;
            if (!copy || !mem_grow((void **)&p->at, &p->cap, p->n + 1, sizeof *p->at) ||
                !map_put(&seen, span_str(copy), at))
                rc = err_memory(e, "tensors");
            else p->at[p->n++] = (part){.name = copy};
        }
        if (rc) break;
        part *g = &p->at[at];
        if (!bias && !g->first) g->first = t;
        if (inner >= g->inner) g->inner = inner + 1;
        if (bias) g->biases++;
        else g->count++;
        if (layer >= p->n_layer && layer < LAYERS_MAX && !strstr(stem, "{j}")) p->n_layer = layer + 1;
    }
    map_free(&seen);
    return rc;
}

/* The prefix before the number that most numbered groups share. */
static void choose_layers(parts *p)
{
    int best = 0;
    for (size_t i = 0; i < p->n; i++) {
        const char *mark = strstr(p->at[i].name, "{i}");
        size_t n = mark ? (size_t)(mark - p->at[i].name) : 0;
        int same = 0;
        bool first = mark != NULL;
        for (size_t k = 0; k < p->n && mark; k++) {
            bool equal = strncmp(p->at[k].name, p->at[i].name, n) == 0 && strncmp(p->at[k].name + n, "{i}", 3) == 0;
            if (equal && k < i) first = false;
            same += equal;
        }
        if (!first) continue;
        if (best) p->rivals++;
        if (same <= best) continue;
        best = same;
        p->layers = arena_strn(&p->mem, p->at[i].name, n);
    }
}

/* ---- words */

/* Whether one of the words, split by blanks, occurs in the name, small letters or not. */
static bool name_has_word(const char *name, const char *words)
{
    for (const char *w = words; *w;) {
        size_t k = strcspn(w, " ");
        for (const char *s = name; *s; s++) {
            size_t i = 0;
            while (i < k && s[i] && tolower((unsigned char)s[i]) == w[i]) i++;
            if (i == k) return true;
        }
        w += k + (w[k] == ' ');
    }
    return false;
}

static bool is_one_of(const char *word, const char *words)
{
    char lower[80];
    size_t n = strlen(word);
    if (n >= sizeof lower) return false;
    for (size_t i = 0; i <= n; i++) lower[i] = (char)tolower((unsigned char)word[i]);
    for (const char *w = words; *w;) {
        size_t k = strcspn(w, " ");
        if (k == n && memcmp(w, lower, k) == 0) return true;
        w += k + (w[k] == ' ');
    }
    return false;
}

typedef struct word_row {
    part_role role;
    const char *words; /* of the last part of the name */
} word_row;

static const word_row attention_words[] = {
    {PART_Q, "q_proj wq query q_lin to_q query_proj w_q q attn_q linear_q q_linear"},
    {PART_K, "k_proj wk key k_lin to_k key_proj w_k k attn_k linear_k k_linear"},
    {PART_V, "v_proj wv value v_lin to_v value_proj w_v v attn_v linear_v v_linear"},
    {PART_QKV, "qkv_proj c_attn wqkv query_key_value w_pack qkv in_proj attn_qkv to_qkv"},
    {PART_O, "o_proj out_proj wo dense c_proj out_lin proj to_out output attn_output o linear_out out"},
};
static const word_row forward_words[] = {
    {PART_GATE, "gate_proj gate ffn_gate wg gate_w linear_gate w1"},
    {PART_UP, "up_proj up w3 c_fc fc1 fc_in dense_h_to_4h wi lin1 ffn_up fc linear_up"},
    {PART_GATE_UP, "gate_up_proj gate_up w12 gate_and_up"},
    {PART_DOWN, "down_proj down w2 fc2 c_proj fc_out dense_4h_to_h lin2 proj ffn_down wo linear_down"},
};
enum {
    N_ATTENTION = sizeof attention_words / sizeof *attention_words,
    N_FORWARD = sizeof forward_words / sizeof *forward_words
};

static part_role by_words(const char *last, const word_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_one_of(last, rows[i].words)) return rows[i].role;
    return PART_NONE;
}

static part_role matrix_in_layer(const char *rest)
{
    const char *dot = strrchr(rest, '.'), *last = dot ? dot + 1 : rest;
    char between[STEM_MAX];
    snprintf(between, sizeof between, "%.*s", dot ? (int)(dot - rest) : 0, rest);
    bool attention = name_has_word(between, "attn attention mixer att"),
         forward = name_has_word(between, "mlp ffn feed_forward feedforward ff");
    part_role a = by_words(last, attention_words, N_ATTENTION), f = by_words(last, forward_words, N_FORWARD);
    if (attention != forward) return attention ? a : f;
    return a && !f ? a : f && !a ? f : PART_NONE;
}

static bool is_norm(const part *g)
{
    return name_has_word(g->name, "norm ln_ .ln ln1 ln2") && g->first && g->first->dims.rank <= 2;
}

/* The role of a feed-forward's matrix when it belongs to an expert, or to a shared expert. */
static part_role of_experts(part_role r, bool shared)
{
    if (r == PART_GATE) return shared ? PART_SHARED_GATE : PART_EXPERT_GATE;
    if (r == PART_UP) return shared ? PART_SHARED_UP : PART_EXPERT_UP;
    if (r == PART_DOWN) return shared ? PART_SHARED_DOWN : PART_EXPERT_DOWN;
    return PART_NONE;
}

static part_role in_layer(const part *g, const char *rest)
{
    if (name_has_word(rest, "inv_freq masked_bias rotary_emb") || (!g->first && name_has_word(rest, "attn attention")))
        return PART_BUFFER;
    if (!g->first) return PART_NONE;
    const char *dot = strrchr(rest, '.'), *last = dot ? dot + 1 : rest;
    bool expert = strstr(rest, "{j}") != NULL;
    if (g->first->dims.rank == 2 && (expert || name_has_word(rest, "shared_expert")))
        return name_has_word(rest, "expert") ? of_experts(by_words(last, forward_words, N_FORWARD), !expert)
                                             : PART_NONE;
    if (expert) return PART_NONE;
    if (is_norm(g)) {
        if (name_has_word(rest, "q_norm q_layernorm query_norm q_ln norm_q")) return PART_Q_NORM;
        if (name_has_word(rest, "k_norm k_layernorm key_norm k_ln norm_k")) return PART_K_NORM;
        return PART_NORM_A; /* which one: place_norms */
    }
    return g->first->dims.rank == 2 ? matrix_in_layer(rest) : PART_NONE;
}

static part_role outside(const part *g)
{
    const char *name = g->name;
    if (name_has_word(name, "inv_freq")) return PART_BUFFER;
    if (!g->first || strstr(name, "{i}")) return PART_NONE;
    if (g->first->dims.rank == 1)
        return !is_norm(g) ? PART_NONE : name_has_word(name, "emb") ? PART_EMBED_NORM : PART_LAST_NORM;
    if (g->first->dims.rank != 2) return PART_NONE;
    if (name_has_word(name, "pos wpe")) return PART_POSITION;
    if (name_has_word(name, "lm_head embed_out head output unembed")) return PART_HEAD;
    return name_has_word(name, "emb wte token word") ? PART_TOKEN : PART_NONE;
}

/* ---- norms */

static const char before_attention[] =
    "input ln_1 ln1 norm1 norm_1 attn_norm attention_norm self_attn_layer_norm ln_attn pre_attn "
    "pre_attention attn_ln sa_layer_norm layernorm1";
static const char after_attention[] = "post_attention post_attn";
static const char after_forward[] = "post_feedforward post_ffw post_mlp post_ffn";

/* Gives each norm of a layer its place: by words, else in the order of the file. */
static void place_norms(parts *p)
{
    part *norm[4];
    int n = 0;
    bool after_ffn = false;
    for (size_t i = 0; i < p->n; i++) {
        if (p->at[i].role != PART_NORM_A) continue;
        p->at[i].role = PART_NONE;
        after_ffn |= name_has_word(p->at[i].name, after_forward);
        if (n < 4) norm[n] = &p->at[i];
        n++;
    }
    p->place = n == 0   ? PLACE_NONE
               : n == 1 ? PLACE_ONE
               : n == 2 ? (after_ffn ? PLACE_ON_BRANCH : PLACE_BEFORE)
               : n == 4 ? PLACE_AROUND
                        : PLACE_UNKNOWN;
    if (p->place == PLACE_UNKNOWN) return;
    for (int i = 0; i < n; i++) {
        const char *name = norm[i]->name;
        part_role r;
        if (p->place == PLACE_ONE) r = PART_NORM_A;
        else if (name_has_word(name, after_forward)) r = p->place == PLACE_AROUND ? PART_NORM_D : PART_NORM_B;
        else if (after_ffn && name_has_word(name, after_attention))
            r = p->place == PLACE_AROUND ? PART_NORM_C : PART_NORM_A;
        else
            r = name_has_word(name, before_attention) && !name_has_word(name, after_attention) ? PART_NORM_A
                                                                                               : PART_NORM_B;
        norm[i]->role = r;
    }
    if (n == 2 && norm[0]->role == norm[1]->role) norm[0]->role = PART_NORM_A, norm[1]->role = PART_NORM_B;
}

/* Drops incomplete parts: experts without a router, shared experts without experts. */
static void drop_roles(parts *p, part_role from, part_role to)
{
    for (int r = from; r <= (int)to; r++) p->of[r] = NULL;
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].role >= from && p->at[i].role <= to) p->at[i].role = PART_NONE;
}

static void check_experts(parts *p)
{
    bool whole = p->of[PART_ROUTER] && p->of[PART_EXPERT_UP] && p->of[PART_EXPERT_DOWN];
    bool shared = whole && p->of[PART_SHARED_GATE] && p->of[PART_SHARED_UP] && p->of[PART_SHARED_DOWN];
    if (!whole) drop_roles(p, PART_ROUTER, PART_EXPERT_DOWN);
    if (!shared) drop_roles(p, PART_SHARED_GATE, PART_SHARED_DOWN);
}

/* ---- the door */

/* `w1` is a gate where there is a `w3`, else the up-projection. */
static void settle_first(parts *p, part_role gate, part_role up)
{
    bool w3 = false;
    for (size_t i = 0; i < p->n; i++) w3 |= p->at[i].role == up;
    for (size_t i = 0; i < p->n; i++) {
        const char *dot = strrchr(p->at[i].name, '.');
        if (p->at[i].role == gate && !w3 && is_one_of(dot ? dot + 1 : "", "w1")) p->at[i].role = up;
    }
}

/* A matrix with one row for each expert is the router, whatever else its name could mean. */
static void settle_router(parts *p)
{
    int experts = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].role == PART_EXPERT_DOWN) experts = p->at[i].inner;
    for (size_t i = 0; i < p->n && experts; i++) {
        part *g = &p->at[i];
        bool fits = g->first && g->first->dims.rank == 2 && g->first->dims.dim[0] == experts && strstr(g->name, "{i}");
        if (fits && name_has_word(g->name, "gate router") && !g->inner) g->role = PART_ROUTER;
    }
}

static void settle_parts(parts *p)
{
    settle_router(p);
    settle_first(p, PART_GATE, PART_UP);
    settle_first(p, PART_EXPERT_GATE, PART_EXPERT_UP);
    settle_first(p, PART_SHARED_GATE, PART_SHARED_UP);
    place_norms(p);
    for (size_t i = 0; i < p->n; i++) {
        part_role r = p->at[i].role;
        if (r == PART_NONE || r == PART_BUFFER) continue;
        if (p->of[r]) p->at[i].role = PART_NONE; /* the second one for a place is left over */
        else p->of[r] = &p->at[i];
    }
    check_experts(p);
}

int parts_find(parts *p, const ckpt *c, err *e)
{
    *p = (parts){0};
    int rc = group(p, c, e);
    if (rc) return rc;
    choose_layers(p);
    size_t n = p->layers ? strlen(p->layers) : 0;
    for (size_t i = 0; i < p->n; i++) {
        part *g = &p->at[i];
        bool layer = p->layers && strncmp(g->name, p->layers, n) == 0 && strncmp(g->name + n, "{i}.", 4) == 0;
        g->role = layer ? in_layer(g, g->name + n + 4) : outside(g);
    }
    settle_parts(p);
    return OK;
}

void parts_free(parts *p)
{
    mem_free(p->at);
    arena_free(&p->mem);
}

/* ---- norms that store w - 1 */

bool derive_norms_are_offset(const ckpt *c)
{
    enum { WIDTH_MAX = 1 << 14 };
    uint64_t seen = 0, negative = 0;
    for (uint32_t i = 0; i < ckpt_count(c) && seen < 1 << 18; i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        const char *number = strpbrk(t->name, "0123456789"), *norm = number ? strstr(number, "norm") : NULL;
        float values[WIDTH_MAX];
        if (!norm || !strstr(norm, "weight") || t->dims.rank != 1 || t->dims.dim[0] > WIDTH_MAX ||
            (t->type != DTYPE_F32 && t->type != DTYPE_F16 && t->type != DTYPE_BF16))
            continue;
        quant_decode(t->type, t->data, values, (uint64_t)t->dims.dim[0]);
        for (int64_t k = 0; k < t->dims.dim[0]; k++) negative += values[k] < 0;
        seen += (uint64_t)t->dims.dim[0];
    }
    return negative * 50 > seen;
}
