/* quantize_report.h - what a quantized file holds: bits of a weight, types with their shares, and how far its weights
 * are from the model's. */
#pragma once
#include "core/program.h"
#include "tensor/quant_fit.h"

typedef struct quantize_report {
    const program *prog;
    dtype (*type)(const weight *w); /* in the file */
    /* The importance that the weight was fitted with; NULL: none. */
    fit_importance (*importance)(void *self, const weight *w);
    void *self;
} quantize_report;

/* Prints size, types and errors of the file at `path`, which is there; warns where most weights have 3 bits or less.
 * The errors are estimated from some rows of each matrix, which are encoded again. */
int quantize_report_print(const quantize_report *r, const char *path, err *e);
