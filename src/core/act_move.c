/* act_move.c - see act_move.h. */
#include "core/act_move.h"

/* Rows from `row` on that are tiled together: all of a step, or those of one expert. */
GPU_CODE static int64_t rows_together(const int32_t *table, int64_t row, int64_t rows)
{
    const int32_t *at = table ? table + row * DISPATCH_COLS : NULL;
    int64_t n = at ? 1 : rows;
    while (row + n < rows && at[n * DISPATCH_COLS + DISPATCH_EXPERT] == at[DISPATCH_EXPERT]) n++;
    return n;
}

/* The table of the dispatch by which the codes of t are tiled, NULL: none. */
GPU_CODE static const int32_t *table_of(const program *p, const uint8_t *base, ref t)
{
    uint32_t i = p->n_op;
    while (i-- > 0)
        if (p->ops[i].out == t) break;
    const ref table = i < p->n_op ? p->ops[i].in[1] : 0;
    return table ? (const int32_t *)(const void *)(base + p->tensors[table].off) : NULL;
}

/* All rows of codes to wire order, or columns of them from it. */
GPU_CODE static void codes_move(const program *p, uint8_t *base, ref t, int64_t col0, int64_t cols, int64_t rows,
                                uint8_t *to, const uint8_t *from)
{
    const tensor *a = &p->tensors[t];
    const int32_t *table = table_of(p, base, t);
    const int64_t all = tensor_count(a);
    for (int64_t row = 0, n; row < rows; row += n) {
        n = rows_together(table, row, rows);
        const act_rows x = {base + a->off + (uint64_t)row * act_row_bytes(all, a->block), a->block, n, all, 0};
        const uint64_t at = (uint64_t)row * act_wire_bytes(cols, a->block);
        if (to) act_wire_get(&x, to + at);
        else act_wire_put(&x, col0, cols, from + at);
    }
}

GPU_CODE void act_move_in(const program *p, uint8_t *base, ref t, int64_t col0, int64_t cols, int64_t rows,
                          const void *from)
{
    const tensor *a = &p->tensors[t];
    const int64_t all = tensor_count(a);
    float *to = (float *)(void *)(base + a->off);
    const float *row = (const float *)from;
    if (a->block) codes_move(p, base, t, col0, cols, rows, NULL, (const uint8_t *)from);
    else if (cols == all) memcpy(to, from, (size_t)(rows * all) * sizeof *row);
    else
        for (int64_t i = 0; i < rows; i++, row += cols) memcpy(to + i * all + col0, row, (size_t)cols * sizeof *row);
}

GPU_CODE void act_move_out(const program *p, uint8_t *base, ref t, int64_t row0, int64_t rows, void *to)
{
    const tensor *a = &p->tensors[t];
    const int64_t all = tensor_count(a);
    if (a->block) codes_move(p, base, t, 0, all, rows, (uint8_t *)to, NULL);
    else memcpy(to, (float *)(void *)(base + a->off) + row0 * all, (size_t)(rows * all) * sizeof(float));
}
