/* load_gguf_vocab.c - vocabularies in GGUF metadata (tokenizer.ggml.*). Source: github.com/ggml-org/ggml, docs/gguf.md.
 *
 * The kinds are made equal to the files they were converted from: "llama" and "t5" to a SentencePiece model, "gpt2" to
 * vocab.json with merges.txt and a row of the pattern table, "bert" to vocab.txt (its words start with U+2581 here, its
 * continuations are bare). */
#include "text/load_gguf_vocab.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "text/load_class.h"
#include "text/load_hf_json.h"
#include "text/load_hf_steps.h"
#include "text/load_spm.h"
#include "text/tokenizer_build.h"

#include <math.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

typedef struct source {
    tokenizer *t;
    const ckpt *model;
    const char *path;
    const json *meta;
    ckpt_array tokens, scores, types;
    err *e;
} source;

static const json *key_of(const source *s, const char *name)
{
    char key[96] = "tokenizer.ggml.";
    strncat(key, name, sizeof key - strlen(key) - 1);
    return json_get(s->meta, key);
}

static bool flag_of(const source *s, const char *name, bool otherwise) { return json_bool(key_of(s, name), otherwise); }

static bool array_of(const source *s, const char *name, meta_kind kind, ckpt_array *out)
{
    char key[96] = "tokenizer.ggml.";
    strncat(key, name, sizeof key - strlen(key) - 1);
    return ckpt_meta_array(s->model, key, out) && out->kind == kind;
}

static int64_t type_of(const source *s, uint64_t i)
{
    return i < s->types.count && s->types.kind == META_INT ? ckpt_array_int(&s->types, i) : TYPE_NORMAL;
}

static unsigned flags_of(int64_t type)
{
    switch (type) {
    case TYPE_UNKNOWN: return PIECE_UNKNOWN | PIECE_SPECIAL;
    case TYPE_CONTROL: return PIECE_CONTROL | PIECE_SPECIAL;
    case TYPE_USER: return PIECE_USER;
    case TYPE_UNUSED: return PIECE_UNUSED;
    case TYPE_BYTE: return PIECE_BYTE;
    default: return 0;
    }
}

static int read_pieces(source *s, bool bert)
{
    buf joined = {0};
    uint64_t at = 0;
    int rc = vocab_reserve(&s->t->voc, s->tokens.count, s->e);
    for (uint64_t i = 0; i < s->tokens.count && !rc; i++) {
        span piece = ckpt_array_string(&s->tokens, &at);
        int64_t type = type_of(s, i);
        if (!utf8_is_valid(piece))
            rc = err_set(s->e, ERR_FORMAT, "%s: token %llu is not UTF-8", s->path, (unsigned long long)i);
        if (bert && type == TYPE_NORMAL) {
            bool starts = span_starts(piece, "\xe2\x96\x81");
            joined.n = 0;
            if (!starts) buf_str(&joined, "##");
            buf_add(&joined, piece.p + (starts ? 3 : 0), piece.n - (starts ? 3 : 0));
            if (joined.bad) rc = err_memory(s->e, s->path);
            piece = buf_span(&joined);
        }
        if (!rc) rc = vocab_set(&s->t->voc, (int64_t)i, piece, flags_of(type), s->e);
    }
    buf_free(&joined);
    return rc;
}

static void read_roles(source *s)
{
    static const struct {
        token_role role;
        const char *key;
    } rows[] = {{TOKEN_BOS, "bos_token_id"},     {TOKEN_EOS, "eos_token_id"},       {TOKEN_UNK, "unknown_token_id"},
                {TOKEN_PAD, "padding_token_id"}, {TOKEN_SEP, "seperator_token_id"}, {TOKEN_SEP, "separator_token_id"},
                {TOKEN_CLS, "cls_token_id"},     {TOKEN_CLS, "bos_token_id"},       {TOKEN_MASK, "mask_token_id"},
                {TOKEN_EOT, "eot_token_id"}};
    bool bert = s->t->model == MODEL_WORDPIECE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t id = json_int(key_of(s, rows[i].key), -1);
        if (!vocab_has(&s->t->voc, id) ||
            (rows[i].role == TOKEN_CLS && i == 7 && (!bert || s->t->role[TOKEN_CLS] >= 0)))
            continue;
        s->t->role[rows[i].role] = (int32_t)id;
    }
}

/* A vocabulary with BOS, EOS and a separator is an encoder's: pairs are framed as RoBERTa's. */
static void frame_text(tokenizer *t, int32_t bos, int32_t eos)
{
    tokenizer_frame(t, bos, eos);
    if (bos >= 0 && eos >= 0 && t->role[TOKEN_EOS] == eos) frame_set(t, "bos $A eos", "bos $A eos sep $B eos");
}

static int read_spm(source *s, bool unigram_model)
{
    tokenizer *t = s->t;
    spm_model m = {
        .type = unigram_model ? 1 : 2, .bos = -1, .eos = -1, .pad = -1, .unk_surface = span_str(" \xe2\x81\x87 ")};
    int rc = read_pieces(s, false);
    if (rc) return rc;
    m.score = mem_zero(t->voc.size, sizeof *m.score);
    if (!m.score) return err_memory(s->e, s->path);
    bool byte[256] = {false};
    for (uint32_t i = 0; i < t->voc.size && !rc; i++) {
        m.score[i] = i < s->scores.count ? (float)ckpt_array_float(&s->scores, i) : 0;
        if (!isfinite(m.score[i])) rc = err_set(s->e, ERR_FORMAT, "%s: score of token %u is not finite", s->path, i);
        int b = t->voc.flag[i] & PIECE_BYTE ? vocab_piece_byte(t->voc.piece[i]) : -1;
        if (b >= 0) byte[b] = true;
    }
    m.fall_back = true;
    for (int i = 0; i < 256; i++) m.fall_back = m.fall_back && byte[i];
    int64_t unk = json_int(key_of(s, "unknown_token_id"), 0);
    if (!rc && vocab_has(&t->voc, unk)) t->voc.flag[unk] |= PIECE_UNKNOWN | PIECE_SPECIAL;
    m.norm = (spm_normalizer){.add_space = flag_of(s, "add_space_prefix", true),
                              .trim = flag_of(s, "remove_extra_whitespaces", unigram_model),
                              .escape = true};
    ckpt_array charsmap_bytes;
    if (array_of(s, "precompiled_charsmap", META_INT, &charsmap_bytes) && charsmap_bytes.bytes == charsmap_bytes.count)
        m.norm.charsmap = span_of(charsmap_bytes.data, charsmap_bytes.bytes);
    if (!rc) rc = spm_build(t, &m, s->path, s->e);
    spm_free(&m);
    if (rc) return rc;
    t->role[TOKEN_BOS] = unigram_model ? -1 : 1; /* the format's defaults */
    t->role[TOKEN_EOS] = unigram_model ? 1 : 2;
    read_roles(s);
    bool bos = flag_of(s, "add_bos_token", !unigram_model), eos = flag_of(s, "add_eos_token", unigram_model);
    frame_text(t, bos ? t->role[TOKEN_BOS] : -1, eos ? t->role[TOKEN_EOS] : -1);
    return OK;
}

static int read_merges(source *s)
{
    ckpt_array merges = {0};
    if (!array_of(s, "merges", META_STRING, &merges))
        return err_set(s->e, ERR_FORMAT, "%s: tokenizer.ggml.merges is missing", s->path);
    int rc = bpe_reserve(&s->t->bp, merges.count, s->e);
    buf joined = {0};
    uint64_t at = 0;
    for (uint64_t i = 0; i < merges.count && !rc; i++) {
        span line = ckpt_array_string(&merges, &at);
        const uint8_t *space = line.n > 1 ? memchr(line.p + 1, ' ', line.n - 1) : NULL;
        size_t n = space ? (size_t)(space - line.p) : 0;
        if (!space) rc = err_set(s->e, ERR_FORMAT, "%s: merge %llu is not a pair", s->path, (unsigned long long)i);
        else
            rc = hf_add_merge(s->t, span_of(line.p, n), span_of(space + 1, line.n - n - 1), (uint32_t)i, &joined, s->e);
    }
    buf_free(&joined);
    return rc;
}

/* Tokens of type control are special; user-defined ones are found in any text. */
static int add_tokens(source *s)
{
    int rc = OK;
    vocab *v = &s->t->voc;
    for (uint32_t id = 0; id < v->size && !rc; id++) {
        hf_added a = {.text = v->piece[id], .special = v->flag[id] & PIECE_CONTROL};
        v->flag[id] &= (uint16_t)~PIECE_CONTROL; /* control tokens print here */
        if (a.text.n && (a.special || (v->flag[id] & PIECE_USER))) rc = hf_add_token(s->t, &a, (int32_t)id, s->e);
    }
    return rc;
}

static int read_byte_bpe(source *s)
{
    const char *pre = json_str(key_of(s, "pre"), "default");
    const pattern_row *row = pattern_find(pre);
    if (!row) return err_set(s->e, ERR_FORMAT, "%s: tokenizer.ggml.pre \"%.60s\" is not supported", s->path, pre);
    tokenizer *t = s->t;
    t->kind = "bpe";
    t->model = MODEL_BPE;
    int rc = read_pieces(s, false);
    if (!rc) rc = read_merges(s);
    if (!rc && flag_of(s, "add_space_prefix", false) && !tokenizer_add_pretokenizer(t, PRETOK_PREFIX, s->e))
        rc = ERR_LIMIT;
    if (!rc) rc = tokenizer_set_pattern(t, row, s->e);
    if (!rc) rc = add_tokens(s);
    if (rc) return rc;
    read_roles(s);
    bool bos = flag_of(s, "add_bos_token", row->adds_bos),
         eos = flag_of(s, "add_eos_token", false) || flag_of(s, "add_sep_token", row->adds_sep);
    int32_t end = t->role[TOKEN_EOS] >= 0 ? t->role[TOKEN_EOS] : t->role[TOKEN_SEP];
    frame_text(t, bos || row->adds_sep ? t->role[TOKEN_BOS] : -1, eos ? end : -1);
    return hf_finish(t, s->e);
}

static int read_bert(source *s)
{
    bool lower = json_bool(json_get(s->meta, "tokenizer.ggml.normalizer.lowercase"), true);
    int rc = tokenizer_set_bert(
        s->t, lower, json_bool(json_get(s->meta, "tokenizer.ggml.normalizer.strip_accents"), lower), true, s->e);
    if (!rc) rc = read_pieces(s, true);
    if (!rc) rc = add_tokens(s);
    if (rc) return rc;
    read_roles(s);
    tokenizer_config_guess_roles(s->t);
    s->t->wp.unk = s->t->role[TOKEN_UNK];
    frame_set(s->t, "cls $A sep", "cls $A sep $B:1 sep:1");
    return hf_finish(s->t, s->e);
}

int load_gguf_vocab(tokenizer *t, const ckpt *model, err *e)
{
    source s = {.t = t, .model = model, .path = ckpt_path(model), .meta = ckpt_config(model), .e = e};
    const char *kind = json_str(key_of(&s, "model"), NULL);
    if (!kind || strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0)
        return err_set(e, ERR_NOT_FOUND, "%s: carries no vocabulary", s.path);
    if (!array_of(&s, "tokens", META_STRING, &s.tokens))
        return err_set(e, ERR_FORMAT, "%s: tokenizer.ggml.tokens is missing", s.path);
    if (!array_of(&s, "scores", META_FLOAT, &s.scores)) s.scores = (ckpt_array){0};
    if (!array_of(&s, "token_type", META_INT, &s.types)) s.types = (ckpt_array){0};
    int rc;
    if (strcmp(kind, "llama") == 0) rc = read_spm(&s, false);
    else if (strcmp(kind, "t5") == 0) rc = read_spm(&s, true);
    else if (strcmp(kind, "gpt2") == 0) rc = read_byte_bpe(&s);
    else if (strcmp(kind, "bert") == 0) rc = read_bert(&s);
    else rc = err_set(e, ERR_FORMAT, "%s: tokenizer.ggml.model \"%.40s\" is not supported", s.path, kind);
    if (rc) return rc;
    tokenizer_config_guess_roles(t);
    const char *chat = json_str(json_get(s.meta, "tokenizer.chat_template"), NULL);
    if (chat && !(t->chat_template = mem_str(chat))) rc = err_memory(e, s.path);
    return rc;
}
