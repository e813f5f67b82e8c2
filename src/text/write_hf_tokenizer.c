/* write_hf_tokenizer.c - see write_hf_tokenizer.h. Source: the files that the tokenizers library of Hugging Face
 * writes.
 *
 * Merging by score becomes listed merges as transformers converts SentencePiece models: for each piece in order of
 * rank, every way to join it from two pieces. */
#include "text/write_hf_tokenizer.h"

#include "base/mem.h"
#include "text/load_hf_json.h"
#include "text/tokenizer_build.h"
#include "text/tokenizer_equal.h"

#include <stdlib.h>

static const char sign[] = "\xe2\x96\x81"; /* U+2581 for a space */

typedef struct writer {
    const tokenizer *t;
    bool plain_spaces; /* llama2.c: pieces hold spaces themselves */
    buf out, text;
    err *e;
} writer;

static bool is_special(const writer *w, uint32_t id)
{
    return w->t->voc.flag[id] & (PIECE_SPECIAL | PIECE_CONTROL | PIECE_UNKNOWN);
}

static bool is_byte(const writer *w, uint32_t id)
{
    return (w->t->voc.flag[id] & PIECE_BYTE) || (w->t->bp.fall_back && vocab_piece_byte(w->t->voc.piece[id]) >= 0);
}

/* A piece as the file spells it. */
static span hf_spelling(writer *w, uint32_t id)
{
    span s = w->t->voc.piece[id];
    if (!w->plain_spaces || is_special(w, id) || is_byte(w, id)) return s;
    w->text.n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ' ') buf_str(&w->text, sign);
        else buf_byte(&w->text, s.p[i]);
    }
    return buf_span(&w->text);
}

static void write_quoted(writer *w, span s) { json_quote(&w->out, s); }
static void quote_id(writer *w, uint32_t id) { json_quote(&w->out, hf_spelling(w, id)); }

/* ---- merges */

typedef struct merge {
    uint32_t rank, left, right;
} merge;

typedef struct merge_list {
    merge *v;
    size_t n, cap;
} merge_list;

static int by_rank(const void *pa, const void *pb)
{
    const merge *a = pa, *b = pb;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return a->right < b->right ? -1 : a->right > b->right;
}

static bool add_merge(merge_list *l, uint32_t rank, uint32_t left, uint32_t right)
{
    void *p = l->v;
    if (!mem_grow(&p, &l->cap, l->n + 1, sizeof *l->v)) return false;
    l->v = p;
    l->v[l->n++] = (merge){rank, left, right};
    return true;
}

/* Whether a piece can be half of a merge. */
static bool is_part(const writer *w, int32_t id)
{
    return id >= 0 && !is_special(w, (uint32_t)id) && !is_byte(w, (uint32_t)id);
}

static int split_pieces(writer *w, const uint32_t *rank, merge_list *l)
{
    const vocab *v = &w->t->voc;
    for (uint32_t id = 0; id < v->size; id++) {
        if (!vocab_has(v, id) || rank[id] == UINT32_MAX) continue;
        span s = v->piece[id];
        for (size_t i = 1; i < s.n; i++) {
            if ((s.p[i] & 0xc0) == 0x80) continue; /* inside a character */
            int32_t left = vocab_find(v, span_of(s.p, i)), right = vocab_find(v, span_of(s.p + i, s.n - i));
            if (is_part(w, left) && is_part(w, right) && !add_merge(l, rank[id], (uint32_t)left, (uint32_t)right))
                return err_memory(w->e, "tokenizer.json");
        }
    }
    return OK;
}

static int find_merges(writer *w, merge_list *l)
{
    const bpe *b = &w->t->bp;
    int rc = OK;
    if (b->listed) {
        for (size_t i = 0; i < b->pair_cap && !rc; i++)
            if (b->pair[i].id != UINT32_MAX && !add_merge(l, b->pair[i].rank, b->pair[i].left, b->pair[i].right))
                rc = err_memory(w->e, "tokenizer.json");
    } else {
        uint32_t *rank = bpe_ranks(&w->t->bp);
        rc = rank ? split_pieces(w, rank, l) : err_memory(w->e, "tokenizer.json");
        mem_free(rank);
    }
    if (!rc && l->n) qsort(l->v, l->n, sizeof *l->v, by_rank);
    return rc;
}

static void write_merges(writer *w, const merge_list *l)
{
    buf_str(&w->out, "\"merges\":[");
    for (size_t i = 0; i < l->n; i++) {
        buf_str(&w->out, i ? ",[" : "[");
        quote_id(w, l->v[i].left);
        buf_byte(&w->out, ',');
        quote_id(w, l->v[i].right);
        buf_byte(&w->out, ']');
    }
    buf_byte(&w->out, ']');
}

/* ---- the parts of the file */

static void write_added(writer *w)
{
    const char *comma = "";
    buf_str(&w->out, "\"added_tokens\":[");
    for (uint32_t id = 0; id < w->t->voc.size; id++) {
        unsigned flag = vocab_has(&w->t->voc, id) ? w->t->voc.flag[id] : 0;
        bool special = flag & (PIECE_SPECIAL | PIECE_CONTROL | PIECE_UNKNOWN);
        if (!special && !(flag & (PIECE_ADDED | PIECE_USER))) continue;
        buf_printf(&w->out, "%s{\"id\":%u,\"content\":", comma, id);
        write_quoted(w, w->t->voc.piece[id]);
        buf_printf(&w->out,
                   ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":%s}",
                   special ? "true" : "false");
        comma = ",";
    }
    buf_str(&w->out, "],");
}

static void write_template(writer *w, const char *name, const post_template *p)
{
    buf_printf(&w->out, "\"%s\":[", name);
    for (int i = 0; i < p->n; i++) {
        const post_item *x = &p->item[i];
        buf_str(&w->out, i ? "," : "");
        if (x->id == POST_A || x->id == POST_B) {
            buf_printf(&w->out, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}", x->id == POST_A ? "A" : "B", x->type);
            continue;
        }
        buf_str(&w->out, "{\"SpecialToken\":{\"id\":");
        write_quoted(w, w->t->voc.piece[x->id]);
        buf_printf(&w->out, ",\"type_id\":%d}}", x->type);
    }
    buf_str(&w->out, "],");
}

static void write_special_token(writer *w, int32_t id, const char *comma)
{
    span s = w->t->voc.piece[id];
    buf_str(&w->out, comma);
    write_quoted(w, s);
    buf_str(&w->out, ":{\"id\":");
    write_quoted(w, s);
    buf_printf(&w->out, ",\"ids\":[%d],\"tokens\":[", id);
    write_quoted(w, s);
    buf_str(&w->out, "]}");
}

static void write_post_processor(writer *w)
{
    const post_template *p[] = {&w->t->single, &w->t->pair};
    int32_t listed[2 * POST_ITEMS_MAX];
    int n = 0;
    buf_str(&w->out, "\"post_processor\":{\"type\":\"TemplateProcessing\",");
    write_template(w, "single", p[0]);
    write_template(w, "pair", p[1]);
    buf_str(&w->out, "\"special_tokens\":{");
    for (int two = 0; two < 2; two++)
        for (int i = 0; i < p[two]->n; i++) {
            int32_t id = p[two]->item[i].id;
            bool known = id < 0;
            for (int k = 0; k < n; k++) known |= listed[k] == id;
            if (known) continue;
            write_special_token(w, id, n ? "," : "");
            listed[n++] = id;
        }
    buf_str(&w->out, "}},");
}

static void write_vocabulary(writer *w)
{
    const char *comma = "";
    buf_str(&w->out, "\"vocab\":{");
    for (uint32_t id = 0; id < w->t->voc.size; id++) {
        if (!vocab_has(&w->t->voc, id) || vocab_find(&w->t->voc, w->t->voc.piece[id]) != (int32_t)id) continue;
        buf_str(&w->out, comma);
        quote_id(w, id);
        buf_printf(&w->out, ":%u", id);
        comma = ",";
    }
    buf_str(&w->out, "},");
}

static void write_model(writer *w, const merge_list *merges)
{
    const bpe *b = &w->t->bp;
    int32_t unk = w->t->byte_level ? -1 : w->t->role[TOKEN_UNK];
    buf_str(&w->out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (unk >= 0) write_quoted(w, w->t->voc.piece[unk]);
    else buf_str(&w->out, "null");
    buf_printf(&w->out,
               ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,\"byte_fallback\":%s,"
               "\"ignore_merges\":%s,",
               w->t->byte_level ? "false" : "true", b->fall_back ? "true" : "false", b->whole_first ? "true" : "false");
    write_vocabulary(w);
    write_merges(w, merges);
    buf_str(&w->out, "}}");
}

static void write_characters(writer *w, bool first_space)
{
    buf_printf(&w->out,
               "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s%s%s"
               "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"%s\"}]},\"pre_tokenizer\":null,",
               first_space ? "{\"type\":\"Prepend\",\"prepend\":\"" : "", first_space ? sign : "",
               first_space ? "\"}," : "", sign);
    write_post_processor(w);
    buf_printf(&w->out,
               "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"%s\"},"
               "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},",
               sign, first_space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
}

static void write_bytes(writer *w, const pattern_row *row)
{
    buf_printf(&w->out, "\"normalizer\":%s,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[",
               row->nfc ? "{\"type\":\"NFC\"}" : "null");
    for (int i = 0; i < PATTERN_STEPS_MAX && row->step[i]; i++) {
        buf_str(&w->out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        write_quoted(w, span_str(row->step[i]));
        buf_str(&w->out, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    buf_str(&w->out,
            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},");
    write_post_processor(w);
    buf_str(&w->out,
            "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},");
}

/* ---- trying */

/* Writes the file; row NULL: a vocabulary of characters. */
static int write_file(writer *w, const merge_list *merges, const pattern_row *row, bool first_space)
{
    w->out.n = 0;
    buf_str(&w->out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    write_added(w);
    if (row) write_bytes(w, row);
    else write_characters(w, first_space);
    write_model(w, merges);
    return w->out.bad || w->text.bad ? err_memory(w->e, "tokenizer.json") : OK;
}

static int read_back(writer *w, bool *same)
{
    json *root;
    err why = {0};
    *same = false;
    int rc = json_parse(&root, buf_span(&w->out), "tokenizer.json", w->e);
    if (rc) return rc;
    tokenizer *t = tokenizer_new();
    if (!t) rc = err_memory(w->e, "tokenizer.json");
    else if (load_hf_json(t, root, "tokenizer.json", &why) == OK) *same = tokenizer_equal(w->t, t, w->t->byte_level);
    if (!rc && why.code == ERR_MEMORY) rc = err_memory(w->e, "tokenizer.json");
    tokenizer_close(t);
    json_free(root);
    return rc;
}

static int try_all(writer *w, bool *same)
{
    merge_list merges = {0};
    bool bytes = w->t->byte_level;
    int rc = find_merges(w, &merges);
    for (size_t i = 0; !rc && !*same && (bytes ? pattern_names[i] != NULL : i < 2); i++) {
        rc = write_file(w, &merges, bytes ? pattern_find(pattern_names[i]) : NULL, i == 0);
        if (!rc) rc = read_back(w, same);
    }
    mem_free(merges.v);
    return rc;
}

static int write_config(const tokenizer *t, buf *out, err *e)
{
    static const struct {
        token_role role;
        const char *key;
    } rows[] = {{TOKEN_BOS, "bos_token"}, {TOKEN_EOS, "eos_token"}, {TOKEN_UNK, "unk_token"}, {TOKEN_PAD, "pad_token"}};
    buf_str(out, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t id = t->role[rows[i].role];
        if (id < 0) continue;
        buf_printf(out, ",\n  \"%s\": ", rows[i].key);
        json_quote(out, t->voc.piece[id]);
    }
    if (t->chat_template) {
        buf_str(out, ",\n  \"chat_template\": ");
        json_quote(out, span_str(t->chat_template));
    }
    return buf_str(out, "\n}\n") ? OK : err_memory(e, "tokenizer_config.json");
}

int write_hf_tokenizer(const tokenizer *t, buf *file, buf *config, err *e)
{
    writer w = {.t = t, .plain_spaces = t->bp.space.n == 1 && !t->byte_level, .e = e};
    bool same = false;
    int rc = t->model == MODEL_BPE && (t->byte_level ? t->bp.listed : !t->bp.bytes) ? try_all(&w, &same) : OK;
    if (!rc && !same)
        rc = err_set(e, ERR_NOT_FOUND, "no tokenizer.json could be written for this kind of tokenizer (%s)", t->kind);
    if (!rc && !buf_add(file, w.out.p, w.out.n)) rc = err_memory(w.e, "tokenizer.json");
    if (!rc) rc = write_config(t, config, e);
    buf_free(&w.out);
    buf_free(&w.text);
    return rc;
}
