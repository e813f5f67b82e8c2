/* load_tiktoken.c - tiktoken rank files: lines "base64-of-bytes rank". Source: github.com/openai/tiktoken.
 *
 * Ids are ranks; neighbours whose concatenation is in the file are merged, the lowest rank first. The file has no
 * pattern: the caller names it (`pre`). Special tokens of known vocabularies follow the last rank. */
#include "text/load_tiktoken.h"

#include "base/base64.h"
#include "text/tokenizer_build.h"

#include <string.h>

/* Special tokens that are not in the file: where they start (-1: after the highest rank), names, NULL at the end. */
typedef struct special_row {
    const char *pre;
    int32_t from;
    const char *name[8];
} special_row;

static const special_row specials[] = {
    {"gpt2", 50256, {"<|endoftext|>"}},
    {"gpt-2", 50256, {"<|endoftext|>"}},
    {"r50k_base", 50256, {"<|endoftext|>"}},
    {"p50k_base", 50256, {"<|endoftext|>"}},
    {"cl100k", 100257, {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}},
    {"cl100k_base", 100257, {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}},
    {"o200k", 199999, {"<|endoftext|>"}},
    {"o200k_base", 199999, {"<|endoftext|>"}},
    {"llama3",
     128000,
     {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
      "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>"}},
    {"qwen2", 151643, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
};

static bool parse_line(span line, buf *bytes, int64_t *rank)
{
    const uint8_t *space = memchr(line.p, ' ', line.n);
    if (!space || space == line.p) return false;
    size_t n = (size_t)(space - line.p), digits = line.n - n - 1;
    bytes->n = 0;
    if (!base64_decode(span_of(line.p, n), bytes) || digits == 0 || digits > 9) return false;
    *rank = 0;
    for (size_t i = n + 1; i < line.n; i++) {
        if (line.p[i] < '0' || line.p[i] > '9') return false;
        *rank = *rank * 10 + (line.p[i] - '0');
    }
    return true;
}

bool tiktoken_probe(span file)
{
    cursor c = cursor_of(file);
    span line;
    buf bytes = {0};
    bool ok = true;
    int lines = 0;
    for (int64_t rank; ok && lines < 16 && tokenizer_file_line(&c, &line); lines++)
        ok = parse_line(line, &bytes, &rank);
    buf_free(&bytes);
    return ok && lines > 1;
}

static int read_ranks(tokenizer *t, span file, const char *path, err *e)
{
    cursor c = cursor_of(file);
    span line;
    buf bytes = {0};
    int rc = OK;
    int64_t rank;
    for (size_t number = 1; !rc && tokenizer_file_line(&c, &line); number++) {
        if (line.n == 0) continue;
        if (!parse_line(line, &bytes, &rank)) rc = err_set(e, ERR_FORMAT, "%s:%zu: not \"base64 rank\"", path, number);
        else if (vocab_has(&t->voc, rank))
            rc = err_set(e, ERR_FORMAT, "%s:%zu: rank %lld appears twice", path, number, (long long)rank);
        else rc = vocab_set(&t->voc, rank, buf_span(&bytes), 0, e);
    }
    buf_free(&bytes);
    return rc ? rc : t->voc.size ? OK : err_set(e, ERR_FORMAT, "%s: no ranks", path);
}

static int add_specials(tokenizer *t, const char *pre, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < sizeof specials / sizeof *specials && !rc; i++) {
        if (strcmp(specials[i].pre, pre) != 0 || (uint32_t)specials[i].from < t->voc.size) continue;
        for (int k = 0; k < 8 && specials[i].name[k] && !rc; k++) {
            rc = vocab_set(&t->voc, specials[i].from + k, span_str(specials[i].name[k]), PIECE_SPECIAL, e);
            if (!rc) rc = tokenizer_add_special(t, specials[i].from + k, e);
        }
    }
    return rc;
}

int load_tiktoken(tokenizer *t, span file, const char *path, const char *pre, err *e)
{
    if (!pre)
        return err_set(e, ERR_USAGE,
                       "%s: a rank file carries no pattern: name it with --pre (llama3, cl100k, o200k, gpt2, qwen2, "
                       "deepseek-v3, …)",
                       path);
    const pattern_row *row = pattern_find(pre);
    if (!row)
        return err_set(e, ERR_USAGE, "%s: unknown pre-tokenizer \"%s\" (llama3, cl100k, o200k, gpt2, qwen2, …)", path,
                       pre);
    int rc = read_ranks(t, file, path, e);
    if (rc) return rc;
    bpe *b = &t->bp;
    uint32_t n = t->voc.size;
    b->rank = mem_array(n, sizeof *b->rank);
    if (!b->rank || !map_reserve(&b->word, n)) return err_memory(e, path);
    for (int i = 0; i < 256; i++) b->unit[i] = -1;
    for (uint32_t id = 0; id < n; id++) {
        b->rank[id] = id;
        span p = t->voc.piece[id];
        if (p.p && !map_put(&b->word, p, id)) return err_memory(e, path);
        if (p.n == 1) b->unit[p.p[0]] = (int32_t)id;
    }
    t->kind = "bpe";
    t->model = MODEL_BPE;
    b->bytes = b->whole_first = true;
    for (int i = 0; i < PATTERN_STEPS_MAX && row->step[i] && !rc; i++)
        rc = tokenizer_add_split(t, row->step[i], REGEX_FANCY, SPLIT_ISOLATED, false, e);
    if (!rc && !tokenizer_add_decoder(t, DECODE_BYTES, e)) rc = ERR_LIMIT;
    return rc ? rc : add_specials(t, pre, e);
}
