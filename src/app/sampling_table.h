/* sampling_table.h - the sampling parameters of a conversation, and the length of its answers: what holds, who said so,
 * and how it is changed. */
#pragma once
#include "sample/sample.h"

typedef struct sampling_table {
    sample_params *params;
    int64_t max_tokens;                 /* of an answer; -1: up to the context */
    const char *source[SAMPLE_PARAM_N]; /* "flag", "spec", …; NULL: the default */
    const char *length_source;
} sampling_table;

/* Prints every parameter on a line: name, value, source of the value, meaning. */
void sampling_table_print(const sampling_table *t);
/* Those that differ from their defaults, in one line without its end. */
void sampling_table_summary(const sampling_table *t);
/* "NAME VALUE" sets one, "NAME" prints it. ERR_USAGE: there is none of this name, or the value does not fit. */
int sampling_table_set(sampling_table *t, const char *text, err *e);
