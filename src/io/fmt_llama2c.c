/* fmt_llama2c.c - the .bin files of llama2.c, versions 0 (legacy), 1 (float32) and 2 (int8 groups).
 *
 * Source: export.py and run.c of llama2.c. There are no names, so tensors get those of run.c's struct, one per layer:
 *   token_embedding_table [vocab, dim]      layers.{i}.rms_att_weight [dim]     layers.{i}.wq [dim, dim]
 *   layers.{i}.wk, .wv [kv_dim, dim]        layers.{i}.wo [dim, dim]            layers.{i}.rms_ffn_weight [dim]
 *   layers.{i}.w1, .w3 [hidden_dim, dim]    layers.{i}.w2 [dim, hidden_dim]     rms_final_weight [dim]
 *   wcls [vocab, dim], only where the head is not shared with the embedding
 * kv_dim = dim / n_heads * n_kv_heads. Rotary pairs are neighbours.
 *
 * Version 0 has no magic: a header of seven int32 (a negative vocab_size says "head not shared") is believed when the
 * size it implies is the size of the file to the byte; the two tables of rotary angles before wcls are skipped.
 * Versions 1 and 2 start with "ak42" (read as a big-endian word), and weights begin at byte 256, norms first. Version 2
 * stores each matrix as int8 followed by one float32 scale per group of group_size weights, counted through the whole
 * matrix. Where groups are whole multiples of 32 inside a row it is rewritten as q8_f32, else (tiny models) as f32:
 * same values. ckpt.c calls this format and is called back. */
#include "base/mem.h"
#include "io/ckpt_build.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_V0 = 28, HEADER_V1 = 256, LAYERS_MAX = 4096 };
static const uint32_t magic = 0x616b3432;

typedef struct llama2c_header {
    int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len, version, group_size;
    bool shared_classifier;
} llama2c_header;

/* Where one kind of matrix lies; rows and cols of a single layer. */
typedef struct llama2c_part {
    const char *name;
    uint64_t rows, cols, layers; /* layers 0: not per layer */
    bool norm;                   /* stays float32 in version 2 */
} llama2c_part;
enum {
    PART_EMBED,
    PART_ATT,
    PART_Q,
    PART_K,
    PART_V,
    PART_O,
    PART_FFN,
    PART_W1,
    PART_W2,
    PART_W3,
    PART_FINAL,
    PART_CLS,
    PART_COUNT
};

static bool read_header(span file, llama2c_header *h)
{
    cursor c = cursor_of(file);
    *h = (llama2c_header){0};
    if (file.n >= 4 && cursor_u32(&c) == magic) {
        h->version = (int32_t)cursor_u32(&c);
    } else {
        c = cursor_of(file);
    }
    int32_t *const field[] = {&h->dim,        &h->hidden_dim, &h->n_layers, &h->n_heads,
                              &h->n_kv_heads, &h->vocab_size, &h->seq_len};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) *field[i] = (int32_t)cursor_u32(&c);
    if (h->version == 0) {
        h->shared_classifier = h->vocab_size > 0;
        if (h->vocab_size < 0 && h->vocab_size != INT32_MIN) h->vocab_size = -h->vocab_size;
    } else {
        h->shared_classifier = cursor_u8(&c) != 0;
        if (h->version == 2) h->group_size = (int32_t)cursor_u32(&c);
    }
    return !c.bad;
}

static const char *header_fault(const llama2c_header *h)
{
    if (h->dim <= 0 || h->hidden_dim <= 0 || h->vocab_size <= 0 || h->seq_len <= 0)
        return "a size in the header is not positive";
    if (h->n_layers <= 0 || h->n_layers > LAYERS_MAX) return "n_layers is not between 1 and 4096";
    if (h->n_heads <= 0 || h->dim % h->n_heads != 0) return "dim is not a multiple of n_heads";
    if (h->n_kv_heads <= 0 || h->n_heads % h->n_kv_heads != 0) return "n_heads is not a multiple of n_kv_heads";
    if (h->dim / h->n_heads % 2 != 0) return "the head size is odd";
    if (h->version == 2 && h->group_size <= 0) return "group_size is not positive";
    return NULL;
}

static void describe_parts(const llama2c_header *h, llama2c_part part[PART_COUNT])
{
    uint64_t dim = (uint64_t)h->dim, hidden = (uint64_t)h->hidden_dim, n = (uint64_t)h->n_layers,
             vocab = (uint64_t)h->vocab_size;
    uint64_t kv = dim / (uint64_t)h->n_heads * (uint64_t)h->n_kv_heads;
    const llama2c_part all[PART_COUNT] = {
        [PART_EMBED] = {"token_embedding_table", vocab, dim, 0, false},
        [PART_ATT] = {"rms_att_weight", 1, dim, n, true},
        [PART_Q] = {"wq", dim, dim, n, false},
        [PART_K] = {"wk", kv, dim, n, false},
        [PART_V] = {"wv", kv, dim, n, false},
        [PART_O] = {"wo", dim, dim, n, false},
        [PART_FFN] = {"rms_ffn_weight", 1, dim, n, true},
        [PART_W1] = {"w1", hidden, dim, n, false},
        [PART_W2] = {"w2", dim, hidden, n, false},
        [PART_W3] = {"w3", hidden, dim, n, false},
        [PART_FINAL] = {"rms_final_weight", 1, dim, 0, true},
        [PART_CLS] = {h->shared_classifier ? NULL : "wcls", vocab, dim, 0, false},
    };
    memcpy(part, all, sizeof all);
}

static const int order_v0[PART_COUNT] = {PART_EMBED, PART_ATT, PART_Q,  PART_K,  PART_V,     PART_O,
                                         PART_FFN,   PART_W1,  PART_W2, PART_W3, PART_FINAL, PART_CLS};
static const int order_v1[PART_COUNT] = {PART_ATT, PART_FFN, PART_FINAL, PART_EMBED, PART_Q,  PART_K,
                                         PART_V,   PART_O,   PART_W1,    PART_W2,    PART_W3, PART_CLS};

/* Bytes of one layer's share of a part. All fields are below 2^31 and positive: rows * cols < 2^62. */
static bool part_bytes(const llama2c_header *h, const llama2c_part *p, uint64_t *bytes)
{
    uint64_t n = p->rows * p->cols;
    if (h->version != 2 || p->norm) return mem_mul(n, 4, bytes);
    uint64_t g = (uint64_t)h->group_size;
    return n % g == 0 && mem_mul(n / g, g + 4, bytes);
}

static uint64_t angle_bytes(const llama2c_header *h) /* the two tables of version 0, skipped */
{
    return (uint64_t)h->seq_len * (uint64_t)(h->dim / h->n_heads) * 4;
}

/* The size of the file that a header implies; false when it overflows or groups do not divide. */
static bool implied_size(const llama2c_header *h, uint64_t *size)
{
    llama2c_part part[PART_COUNT];
    describe_parts(h, part);
    *size = h->version == 0 ? HEADER_V0 : HEADER_V1;
    for (int i = 0; i < PART_COUNT; i++) {
        uint64_t bytes;
        if (!part[i].name) continue;
        if (!part_bytes(h, &part[i], &bytes) || !mem_mul(bytes, part[i].layers ? part[i].layers : 1, &bytes) ||
            !mem_add(*size, bytes, size))
            return false;
    }
    return h->version != 0 || mem_add(*size, angle_bytes(h), size);
}

static int llama2c_probe(span file)
{
    llama2c_header h;
    uint64_t size;
    if (!read_header(file, &h)) return 0;
    if (h.version != 0) return 100;
    return !header_fault(&h) && implied_size(&h, &size) && size == file.n ? 60 : 0;
}

/* int8 groups and their scales -> q8_f32 blocks or float32. `n` weights; groups run through the whole matrix. */
static void rewrite_groups(dtype to, const uint8_t *q, const uint8_t *scales, uint64_t group, uint64_t n, uint8_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        float scale;
        memcpy(&scale, scales + i / group * 4, 4);
        if (to == DTYPE_Q8_F32) {
            uint8_t *block = out + i / 32 * 36;
            if (i % 32 == 0) memcpy(block, &scale, 4);
            block[4 + i % 32] = q[i];
        } else {
            float v = (float)(int8_t)q[i] * scale;
            memcpy(out + i * 4, &v, 4);
        }
    }
}

static int list_part(ckpt *c, uint32_t file, const llama2c_header *h, const llama2c_part *p, uint64_t *at, err *e)
{
    uint64_t bytes = 0, layers = p->layers ? p->layers : 1, n = p->rows * p->cols;
    shape dims = p->norm ? (shape){1, {(int64_t)p->cols}} : (shape){2, {(int64_t)p->rows, (int64_t)p->cols}};
    bool groups = h->version == 2 && !p->norm;
    part_bytes(h, p, &bytes); /* cannot fail: implied_size asked before */
    for (uint64_t i = 0; i < layers; i++, *at += bytes) {
        char name[64];
        if (p->layers) snprintf(name, sizeof name, "layers.%d.%s", (int)i, p->name);
        else snprintf(name, sizeof name, "%s", p->name);
        int rc;
        if (!groups) {
            rc = ckpt_add(c, file, span_str(name), DTYPE_F32, &dims, *at, bytes, e);
        } else {
            uint64_t g = (uint64_t)h->group_size;
            dtype to = g % 32 == 0 && p->cols % g == 0 ? DTYPE_Q8_F32 : DTYPE_F32;
            uint8_t *out;
            rc = ckpt_add_rewritten(c, file, span_str(name), to, &dims, &out, e);
            const uint8_t *q = ckpt_file_bytes(c, file).p + *at;
            if (!rc) rewrite_groups(to, q, q + n, g, n, out);
        }
        if (rc) return rc;
    }
    return OK;
}

static int set_config(ckpt *c, const llama2c_header *h, err *e)
{
    json *j = json_new_object();
    bool ok = json_add_num(j, "dim", h->dim) && json_add_num(j, "hidden_dim", h->hidden_dim) &&
              json_add_num(j, "n_layers", h->n_layers) && json_add_num(j, "n_heads", h->n_heads) &&
              json_add_num(j, "n_kv_heads", h->n_kv_heads) && json_add_num(j, "vocab_size", h->vocab_size) &&
              json_add_num(j, "seq_len", h->seq_len) && json_add_bool(j, "shared_classifier", h->shared_classifier) &&
              json_add_num(j, "version", h->version) && json_add_num(j, "group_size", h->group_size);
    ckpt_set_config(c, j);
    return ok ? OK : err_memory(e, NULL);
}

static int llama2c_list(ckpt *c, uint32_t file, err *e)
{
    llama2c_header h;
    llama2c_part part[PART_COUNT];
    uint64_t size, have = ckpt_file_bytes(c, file).n;
    read_header(ckpt_file_bytes(c, file), &h);
    if (h.version < 0 || h.version > 2) return err_set(e, ERR_FORMAT, "llama2.c version %d is not known", h.version);
    const char *fault = header_fault(&h);
    if (fault) return err_set(e, ERR_FORMAT, "llama2.c header: %s", fault);
    if (!implied_size(&h, &size)) return err_set(e, ERR_FORMAT, "llama2.c header: impossible sizes");
    if (size != have)
        return err_set(e, ERR_FORMAT, "llama2.c header needs %llu bytes, the file has %llu: incomplete download?",
                       (unsigned long long)size, (unsigned long long)have);
    describe_parts(&h, part);
    const int *order = h.version == 0 ? order_v0 : order_v1;
    uint64_t at = h.version == 0 ? HEADER_V0 : HEADER_V1;
    for (int i = 0; i < PART_COUNT; i++) {
        const llama2c_part *p = &part[order[i]];
        if (order[i] == PART_CLS && h.version == 0) at += angle_bytes(&h);
        int rc = p->name ? list_part(c, file, &h, p, &at, e) : OK;
        if (rc) return rc;
    }
    return set_config(c, &h, e);
}

const ckpt_reader format_llama2c = {"llama2c", llama2c_probe, llama2c_list, .source = "llama2c", .arch = "llama2"};
