/* quantize_report.c - see quantize_report.h. Errors are root mean squares over those of the weights: 0.1 means that a
 * weight is off by a tenth of what weights are. */
#include "app/quantize_report.h"

#include "base/log.h"
#include "base/mem.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

enum { SAMPLE_ROWS = 16 };        /* of each matrix */
static const double FEW_BITS = 3; /* stored, with scales; KL divergences of such types are tenths and more */

/* Sums over the weights of a type. */
typedef struct share {
    double weights, bytes, squares, wrong; /* the last two as if all rows had been tried */
} share;

/* Adds what encoding does to some rows of a matrix. */
static int try_rows(const quantize_report *r, const weight *w, dtype type, share *to, err *e)
{
    const size_t cols = (size_t)w->cols;
    const int64_t rows = w->rows < SAMPLE_ROWS ? w->rows : SAMPLE_ROWS;
    const fit_importance weighed = r->importance ? r->importance(r->self, w) : (fit_importance){0};
    float *values = mem_array(2 * cols, sizeof *values), *again = values + cols;
    uint8_t *code = mem_alloc(dtype_row_bytes(type, cols));
    int rc = values && code ? OK : err_set(e, ERR_MEMORY, "out of memory for weight %s", w->name);
    for (int64_t i = 0; i < rows && !rc; i++) {
        const int64_t row = i * w->rows / rows;
        double squares = 0, wrong = 0;
        weight_decode_row(w, row, values);
        quant_fit(type, values, cols, fit_importance_of(weighed, row, w->cols), code);
        quant_decode_row(type, code, again, cols);
        for (size_t c = 0; c < cols; c++) {
            const double off = (double)again[c] - (double)values[c];
            squares += (double)values[c] * (double)values[c];
            wrong += off * off;
        }
        to->squares += squares * (double)w->rows / (double)rows;
        to->wrong += wrong * (double)w->rows / (double)rows;
    }
    mem_free(values);
    mem_free(code);
    return rc;
}

static double error_of(const share *s) { return s->squares > 0 ? sqrt(s->wrong / s->squares) : 0; }

static void print_shares(const share *by, const share *all)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (!by[t].weights) continue;
        printf("  %-8s %5.1f %% of the weights, %5.1f %% of the bytes", dtype_info[t].name,
               100 * by[t].weights / all->weights, 100 * by[t].bytes / all->bytes);
        if (by[t].squares > 0) printf(", estimated error %.2g %%", 100 * error_of(&by[t]));
        putchar('\n');
    }
}

int quantize_report_print(const quantize_report *r, const char *path, err *e)
{
    struct stat st;
    share by[DTYPE_COUNT] = {{0}}, all = {0};
    double few = 0;
    for (uint32_t i = 0; i < r->prog->n_weight; i++) {
        const weight *w = &r->prog->weights[i];
        const dtype type = r->type(w);
        share *s = &by[type];
        s->weights += (double)w->rows * (double)w->cols;
        s->bytes += (double)w->rows * (double)dtype_row_bytes(type, (uint64_t)w->cols);
        int rc = dtype_is_block(type) && quant_can_encode(type) ? try_rows(r, w, type, s, e) : OK;
        if (rc) return rc;
    }
    for (int t = 0; t < DTYPE_COUNT; t++) {
        all.weights += by[t].weights;
        all.bytes += by[t].bytes;
        all.squares += by[t].squares;
        all.wrong += by[t].wrong;
        if (8 * by[t].bytes <= FEW_BITS * by[t].weights) few += by[t].weights;
    }
    if (stat(path, &st) != 0 || !all.weights) return OK;
    printf("%s %lld bytes, %.2f bits a weight", path, (long long)st.st_size, 8 * all.bytes / all.weights);
    if (all.squares > 0) printf(", estimated error %.2g %%", 100 * error_of(&all));
    putchar('\n');
    print_shares(by, &all);
    if (few > all.weights / 2)
        log_line(LOG_WARN,
                 "at 3 bits and below texts change, often for the worse: eval divergence measures by how much, "
                 "--importance helps");
    return OK;
}
