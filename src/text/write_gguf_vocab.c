/* write_gguf_vocab.c - see write_gguf_vocab.h. Source of keys and token types: github.com/ggml-org/ggml, docs/gguf.md.
 *
 * Merging of characters becomes "llama" (scores are the negative ranks: only their order counts), of bytes "gpt2". What
 * happens around special tokens inside a text is fixed in a "llama" vocabulary, so that is not compared there. */
#include "text/write_gguf_vocab.h"

#include "base/mem.h"
#include "io/write_gguf.h"
#include "text/tk_patterns.h"
#include "text/tokenizer_equal.h"
#include "text/tokenizer_open.h"
#include "text/tokenizer_state.h"

#include <stdio.h>
#include <stdlib.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

typedef struct writer {
    const tokenizer *t;
    uint32_t size;
    gguf_pairs pairs;
    buf text;
    err *e;
} writer;

static void key_of(char key[64], const char *name) { snprintf(key, 64, "tokenizer.ggml.%s", name); }

static void add_flag(writer *w, const char *name, bool v)
{
    char key[64];
    key_of(key, name);
    gguf_add_uint(&w->pairs, key, GGUF_BOOL, v);
}

static void add_string(buf *b, span s)
{
    buf_uint(b, s.n, 8);
    buf_add(b, s.p, s.n);
}

/* ---- pieces */

/* A piece as the format spells it: U+2581 for the spaces of a SentencePiece vocabulary. */
static span gguf_spelling(writer *w, uint32_t id, bool spaces)
{
    w->text.n = 0;
    if (!vocab_has(&w->t->voc, id)) {
        buf_printf(&w->text, "[PAD%u]", id);
        return buf_span(&w->text);
    }
    span s = w->t->voc.piece[id];
    if (!spaces || (w->t->voc.flag[id] & (PIECE_BYTE | PIECE_SPECIAL))) return s;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ' ') buf_str(&w->text, "\xe2\x96\x81");
        else buf_byte(&w->text, s.p[i]);
    }
    return buf_span(&w->text);
}

/* Files of Hugging Face do not mark the pieces <0xXX>. */
static bool is_byte(const tokenizer *t, uint32_t id)
{
    int b = t->bp.fall_back && vocab_has(&t->voc, id) ? vocab_piece_byte(t->voc.piece[id]) : -1;
    return b >= 0 && t->bp.byte_piece[b] == (int32_t)id;
}

static int32_t type_of(const writer *w, uint32_t id)
{
    const vocab *v = &w->t->voc;
    unsigned flag = vocab_has(v, id) ? v->flag[id] : PIECE_UNUSED;
    bool unknown = (flag & PIECE_UNKNOWN) || (int32_t)id == w->t->role[TOKEN_UNK];
    if ((flag & PIECE_BYTE) || is_byte(w->t, id)) return TYPE_BYTE;
    if (unknown && !w->t->byte_level) return TYPE_UNKNOWN;
    if (flag & (PIECE_CONTROL | PIECE_SPECIAL)) return TYPE_CONTROL;
    if (flag & (PIECE_USER | PIECE_ADDED)) return TYPE_USER;
    return flag & PIECE_UNUSED ? TYPE_UNUSED : TYPE_NORMAL;
}

static void add_pieces(writer *w, bool spaces)
{
    buf tokens = {0}, types = {0};
    for (uint32_t id = 0; id < w->size; id++) {
        add_string(&tokens, gguf_spelling(w, id, spaces));
        buf_uint(&types, (uint32_t)type_of(w, id), 4);
    }
    gguf_add_array(&w->pairs, "tokenizer.ggml.tokens", GGUF_STRING, w->size, buf_span(&tokens));
    gguf_add_array(&w->pairs, "tokenizer.ggml.token_type", GGUF_I32, w->size, buf_span(&types));
    w->pairs.bad |= tokens.bad || types.bad || w->text.bad;
    buf_free(&tokens);
    buf_free(&types);
}

static void add_scores(writer *w)
{
    buf scores = {0};
    uint32_t *rank = bpe_ranks(&w->t->bp);
    for (uint32_t id = 0; id < w->size && rank; id++) {
        bool ranked = vocab_has(&w->t->voc, id) && rank[id] != UINT32_MAX;
        float score = ranked ? -(float)rank[id] : 0;
        buf_add(&scores, &score, sizeof score);
    }
    w->pairs.bad |= !rank;
    mem_free(rank);
    gguf_add_array(&w->pairs, "tokenizer.ggml.scores", GGUF_F32, w->size, buf_span(&scores));
    w->pairs.bad |= scores.bad;
    buf_free(&scores);
}

/* ---- merges */

static int by_rank(const void *pa, const void *pb)
{
    const bpe_pair *a = pa, *b = pb;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void add_merges(writer *w)
{
    const bpe *b = &w->t->bp;
    const vocab *v = &w->t->voc;
    buf merges = {0};
    size_t n = 0;
    bpe_pair *sorted = mem_array(b->pair_n, sizeof *sorted);
    for (size_t i = 0; sorted && i < b->pair_cap; i++)
        if (b->pair[i].id != UINT32_MAX && n < b->pair_n) sorted[n++] = b->pair[i];
    if (n) qsort(sorted, n, sizeof *sorted, by_rank);
    for (size_t i = 0; i < n; i++) {
        span left = v->piece[sorted[i].left], right = v->piece[sorted[i].right];
        buf_uint(&merges, left.n + 1 + right.n, 8);
        buf_add(&merges, left.p, left.n);
        buf_byte(&merges, ' ');
        buf_add(&merges, right.p, right.n);
    }
    gguf_add_array(&w->pairs, "tokenizer.ggml.merges", GGUF_STRING, n, buf_span(&merges));
    w->pairs.bad |= merges.bad || !sorted;
    mem_free(sorted);
    buf_free(&merges);
}

/* ---- what surrounds a text */

static void add_roles(writer *w)
{
    static const struct {
        token_role role;
        const char *name;
    } rows[] = {{TOKEN_BOS, "bos_token_id"},     {TOKEN_EOS, "eos_token_id"}, {TOKEN_UNK, "unknown_token_id"},
                {TOKEN_PAD, "padding_token_id"}, {TOKEN_EOT, "eot_token_id"}, {TOKEN_SEP, "seperator_token_id"},
                {TOKEN_MASK, "mask_token_id"}};
    const post_template *p = &w->t->single;
    char key[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t id = w->t->role[rows[i].role];
        key_of(key, rows[i].name);
        if (id >= 0) gguf_add_uint(&w->pairs, key, GGUF_U32, (uint64_t)id);
    }
    int32_t first = p->n ? p->item[0].id : POST_A, last = p->n ? p->item[p->n - 1].id : POST_A;
    add_flag(w, "add_bos_token", first >= 0 && first == w->t->role[TOKEN_BOS]);
    add_flag(w, "add_eos_token", last >= 0 && last == w->t->role[TOKEN_EOS]);
    if (w->t->chat_template) gguf_add_text(&w->pairs, "tokenizer.chat_template", w->t->chat_template);
}

static bool adds_space(const tokenizer *t)
{
    for (int i = 0; i < t->norm.n; i++) {
        const norm_step *n = &t->norm.step[i];
        if (n->kind == NORM_SENTENCEPIECE && n->add_space) return true;
        if (n->kind == NORM_PREPEND) return true;
    }
    for (int i = 0; i < t->pre.n; i++)
        if (t->pre.step[i].kind == PRETOK_METASPACE && t->pre.step[i].prepend != PREPEND_NEVER) return true;
    return false;
}

/* SentencePiece's normalizer: what it trims, and its character map. */
static void add_normalizer(writer *w)
{
    for (int i = 0; i < w->t->norm.n; i++) {
        const norm_step *n = &w->t->norm.step[i];
        if (n->kind != NORM_SENTENCEPIECE) continue;
        add_flag(w, "remove_extra_whitespaces", n->trim);
        if (!n->map.blob) continue;
        size_t bytes = (size_t)(n->map.texts.p - n->map.blob) + n->map.texts.n;
        gguf_add_array(&w->pairs, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, bytes, span_of(n->map.blob, bytes));
    }
}

/* ---- reading back */

/* Reads the pairs back as a vocabulary and compares. *same false: another tokenizer, or none that can be read. */
static int read_back(writer *w, bool *same)
{
    buf file = {0};
    ckpt *c = NULL;
    tokenizer *t = NULL;
    err why = {0};
    *same = false;
    int rc = write_gguf_header(&file, &w->pairs, NULL, 0, w->e);
    if (!rc) rc = ckpt_open_bytes(&c, buf_span(&file), "vocabulary", w->e);
    if (!rc && tokenizer_of_model(&t, c, NULL, &why) == OK) *same = tokenizer_equal(w->t, t, w->t->byte_level);
    if (!rc && why.code == ERR_MEMORY) rc = err_memory(w->e, NULL);
    tokenizer_close(t);
    ckpt_close(c);
    buf_free(&file);
    return rc;
}

/* ---- kinds */

static int write_scored(writer *w, bool *same)
{
    bool spaces = w->t->bp.space.n == 1; /* llama2.c: pieces hold plain spaces */
    gguf_add_text(&w->pairs, "tokenizer.ggml.model", "llama");
    gguf_add_text(&w->pairs, "tokenizer.ggml.pre", "default");
    add_pieces(w, spaces);
    add_scores(w);
    add_roles(w);
    add_flag(w, "add_space_prefix", adds_space(w->t));
    add_normalizer(w);
    return read_back(w, same);
}

static int write_byte_level(writer *w, bool *same)
{
    gguf_pairs base;
    int rc = OK;
    gguf_add_text(&w->pairs, "tokenizer.ggml.model", "gpt2");
    add_pieces(w, false);
    add_merges(w);
    add_roles(w);
    base = w->pairs;
    for (size_t i = 0; pattern_names[i] && !rc && !*same; i++) {
        w->pairs = (gguf_pairs){0};
        gguf_add_text(&w->pairs, "tokenizer.ggml.pre", pattern_names[i]);
        gguf_add_all(&w->pairs, &base);
        rc = read_back(w, same);
        if (!*same) gguf_pairs_free(&w->pairs);
    }
    gguf_pairs_free(&base);
    return rc;
}

int write_gguf_vocab(const tokenizer *t, uint32_t size, gguf_pairs *out, err *e)
{
    writer w = {.t = t, .size = size > t->voc.size ? size : t->voc.size, .e = e};
    bool same = false, bpe_model = t->model == MODEL_BPE;
    int rc = OK;
    if (bpe_model && !t->byte_level && !t->bp.bytes) rc = write_scored(&w, &same);
    else if (bpe_model && t->bp.listed && t->byte_level) rc = write_byte_level(&w, &same);
    if (!rc && !same) rc = err_set(e, ERR_NOT_FOUND, "GGUF has no name for what this tokenizer (%s) does", t->kind);
    if (!rc) gguf_add_all(out, &w.pairs);
    gguf_pairs_free(&w.pairs);
    buf_free(&w.text);
    return rc;
}
