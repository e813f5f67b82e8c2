/* load_vocab_files.c - vocabularies as bare files: vocab.json with merges.txt, vocab.txt.
 *
 * Such files do not say how text is to be treated; the class in tokenizer_config.json does (load_class.h), and without
 * one vocab.json is GPT-2's and vocab.txt is BERT's. A class whose rules are not known is an error that names it. */
#include "text/load_vocab_files.h"

#include "base/utf8.h"
#include "text/load_class.h"
#include "text/load_hf_json.h"
#include "text/tokenizer_build.h"

#include <string.h>

static int read_merges(tokenizer *t, span file, const char *path, err *e)
{
    size_t lines = 1;
    for (size_t i = 0; i < file.n; i++) lines += file.p[i] == '\n';
    int rc = bpe_reserve(&t->bp, lines, e);
    cursor c = cursor_of(file);
    buf joined = {0};
    span line;
    uint32_t rank = 0;
    for (size_t number = 1; !rc && tokenizer_file_line(&c, &line); number++) {
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

int load_byte_bpe(tokenizer *t, const json *vocab_root, span merges, const char *path, const char *pre,
                  const tokenizer_config *s, err *e)
{
    const tokenizer_class *c = class_find(s, BARE_BYTE_BPE);
    if (!c && !pre) return class_unknown(path, s, e);
    const pattern_row *pattern = pattern_find(pre ? pre : c->pattern);
    if (!pattern)
        return err_set(e, ERR_USAGE, "%s: unknown pre-tokenizer \"%.40s\" (gpt2, qwen2, llama3, …)", path, pre);
    t->kind = "bpe";
    t->model = MODEL_BPE;
    int rc = hf_read_pieces(t, vocab_root, path, e);
    if (!rc) rc = read_merges(t, merges, path, e);
    if (!rc && json_bool(json_get(s->config, "add_prefix_space"), false) &&
        !tokenizer_add_pretokenizer(t, PRETOK_PREFIX, e))
        rc = ERR_LIMIT;
    if (!rc) rc = tokenizer_set_pattern(t, pattern, e);
    if (!rc) rc = tokenizer_config_add_tokens(t, s, e);
    if (!rc && c) rc = class_add_tokens(t, c, e);
    if (!rc) rc = tokenizer_config_apply(t, s, e);
    if (rc) return rc;
    if (c && c->one) class_frame(t, c, s);
    else if (json_bool(json_get(s->config, "add_bos_token"), false)) frame_set(t, "bos $A", "bos $A bos $B");
    return hf_finish(t, e);
}

bool vocab_txt_probe(span file)
{
    cursor c = cursor_of(file);
    span line;
    for (int lines = 0; lines < 2000 && tokenizer_file_line(&c, &line); lines++)
        if (span_is(line, "[UNK]") || span_is(line, "[CLS]")) return true;
    return false;
}

int load_vocab_txt(tokenizer *t, span file, const char *path, const tokenizer_config *s, err *e)
{
    const tokenizer_class *class = class_find(s, BARE_WORDPIECE);
    if (!class) return class_unknown(path, s, e);
    cursor c = cursor_of(file);
    span line;
    int rc = OK;
    for (int64_t id = 0; !rc && tokenizer_file_line(&c, &line); id++) {
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
    if (!rc) rc = tokenizer_config_add_tokens(t, s, e);
    if (!rc) rc = class_add_tokens(t, class, e);
    if (!rc) rc = tokenizer_config_apply(t, s, e);
    if (rc) return rc;
    t->wp.unk = t->role[TOKEN_UNK];
    class_frame(t, class, s);
    return hf_finish(t, e);
}
