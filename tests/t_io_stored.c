/* t_io_stored.c - quantized folders of the hub: matrices that tools/oracle/oracle_quants.py has written by the
 * published description of each layout, against what they stand for times (1, 1/2, 1/3, …); the same files damaged. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "core/weight_fill.h"
#include "io/stored_find.h"
#include "tensor/panel.h"
#include "tensor/quant.h"

#include <dirent.h>
#include <math.h>

enum { LAYOUTS_LEAST = 51 };
static const char folder[] = "tests/vectors/stored";

static int find(ckpt *c, const json *config, err *e)
{
    buf said = {0};
    int rc = stored_find(c, config, NULL, &said, e);
    buf_free(&said);
    return rc;
}

static const ckpt_entry *open_matrix(ckpt **c, const char *path)
{
    err e = {0};
    assert_ok(ckpt_open(c, path, &e), &e);
    assert_ok(find(*c, ckpt_config(*c), &e), &e);
    const ckpt_entry *t = ckpt_find(*c, "x.weight");
    return t ? t : ckpt_find(*c, "x");
}

/* Row n out of rows of blocks, or out of panels where the type has them. */
static void read_filled(const weight *w, int64_t n, bool packed, float *to)
{
    weight_fill f;
    err e = {0};
    assert_ok(weight_fill_plan(&f, w, weight_held_type(w), packed, &e), &e);
    uint8_t *held = f.out = mem_zero((size_t)f.units, f.unit_bytes);
    assert_ok(weight_fill_run(&f, 1, 2, &e), &e);
    const uint8_t *at = held + (uint64_t)(packed ? n / PANEL_ROWS : n) * f.unit_bytes;
    if (packed) panel_row(f.type, at, (int)(n % PANEL_ROWS), w->cols, to);
    else quant_decode_row(f.type, at, to, (uint64_t)w->cols);
    mem_free(held);
}

/* Rows of the sorted twin: the same weights, each where the twin says. */
static void check_sorted(const char *name, const stored_matrix *s)
{
    float *row = mem_array((size_t)s->cols, sizeof *row), *sorted = mem_array((size_t)s->cols, sizeof *sorted);
    int64_t moved = 0;
    for (int64_t n = 0; n < s->rows; n++) {
        stored_floats(s, n, row);
        stored_floats(s->sorted, n, sorted);
        for (int64_t k = 0; k < s->cols; k++) {
            const int32_t at = s->sorted->from[k];
            moved += at != k;
            if (sorted[k] != row[at]) fail_msg("%s: row %d: column %d is not %d", name, (int)n, (int)k, at);
        }
    }
    assert_true(moved > 0);
    mem_free(row);
    mem_free(sorted);
}

static void check_layout(const char *name)
{
    char path[300];
    ckpt *c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const ckpt_entry *t = open_matrix(&c, path), *want = ckpt_find(c, "want");
    if (!t || !t->stored) fail_msg("%s: no matrix was found", name);
    const stored_matrix *s = t->stored;
    assert_int_equal(want->dims.dim[0], s->rows);
    piece one = {.data = t->data,
                 .type = t->type,
                 .src_rows = s->rows,
                 .src_cols = s->cols,
                 .rows = s->rows,
                 .block = s->rows,
                 .stride = s->rows,
                 .stored = s,
                 .mul = 1};
    weight w = {.name = name, .pieces = &one, .n_piece = 1, .rows = s->rows, .cols = s->cols};
    const float factor = t->type == DTYPE_NVFP4 || t->type == DTYPE_Q2_0 ? s->factor : 1;
    float *row = mem_array((size_t)s->cols, sizeof *row), *other = mem_array((size_t)s->cols, sizeof *row);
    for (int64_t n = 0; n < s->rows; n++) {
        double sum = 0, size = 0, expected;
        memcpy(&expected, want->data + 8 * n, sizeof expected);
        weight_decode_row(&w, n, row);
        for (int64_t k = 0; k < s->cols; k++) {
            sum += (double)row[k] * factor / (double)(k + 1);
            size += fabs((double)row[k] * factor);
        }
        if (!(fabs(sum - expected) <= 1e-6 * size))
            fail_msg("%s: row %d gives %.9g, not %.9g", name, (int)n, sum, expected);
        for (int packed = 0; packed <= (panel_format_of(t->type) != NULL); packed++) {
            read_filled(&w, n, packed, other);
            assert_memory_equal(row, other, (size_t)s->cols * sizeof *row);
        }
    }
    assert_int_equal(s->sorted != NULL, strstr(name, "order") != NULL);
    if (s->sorted) check_sorted(name, s);
    mem_free(row);
    mem_free(other);
    ckpt_close(c);
}

/* The layouts in tests/vectors/stored; their number. */
static int each_layout(void (*see)(const char *name))
{
    DIR *d = opendir(folder);
    int n = 0;
    if (!d) fail_msg("%s: run from the root of the project", folder);
    for (struct dirent *x; (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        see(x->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static void layouts_are_read_as_described(void **unused)
{
    (void)unused;
    assert_true(each_layout(check_layout) >= LAYOUTS_LEAST);
}

/* The weights of a layout with bytes changed, with the configuration that is beside them: an error that says what is
 * wrong, or numbers. */
static void damage(const char *name)
{
    char path[300];
    buf file = {0}, text = {0};
    err e = {0};
    json *config;
    snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, name);
    assert_ok(file_read(&file, path, 1 << 20, &e), &e);
    snprintf(path, sizeof path, "%s/%s/config.json", folder, name);
    assert_ok(file_read(&text, path, 1 << 20, &e), &e);
    assert_ok(json_parse(&config, buf_span(&text), "config.json", &e), &e);
    uint64_t seed = 1;
    for (int i = 0; i < 205; i++) {
        uint8_t *own = mem_alloc(file.n);
        memcpy(own, file.p, file.n);
        for (int k = 0; k <= i % 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            own[i % 2 ? seed >> 33 & 511 : (seed >> 33) % file.n] = (uint8_t)(seed >> 20);
        }
        ckpt *c;
        err why = {0};
        int rc = ckpt_open_bytes(&c, span_of(own, file.n), "damaged", &why);
        if (!rc && !(rc = find(c, config, &why))) {
            const ckpt_entry *t = ckpt_find(c, "x.weight");
            float *row = t && t->stored ? mem_array((size_t)t->stored->cols, sizeof *row) : NULL;
            for (int64_t n = 0; row && n < t->stored->rows; n++) stored_floats(t->stored, n, row);
            mem_free(row);
        }
        if (rc && !why.msg[0]) fail_msg("%s: an error without a message", name);
        ckpt_close(rc && !c ? NULL : c);
        mem_free(own);
    }
    json_free(config);
    buf_free(&file);
    buf_free(&text);
}

static void damaged_files_are_refused_or_read(void **unused)
{
    (void)unused;
    each_layout(damage);
}

/* The type of the matrix in these bytes, as somebody finds it who was told a line, or NULL; *said: what to tell. */
static dtype type_found(buf *file, const json *config, const char *told, buf *said, const uint8_t **scales)
{
    ckpt *c;
    err e = {0};
    assert_ok(ckpt_open_bytes(&c, buf_span(file), "x", &e), &e);
    *scales = ckpt_find(c, "x.weight_scale")->data;
    assert_ok(stored_find(c, config, told, said, &e), &e);
    const dtype type = ckpt_find(c, "x.weight")->type;
    ckpt_close(c);
    return type;
}

/* A node has no scales while it finds out how matrices are held: it is told which of them need floats. */
static void wide_scales_are_told(void **unused)
{
    (void)unused;
    static const char *const name[] = {"ct-int4-f32", "ct-int4-128"};
    for (int i = 0; i < 2; i++) {
        char path[300];
        buf file = {0}, text = {0}, said = {0}, again = {0};
        const uint8_t *scales;
        json *config;
        err e = {0};
        snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, name[i]);
        assert_ok(file_read(&file, path, 1 << 20, &e), &e);
        snprintf(path, sizeof path, "%s/%s/config.json", folder, name[i]);
        assert_ok(file_read(&text, path, 1 << 20, &e), &e);
        assert_ok(json_parse(&config, buf_span(&text), "config.json", &e), &e);
        const dtype here = type_found(&file, config, NULL, &said, &scales);
        assert_int_equal(here, i ? DTYPE_Q4_Z128 : DTYPE_F32);
        memset(file.p + (scales - file.p), 0, 64);
        assert_int_equal(type_found(&file, NULL, buf_cstr(&said), &again, &scales), here);
        assert_string_equal(buf_cstr(&said), buf_cstr(&again));
        assert_int_equal(
            type_found(&file, NULL, i ? "- 4 128 0 0 0 0 y x.weight_packed" : "- 4 128 0 0 0 0 x", &again, &scales),
            i ? DTYPE_F32 : DTYPE_Q4_Z128);
        json_free(config);
        buf_free(&file);
        buf_free(&text);
        buf_free(&said);
        buf_free(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_read_as_described),
        cmocka_unit_test(damaged_files_are_refused_or_read),
        cmocka_unit_test(wide_scales_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
