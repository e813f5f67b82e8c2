/* import_settings.h - the running side of an inferflow_service.ini, translated. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "models/import/service_ini.h"

/* The keys of the model's and the engine's section as lines of [generate], as sections [runtime] and [serve], and as
 * comments where they have no counterpart. */
int service_settings(const original_service *s, const char *section, buf *generate, buf *settings, buf *remarks,
                     err *e);
