/* make_llama.c - writes a Llama of random f16 weights as a Hugging Face folder (config.json, model.safetensors), for
 * measuring speed.
 *
 * Usage: make_llama DIR [layers dim heads kv_heads ffn vocab [experts used]]; by default the 1.1 B shape 22 2048 32 4
 * 5632 32000 (2.2 GB). With experts it is a Mixtral; 1.2 B parameters: 12 1024 16 4 3584 32000 8 2. Norm weights are 1;
 * others come from a table of 4096 roughly normal values, deviation 0.02, in a pseudo-random order. */
#define _GNU_SOURCE
#include "base/half.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TABLE = 4096, ENTRIES_MAX = 2000, BLOCK = 1 << 16 };

typedef struct entry {
    char name[96];
    long rows, cols; /* cols 0: a vector */
} entry;

static entry entries[ENTRIES_MAX];
static int n_entry;

static void add(const char *name, int layer, long rows, long cols)
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
        add(name, layer, w == 2 ? dim : ffn, w == 2 ? ffn : dim);
    }
}

static long count(const entry *t) { return t->rows * (t->cols ? t->cols : 1); }

static uint64_t state = 88172645463325252u;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void write_header(FILE *f)
{
    char *text = NULL;
    size_t n = 0;
    FILE *h = open_memstream(&text, &n);
    unsigned long at = 0;
    fprintf(h, "{");
    for (int i = 0; i < n_entry; i++) {
        const entry *t = &entries[i];
        unsigned long end = at + 2 * (unsigned long)count(t);
        fprintf(h, "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[%ld", i ? "," : "", t->name, t->rows);
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

static void write_values(FILE *f)
{
    static uint16_t table[TABLE], block[BLOCK];
    for (int i = 0; i < TABLE; i++) {
        float s = 0;
        for (int k = 0; k < 4; k++) s += (float)(next() & 0xffff) / 65536.0f - 0.5f;
        table[i] = f32_to_f16(s * 1.732f * 0.02f);
    }
    for (int i = 0; i < n_entry; i++) {
        bool norm = entries[i].cols == 0;
        for (long left = count(&entries[i]), n; left > 0; left -= n) {
            n = left < BLOCK ? left : BLOCK;
            for (long k = 0; k < n; k += 4) {
                uint64_t r = next();
                for (long j = k; j < n && j < k + 4; j++, r >>= 16) block[j] = norm ? 0x3c00 : table[r % TABLE];
            }
            fwrite(block, 2, (size_t)n, f);
        }
    }
}

static FILE *create(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f) fprintf(stderr, "make_llama: cannot write %s: %s\n", path, strerror(errno));
    return f;
}

int main(int argc, char **argv)
{
    long size[] = {22, 2048, 32, 4, 5632, 32000, 0, 0};
    if (argc != 2 && argc != 8 && argc != 10) {
        fprintf(stderr, "usage: make_llama DIR [layers dim heads kv_heads ffn vocab [experts used]]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) size[i - 2] = strtol(argv[i], NULL, 10);
    long layers = size[0], dim = size[1], heads = size[2], kv = size[3], ffn = size[4], vocab = size[5];
    long experts = size[6], used = size[7];
    if (layers < 1 || layers > 200 || dim < 1 || heads < 1 || dim % heads || kv < 1 || heads % kv || ffn < 1 ||
        vocab < 1 || experts < 0 || layers * (3 * experts + 8) > ENTRIES_MAX || used > experts) {
        fprintf(stderr, "make_llama: these sizes do not fit together\n");
        return 2;
    }
    add("model.embed_tokens", -1, vocab, dim);
    for (int i = 0; i < layers; i++) {
        add("input_layernorm", i, dim, 0);
        add("self_attn.q_proj", i, dim, dim);
        add("self_attn.k_proj", i, dim / heads * kv, dim);
        add("self_attn.v_proj", i, dim / heads * kv, dim);
        add("self_attn.o_proj", i, dim, dim);
        add("post_attention_layernorm", i, dim, 0);
        if (experts) {
            add("block_sparse_moe.gate", i, experts, dim);
            for (long k = 0; k < experts; k++) add_expert(i, k, dim, ffn);
            continue;
        }
        add("mlp.gate_proj", i, ffn, dim);
        add("mlp.up_proj", i, ffn, dim);
        add("mlp.down_proj", i, dim, ffn);
    }
    add("model.norm", -1, dim, 0);
    add("lm_head", -1, vocab, dim);
    mkdir(argv[1], 0777);
    FILE *config = create(argv[1], "config.json"), *weights = create(argv[1], "model.safetensors");
    if (!config || !weights) return 1;
    fprintf(
        config,
        "{\"architectures\": [\"%sForCausalLM\"], \"model_type\": \"%s\", \"num_local_experts\": %ld, "
        "\"num_experts_per_tok\": %ld, \"hidden_size\": %ld, "
        "\"intermediate_size\": %ld, \"num_hidden_layers\": %ld, \"num_attention_heads\": %ld, "
        "\"num_key_value_heads\": %ld, "
        "\"vocab_size\": %ld, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
        "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"torch_dtype\": \"float16\", \"bos_token_id\": 1, "
        "\"eos_token_id\": 2}\n",
        experts ? "Mixtral" : "Llama", experts ? "mixtral" : "llama", experts, used, dim, ffn, layers, heads, kv,
        vocab);
    write_header(weights);
    write_values(weights);
    bool bad = fclose(config) != 0;
    bad = fclose(weights) != 0 || bad;
    if (bad) fprintf(stderr, "make_llama: writing to %s failed: is the disk full?\n", argv[1]);
    return bad;
}
