/* load_hf_steps.c - see load_hf_steps.h: normalizers, pre-tokenizers, post-processors, decoders, one row per type.
 *
 * Names and defaults: the Hugging Face tokenizers library, version 0.23. */
#include "text/load_hf_steps.h"

#include "base/utf8.h"
#include "base/base64.h"
#include "text/tokenizer_build.h"

#include <string.h>

enum { NEST_MAX = 16 };

struct hf_steps {
    tokenizer *t;
    const char *path, *what; /* "normalizer" */
    int depth;
    err *e;
    struct framing *one, *two; /* post-processors: the frames so far of one text and of two */
};
typedef struct hf_steps steps;

static int refuse_step(const steps *s, const json *j, const char *why)
{
    return err_set(s->e, ERR_FORMAT, "%s: %s of type \"%.40s\": %s", s->path, s->what,
                   json_str(json_get(j, "type"), ""), why);
}

static int read_step(steps *s, const hf_step_row *rows, const json *j)
{
    const char *type = json_str(json_get(j, "type"), NULL);
    if (!type) return err_set(s->e, ERR_FORMAT, "%s: a %s without a type", s->path, s->what);
    for (; rows->type; rows++)
        if (strcmp(rows->type, type) == 0) return rows->read(s, j);
    return err_set(s->e, ERR_FORMAT, "%s: %s of type \"%.40s\" is not supported", s->path, s->what, type);
}

static int read_sequence(steps *s, const hf_step_row *rows, const json *list)
{
    if (json_type(list) != JSON_ARRAY)
        return err_set(s->e, ERR_FORMAT, "%s: a %s sequence without a list", s->path, s->what);
    if (++s->depth > NEST_MAX) return err_set(s->e, ERR_FORMAT, "%s: %ss nested too deeply", s->path, s->what);
    int rc = OK;
    for (const json *j = json_first(list); j && !rc; j = json_next(j)) rc = read_step(s, rows, j);
    s->depth--;
    return rc;
}

static span keep_text(steps *s, const json *j) { return tokenizer_keep(s->t, span_str(json_str(j, ""))); }

/* A string that must be one character. */
static bool one_char(const json *j, uint32_t *out)
{
    span s = span_str(json_str(j, ""));
    size_t len;
    if (!s.n) return false;
    *out = utf8_decode(s.p, s.n, &len);
    return len == s.n;
}

/* {"String": text} or {"Regex": pattern}: compiled to *re, or kept in *text if it is plain and `text` not NULL. */
static int read_pattern(steps *s, const json *j, regex **re, span *text)
{
    const json *p = json_get(j, "pattern"), *plain = json_get(p, "String"), *pattern = json_get(p, "Regex");
    int rc;
    if (json_type(plain) == JSON_STRING && text && *json_str(plain, "")) {
        *text = keep_text(s, plain);
        return OK;
    }
    if (json_type(plain) == JSON_STRING) rc = regex_compile_literal(re, span_str(json_str(plain, "")), s->e);
    else if (json_type(pattern) == JSON_STRING)
        rc = regex_compile(re, span_str(json_str(pattern, "")), REGEX_ONIGURUMA, s->e);
    else return refuse_step(s, j, "\"pattern\" is neither String nor Regex");
    if (rc) err_wrap(s->e, "%s", s->path);
    return rc;
}

/* ---- normalizers ---- */

static norm_step *add_norm(steps *s, norm_kind kind) { return tokenizer_add_normalizer(s->t, kind, s->e); }
static int norm_plain(steps *s, norm_kind kind) { return add_norm(s, kind) ? OK : ERR_LIMIT; }

static int norm_form(steps *s, uc_form form)
{
    norm_step *n = add_norm(s, NORM_FORM);
    if (n) n->form = form;
    return n ? OK : ERR_LIMIT;
}

static int norm_nfc(steps *s, const json *j) { return (void)j, norm_form(s, UC_NFC); }
static int norm_nfd(steps *s, const json *j) { return (void)j, norm_form(s, UC_NFD); }
static int norm_nfkc(steps *s, const json *j) { return (void)j, norm_form(s, UC_NFKC); }
static int norm_nfkd(steps *s, const json *j) { return (void)j, norm_form(s, UC_NFKD); }
static int norm_lower(steps *s, const json *j) { return (void)j, norm_plain(s, NORM_LOWER); }
static int norm_accents(steps *s, const json *j) { return (void)j, norm_plain(s, NORM_STRIP_ACCENTS); }
static int norm_nmt(steps *s, const json *j) { return (void)j, norm_plain(s, NORM_NMT); }
static int norm_bytes(steps *s, const json *j) { return (void)j, norm_plain(s, NORM_BYTES); }

static int norm_strip(steps *s, const json *j)
{
    norm_step *n = add_norm(s, NORM_STRIP);
    if (!n) return ERR_LIMIT;
    n->left = json_bool(json_get(j, "strip_left"), false);
    n->right = json_bool(json_get(j, "strip_right"), false);
    return OK;
}

static int norm_replace(steps *s, const json *j)
{
    norm_step *n = add_norm(s, NORM_REPLACE);
    if (!n) return ERR_LIMIT;
    n->to = keep_text(s, json_get(j, "content"));
    return read_pattern(s, j, &n->pattern, &n->from);
}

static int norm_prepend(steps *s, const json *j)
{
    norm_step *n = add_norm(s, NORM_PREPEND);
    if (n) n->to = keep_text(s, json_get(j, "prepend"));
    return n ? OK : ERR_LIMIT;
}

static int norm_bert(steps *s, const json *j)
{
    bool lower = json_bool(json_get(j, "lowercase"), true);
    int rc = OK;
    if (json_bool(json_get(j, "clean_text"), true)) rc = norm_plain(s, NORM_BERT_CLEAN);
    if (!rc && json_bool(json_get(j, "handle_chinese_chars"), true)) rc = norm_plain(s, NORM_BERT_CHINESE);
    if (!rc && json_bool(json_get(j, "strip_accents"), lower) && !(rc = norm_form(s, UC_NFD)))
        rc = norm_plain(s, NORM_BERT_ACCENTS);
    if (!rc && lower) rc = norm_plain(s, NORM_LOWER);
    return rc;
}

static int norm_precompiled(steps *s, const json *j)
{
    norm_step *n = add_norm(s, NORM_CHARSMAP);
    if (!n) return ERR_LIMIT;
    buf blob = {0};
    int rc = OK;
    if (!base64_decode(span_str(json_str(json_get(j, "precompiled_charsmap"), "")), &blob))
        rc = refuse_step(s, j, "not base64");
    if (!rc) rc = charsmap_open(&n->map, buf_span(&blob), s->e);
    buf_free(&blob);
    return rc;
}

static int norm_sequence(steps *s, const json *j);
const hf_step_row hf_normalizer_rows[] = {{"Sequence", norm_sequence},
                                          {"NFC", norm_nfc},
                                          {"NFD", norm_nfd},
                                          {"NFKC", norm_nfkc},
                                          {"NFKD", norm_nfkd},
                                          {"Lowercase", norm_lower},
                                          {"Strip", norm_strip},
                                          {"StripAccents", norm_accents},
                                          {"Replace", norm_replace},
                                          {"Prepend", norm_prepend},
                                          {"Nmt", norm_nmt},
                                          {"BertNormalizer", norm_bert},
                                          {"Precompiled", norm_precompiled},
                                          {"ByteLevel", norm_bytes},
                                          {NULL, NULL}};
static int norm_sequence(steps *s, const json *j)
{
    return read_sequence(s, hf_normalizer_rows, json_get(j, "normalizers"));
}

int hf_read_normalizer(tokenizer *t, const json *j, const char *path, err *e)
{
    steps s = {.t = t, .path = path, .what = "normalizer", .e = e};
    return json_type(j) == JSON_NULL ? OK : read_step(&s, hf_normalizer_rows, j);
}

/* ---- pre-tokenizers ---- */

static int read_behaviour(steps *s, const json *j, split_behaviour otherwise, split_behaviour *out)
{
    static const struct {
        const char *name;
        split_behaviour value;
    } rows[] = {{"Removed", SPLIT_REMOVED},
                {"Isolated", SPLIT_ISOLATED},
                {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
                {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
                {"Contiguous", SPLIT_CONTIGUOUS}};
    const char *name = json_str(json_get(j, "behavior"), NULL);
    *out = otherwise;
    if (!name) return OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *out = rows[i].value;
            return OK;
        }
    return refuse_step(s, j, "unknown behavior");
}

static int pre_chars(steps *s, bool (*is)(uint32_t c), split_behaviour behaviour)
{
    pretok_step *p = tokenizer_add_pretokenizer(s->t, PRETOK_CHARS, s->e);
    if (!p) return ERR_LIMIT;
    p->is = is;
    p->behaviour = behaviour;
    return OK;
}

static int pre_bert(steps *s, const json *j)
{
    (void)j;
    int rc = pre_chars(s, uc_is_space, SPLIT_REMOVED);
    return rc ? rc : pre_chars(s, uc_bert_punctuation, SPLIT_ISOLATED);
}

static int pre_whitespace_split(steps *s, const json *j) { return (void)j, pre_chars(s, uc_is_space, SPLIT_REMOVED); }

static int pre_whitespace(steps *s, const json *j)
{
    (void)j;
    return tokenizer_add_split(s->t, "\\w+|[^\\w\\s]+", REGEX_FANCY, SPLIT_REMOVED, true, s->e);
}

static int pre_punctuation(steps *s, const json *j)
{
    split_behaviour b;
    int rc = read_behaviour(s, j, SPLIT_ISOLATED, &b);
    return rc ? rc : pre_chars(s, uc_bert_punctuation, b);
}

static int pre_digits(steps *s, const json *j)
{
    return pre_chars(s, uc_is_numeric,
                     json_bool(json_get(j, "individual_digits"), false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
}

static int pre_delimiter(steps *s, const json *j)
{
    int rc = pre_chars(s, NULL, SPLIT_REMOVED);
    if (rc) return rc;
    return one_char(json_get(j, "delimiter"), &s->t->pre.step[s->t->pre.n - 1].sign)
               ? OK
               : refuse_step(s, j, "delimiter is not one character");
}

static int pre_split(steps *s, const json *j)
{
    pretok_step *p = tokenizer_add_pretokenizer(s->t, PRETOK_REGEX, s->e);
    if (!p) return ERR_LIMIT;
    p->invert = json_bool(json_get(j, "invert"), false);
    int rc = read_behaviour(s, j, SPLIT_ISOLATED, &p->behaviour);
    return rc ? rc : read_pattern(s, j, &p->pattern, NULL);
}

static int pre_byte_level(steps *s, const json *j)
{
    int rc = OK;
    s->t->byte_level = true;
    if (json_bool(json_get(j, "add_prefix_space"), true) && !tokenizer_add_pretokenizer(s->t, PRETOK_PREFIX, s->e))
        rc = ERR_LIMIT;
    if (!rc && json_bool(json_get(j, "use_regex"), true))
        rc = tokenizer_add_split(s->t, pattern_gpt2, REGEX_ONIGURUMA, SPLIT_ISOLATED, false, s->e);
    if (!rc && !tokenizer_add_pretokenizer(s->t, PRETOK_BYTES, s->e)) rc = ERR_LIMIT;
    return rc;
}

/* "always", "first", "never"; older files say add_prefix_space. */
static int read_scheme(steps *s, const json *j, prepend_scheme *out)
{
    const char *name = json_str(json_get(j, "prepend_scheme"), NULL);
    *out = json_bool(json_get(j, "add_prefix_space"), true) ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!name || *out == PREPEND_NEVER) return OK;
    if (strcmp(name, "first") == 0) *out = PREPEND_FIRST;
    else if (strcmp(name, "never") == 0) *out = PREPEND_NEVER;
    else if (strcmp(name, "always") != 0) return refuse_step(s, j, "unknown prepend_scheme");
    return OK;
}

static int pre_metaspace(steps *s, const json *j)
{
    pretok_step *p = tokenizer_add_pretokenizer(s->t, PRETOK_METASPACE, s->e);
    if (!p) return ERR_LIMIT;
    s->t->space_sign = true;
    p->split = json_bool(json_get(j, "split"), true);
    if (!one_char(json_get(j, "replacement"), &p->sign)) return refuse_step(s, j, "replacement is not one character");
    return read_scheme(s, j, &p->prepend);
}

static int pre_length(steps *s, const json *j)
{
    pretok_step *p = tokenizer_add_pretokenizer(s->t, PRETOK_LENGTH, s->e);
    if (!p) return ERR_LIMIT;
    int64_t n = json_int(json_get(j, "length"), 5);
    p->count = (size_t)n;
    return n > 0 ? OK : refuse_step(s, j, "length is not positive");
}

static int pre_scripts(steps *s, const json *j)
{
    (void)j;
    return tokenizer_add_pretokenizer(s->t, PRETOK_SCRIPTS, s->e) ? OK : ERR_LIMIT;
}

static int pre_sequence(steps *s, const json *j);
const hf_step_row hf_pretokenizer_rows[] = {{"Sequence", pre_sequence},
                                            {"ByteLevel", pre_byte_level},
                                            {"Split", pre_split},
                                            {"Whitespace", pre_whitespace},
                                            {"WhitespaceSplit", pre_whitespace_split},
                                            {"Punctuation", pre_punctuation},
                                            {"Digits", pre_digits},
                                            {"Metaspace", pre_metaspace},
                                            {"BertPreTokenizer", pre_bert},
                                            {"CharDelimiterSplit", pre_delimiter},
                                            {"Delimiter", pre_delimiter},
                                            {"FixedLength", pre_length},
                                            {"UnicodeScripts", pre_scripts},
                                            {NULL, NULL}};
static int pre_sequence(steps *s, const json *j)
{
    return read_sequence(s, hf_pretokenizer_rows, json_get(j, "pretokenizers"));
}

int hf_read_pretokenizer(tokenizer *t, const json *j, const char *path, err *e)
{
    steps s = {.t = t, .path = path, .what = "pre_tokenizer", .e = e};
    return json_type(j) == JSON_NULL ? OK : read_step(&s, hf_pretokenizer_rows, j);
}

/* ---- post-processors ---- */

/* The input after the post-processors so far: parts, each a run of items, which the next one treats as texts. */
typedef struct framing {
    post_template all;
    int end[POST_ITEMS_MAX]; /* where each part ends in all.item */
    int parts;
} framing;

static int add_item(steps *s, const json *j, framing *f, int32_t id, int32_t type)
{
    if (f->all.n == POST_ITEMS_MAX) return refuse_step(s, j, "too many elements");
    f->all.item[f->all.n++] = (post_item){id, type};
    return OK;
}

static int end_part(steps *s, const json *j, framing *f)
{
    if (f->parts == POST_ITEMS_MAX) return refuse_step(s, j, "too many elements");
    f->end[f->parts++] = f->all.n;
    return OK;
}

/* Items of a part of `from`; type >= 0 replaces theirs. */
static int add_part(steps *s, const json *j, framing *f, const framing *from, int part, int32_t type)
{
    int rc = OK;
    for (int i = part ? from->end[part - 1] : 0; i < from->end[part] && !rc; i++)
        rc = add_item(s, j, f, from->all.item[i].id, type < 0 ? from->all.item[i].type : type);
    return rc;
}

static int add_special_ids(steps *s, const json *j, framing *f, const json *special, int32_t type)
{
    const char *name = json_str(json_get(special, "id"), "");
    const json *ids = json_get(json_get(json_get(j, "special_tokens"), name), "ids");
    if (!json_count(ids)) return refuse_step(s, j, "a special token without ids");
    int rc = OK;
    for (const json *i = json_first(ids); i && !rc; i = json_next(i)) {
        int64_t id = json_int(i, -1);
        rc = vocab_has(&s->t->voc, id) ? add_item(s, j, f, (int32_t)id, type)
                                       : refuse_step(s, j, "a special token outside the vocabulary");
    }
    return rc;
}

static int apply_template(steps *s, const json *j, framing *f)
{
    framing made = {.parts = 0};
    int rc = OK;
    if (f->all.n < 0 || f->parts < 1 || f->parts > 2) { /* the library panics here when it encodes */
        f->all.n = -1;
        return OK;
    }
    const json *list = json_get(j, f->parts == 2 ? "pair" : "single");
    for (const json *i = json_first(list); i && !rc; i = json_next(i)) {
        const json *special = json_get(i, "SpecialToken"), *sequence = json_get(i, "Sequence");
        int64_t type = json_int(json_get(special ? special : sequence, "type_id"), 0);
        const char *id = json_str(json_get(sequence, "id"), "");
        int part = strcmp(id, "B") == 0;
        if (type < 0 || type > INT32_MAX) rc = refuse_step(s, j, "type_id out of range");
        else if (special) rc = add_special_ids(s, j, &made, special, (int32_t)type);
        else if (!part && strcmp(id, "A") != 0)
            rc = refuse_step(s, j, "an element that is neither SpecialToken nor Sequence");
        else if (part >= f->parts) rc = refuse_step(s, j, "a second sequence in the template for one");
        else rc = add_part(s, j, &made, f, part, (int32_t)type);
        if (!rc) rc = end_part(s, j, &made);
    }
    *f = made;
    return rc;
}

static int post_template_step(steps *s, const json *j)
{
    int rc = apply_template(s, j, s->one);
    return rc ? rc : apply_template(s, j, s->two);
}

/* ["[SEP]", 102] */
static bool named_id(steps *s, const json *pair, int32_t *id)
{
    *id = (int32_t)json_int(json_at(pair, 1), -1);
    return vocab_has(&s->t->voc, *id);
}

static int apply_cls_sep(steps *s, const json *j, framing *f, bool roberta)
{
    int32_t cls, sep;
    if (!named_id(s, json_get(j, "cls"), &cls) || !named_id(s, json_get(j, "sep"), &sep))
        return refuse_step(s, j, "cls or sep outside the vocabulary");
    framing made = {.parts = 0};
    int rc = OK;
    if (f->all.n < 0) return OK;
    for (int k = 0; k < f->parts && !rc; k++) {
        if (k == 0 || roberta) rc = add_item(s, j, &made, k == 0 ? cls : sep, 0);
        if (!rc) rc = add_part(s, j, &made, f, k, roberta ? 0 : -1);
        if (!rc) rc = add_item(s, j, &made, sep, k > 0 && !roberta);
        if (!rc) rc = end_part(s, j, &made);
    }
    *f = made;
    return rc;
}

static int post_cls_sep(steps *s, const json *j, bool roberta)
{
    int rc = apply_cls_sep(s, j, s->one, roberta);
    return rc ? rc : apply_cls_sep(s, j, s->two, roberta);
}

static int post_bert(steps *s, const json *j) { return post_cls_sep(s, j, false); }
static int post_roberta(steps *s, const json *j) { return post_cls_sep(s, j, true); }
static int post_offsets_only(steps *s, const json *j) { return (void)s, (void)j, OK; }

static int post_sequence(steps *s, const json *j);
const hf_step_row hf_postprocessor_rows[] = {
    {"Sequence", post_sequence},         {"TemplateProcessing", post_template_step}, {"BertProcessing", post_bert},
    {"RobertaProcessing", post_roberta}, {"ByteLevel", post_offsets_only},           {NULL, NULL}};
static int post_sequence(steps *s, const json *j)
{
    return read_sequence(s, hf_postprocessor_rows, json_get(j, "processors"));
}

int hf_read_postprocessor(tokenizer *t, const json *j, const char *path, err *e)
{
    framing one = {{{{POST_A, 0}}, 1}, {1}, 1}, two = {{{{POST_A, 0}, {POST_B, 1}}, 2}, {1, 2}, 2};
    steps s = {.t = t, .path = path, .what = "post_processor", .e = e, .one = &one, .two = &two};
    int rc = json_type(j) == JSON_NULL ? OK : read_step(&s, hf_postprocessor_rows, j);
    if (!rc && one.all.n < 0) rc = err_set(e, ERR_FORMAT, "%s: the post-processors cannot follow each other", path);
    t->single = one.all;
    t->pair = two.all;
    return rc;
}

/* ---- decoders ---- */

static decode_step *add_dec(steps *s, decode_kind kind) { return tokenizer_add_decoder(s->t, kind, s->e); }
static int dec_bytes(steps *s, const json *j) { return (void)j, add_dec(s, DECODE_BYTE_LEVEL) ? OK : ERR_LIMIT; }
static int dec_fallback(steps *s, const json *j) { return (void)j, add_dec(s, DECODE_BYTE_FALLBACK) ? OK : ERR_LIMIT; }
static int dec_fuse(steps *s, const json *j) { return (void)j, add_dec(s, DECODE_FUSE) ? OK : ERR_LIMIT; }

static int dec_wordpiece(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_WORDPIECE);
    if (!d) return ERR_LIMIT;
    d->text = tokenizer_keep(s->t, span_str(json_str(json_get(j, "prefix"), "##")));
    d->cleanup = json_bool(json_get(j, "cleanup"), true);
    return OK;
}

static int dec_metaspace(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_METASPACE);
    prepend_scheme scheme;
    if (!d) return ERR_LIMIT;
    if (!one_char(json_get(j, "replacement"), &d->sign)) return refuse_step(s, j, "replacement is not one character");
    int rc = read_scheme(s, j, &scheme);
    d->first_differs = scheme != PREPEND_NEVER;
    return rc;
}

static int dec_suffix(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_SUFFIX);
    if (d) d->text = tokenizer_keep(s->t, span_str(json_str(json_get(j, "suffix"), "</w>")));
    return d ? OK : ERR_LIMIT;
}

static int dec_strip(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_STRIP);
    if (!d) return ERR_LIMIT;
    int64_t start = json_int(json_get(j, "start"), 0), stop = json_int(json_get(j, "stop"), 0);
    if (!one_char(json_get(j, "content"), &d->sign)) return refuse_step(s, j, "content is not one character");
    if (start < 0 || stop < 0) return refuse_step(s, j, "negative count");
    d->start = (size_t)start;
    d->stop = (size_t)stop;
    return OK;
}

static int dec_replace(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_REPLACE);
    if (!d) return ERR_LIMIT;
    d->replace.kind = NORM_REPLACE;
    d->replace.to = keep_text(s, json_get(j, "content"));
    return read_pattern(s, j, &d->replace.pattern, &d->replace.from);
}

static int dec_ctc(steps *s, const json *j)
{
    decode_step *d = add_dec(s, DECODE_CTC);
    if (!d) return ERR_LIMIT;
    d->text = tokenizer_keep(s->t, span_str(json_str(json_get(j, "pad_token"), "<pad>")));
    d->delimiter = tokenizer_keep(s->t, span_str(json_str(json_get(j, "word_delimiter_token"), "|")));
    d->cleanup = json_bool(json_get(j, "cleanup"), true);
    return OK;
}

static int dec_sequence(steps *s, const json *j);
const hf_step_row hf_decoder_rows[] = {{"Sequence", dec_sequence},
                                       {"ByteLevel", dec_bytes},
                                       {"WordPiece", dec_wordpiece},
                                       {"Metaspace", dec_metaspace},
                                       {"BPEDecoder", dec_suffix},
                                       {"ByteFallback", dec_fallback},
                                       {"Fuse", dec_fuse},
                                       {"Strip", dec_strip},
                                       {"Replace", dec_replace},
                                       {"CTC", dec_ctc},
                                       {NULL, NULL}};
static int dec_sequence(steps *s, const json *j) { return read_sequence(s, hf_decoder_rows, json_get(j, "decoders")); }

int hf_read_decoder(tokenizer *t, const json *j, const char *path, err *e)
{
    steps s = {.t = t, .path = path, .what = "decoder", .e = e};
    if (json_type(j) == JSON_NULL) return tokenizer_add_decoder(t, DECODE_JOIN, e) ? OK : ERR_LIMIT;
    return read_step(&s, hf_decoder_rows, j);
}

/* ---- added tokens ---- */

static int normalize_text(tokenizer *t, span in, span *out, err *e)
{
    norm_work w = {0};
    regex_work *rx;
    bool moved;
    span made;
    int rc = regex_work_open(&rx, e);
    if (rc) return rc;
    rc = normalizer_run(&t->norm, &w, rx, in, true, &made, &moved, e);
    if (!rc) *out = tokenizer_keep(t, made);
    norm_work_free(&w);
    regex_work_free(rx);
    return rc;
}

/* Marks a token that was listed before without being special. */
static void make_special(added_set *s, int32_t id)
{
    for (size_t i = 0; i < s->n; i++) s->v[i].special = s->v[i].special || s->v[i].id == id;
}

int hf_add_token(tokenizer *t, const hf_added *a, int32_t id, err *e)
{
    vocab *v = &t->voc;
    bool known = vocab_has(v, id) && span_eq(v->piece[id], a->text);
    /* listed already, maybe by another spelling */
    unsigned listed = vocab_has(v, id) ? v->flag[id] & (PIECE_ADDED | PIECE_SPECIAL) : 0;
    int rc = known ? OK : vocab_set(v, id, a->text, PIECE_EXTRA | listed, e);
    if (rc) return rc;
    if (a->special && listed) {
        make_special(&t->raw, id);
        make_special(&t->normalized, id);
    }
    v->flag[id] |= PIECE_ADDED | (a->special ? PIECE_SPECIAL : 0);
    added_token token = {v->piece[id], id, v->flag[id] & PIECE_SPECIAL, a->single_word, a->lstrip, a->rstrip};
    if (!a->normalized || !t->norm.n) return added_put(a->normalized ? &t->normalized : &t->raw, token, e);
    if ((rc = normalize_text(t, a->text, &token.text, e)) || !token.text.n) return rc;
    return added_put(&t->normalized, token, e);
}
