/* import_settings.h - the running side of an inferflow_service.ini, translated. */
#ifndef MODELS_IMPORT_SETTINGS_H
#define MODELS_IMPORT_SETTINGS_H
#include "base/buf.h"
#include "base/err.h"
#include "models/import/service_ini.h"

/* The keys of a model's section and of the engine's as lines of [generate], as the sections [runtime] and [serve], and as comment
 * lines for what has no counterpart. */
int service_settings(const original_service *s, const char *section, buf *generate, buf *settings, buf *remarks,
                     err *e);

#endif
