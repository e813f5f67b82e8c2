/* load_spm_folder.c - see load_spm_folder.h: alone (T5, XLM-R, mBART, NLLB, ALBERT, …), or with a vocab.json that
 * numbers the pieces (Marian, M2M100).
 *
 * Trick: pieces are renumbered between reading and building, so that nothing after it knows of classes. */
#include "text/load_spm_folder.h"

#include "base/mem.h"
#include "text/load_class.h"
#include "text/load_hf_json.h"
#include "text/load_spm.h"
#include "text/tokenizer_build.h"

#include <stdio.h>
#include <string.h>

enum { SENTINELS_MAX = 1 << 16 };

/* A vocabulary being put together, id after id. */
typedef struct numbering {
    vocab *voc;
    float *score;
    size_t cap;
    int rc;
    err *e;
} numbering;

static void number_piece(numbering *n, span piece, unsigned flags, float score)
{
    void *p = n->score;
    if (n->rc) return;
    if (!mem_grow(&p, &n->cap, (size_t)n->voc->size + 1, sizeof score)) {
        n->rc = err_memory(n->e, "the vocabulary");
        return;
    }
    n->score = p;
    n->score[n->voc->size] = score;
    n->rc = vocab_set(n->voc, n->voc->size, piece, flags, n->e);
}

static void number_special(numbering *n, const char *text, unsigned flags)
{
    number_piece(n, span_str(text), PIECE_SPECIAL | flags, 0);
}

static void number_rest(numbering *n, const vocab *from, const spm_model *m, uint32_t first)
{
    for (uint32_t id = first; id < from->size; id++) number_piece(n, from->piece[id], from->flag[id], m->score[id]);
}

static void number_words(numbering *n, const char *list)
{
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, " ");
        number_piece(n, span_of(p, len), PIECE_SPECIAL, 0);
        p += len;
        while (*p == ' ') p++;
    }
}

/* Renumbers the pieces in t->voc from the model's ids to the class's. */
static int renumber(tokenizer *t, spm_model *m, const tokenizer_class *c, const tokenizer_config *s, err *e)
{
    vocab from = t->voc;
    numbering n = {.voc = &t->voc, .e = e};
    char name[32];
    t->voc = (vocab){0};
    if (c->order == IDS_FAIRSEQ) {
        number_special(&n, "<s>", PIECE_CONTROL);
        number_special(&n, "<pad>", PIECE_CONTROL);
        number_special(&n, "</s>", PIECE_CONTROL);
        number_special(&n, "<unk>", PIECE_UNKNOWN);
        number_rest(&n, &from, m, 3);
        number_words(&n, c->languages);
        m->bos = 0;
        m->pad = 1;
        m->eos = 2;
    } else if (c->order == IDS_PEGASUS) {
        number_special(&n, "<pad>", PIECE_CONTROL);
        number_special(&n, "</s>", PIECE_CONTROL);
        number_special(&n, "<mask_1>", 0);
        number_special(&n, "<mask_2>", 0);
        for (int i = 2; i < 103; i++) {
            snprintf(name, sizeof name, "<unk_%d>", i);
            number_special(&n, name, 0);
        }
        number_rest(&n, &from, m, 2);
        m->pad = 0;
        m->eos = 1;
        m->bos = -1;
    } else {
        number_rest(&n, &from, m, 0);
        int64_t extra = json_int(json_get(s->config, "extra_ids"), 100);
        if (extra < 0 || extra > SENTINELS_MAX)
            n.rc = err_set(e, ERR_FORMAT, "extra_ids is not in 0..%d", SENTINELS_MAX);
        for (int64_t i = extra - 1; i >= 0 && !n.rc; i--) {
            snprintf(name, sizeof name, "<extra_id_%d>", (int)i);
            number_special(&n, name, 0);
        }
    }
    vocab_free(&from);
    spm_free(m);
    m->score = n.score;
    return n.rc;
}

/* ALBERT's normalization, which comes before the model's. */
static int add_bert_text(tokenizer *t, const tokenizer_config *s, err *e)
{
    static const char *const quotes[] = {"``", "''"};
    int rc = OK;
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes && !rc; i++) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_REPLACE, e);
        if (!n) return ERR_LIMIT;
        n->from = span_str(quotes[i]);
        n->to = span_str("\"");
    }
    if (!json_bool(json_get(s->config, "keep_accents"), false)) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_FORM, e);
        if (n) n->form = UC_NFKD;
        if (!n || !tokenizer_add_normalizer(t, NORM_STRIP_ACCENTS, e)) rc = ERR_LIMIT;
    }
    if (!rc && json_bool(json_get(s->config, "do_lower_case"), true) && !tokenizer_add_normalizer(t, NORM_LOWER, e))
        rc = ERR_LIMIT;
    return rc;
}

/* Adds the special tokens that are not control pieces of the model. */
static int add_specials(tokenizer *t, err *e)
{
    int rc = OK;
    for (uint32_t id = 0; id < t->voc.size && !rc; id++)
        if ((t->voc.flag[id] & (PIECE_SPECIAL | PIECE_ADDED | PIECE_UNKNOWN)) == PIECE_SPECIAL)
            rc = tokenizer_add_special(t, (int32_t)id, e);
    return rc;
}

int load_spm_model(tokenizer *t, span file, const char *path, const tokenizer_config *s, err *e)
{
    const tokenizer_class *c = class_find(s, BARE_SPM);
    if (!c) return class_unknown(path, s, e);
    spm_model m;
    int rc = spm_read(file, &m, &t->voc, path, e);
    if (rc) return rc;
    if (c->order != IDS_OF_MODEL && (rc = renumber(t, &m, c, s, e))) err_wrap(e, "%s", path);
    if (!rc && c->bert_text) rc = add_bert_text(t, s, e);
    if (!rc) rc = spm_build(t, &m, path, e);
    spm_free(&m);
    if (!rc && *c->names && !json_bool(json_get(s->config, "legacy"), true))
        t->norm.step[t->norm.n - 1].first_only = true;
    if (!rc) rc = tokenizer_config_add_tokens(t, s, e);
    if (!rc) rc = class_add_tokens(t, c, e);
    if (!rc) rc = add_specials(t, e);
    if (!rc) rc = tokenizer_config_apply(t, s, e);
    if (rc) return rc;
    class_frame(t, c, s);
    const json *bos = json_get(s->config, "add_bos_token"), *eos = json_get(s->config, "add_eos_token");
    if (bos || eos)
        tokenizer_frame(t, json_bool(bos, c->one && strncmp(c->one, "bos", 3) == 0) ? t->role[TOKEN_BOS] : -1,
                        json_bool(eos, c->one && strstr(c->one, "eos")) ? t->role[TOKEN_EOS] : -1);
    return OK;
}

/* ---- a SentencePiece model and a vocab.json ---- */

/* Language tokens follow the pieces of vocab.json; they are spelled __en__. */
static int add_languages(tokenizer *t, const char *list, err *e)
{
    char name[32];
    int rc = OK;
    for (const char *p = list; p && *p && !rc;) {
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "__%.*s__", (int)n, p);
        if (tokenizer_id(t, name) < 0) rc = vocab_set(&t->voc, t->voc.size, span_str(name), PIECE_SPECIAL, e);
        p += n;
        while (*p == ' ') p++;
    }
    return rc;
}

/* For each id of the model, the id that vocab.json gives the same piece; `unk` where it has none. */
static int32_t *numbers_of(tokenizer *t, const vocab *model, int32_t unk)
{
    int32_t *number = mem_array(model->size, sizeof *number);
    for (uint32_t id = 0; number && id < model->size; id++) {
        int32_t ours = vocab_find(&t->voc, model->piece[id]);
        number[id] = ours < 0 ? unk : ours;
        if (ours >= 0) t->voc.flag[ours] |= model->flag[id] & (PIECE_BYTE | PIECE_USER);
    }
    return number;
}

/* Moves the model of `inner`, whose ids t->number maps, into t. */
static void take_model(tokenizer *t, tokenizer *inner, int32_t unk)
{
    t->kind = inner->kind;
    t->model = inner->model;
    t->model_voc = inner->voc;
    t->bp = inner->bp;
    t->ug = inner->ug;
    t->bp.voc = &t->model_voc;
    t->ug.voc = &t->voc; /* runs of unknown characters are looked up here */
    t->ug.number = t->number;
    t->ug.number_unk = unk;
    t->norm = inner->norm;
    t->norm.step[0].user = t->bp.frozen.nodes ? &t->bp.frozen : NULL;
    t->dec = inner->dec;
    inner->voc = (vocab){0};
    inner->bp = (bpe){0};
    inner->ug = (unigram){0};
    inner->norm.n = inner->dec.n = 0;
}

int load_numbered_spm(tokenizer *t, const json *vocab_root, span spm, const char *path, const tokenizer_config *s,
                      err *e)
{
    const tokenizer_class *c = class_find(s, BARE_SPM_NUMBERED);
    if (!c) return class_unknown(path, s, e);
    tokenizer *inner = tokenizer_new();
    if (!inner) return err_memory(e, path);
    int rc = load_spm(inner, spm, path, e);
    if (!rc) rc = hf_read_pieces(t, vocab_root, path, e);
    int32_t unk = rc ? -1 : tokenizer_id(t, "<unk>");
    if (!rc && unk < 0) rc = err_set(e, ERR_FORMAT, "%s: no \"<unk>\" in vocab.json", path);
    if (!rc && !(t->number = numbers_of(t, &inner->voc, unk))) rc = err_memory(e, path);
    if (!rc) {
        take_model(t, inner, unk);
        t->dec.step[0].kind = c->languages ? DECODE_M2M100 : DECODE_MARIAN;
        t->space_sign = true;
        t->language_codes = !c->languages;
        if (!tokenizer_add_decoder(t, DECODE_TRIM, e)) rc = ERR_LIMIT;
    }
    tokenizer_close(inner);
    if (!rc) rc = add_languages(t, c->languages, e);
    if (!rc) rc = tokenizer_config_add_tokens(t, s, e);
    if (!rc) rc = class_add_tokens(t, c, e);
    if (!rc) rc = add_specials(t, e);
    if (!rc) rc = tokenizer_config_apply(t, s, e);
    if (!rc) class_frame(t, c, s);
    return rc;
}
