/* t_models_export_families.c - every family that GGUF has goes there and back: the tensors of the folder at the end are
 * those of the folder at the start, by name, shape and value, keys of both configurations have the same values, and the
 * program is the same.
 *
 * The models are those of tests/vectors/models, whose tensors and keys transformers named. That it reads the folders
 * and computes the same is for tools/oracle/oracle.py exports to show. */
#include "vector_rig.h"

#include "io/write_gguf.h"
#include "io/write_safetensors.h"
#include "models/export/export.h"
#include "tensor/quant.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

enum { ROUND_TRIPS_MIN = 77 };

/* Families that are others' in GGUF, and come back under those names: GPT-J's and Llama's; and text models inside
 * others, which come back alone. */
static bool changes_names(const char *name)
{
    return strcmp(name, "codegen") == 0 || strcmp(name, "yi") == 0 || strncmp(name, "wrapped-", 8) == 0;
}

static model *open_at(const char *path, err *e)
{
    model *m = NULL;
    const model_options o = {.model_path = path, .act = "f32"};
    return model_open(&m, &o, e) ? NULL : m;
}

static int write_as(const model *m, export_kind kind, const char *path, err *e)
{
    exporter *x;
    size_t n;
    char file[500];
    int rc = export_open(&x, m, kind, DTYPE_NONE, e);
    if (rc) return rc;
    const write_tensor *t = export_tensors(x, &n);
    if (kind == EXPORT_GGUF) {
        rc = write_gguf(path, export_pairs(x), t, n, 1, e);
    } else {
        buf text = {0};
        mkdir(path, 0700);
        json_print(&text, export_config(x), true);
        snprintf(file, sizeof file, "%s/config.json", path);
        FILE *f = fopen(file, "w");
        fputs(buf_cstr(&text), f);
        fclose(f);
        buf_free(&text);
        snprintf(file, sizeof file, "%s/model.safetensors", path);
        rc = write_safetensors(file, t, n, NULL, e);
    }
    export_close(x);
    return rc ? rc : export_check(m, path, e);
}

static double number_at(const ckpt_entry *t, uint64_t i)
{
    float v;
    quant_decode(t->type, t->data + i * dtype_info[t->type].bytes, &v, 1);
    return (double)v;
}

/* The largest difference as a share of the largest value: norms that are kept as w - 1 lose the last digits of w. */
static double share_off(const ckpt_entry *a, const ckpt_entry *b, uint64_t n)
{
    double off = 0, most = 1e-30;
    for (uint64_t i = 0; i < n; i++) {
        off = fmax(off, fabs(number_at(a, i) - number_at(b, i)));
        most = fmax(most, fabs(number_at(a, i)));
    }
    return off / most;
}

static bool same_tensors(const char *name, const ckpt *a, const ckpt *b)
{
    bool same = ckpt_count(a) == ckpt_count(b);
    if (!same) printf("%s: %u tensors, not %u\n", name, ckpt_count(b), ckpt_count(a));
    for (uint32_t i = 0; i < ckpt_count(a); i++) {
        const ckpt_entry *p = ckpt_at(a, i), *q = ckpt_find(b, p->name);
        uint64_t n;
        bool shaped = q && shape_count(&p->dims, &n) && memcmp(&p->dims, &q->dims, sizeof p->dims) == 0;
        if (shaped && share_off(p, q, n) <= 1e-6) continue;
        printf("%s: %s %s\n", name, p->name, !q ? "is missing" : !shaped ? "has another shape" : "has other values");
        same = false;
    }
    return same;
}

/* Values of two configurations: numbers to the last digits of a float32, words, truths and lists of them. */
static bool same_value(const json *a, const json *b)
{
    if (json_type(a) != json_type(b)) return false;
    if (json_type(a) == JSON_NUMBER) return fabs(json_num(a, 0) - json_num(b, 0)) <= 1e-6 * fabs(json_num(a, 0));
    if (json_type(a) == JSON_STRING) /* of Gemma 1 the first means the second */
        return strcmp(json_str(a, ""), json_str(b, "")) == 0 ||
               (strcmp(json_str(a, ""), "gelu") == 0 && strcmp(json_str(b, ""), "gelu_pytorch_tanh") == 0);
    if (json_type(a) == JSON_BOOL) return json_bool(a, false) == json_bool(b, false);
    const json *q = json_first(b);
    for (const json *p = json_first(a); p; p = json_next(p), q = json_next(q))
        if (!q || !same_value(p, q)) return false;
    return !q;
}

/* Keys whose values may differ though the model is the same: of the file, of other names for the family, with several
 * forms (rotary positions), without effect (Falcon's heads of keys beside multi_query), and the widths of OpenELM and
 * LFM2 before they are rounded. */
static bool has_other_forms(const char *key)
{
    static const char *const keys[] = {"architectures",   "model_type",   "torch_dtype",
                                       "dtype",           "num_kv_heads", "ffn_multipliers",
                                       "ffn_dim_divisor", "block_ff_dim", "block_multiple_of"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return strncmp(key, "rope_", 5) == 0 || strstr(key, "token_id");
}

/* Keys that have a value in both configurations have the same. */
static bool same_keys(const char *name, const json *a, const json *b)
{
    bool same = true;
    for (const json *p = json_first(a); p; p = json_next(p)) {
        const char *key = json_key(p);
        const json *q = json_get(b, key);
        if (!q || json_type(p) == JSON_NULL || has_other_forms(key) || same_value(p, q)) continue;
        buf was = {0}, is = {0};
        json_print(&was, p, false);
        json_print(&is, q, false);
        printf("%s: %s is %s, was %s\n", name, key, buf_cstr(&is), buf_cstr(&was));
        buf_free(&was);
        buf_free(&is);
        same = false;
    }
    return same;
}

/* Whether GGUF does not say all that config.json has: of Gemma 4 the share of a head that rotates, of 3n how sparse
 * gates are. The way back is refused then. */
static bool goes_one_way(const char *name)
{
    return strncmp(name, "gemma4", 6) == 0 || strncmp(name, "gemma3n", 7) == 0;
}

/* 1: there and back; 0: GGUF does not have it, or not all of it; -1: wrong, which was printed. */
static int round_trip(const char *name)
{
    char folder[400];
    const char *gguf = temp_path("families.gguf"), *back = temp_path("families");
    err e = {0};
    snprintf(folder, sizeof folder, "%s/%s", vectors, name);
    model *a = open_at(folder, &e), *b = NULL, *c = NULL;
    assert_non_null(a);
    int result = write_as(a, EXPORT_GGUF, gguf, &e) == OK ? 1 : 0;
    if (result == 0) assert_int_equal(e.code, ERR_SPEC);
    if (result == 1) {
        b = open_at(gguf, &e);
        const int rc = b ? write_as(b, EXPORT_HF, back, &e) : ERR_SPEC;
        if (b && rc == ERR_SPEC && goes_one_way(name)) result = 0;
        else if (rc) printf("%s: %s\n", name, e.msg), result = -1;
        else c = open_at(back, &e);
        if (c && !changes_names(name) && !same_tensors(name, a->weights, c->weights)) result = -1;
        if (c && !changes_names(name) && !same_keys(name, ckpt_config(a->weights), ckpt_config(c->weights)))
            result = -1;
    }
    if (c) model_close(c);
    if (b) model_close(b);
    model_close(a);
    char file[500];
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", back, i ? "config.json" : "model.safetensors");
        unlink(file);
    }
    rmdir(back);
    unlink(gguf);
    return result;
}

static void families_go_there_and_back(void **unused)
{
    (void)unused;
    int went = 0, wrong = 0;
    DIR *d = opendir(vectors);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (f->d_name[0] == '.' || strchr(f->d_name, '.') == f->d_name + strlen(f->d_name) - 3) continue;
        int result = round_trip(f->d_name);
        went += result == 1;
        wrong += result < 0;
    }
    closedir(d);
    printf("%d families there and back\n", went);
    assert_int_equal(wrong, 0);
    assert_true(went >= ROUND_TRIPS_MIN);
}

/* BLOOM needs no such number, llama.cpp does. */
static void gguf_says_what_readers_demand(void **unused)
{
    (void)unused;
    char folder[400];
    const char *gguf = temp_path("demanded.gguf");
    err e = {0};
    snprintf(folder, sizeof folder, "%s/bloom", vectors);
    model *a = open_at(folder, &e);
    assert_non_null(a);
    assert_ok(write_as(a, EXPORT_GGUF, gguf, &e), &e);
    model *b = open_at(gguf, &e);
    assert_non_null(b);
    assert_int_equal(json_int(json_get(ckpt_config(b->weights), "bloom.context_length"), 0), 2048);
    model_close(b);
    model_close(a);
    unlink(gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_go_there_and_back),
                                       cmocka_unit_test(gguf_says_what_readers_demand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
