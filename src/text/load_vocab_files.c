/* load_vocab_files.c - vocabularies as bare files: vocab.json with merges.txt, vocab.txt.
 *
 * Such files do not say how text is to be treated; the class in tokenizer_config.json does (load_class.h), and without one vocab.json
 * is GPT-2's and vocab.txt is BERT's. A class whose rules are not known is an error that names it. */
#include "text/load_vocab_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/load_class.h"
#include "text/load_hf_steps.h"
#include "text/tk_patterns.h"

#include <stdio.h>
#include <string.h>

/* The next line without its end; false at the end. */
static bool next_line(cursor *c, span *line)
{
    if (!cursor_left(c)) return false;
    const uint8_t *p = c->p + c->at, *end = memchr(p, '\n', c->n - c->at);
    size_t n = end ? (size_t)(end - p) : c->n - c->at;
    cursor_take(c, n + (end ? 1 : 0));
    if (n && p[n - 1] == '\r') n--;
    *line = span_of(p, n);
    return true;
}

int read_piece_numbers(tokenizer *t, const json *root, const char *path, err *e)
{
    int rc = vocab_reserve(&t->voc, json_count(root), e);
    for (const json *m = json_first(root); m && !rc; m = json_next(m)) {
        if (!json_is_int(m))
            return err_set(e, ERR_FORMAT, "%s: id of piece \"%.60s\" is not an integer", path, json_key(m));
        rc = vocab_set(&t->voc, json_int(m, -1), span_str(json_key(m)), 0, e);
    }
    return rc;
}

static int read_merges(tokenizer *t, span file, const char *path, err *e)
{
    size_t lines = 1;
    for (size_t i = 0; i < file.n; i++) lines += file.p[i] == '\n';
    int rc = bpe_reserve(&t->bp, lines, e);
    cursor c = cursor_of(file);
    buf joined = {0};
    span line;
    uint32_t rank = 0;
    for (size_t number = 1; !rc && next_line(&c, &line); number++) {
        if (line.n == 0 || span_starts(line, "#version")) continue;
        const uint8_t *space = memchr(line.p, ' ', line.n);
        size_t n = space ? (size_t)(space - line.p) : 0;
        if (!space || memchr(space + 1, ' ', line.n - n - 1)) {
            rc = err_set(e, ERR_FORMAT, "%s:%zu: not a pair", path, number);
            break;
        }
        rc = hf_add_merge(t, span_of(line.p, n), span_of(space + 1, line.n - n - 1), rank++, &joined, e);
        if (rc) err_wrap(e, "%s:%zu", path, number);
    }
    buf_free(&joined);
    return rc;
}

int tokenizer_set_pattern(tokenizer *t, const pattern_row *row, err *e)
{
    int rc = OK;
    if (row->nfc) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_FORM, e);
        if (!n) return ERR_LIMIT;
        n->form = UC_NFC;
    }
    for (int i = 0; i < PATTERN_STEPS_MAX && row->step[i] && !rc; i++)
        rc = tokenizer_add_split(t, row->step[i], REGEX_ONIGURUMA, SPLIT_ISOLATED, false, e);
    t->byte_level = true;
    t->bp.whole_first = row->whole_first;
    if (!rc && !tokenizer_add_pretokenizer(t, PRETOK_BYTES, e)) rc = ERR_LIMIT;
    if (!rc && !tokenizer_add_decoder(t, DECODE_BYTE_LEVEL, e)) rc = ERR_LIMIT;
    return rc;
}

int load_byte_bpe(tokenizer *t, const json *vocab_root, span merges, const char *path, const char *pre,
                  const side_files *s, err *e)
{
    const tokenizer_class *c = class_find(s, BARE_BYTE_BPE);
    if (!c && !pre) return class_unknown(path, s, e);
    const pattern_row *pattern = pattern_find(pre ? pre : c->pattern);
    if (!pattern)
        return err_set(e, ERR_USAGE, "%s: unknown pre-tokenizer \"%.40s\" (gpt2, qwen2, llama3, …)", path, pre);
    t->kind = "bpe";
    t->model = MODEL_BPE;
    int rc = read_piece_numbers(t, vocab_root, path, e);
    if (!rc) rc = read_merges(t, merges, path, e);
    if (!rc && json_bool(json_get(s->config, "add_prefix_space"), false) &&
        !tokenizer_add_pretokenizer(t, PRETOK_PREFIX, e))
        rc = ERR_LIMIT;
    if (!rc) rc = tokenizer_set_pattern(t, pattern, e);
    if (!rc) rc = side_add_tokens(t, s, e);
    if (!rc && c) rc = class_add_tokens(t, c, e);
    if (!rc) rc = side_apply(t, s, e);
    if (rc) return rc;
    if (c && c->one) class_frame(t, c, s);
    else if (json_bool(json_get(s->config, "add_bos_token"), false)) frame_set(t, "bos $A", "bos $A bos $B");
    return hf_finish(t, e);
}

/* ---- BERT ---- */

int tokenizer_set_bert(tokenizer *t, bool lower, bool accents, bool chinese, err *e)
{
    int rc = tokenizer_add_normalizer(t, NORM_BERT_CLEAN, e) ? OK : ERR_LIMIT;
    if (!rc && chinese && !tokenizer_add_normalizer(t, NORM_BERT_CHINESE, e)) rc = ERR_LIMIT;
    if (!rc && accents) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_FORM, e);
        if (n) n->form = UC_NFD;
        if (!n || !tokenizer_add_normalizer(t, NORM_BERT_ACCENTS, e)) rc = ERR_LIMIT;
    }
    if (!rc && lower && !tokenizer_add_normalizer(t, NORM_LOWER, e)) rc = ERR_LIMIT;
    pretok_step *space = rc ? NULL : tokenizer_add_pretokenizer(t, PRETOK_CHARS, e);
    if (space) *space = (pretok_step){.kind = PRETOK_CHARS, .is = uc_is_space, .behaviour = SPLIT_REMOVED};
    pretok_step *sign = space ? tokenizer_add_pretokenizer(t, PRETOK_CHARS, e) : NULL;
    if (sign) *sign = (pretok_step){.kind = PRETOK_CHARS, .is = uc_bert_punctuation, .behaviour = SPLIT_ISOLATED};
    decode_step *d = sign ? tokenizer_add_decoder(t, DECODE_WORDPIECE, e) : NULL;
    if (!d) return rc ? rc : ERR_LIMIT;
    d->text = span_str("##");
    d->cleanup = true;
    t->kind = "wordpiece";
    t->model = MODEL_WORDPIECE;
    t->wp_prefix = span_str("##");
    t->wp.longest_word = 100;
    return OK;
}

bool vocab_txt_probe(span file)
{
    cursor c = cursor_of(file);
    span line;
    for (int lines = 0; lines < 2000 && next_line(&c, &line); lines++)
        if (span_is(line, "[UNK]") || span_is(line, "[CLS]")) return true;
    return false;
}

int load_vocab_txt(tokenizer *t, span file, const char *path, const side_files *s, err *e)
{
    const tokenizer_class *class = class_find(s, BARE_WORDPIECE);
    if (!class) return class_unknown(path, s, e);
    cursor c = cursor_of(file);
    span line;
    int rc = OK;
    for (int64_t id = 0; !rc && next_line(&c, &line); id++) {
        while (line.n && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t' || line.p[line.n - 1] == '\r'))
            line.n--;
        rc = utf8_is_valid(line) ? vocab_set(&t->voc, id, line, 0, e)
                                 : err_set(e, ERR_FORMAT, "line %lld is not UTF-8", (long long)id + 1);
    }
    if (rc) {
        err_wrap(e, "%s", path);
        return rc;
    }
    bool lower = json_bool(json_get(s->config, "do_lower_case"), true);
    bool accents = json_bool(json_get(s->config, "strip_accents"), lower);
    rc = tokenizer_set_bert(t, lower, accents, json_bool(json_get(s->config, "tokenize_chinese_chars"), true), e);
    if (!rc) rc = side_add_tokens(t, s, e);
    if (!rc) rc = class_add_tokens(t, class, e);
    if (!rc) rc = side_apply(t, s, e);
    if (rc) return rc;
    t->wp.unk = t->role[TOKEN_UNK];
    class_frame(t, class, s);
    return hf_finish(t, e);
}

void tokenizer_frame(tokenizer *t, int32_t bos, int32_t eos)
{
    post_template one = {.n = 0}, two = {.n = 0};
    for (int k = 0; k < 2; k++) {
        if (bos >= 0) two.item[two.n++] = (post_item){bos, k};
        two.item[two.n++] = (post_item){k ? POST_B : POST_A, k};
        if (eos >= 0) two.item[two.n++] = (post_item){eos, k};
        if (k == 0) one = two;
    }
    t->single = one;
    t->pair = two;
}
