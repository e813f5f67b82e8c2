/* import_settings.h - the running side of an inferflow_service.ini, between its reader and its translation. */
#ifndef MODELS_IMPORT_SETTINGS_H
#define MODELS_IMPORT_SETTINGS_H
#include "base/buf.h"
#include "base/err.h"

typedef struct original_service original_service;

const char *service_value(const original_service *s, const char *section, const char *key); /* NULL when absent */
/* Walks the keys of a section: *at starts at 0; NULL ends. */
const char *service_key_at(const original_service *s, const char *section, size_t *at, const char **value);

/* The keys of a model's section and of the engine's as lines of [generate], as the sections [runtime] and [serve], and as comment
 * lines for what has no counterpart. */
int service_settings(const original_service *s, const char *section, buf *generate, buf *settings, buf *remarks,
                     err *e);

#endif
