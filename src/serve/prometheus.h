/* prometheus.h - the Prometheus text format 0.0.4: heads and values of metrics. */
#pragma once
#include "base/buf.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Where a metric is printed: under which prefix, with which label besides. */
typedef struct prom {
    buf *out;
    const char *prefix; /* "inferflow_" */
    const char *label;  /* "model_name=\"…\"", or empty */
} prom;

/* type: counter, gauge or histogram. */
void prom_head(const prom *to, const char *name, const char *type, const char *help);
/* label: "le=\"1\"", or empty. */
void prom_value(const prom *to, const char *name, const char *label, double value);
/* build_info, a gauge that is always 1: release, commit, and what runs there, as the label `key`. */
void prom_build(const prom *to, const char *help, const char *key, const char *what);
