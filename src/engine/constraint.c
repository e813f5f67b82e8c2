/* constraint.c - see constraint.h. */
#include "engine/constraint.h"

#include "base/mem.h"
#include "engine/engine_state.h"

struct constraint {
    grammar *g;
    grammar_place at, delivered;
    grammar_next next;
    err why;
    uint64_t allowed[]; /* [(n_vocab + 63) / 64] */
};

int constraint_open(constraint **out, grammar *g, err *e)
{
    constraint *c = *out = mem_zero(1, sizeof *c + grammar_mask_words(g) * sizeof *c->allowed);
    if (!c) return err_memory(e, "a constraint");
    c->g = grammar_keep(g);
    return OK;
}

void constraint_close(constraint *c)
{
    if (c) grammar_drop(c->g);
    mem_free(c);
}

const uint64_t *constraint_allowed(constraint *c, const session *s, int32_t *why)
{
    const query *q = &s->q;
    const int64_t made = s->n_ids - s->n_prompt;
    const bool late = made >= q->min_tokens;
    *why = CONSTRAINT_FAILED;
    if (grammar_follow(c->g, &c->at, s->ids + s->n_prompt, made, late && !q->ignore_eos, c->allowed, &c->next, &c->why))
        return NULL;
    if (c->next.over) *why = CONSTRAINT_OVER;
    if (c->next.over) return NULL;
    for (int32_t k = 0; k < q->n_stop_ids; k++) {
        uint64_t *word = &c->allowed[q->stop_ids[k] >> 6], bit = UINT64_C(1) << (q->stop_ids[k] & 63);
        *word = late && c->next.complete ? *word | bit : *word & ~bit;
    }
    uint64_t any = 0;
    for (size_t i = 0; i < grammar_mask_words(c->g); i++) {
        if (q->n_allowed) c->allowed[i] &= q->allowed[i];
        any |= c->allowed[i];
    }
    if (!any && c->next.complete) *why = CONSTRAINT_OVER;
    else if (!any) err_set(&c->why, ERR_USAGE, "of the tokens that may be drawn none goes on with the grammar");
    return any ? c->allowed : NULL;
}

bool constraint_allows(const constraint *c, int32_t id) { return c->allowed[id >> 6] >> (id & 63) & 1; }

const char *constraint_error(const constraint *c) { return c->why.msg; }

bool constraint_is_over(constraint *c, const int32_t *ids, int64_t n)
{
    grammar_next next;
    return !grammar_follow(c->g, &c->delivered, ids, n, false, NULL, &next, &c->why) && next.over;
}

/* Special tokens are marked, so that only grammars that name them allow them. */
static void bytes_of(void *ctx, int32_t id, buf *out)
{
    const tokenizer *t = ctx;
    const span name = tokenizer_piece(t, id);
    if (tokenizer_bytes(t, id, out) || !tokenizer_is_special(t, id) || !name.n) return;
    buf_byte(out, TRIE_MARK);
    buf_add(out, name.p, name.n);
    buf_byte(out, TRIE_MARK);
}

const token_trie *engine_token_trie(engine *g, err *e)
{
    tokenizer *t = g->target ? g->target : g->tok;
    if (!t) {
        err_set(e, ERR_USAGE, "this model has no tokenizer, so its text cannot follow a grammar");
        return NULL;
    }
    pthread_mutex_lock(&g->trie_lock);
    if (!g->trie)
        token_trie_open(
            &g->trie,
            &(trie_source){
                .n_vocab = g->info.n_vocab, .ends = g->info.eos, .n_end = g->info.n_eos, .bytes = bytes_of, .ctx = t},
            e);
    const token_trie *trie = g->trie;
    pthread_mutex_unlock(&g->trie_lock);
    return trie;
}
