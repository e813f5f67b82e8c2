/* make_llama.c - writes a Llama of random weights as a Hugging Face folder (config.json, model.safetensors), for
 * measuring speed: a model of any shape.
 *
 * Usage: make_llama DIR [NAME=VALUE…]; by default the 1.1 B shape layers=22 dim=2048 heads=32 kv_heads=4 ffn=5632
 * vocab=32000 type=f16 (2.2 GB); type is f16, bf16 or f32, head_dim by default dim / heads. With experts and used it is
 * a Mixtral; 1.2 B parameters: layers=12 dim=1024 heads=16 ffn=3584 experts=8 used=2. Wide in `dim` alone, much to send
 * and little to compute: layers=12 dim=4096 heads=1 kv_heads=1 head_dim=64 ffn=64. Norm weights are 1; others come from
 * a table of 4096 roughly normal values, deviation 0.02, in a pseudo-random order. */
#define _GNU_SOURCE
#include "base/half.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TABLE = 4096, ENTRIES_MAX = 2000, BLOCK = 1 << 16 };

typedef struct type {
    const char *name, *in_config, *in_file;
    unsigned bytes;
} type;
static const type types[] = {
    {"f16", "float16", "F16", 2},
    {"bf16", "bfloat16", "BF16", 2},
    {"f32", "float32", "F32", 4},
};

/* What a shape is: each may be given. */
enum { LAYERS, DIM, HEADS, KV_HEADS, FFN, VOCAB, EXPERTS, USED, HEAD_DIM, N_SIZE };
static const char *const size_names[N_SIZE] = {"layers", "dim",     "heads", "kv_heads", "ffn",
                                               "vocab",  "experts", "used",  "head_dim"};

typedef struct entry {
    char name[96];
    long rows, cols; /* cols 0: a vector */
} entry;

static entry entries[ENTRIES_MAX];
static int n_entry;

static void add_entry(const char *name, int layer, long rows, long cols)
{
    entry *t = &entries[n_entry++];
    if (layer < 0) snprintf(t->name, sizeof t->name, "%s.weight", name);
    else snprintf(t->name, sizeof t->name, "model.layers.%d.%s.weight", layer, name);
    t->rows = rows;
    t->cols = cols;
}

static void add_expert(int layer, long expert, long dim, long ffn)
{
    for (int w = 1; w <= 3; w++) { /* gate, down, up */
        char name[64];
        snprintf(name, sizeof name, "block_sparse_moe.experts.%ld.w%d", expert, w);
        add_entry(name, layer, w == 2 ? dim : ffn, w == 2 ? ffn : dim);
    }
}

static long count_values(const entry *t) { return t->rows * (t->cols ? t->cols : 1); }

static uint64_t state = 88172645463325252u;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void write_header(FILE *f, const type *ty)
{
    char *text = NULL;
    size_t n = 0;
    FILE *h = open_memstream(&text, &n);
    unsigned long at = 0;
    fprintf(h, "{");
    for (int i = 0; i < n_entry; i++) {
        const entry *t = &entries[i];
        unsigned long end = at + ty->bytes * (unsigned long)count_values(t);
        fprintf(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%ld", i ? "," : "", t->name, ty->in_file, t->rows);
        if (t->cols) fprintf(h, ",%ld", t->cols);
        fprintf(h, "],\"data_offsets\":[%lu,%lu]}", at, end);
        at = end;
    }
    fprintf(h, "}");
    for (fflush(h); n % 8; fflush(h)) fputc(' ', h); /* the data begins at a multiple of 8 */
    uint64_t size = n;
    fclose(h);
    fwrite(&size, 8, 1, f);
    fwrite(text, 1, n, f);
    free(text);
}

static uint32_t bits_of(float v, const type *ty)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return ty->bytes == 4 ? bits : ty->name[0] == 'b' ? f32_to_bf16(v) : f32_to_f16(v);
}

static void write_values(FILE *f, const type *ty)
{
    static uint32_t table[TABLE];
    static uint8_t block[BLOCK * 4];
    for (int i = 0; i < TABLE; i++) {
        float s = 0;
        for (int k = 0; k < 4; k++) s += (float)(next() & 0xffff) / 65536.0f - 0.5f;
        table[i] = bits_of(s * 1.732f * 0.02f, ty);
    }
    uint32_t one = bits_of(1, ty);
    for (int i = 0; i < n_entry; i++) {
        bool norm = entries[i].cols == 0;
        for (long left = count_values(&entries[i]), n; left > 0; left -= n) {
            n = left < BLOCK ? left : BLOCK;
            for (long k = 0; k < n; k += 4) {
                uint64_t r = next();
                for (long j = k; j < n && j < k + 4; j++, r >>= 16)
                    memcpy(block + (size_t)j * ty->bytes, norm ? &one : &table[r % TABLE], ty->bytes);
            }
            fwrite(block, ty->bytes, (size_t)n, f);
        }
    }
}

static FILE *create_file(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f) fprintf(stderr, "make_llama: cannot write %s: %s\n", path, strerror(errno));
    return f;
}

static bool size_take(const char *word, long *size, const type **ty)
{
    const char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value++ - word) : 0;
    for (int i = 0; value && i < N_SIZE; i++) {
        if (strncmp(word, size_names[i], n) == 0 && !size_names[i][n]) {
            size[i] = strtol(value, NULL, 10);
            return true;
        }
    }
    for (size_t i = 0; value && strncmp(word, "type=", 5) == 0 && i < sizeof types / sizeof *types; i++) {
        if (strcmp(value, types[i].name) == 0) {
            *ty = &types[i];
            return true;
        }
    }
    fprintf(stderr,
            "make_llama: \"%s\": usage: make_llama DIR [layers= dim= heads= kv_heads= head_dim= ffn= vocab= "
            "experts= used= type=f16|bf16|f32]\n",
            word);
    return false;
}

int main(int argc, char **argv)
{
    long size[N_SIZE] = {22, 2048, 32, 4, 5632, 32000, 0, 0, 0};
    const type *ty = types;
    for (int i = 2; i < argc; i++) {
        if (!size_take(argv[i], size, &ty)) return 2;
    }
    if (argc < 2) return size_take("", size, &ty), 2;
    long layers = size[LAYERS], dim = size[DIM], heads = size[HEADS], kv = size[KV_HEADS], ffn = size[FFN];
    long vocab = size[VOCAB], experts = size[EXPERTS], used = size[USED];
    if (!size[HEAD_DIM] && heads > 0 && dim % heads == 0) size[HEAD_DIM] = dim / heads;
    long head_dim = size[HEAD_DIM];
    if (layers < 1 || layers > 200 || dim < 1 || heads < 1 || head_dim < 1 || kv < 1 || heads % kv || ffn < 1 ||
        vocab < 1 || experts < 0 || layers * (3 * experts + 9) > ENTRIES_MAX || used > experts) {
        fprintf(stderr, "make_llama: these sizes do not fit together\n");
        return 2;
    }
    add_entry("model.embed_tokens", -1, vocab, dim);
    for (int i = 0; i < layers; i++) {
        add_entry("input_layernorm", i, dim, 0);
        add_entry("self_attn.q_proj", i, heads * head_dim, dim);
        add_entry("self_attn.k_proj", i, kv * head_dim, dim);
        add_entry("self_attn.v_proj", i, kv * head_dim, dim);
        add_entry("self_attn.o_proj", i, dim, heads * head_dim);
        add_entry("post_attention_layernorm", i, dim, 0);
        if (experts) {
            add_entry("block_sparse_moe.gate", i, experts, dim);
            for (long k = 0; k < experts; k++) add_expert(i, k, dim, ffn);
            continue;
        }
        add_entry("mlp.gate_proj", i, ffn, dim);
        add_entry("mlp.up_proj", i, ffn, dim);
        add_entry("mlp.down_proj", i, dim, ffn);
    }
    add_entry("model.norm", -1, dim, 0);
    add_entry("lm_head", -1, vocab, dim);
    mkdir(argv[1], 0777);
    FILE *config = create_file(argv[1], "config.json"), *weights = create_file(argv[1], "model.safetensors");
    if (!config || !weights) return 1;
    fprintf(config,
            "{\"architectures\": [\"%sForCausalLM\"], \"model_type\": \"%s\", \"num_local_experts\": %ld, "
            "\"num_experts_per_tok\": %ld, \"hidden_size\": %ld, "
            "\"intermediate_size\": %ld, \"num_hidden_layers\": %ld, \"num_attention_heads\": %ld, "
            "\"num_key_value_heads\": %ld, \"head_dim\": %ld, "
            "\"vocab_size\": %ld, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
            "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"torch_dtype\": \"%s\", \"bos_token_id\": 1, "
            "\"eos_token_id\": 2}\n",
            experts ? "Mixtral" : "Llama", experts ? "mixtral" : "llama", experts, used, dim, ffn, layers, heads, kv,
            head_dim, vocab, ty->in_config);
    write_header(weights, ty);
    write_values(weights, ty);
    bool bad = fclose(config) != 0;
    bad = fclose(weights) != 0 || bad;
    if (bad) fprintf(stderr, "make_llama: writing to %s failed: is the disk full?\n", argv[1]);
    return bad;
}
