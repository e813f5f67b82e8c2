/* stored_find.c - see stored_find.h. What quantizers write about themselves: transformers' quantization_config (fp8,
 * fbgemm_fp8, gptq, awq, compressed-tensors, modelopt, mxfp4, bitsandbytes, bitnet) and modelopt's
 * hf_quant_config.json. */
#include "io/stored_find.h"

#include "base/glob.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/stored_layout.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int unknown(const ckpt *c, const char *what, const char *value, const char *known, err *e)
{
    return err_set(e, ERR_SPEC, "%s: quantized with %s %.60s, which is not known: known are %s; or take a GGUF file",
                   ckpt_path(c), what, value, known);
}

static bool is_one_of(const char *word, const char *list) /* "a, b, c" */
{
    const size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n])) return true;
    return false;
}

/* A size, or 0. */
static int64_t size_of(const json *j)
{
    const int64_t size = json_int(j, 0);
    return size > 0 && size <= INT32_MAX ? size : 0;
}

/* ---- methods; q is quantization_config */

static int read_fp8(const ckpt *c, const json *q, stored_said *said, err *e)
{
    const json *block = json_get(q, "weight_block_size");
    for (size_t i = 0; i < 2 && json_count(block) == 2; i++) {
        said->block[i] = json_int(json_at(block, i), 0);
        if (said->block[i] < 1 || said->block[i] > INT32_MAX)
            return err_set(e, ERR_SPEC, "%s: quantization_config.weight_block_size is no pair of sizes", ckpt_path(c));
    }
    const char *fmt = json_str(json_get(q, "fmt"), "e4m3");
    return strcmp(fmt, "e4m3") == 0 ? OK : unknown(c, "fp8 format", fmt, "e4m3", e);
}

static int read_bits(const ckpt *c, const json *q, const char *known, stored_said *said, err *e)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)json_int(json_get(q, "bits"), 4));
    if (!is_one_of(text, known)) return unknown(c, "bits", text, known, e);
    said->bits = (int)json_int(json_get(q, "bits"), 4);
    said->group = size_of(json_get(q, "group_size"));
    return OK;
}

static int read_gptq(const ckpt *c, const json *q, stored_said *said, err *e)
{
    const char *format = json_str(json_get(q, "checkpoint_format"), "gptq");
    said->zero_as_is = strcmp(format, "gptq_v2") == 0;
    if (!is_one_of(format, "gptq, gptq_v2")) return unknown(c, "GPTQ format", format, "gptq, gptq_v2", e);
    return read_bits(c, q, "2, 3, 4, 8", said, e);
}

static int read_awq(const ckpt *c, const json *q, stored_said *said, err *e)
{
    const char *version = json_str(json_get(q, "version"), "gemm");
    if (strcasecmp(version, "gemm") != 0) return unknown(c, "AWQ version", version, "gemm", e);
    return read_bits(c, q, "4", said, e);
}

static int read_compressed(const ckpt *c, const json *q, stored_said *said, err *e)
{
    static const char *const known = "dense, float-quantized, naive-quantized, int-quantized, pack-quantized, "
                                     "nvfp4-pack-quantized, mxfp4-pack-quantized, mixed-precision";
    const char *format = json_str(json_get(q, "format"), "dense"),
               *sparse = json_str(json_get(json_get(q, "sparsity_config"), "format"), "dense");
    if (!is_one_of(format, known)) return unknown(c, "compressed-tensors format", format, known, e);
    if (strcmp(sparse, "dense") != 0) return unknown(c, "compressed-tensors sparsity", sparse, "dense", e);
    for (const json *g = json_first(json_get(q, "config_groups")); g; g = json_next(g)) {
        const json *w = json_get(g, "weights"), *block = json_get(w, "block_structure");
        const char *own = json_str(json_get(g, "format"), format);
        if (!is_one_of(own, known)) return unknown(c, "compressed-tensors format", own, known, e);
        const int64_t bits = size_of(json_get(w, "num_bits"));
        said->bits = bits <= 8 ? (int)bits : 0;
        said->group = size_of(json_get(w, "group_size"));
        for (size_t i = 0; i < 2 && json_count(block) == 2; i++) said->block[i] = size_of(json_at(block, i));
    }
    return OK;
}

static int read_modelopt(const ckpt *c, const json *q, stored_said *said, err *e)
{
    static const char *const known = "FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, NVFP4, NVFP4_W4A16, MIXED_PRECISION, "
                                     "none";
    (void)said;
    const json *inner = json_get(q, "quantization");
    const char *algo = json_str(json_get(inner ? inner : q, "quant_algo"), "none");
    return is_one_of(algo, known) ? OK : unknown(c, "modelopt's", algo, known, e);
}

static int read_bitnet(const ckpt *c, const json *q, stored_said *said, err *e)
{
    const char *class = json_str(json_get(q, "linear_class"), "bitlinear");
    said->divides = strcmp(class, "bitlinear") == 0;
    return is_one_of(class, "bitlinear, autobitlinear")
               ? OK
               : unknown(c, "BitNet's class", class, "bitlinear, autobitlinear", e);
}

static int read_nothing(const ckpt *c, const json *q, stored_said *said, err *e)
{
    (void)c, (void)q, (void)said, (void)e;
    return OK;
}

static const struct method {
    const char *name;
    int (*read)(const ckpt *c, const json *q, stored_said *said, err *e);
} methods[] = {
    {"fp8", read_fp8},           {"fbgemm_fp8", read_nothing},
    {"gptq", read_gptq},         {"awq", read_awq},
    {"mxfp4", read_nothing},     {"compressed-tensors", read_compressed},
    {"bitnet", read_bitnet},     {"bitsandbytes", read_nothing},
    {"modelopt", read_modelopt}, {"modelopt_fp4", read_modelopt},
};

/* Reads what is said; said->method NULL: nothing is. */
static int read_config(ckpt *c, const json *config, stored_said *said, err *e)
{
    err own = {0};
    const json *q = json_get(config, "quantization_config");
    const json *beside = ckpt_describes_itself(c) ? NULL : ckpt_side_json(c, "hf_quant_config.json", &own);
    if (own.code) return err_copy(e, &own);
    if (json_type(q) != JSON_OBJECT) q = beside;
    if (json_type(q) != JSON_OBJECT) return OK;
    said->method = json_str(json_get(q, "quant_method"), q == beside || json_get(q, "quant_algo") ? "modelopt" : "?");
    char known[200] = "";
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, said->method) == 0) return methods[i].read(c, q, said, e);
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", methods[i].name);
    }
    return unknown(c, "quant_method", said->method, known, e);
}

/* ---- tensors */

static bool is_coded(const ckpt_entry *t)
{
    return t->dims.rank >= 2 && (t->type == DTYPE_I32 || t->type == DTYPE_U8 || t->type == DTYPE_I8 ||
                                 t->type == DTYPE_F8_E4M3 || t->type == DTYPE_F8_E5M2);
}

/* What is about activations, or says again what shapes say. */
static bool is_of_no_use(const char *name)
{
    static const char *const ends[] = {
        ".input_scale", ".input_global_scale", ".activation_scale", ".output_scale",     ".k_scale",         ".v_scale",
        ".q_scale",     ".weight_shape",       ".weight_format",    ".weight.quant_map", ".input_zero_point"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (str_ends(name, ends[i])) return true;
    return false;
}

static int check_rest(ckpt *c, const bool *is, const stored_said *said, uint32_t joined, err *e)
{
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        if ((joined || said->method) && is_of_no_use(t->name)) {
            int rc = ckpt_set_aside(c, i, e);
            if (rc) return rc;
        } else if (said->method && is_coded(t) && !is[i] && !ckpt_is_aside(c, i)) {
            return err_set(e, ERR_SPEC, "%s: quantized (%.60s): tensor '%.200s' of %s is in no known layout",
                           ckpt_path(c), said->method, t->name, dtype_info[t->type].name);
        }
    }
    return OK;
}

/* The line: the method, or "-", six numbers, and the matrices with wide scales. */
static int read_line(const ckpt *c, const char *line, char method[32], stored_said *to, err *e)
{
    int as_is = 0, divides = 0, rest = 0;
    long long group, rows, cols;
    if (sscanf(line, "%31s %d %lld %lld %lld %d %d%n", method, &to->bits, &group, &rows, &cols, &as_is, &divides,
               &rest) != 7 ||
        to->bits < 0 || to->bits > 8 || group < -1 || rows < 0 || cols < 0 || group > INT32_MAX || rows > INT32_MAX ||
        cols > INT32_MAX)
        return err_set(e, ERR_SPEC, "%s: [model] quantized: expected a method and six numbers", ckpt_path(c));
    to->wide->told = line + rest;
    *to = (stored_said){
        strcmp(method, "-") ? method : NULL, to->bits, group, {rows, cols}, as_is != 0, divides != 0, to->wide};
    return OK;
}

static void write_line(buf *to, const stored_said *s)
{
    stored_wide *w = s->wide;
    if (!s->method && !w->found) return;
    buf_printf(to, "%.31s %d %lld %lld %lld %d %d", s->method ? s->method : "-", s->bits, (long long)s->group,
               (long long)s->block[0], (long long)s->block[1], s->zero_as_is, s->divides);
    if (w->found) buf_printf(to, "%s", w->found == w->n ? " *" : buf_cstr(&w->names));
}

int stored_find(ckpt *c, const json *config, const char *told, buf *line, err *e)
{
    char method[32];
    stored_wide wide = {0};
    stored_said said = {.wide = &wide};
    uint32_t joined = 0, coded = 0;
    if (ckpt_describes_itself(c) || ckpt_own_spec(c)) return OK;
    const uint32_t n = ckpt_count(c);
    for (uint32_t i = 0; i < n; i++) coded += is_coded(ckpt_at(c, i));
    const json *q = json_get(config, "quantization_config");
    if (!coded && json_type(q) == JSON_OBJECT)
        log_line(LOG_WARN, "%s: quantization_config (%.40s) has no effect: all weights are floats", ckpt_path(c),
                 json_str(json_get(q, "quant_method"), "a method without name"));
    if (!coded) return OK;
    bool *is = mem_zero(n, sizeof *is);
    int rc = !is    ? err_memory(e, ckpt_path(c))
             : told ? read_line(c, told, method, &said, e)
                    : read_config(c, config, &said, e);
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = stored_layout(c, i, &said, &is[i], e);
        joined += is[i];
    }
    if (!rc) rc = check_rest(c, is, &said, joined, e);
    if (!rc && !told) write_line(line, &said);
    if (!rc && told) buf_printf(line, "%s", told);
    if (!rc && (line->bad || wide.names.bad)) rc = err_memory(e, ckpt_path(c));
    buf_free(&wide.names);
    mem_free(is);
    return rc;
}
