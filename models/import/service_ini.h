/* service_ini.h - an inferflow_service.ini of the original engine, read.
 *
 * `key = value` is split at the first '=', comments are lines of their own, names are case-insensitive, the last of
 * equal keys counts and the last of equal sections replaces the earlier ones. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

typedef struct service_row {
    const char *section, *key, *value;
} service_row;

typedef struct original_service {
    const char *path, *dir; /* of the file; its folder, without '/' at the end */
    arena mem;
    service_row *rows;
    size_t n, cap;
    int expanded; /* macros so far */
} original_service;

/* path and dir are set; service_free also after an error. */
int service_read(original_service *s, span text, err *e);
void service_free(original_service *s);

const char *service_value(const original_service *s, const char *section, const char *key); /* NULL when absent */
/* Walks the keys of a section: *at starts at 0; NULL ends. */
const char *service_key_at(const original_service *s, const char *section, size_t *at, const char **value);
