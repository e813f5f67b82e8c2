/* prometheus.c - see prometheus.h. */
#include "serve/prometheus.h"

#include "base/json.h"
#include "base/version.h"

#include <string.h>

void prom_head(const prom *to, const char *name, const char *type, const char *help)
{
    buf_printf(to->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", to->prefix, name, help, to->prefix, name, type);
}

void prom_value(const prom *to, const char *name, const char *label, double value)
{
    const bool own = *to->label, more = *label;
    buf_printf(to->out, "%s%s%s%s%s%s%s %.17g\n", to->prefix, name, own || more ? "{" : "", label,
               own && more ? "," : "", to->label, own || more ? "}" : "", value);
}

void prom_build(const prom *to, const char *help, const char *key, const char *what)
{
    const char *open = strchr(inferflow_version, '('), *commit = open ? open + 1 : "";
    buf label = {0};
    buf_printf(&label, "version=\"" INFERFLOW_RELEASE "\",commit=\"%.*s\",%s=", (int)strcspn(commit, ")"), commit, key);
    json_quote(&label, span_str(what)); /* labels escape what JSON escapes */
    prom_head(to, "build_info", "gauge", help);
    prom_value(to, "build_info", buf_cstr(&label), 1);
    to->out->bad |= label.bad;
    buf_free(&label);
}
