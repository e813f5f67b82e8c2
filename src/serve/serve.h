/* serve.h - the life of `inferflow serve`: listen, load, serve, drain, end. */
#pragma once
#include "serve/server.h"

/* Serves until SIGTERM or SIGINT; a second signal ends the process at once. */
int serve_run(const serve_options *o, const engine_options *model, err *e);
