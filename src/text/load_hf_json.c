/* load_hf_json.c - tokenizer.json of the Hugging Face tokenizers library: the vocabulary and the model.
 *
 * Its normalizers, pre-tokenizers, post-processors and decoders are load_hf_steps.c's business. `truncation` and
 * `padding` are ignored. What is not implemented is an error that names it. */
#include "text/load_hf_json.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/load_hf_steps.h"
#include "text/tokenizer_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct load {
    tokenizer *t;
    const char *path;
    err *e;
} load;

static span str_span(const json *j) { return span_str(json_str(j, "")); }

int hf_read_pieces(tokenizer *t, const json *root, const char *path, err *e)
{
    int rc = vocab_reserve(&t->voc, json_count(root), e);
    for (const json *m = json_first(root); m && !rc; m = json_next(m)) {
        if (!json_is_int(m))
            return err_set(e, ERR_FORMAT, "%s: id of piece \"%.60s\" is not an integer", path, json_key(m));
        rc = vocab_set(&t->voc, json_int(m, -1), span_str(json_key(m)), 0, e);
    }
    return rc;
}

static int read_vocabulary(load *l, const json *list)
{
    if (json_type(list) != JSON_OBJECT) return err_set(l->e, ERR_FORMAT, "%s: model.vocab is not an object", l->path);
    return hf_read_pieces(l->t, list, l->path, l->e);
}

/* Both halves of a merge: "a b", or ["a", "b"]. */
static bool merge_halves(const json *m, span *a, span *b)
{
    if (json_type(m) == JSON_ARRAY) {
        const json *x = json_first(m), *y = json_next(x);
        *a = str_span(x);
        *b = str_span(y);
        return json_type(x) == JSON_STRING && json_type(y) == JSON_STRING && !json_next(y);
    }
    if (json_type(m) != JSON_STRING) return false;
    span s = str_span(m);
    const uint8_t *space = memchr(s.p, ' ', s.n);
    if (!space || memchr(space + 1, ' ', s.n - (size_t)(space + 1 - s.p))) return false;
    *a = span_of(s.p, (size_t)(space - s.p));
    *b = span_of(space + 1, s.n - a->n - 1);
    return true;
}

int hf_add_merge(tokenizer *t, span a, span b, uint32_t rank, buf *joined, err *e)
{
    bpe *m = &t->bp;
    int32_t left = vocab_find(&t->voc, a), right = vocab_find(&t->voc, b);
    size_t skip = m->prefix.n && b.n >= m->prefix.n ? m->prefix.n : 0;
    joined->n = 0;
    if (!buf_add(joined, a.p, a.n) || !buf_add(joined, b.p + skip, b.n - skip)) return err_memory(e, NULL);
    int32_t id = left < 0 || right < 0 ? -1 : vocab_find(&t->voc, buf_span(joined));
    if (id < 0)
        return err_set(e, ERR_FORMAT, "merge %u: \"%.*s\" + \"%.*s\": not in the vocabulary", rank,
                       (int)(a.n < 60 ? a.n : 60), (const char *)a.p, (int)(b.n < 60 ? b.n : 60), (const char *)b.p);
    return bpe_merge(m, (uint32_t)left, (uint32_t)right, rank, (uint32_t)id, e);
}

static int read_merges(load *l, const json *merges)
{
    if (merges && json_type(merges) != JSON_ARRAY)
        return err_set(l->e, ERR_FORMAT, "%s: model.merges is not a list", l->path);
    buf joined = {0};
    int rc = bpe_reserve(&l->t->bp, json_count(merges), l->e);
    uint32_t rank = 0;
    for (const json *m = json_first(merges); m && !rc; m = json_next(m), rank++) {
        span a, b;
        if (!merge_halves(m, &a, &b)) rc = err_set(l->e, ERR_FORMAT, "%s: merge %u is not a pair", l->path, rank);
        else if ((rc = hf_add_merge(l->t, a, b, rank, &joined, l->e))) err_wrap(l->e, "%s", l->path);
    }
    buf_free(&joined);
    return rc;
}

/* Whether the model can read bytes instead of their spelling as characters: the last step before it is that spelling,
 * and no byte needs the unknown token. */
static bool reads_bytes(const tokenizer *t, const int32_t unit[256])
{
    const bpe *b = &t->bp;
    const pretok *p = &t->pre;
    bool all = true;
    for (int i = 0; i < 256; i++) all = all && unit[i] >= 0;
    return p->n && p->step[p->n - 1].kind == PRETOK_BYTES && !b->prefix.n && !b->suffix.n &&
           (all || (b->unk < 0 && !b->fall_back));
}

static int index_words(tokenizer *t, err *e)
{
    bpe *b = &t->bp;
    const vocab *v = &t->voc;
    buf bytes = {0};
    int rc = map_reserve(&b->word, v->size) ? OK : err_memory(e, NULL);
    for (uint32_t id = 0; id < v->size && !rc; id++) {
        span p = v->piece[id];
        bytes.n = 0;
        if (!p.n || (v->flag[id] & (PIECE_SPECIAL | PIECE_EXTRA)) || (b->bytes && !byte_unspell(p, &bytes))) continue;
        span key = b->bytes ? tokenizer_keep(t, buf_span(&bytes)) : p;
        if (t->short_of_memory || !map_put(&b->word, key, id)) rc = err_memory(e, NULL);
    }
    buf_free(&bytes);
    return rc;
}

/* The pieces spelled <0xXX>, -1 where one is missing. */
static void find_byte_pieces(const vocab *v, int32_t piece[256])
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        piece[i] = vocab_find_known(v, span_str(name));
    }
}

static int finish_bpe(tokenizer *t, err *e)
{
    bpe *b = &t->bp;
    const vocab *v = &t->voc;
    int32_t spelled[256];
    b->listed = true;
    find_byte_pieces(v, b->byte_piece);
    for (int i = 0; i < 256; i++) {
        uint8_t text[4], plain = (uint8_t)i;
        b->unit[i] = i < 128 ? vocab_find_known(v, span_of(&plain, 1)) : -1;
        spelled[i] = vocab_find_known(v, span_of(text, utf8_encode(byte_char(plain), text)));
    }
    b->bytes = reads_bytes(t, spelled);
    if (b->bytes) {
        memcpy(b->unit, spelled, sizeof spelled);
        t->pre.n--;
    }
    b->space = span_str("\xe2\x96\x81");
    bpe_finish(b);
    return b->whole_first ? index_words(t, e) : OK;
}

static int read_bpe(load *l, const json *m)
{
    tokenizer *t = l->t;
    bpe *b = &t->bp;
    if (json_num(json_get(m, "dropout"), 0) != 0)
        return err_set(l->e, ERR_FORMAT, "%s: model.dropout is not supported: encoding would be random", l->path);
    t->kind = "bpe";
    t->model = MODEL_BPE;
    b->prefix = tokenizer_keep(t, str_span(json_get(m, "continuing_subword_prefix")));
    b->suffix = tokenizer_keep(t, str_span(json_get(m, "end_of_word_suffix")));
    if (b->prefix.n > 32 || b->suffix.n > 32)
        return err_set(l->e, ERR_FORMAT, "%s: affix of more than 32 bytes", l->path);
    b->fuse_unk = json_bool(json_get(m, "fuse_unk"), false);
    b->fall_back = json_bool(json_get(m, "byte_fallback"), false);
    b->whole_first = json_bool(json_get(m, "ignore_merges"), false);
    int rc = read_vocabulary(l, json_get(m, "vocab"));
    const char *unk = json_str(json_get(m, "unk_token"), NULL);
    if (!rc && unk) b->unk = tokenizer_id(t, unk);
    return rc ? rc : read_merges(l, json_get(m, "merges"));
}

/* The library rounds twice: the digits, and digits * 10^exponent. Ties between spellings depend on it. The digits are
 * those of the shortest text that gives the same double, which is how such files are written. */
static double read_score(double exact)
{
    char text[40];
    int places = 15;
    for (; places < 18; places++) {
        snprintf(text, sizeof text, "%.*e", places - 1, exact);
        if (strtod(text, NULL) == exact) break;
    }
    uint64_t digits = 0;
    int count = 0, zeros = 0;
    const char *p = text + (text[0] == '-');
    for (; *p && *p != 'e'; p++) {
        if (*p == '.') continue;
        digits = digits * 10 + (uint64_t)(*p - '0');
        count++;
        zeros = *p == '0' ? zeros + 1 : 0;
    }
    int exponent = (*p ? atoi(p + 1) : 0) - (count - 1) + zeros;
    for (; zeros; zeros--) digits /= 10;
    double power = 1;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0 && i < 23; i--) power *= 10; /* exact up to 10^22 */
    if (exponent < -22 || exponent > 22) return exact;
    double v = exponent < 0 ? (double)digits / power : (double)digits * power;
    return text[0] == '-' ? -v : v;
}

static int read_unigram(load *l, const json *m)
{
    tokenizer *t = l->t;
    unigram *u = &t->ug;
    t->kind = "unigram";
    t->model = MODEL_UNIGRAM;
    u->fall_back = json_bool(json_get(m, "byte_fallback"), false);
    const json *list = json_get(m, "vocab");
    size_t n = json_count(list);
    if (json_type(list) != JSON_ARRAY || n == 0)
        return err_set(l->e, ERR_FORMAT, "%s: model.vocab is not a list of pieces", l->path);
    int rc = vocab_reserve(&t->voc, n, l->e);
    u->score = mem_zero(n, sizeof *u->score);
    if (!u->score) return err_memory(l->e, l->path);
    double min = 1e300;
    uint32_t id = 0;
    for (const json *p = json_first(list); p && !rc; p = json_next(p), id++) {
        const json *score = json_next(json_first(p));
        if (json_type(p) != JSON_ARRAY || json_type(json_first(p)) != JSON_STRING || json_type(score) != JSON_NUMBER)
            return err_set(l->e, ERR_FORMAT, "%s: piece %u is not [text, score]", l->path, id);
        u->score[id] = read_score(json_num(score, 0));
        if (u->score[id] < min) min = u->score[id];
        rc = vocab_set(&t->voc, id, str_span(json_first(p)), 0, l->e);
    }
    u->count = id;
    u->unk_score = min - 10;
    const json *unk = json_get(m, "unk_id");
    u->unk = (int32_t)json_int(unk, -1);
    if (!rc && json_is_int(unk) && !vocab_has(&t->voc, json_int(unk, -1)))
        rc = err_set(l->e, ERR_FORMAT, "%s: model.unk_id is outside the vocabulary", l->path);
    return rc;
}

/* Whether this piece is the unknown token and its text becomes bytes. The library lets text match the unknown token:
 * beside other unknown characters that text becomes bytes as they do, alone it becomes the token itself. Text never
 * makes a special token here, so it becomes bytes in both cases. */
static bool spells_bytes(const unigram *u, span piece, uint32_t id)
{
    bool all = u->fall_back && (int32_t)id == u->unk;
    for (size_t i = 0; all && i < piece.n; i++) all = u->byte_piece[piece.p[i]] >= 0;
    return all;
}

static int finish_unigram(tokenizer *t, err *e)
{
    unigram *u = &t->ug;
    int rc = OK;
    find_byte_pieces(&t->voc, u->byte_piece);
    for (uint32_t id = 0; id < u->count && !rc; id++) {
        span p = t->voc.piece[id];
        if (p.n && (!(t->voc.flag[id] & PIECE_SPECIAL) || spells_bytes(u, p, id)))
            rc = trie_put(&u->pieces, p, (int32_t)id, e);
    }
    return rc;
}

static int read_words(load *l, const json *m, bool pieces)
{
    tokenizer *t = l->t;
    t->kind = pieces ? "wordpiece" : "wordlevel";
    t->model = pieces ? MODEL_WORDPIECE : MODEL_WORDLEVEL;
    int rc = read_vocabulary(l, json_get(m, "vocab"));
    const char *unk = json_str(json_get(m, "unk_token"), pieces ? "[UNK]" : "<unk>");
    if (!rc) t->wp.unk = tokenizer_id(t, unk);
    int64_t longest = json_int(json_get(m, "max_input_chars_per_word"), 100);
    t->wp.longest_word = longest < 0 ? 0 : (uint64_t)longest;
    return rc;
}

/* Files of early versions have no model.type. */
static const char *model_type(const json *m)
{
    const char *type = json_str(json_get(m, "type"), NULL);
    if (type) return type;
    if (json_get(m, "merges")) return "BPE";
    if (json_type(json_get(m, "vocab")) == JSON_ARRAY) return "Unigram";
    return json_get(m, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

static int read_model(load *l, const json *m)
{
    const char *type = model_type(m);
    if (strcmp(type, "BPE") == 0) return read_bpe(l, m);
    if (strcmp(type, "Unigram") == 0) return read_unigram(l, m);
    if (strcmp(type, "WordPiece") == 0) return read_words(l, m, true);
    if (strcmp(type, "WordLevel") == 0) return read_words(l, m, false);
    return err_set(l->e, ERR_FORMAT, "%s: model.type \"%.40s\" is not supported", l->path, type);
}

/* Tokens that the model lacks are numbered after the model's pieces, as in the library, which ignores their "id". */
static int read_added(load *l, const json *list)
{
    tokenizer *t = l->t;
    uint32_t next = 0;
    for (uint32_t id = 0; id < t->voc.size; id++) next += t->voc.piece[id].p != NULL;
    int rc = OK;
    for (const json *a = json_first(list); a && !rc; a = json_next(a)) {
        span text = str_span(json_get(a, "content"));
        if (!text.n) continue;
        hf_added token = {.text = text,
                          .special = json_bool(json_get(a, "special"), false),
                          .normalized = json_bool(json_get(a, "normalized"), true),
                          .single_word = json_bool(json_get(a, "single_word"), false),
                          .lstrip = json_bool(json_get(a, "lstrip"), false),
                          .rstrip = json_bool(json_get(a, "rstrip"), false)};
        int32_t id = vocab_find(&t->voc, text);
        rc = hf_add_token(t, &token, id >= 0 ? id : (int32_t)next++, l->e);
    }
    return rc;
}

/* The special tokens must be known, since text never makes one of them. */
int hf_finish(tokenizer *t, err *e)
{
    switch (t->model) {
    case MODEL_BPE: return finish_bpe(t, e);
    case MODEL_UNIGRAM: return finish_unigram(t, e);
    case MODEL_WORDPIECE: return wordpiece_build(&t->wp, &t->voc, t->wp_prefix, e);
    case MODEL_WORDLEVEL: break;
    }
    return OK;
}

/* The library decodes a token that is matched in normalized text as that text ("▁<s>" for Llama 2's "<s>"). */
static int show_normalized(tokenizer *t, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < t->normalized.n && !rc; i++) {
        const added_token *a = &t->normalized.v[i];
        if (!span_eq(a->text, t->voc.piece[a->id])) rc = tokenizer_show_as(t, a->id, a->text, e);
    }
    return rc;
}

int load_hf_json(tokenizer *t, const json *root, const char *path, err *e)
{
    load l = {t, path, e};
    const json *model = json_get(root, "model");
    int rc = read_model(&l, model);
    const char *prefix = json_str(json_get(model, "continuing_subword_prefix"), "##");
    t->wp_prefix = tokenizer_keep(t, span_str(prefix));
    if (!rc) rc = hf_read_normalizer(t, json_get(root, "normalizer"), path, e);
    if (!rc) rc = hf_read_pretokenizer(t, json_get(root, "pre_tokenizer"), path, e);
    if (!rc) rc = read_added(&l, json_get(root, "added_tokens"));
    if (!rc) rc = show_normalized(t, e);
    if (!rc) rc = hf_read_postprocessor(t, json_get(root, "post_processor"), path, e);
    if (!rc) rc = hf_read_decoder(t, json_get(root, "decoder"), path, e);
    return rc ? rc : hf_finish(t, e);
}
