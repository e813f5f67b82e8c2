/* load_vocab_files.c - vocabularies as bare files: vocab.json with merges.txt, vocab.txt, a SentencePiece model in a model's folder,
 * Marian's vocab.json with source.spm.
 *
 * Such files do not say how text is to be treated; the class in tokenizer_config.json does (one row per class below), and without
 * one vocab.json is GPT-2's and vocab.txt is BERT's. A class whose rules are not known here is an error that names it. */
#include "text/load_vocab_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/load_hf_steps.h"
#include "text/load_spm.h"
#include "text/tk_patterns.h"

#include <stdio.h>
#include <string.h>

typedef enum { FRAME_NONE, FRAME_ROBERTA } frame_kind;

/* Byte-level BPE by class. */
static const struct {
    const char *class_name, *pre;
    frame_kind frame;
    const char *special[6]; /* when the side files name none */
} byte_rows[] = {
    {"", "gpt2", FRAME_NONE, {"<|endoftext|>"}},
    {"GPT2Tokenizer", "gpt2", FRAME_NONE, {"<|endoftext|>"}},
    {"CodeGenTokenizer", "gpt2", FRAME_NONE, {"<|endoftext|>"}},
    {"GPTNeoXTokenizer", "gpt2", FRAME_NONE, {"<|endoftext|>"}},
    {"Qwen2Tokenizer", "qwen2", FRAME_NONE, {"<|endoftext|>"}},
    {"RobertaTokenizer", "gpt2", FRAME_ROBERTA, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}},
    {"BartTokenizer", "gpt2", FRAME_ROBERTA, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}},
    {"LongformerTokenizer", "gpt2", FRAME_ROBERTA, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}},
};

/* SentencePiece models by class: what is put around a text. */
static const struct {
    const char *class_name;
    bool bos, eos;
} spm_rows[] = {
    {"", false, false},
    {"LlamaTokenizer", true, false},
    {"CodeLlamaTokenizer", true, false},
    {"GemmaTokenizer", true, false},
    {"T5Tokenizer", false, true},
    {"PreTrainedTokenizer", false, false},
    {"TokenizersBackend", true, false},
};

static int no_memory(const char *path, err *e) { return err_set(e, ERR_MEMORY, "%s: out of memory", path); }

static int unknown_class(const char *path, span name, err *e)
{
    return err_set(e, ERR_FORMAT, "%s: tokenizer_class %.*s is not supported without a tokenizer.json", path,
                   (int)(name.n < 60 ? name.n : 60), (const char *)name.p);
}

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

static int read_vocab(tokenizer *t, const json *root, const char *path, err *e)
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

static int add_defaults(tokenizer *t, const char *const *names, size_t n, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < n && names[i] && !rc; i++) {
        hf_added a = {.text = span_str(names[i]), .special = true, .lstrip = strcmp(names[i], "<mask>") == 0};
        int32_t id = tokenizer_id(t, names[i]);
        if (id >= 0 && !(t->voc.flag[id] & PIECE_ADDED)) rc = hf_add_token(t, &a, id, e);
    }
    return rc;
}

int load_byte_bpe(tokenizer *t, const json *vocab_root, span merges, const char *path, const char *pre,
                  const side_files *s, err *e)
{
    span name = side_class(s);
    size_t row = 0, rows = sizeof byte_rows / sizeof *byte_rows;
    while (row < rows && !span_is(name, byte_rows[row].class_name)) row++;
    if (row == rows && !pre) return unknown_class(path, name, e);
    if (row == rows) row = 0;
    const pattern_row *pattern = pattern_find(pre ? pre : byte_rows[row].pre);
    if (!pattern)
        return err_set(e, ERR_USAGE, "%s: unknown pre-tokenizer \"%.40s\" (gpt2, qwen2, llama3, …)", path, pre);
    t->kind = "bpe";
    t->model = MODEL_BPE;
    int rc = read_vocab(t, vocab_root, path, e);
    if (!rc) rc = read_merges(t, merges, path, e);
    if (!rc && json_bool(json_get(s->config, "add_prefix_space"), false) &&
        !tokenizer_add_pretokenizer(t, PRETOK_PREFIX, e))
        rc = ERR_LIMIT;
    if (!rc) rc = tokenizer_set_pattern(t, pattern, e);
    if (!rc) rc = side_add_tokens(t, s, e);
    if (!rc) rc = add_defaults(t, byte_rows[row].special, 6, e);
    if (!rc) rc = side_apply(t, s, e);
    if (rc) return rc;
    int32_t bos = t->role[TOKEN_BOS], eos = t->role[TOKEN_EOS];
    if (byte_rows[row].frame == FRAME_ROBERTA && bos >= 0 && eos >= 0) {
        t->single = (post_template){{{bos, 0}, {POST_A, 0}, {eos, 0}}, 3};
        t->pair = (post_template){{{bos, 0}, {POST_A, 0}, {eos, 0}, {eos, 0}, {POST_B, 0}, {eos, 0}}, 6};
    } else if (json_bool(json_get(s->config, "add_bos_token"), false) && bos >= 0) {
        t->single = (post_template){{{bos, 0}, {POST_A, 0}}, 2};
        t->pair = (post_template){{{bos, 0}, {POST_A, 0}, {bos, 0}, {POST_B, 0}}, 4};
    }
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

void tokenizer_frame_bert(tokenizer *t)
{
    int32_t cls = t->role[TOKEN_CLS], sep = t->role[TOKEN_SEP];
    if (cls < 0 || sep < 0) return;
    t->single = (post_template){{{cls, 0}, {POST_A, 0}, {sep, 0}}, 3};
    t->pair = (post_template){{{cls, 0}, {POST_A, 0}, {sep, 0}, {POST_B, 1}, {sep, 1}}, 5};
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
    static const char *const special[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
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
    if (!rc) rc = add_defaults(t, special, sizeof special / sizeof *special, e);
    if (!rc) rc = side_apply(t, s, e);
    if (rc) return rc;
    t->wp.unk = t->role[TOKEN_UNK];
    tokenizer_frame_bert(t);
    return hf_finish(t, e);
}

/* ---- SentencePiece in a model's folder ---- */

int load_spm_model(tokenizer *t, span file, const char *path, const side_files *s, err *e)
{
    span name = side_class(s);
    size_t row = 0, rows = sizeof spm_rows / sizeof *spm_rows;
    while (row < rows && !span_is(name, spm_rows[row].class_name)) row++;
    if (row == rows) return unknown_class(path, name, e);
    int rc = load_spm(t, file, path, e);
    if (!rc && row && !json_bool(json_get(s->config, "legacy"), true)) t->norm.step[0].first_only = true;
    if (!rc) rc = side_add_tokens(t, s, e);
    if (!rc) rc = side_apply(t, s, e);
    if (rc) return rc;
    bool bos = json_bool(json_get(s->config, "add_bos_token"), spm_rows[row].bos) && t->role[TOKEN_BOS] >= 0;
    bool eos = json_bool(json_get(s->config, "add_eos_token"), spm_rows[row].eos) && t->role[TOKEN_EOS] >= 0;
    tokenizer_frame(t, bos ? t->role[TOKEN_BOS] : -1, eos ? t->role[TOKEN_EOS] : -1);
    return OK;
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

/* ---- Marian ---- */

/* The model cuts text, vocab.json numbers the pieces; special tokens are printed with a space behind them. */
int load_marian(tokenizer *t, const json *vocab_root, span spm, const char *path, const side_files *s, err *e)
{
    static const char *const special[] = {"</s>", "<unk>", "<pad>"};
    tokenizer *inner = tokenizer_new();
    if (!inner) return no_memory(path, e);
    int rc = load_spm(inner, spm, path, e);
    if (!rc && inner->model != MODEL_UNIGRAM)
        rc = err_set(e, ERR_FORMAT, "%s: a Marian vocabulary whose model is not Unigram", path);
    if (!rc) rc = read_vocab(t, vocab_root, path, e);
    int32_t unk = rc ? -1 : tokenizer_id(t, "<unk>");
    if (!rc && unk < 0) rc = err_set(e, ERR_FORMAT, "%s: no \"<unk>\" in vocab.json", path);
    int32_t *number = rc ? NULL : mem_array(inner->voc.size, sizeof *number);
    if (!rc && !number) rc = no_memory(path, e);
    for (uint32_t id = 0; !rc && id < inner->voc.size; id++) {
        int32_t ours = vocab_find(&t->voc, inner->voc.piece[id]);
        number[id] = ours < 0 ? unk : ours;
        if (ours >= 0) t->voc.flag[ours] |= inner->voc.flag[id] & (PIECE_BYTE | PIECE_USER);
    }
    if (!rc) {
        t->kind = "unigram";
        t->model = MODEL_UNIGRAM;
        t->ug = inner->ug;
        t->ug.voc = &t->voc;
        t->ug.number = number;
        t->ug.number_unk = unk;
        inner->ug = (unigram){0};
        t->norm = inner->norm;
        t->user_symbols = inner->bp.frozen;
        t->norm.step[0].user = t->user_symbols.nodes ? &t->user_symbols : NULL;
        inner->bp.frozen = (trie){0};
        inner->norm.n = 0;
        t->dec = inner->dec;
        inner->dec.n = 0;
        t->dec.step[0].kind = DECODE_MARIAN;
        t->space_sign = t->language_codes = true;
        if (!tokenizer_add_decoder(t, DECODE_TRIM, e)) rc = ERR_LIMIT;
    } else {
        mem_free(number);
    }
    tokenizer_close(inner);
    if (!rc) rc = side_add_tokens(t, s, e);
    if (!rc) rc = add_defaults(t, special, sizeof special / sizeof *special, e);
    if (!rc) rc = side_apply(t, s, e);
    if (!rc) tokenizer_frame(t, -1, tokenizer_id(t, "</s>"));
    return rc;
}
