/* sampling_table.c - see sampling_table.h. The rows are those of the flags; the length is a row behind them. */
#include "app/sampling_table.h"

#include "base/buf.h"
#include "base/terminal.h"
#include "sample/strategy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DOC_COLUMN = 42, DOC_LEAST = 30 };

static const param length = {.key = "max_tokens",
                             .type = PARAM_INT,
                             .offset = offsetof(sampling_table, max_tokens),
                             .min = -1,
                             .max = 1 << 30,
                             .doc = "tokens of an answer; -1 = until it ends or the context is full"};

static const void *struct_of(const sampling_table *t, const param *row)
{
    return row == &length ? (const void *)t : t->params;
}

static const char *source_of(const sampling_table *t, const param *row)
{
    const char *source = row == &length ? t->length_source : t->source[row - sample_param_rows];
    return source ? source : "default";
}

static const char *print_value(char out[40], const param *row, const void *from)
{
    const void *field = (const char *)from + row->offset;
    const char *text = row->type == PARAM_TEXT || row->type == PARAM_WORD ? *(const char *const *)field : NULL;
    if (row->type == PARAM_INT) snprintf(out, 40, "%lld", (long long)*(const int64_t *)field);
    else if (row->type == PARAM_FLOAT) snprintf(out, 40, "%.6g", *(const double *)field);
    else snprintf(out, 40, "%.30s", text ? text : "none");
    return out;
}

static int count_columns(void)
{
    const int wide = terminal_columns(STDOUT_FILENO);
    return wide ? wide : 80;
}

/* From column DOC_COLUMN on, as long as lines may be. */
static void print_doc(const char *text, int width)
{
    int at = 0;
    for (size_t n; *(text += strspn(text, " ")); text += n) {
        n = strcspn(text, " ");
        const bool breaks = at && at + 1 + (int)n > width;
        if (breaks) printf("\n%*s", DOC_COLUMN, "");
        else if (at) putchar(' ');
        at = (breaks || !at ? 0 : at + 1) + (int)n;
        fwrite(text, 1, n, stdout);
    }
    putchar('\n');
}

static void print_row(const sampling_table *t, const param *row, int width)
{
    char value[40];
    printf("%-18s %6s  %-12s  ", row->key, print_value(value, row, struct_of(t, row)), source_of(t, row));
    print_doc(row->doc, width);
}

void sampling_table_print(const sampling_table *t)
{
    const int rest = count_columns() - 1 - DOC_COLUMN, width = rest < DOC_LEAST ? DOC_LEAST : rest;
    printf("%-18s %6s  %-12s  meaning\n", "name", "value", "set by");
    print_row(t, &length, width);
    for (size_t i = 0; i < sample_param_count; i++) print_row(t, &sample_param_rows[i], width);
}

void sampling_table_summary(const sampling_table *t)
{
    char value[40], plain[40];
    sample_params neutral;
    const char *between = "";
    param_defaults(sample_param_rows, sample_param_count, &neutral);
    for (size_t i = 0; i < sample_param_count; i++) {
        const param *row = &sample_param_rows[i];
        if (strcmp(print_value(value, row, t->params), print_value(plain, row, &neutral)) == 0) continue;
        printf("%s%s %s", between, row->key, value);
        between = ", ";
    }
    if (!*between) fputs("as the model says", stdout);
}

static int unknown_name(const char *key, err *e)
{
    const char *near = param_nearest(sample_param_rows, sample_param_count, key),
               *other = param_nearest(&length, 1, key);
    if (!near || (other && edit_distance(other, key) < edit_distance(near, key))) near = other;
    return err_set(e, ERR_USAGE, "/set: unknown parameter \"%s\"%s%s%s", key, near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "; /set lists them");
}

/* Its values, too, unless it is unknown: then nothing changes. */
static int set_strategy(sampling_table *t, const char *name, err *e)
{
    sample_params changed = *t->params;
    for (size_t i = 0; strategy_name(i); i++)
        if (strcmp(strategy_name(i), name) == 0) name = strategy_name(i); /* which lasts */
    changed.strategy = name;
    int rc = strategy_apply(&changed, "strategy", e);
    if (rc) return rc;
    sample_note_source(t->source, "strategy", t->params, &changed);
    *t->params = changed;
    return OK;
}

int sampling_table_set(sampling_table *t, const char *text, err *e)
{
    char key[64], before[40], now[40];
    const size_t n = strcspn(text, " =");
    const char *value = text + n + strspn(text + n, " =");
    snprintf(key, sizeof key, "%.*s", (int)(n < 60 ? n : 60), text);
    const param *row = param_find(&length, 1, key) ? &length : param_find(sample_param_rows, sample_param_count, key);
    if (!row) return unknown_name(key, e);
    void *into = row == &length ? (void *)t : t->params;
    print_value(before, row, into);
    if (!*value) {
        printf("%s %s (%s): %s\n", row->key, before, source_of(t, row), row->doc);
        return OK;
    }
    int rc = row->type == PARAM_TEXT ? set_strategy(t, value, e) : param_set(row, into, value, row->key, e);
    if (rc) return rc;
    *(row == &length ? &t->length_source : &t->source[row - sample_param_rows]) = "/set";
    printf("%s %s (was %s)\n", row->key, print_value(now, row, into), before);
    return OK;
}
