/* forecast.h - how long texts will take on the devices of an engine: a few steps are tried, the rest is computed.
 *
 * What a step costs depends on kernels, caches, links and what else the machine does; no list of rates tells it as well
 * as a step. So a short text is run: its time for each token is that of later ones. Of a prompt that would take long
 * only the first chunks are read; as many devices work on chunks that follow each other, what another chunk adds is the
 * time of two less the time of one. */
#pragma once
#include "engine/engine.h"

typedef struct forecast {
    int64_t prompt;      /* tokens; fewer than asked for where the context is smaller */
    double first;        /* seconds until the first token after such a prompt; of an encoder: until its result */
    double token;        /* seconds of each later one; 0: the model generates none */
    double communicates; /* of them those that no device computes; of an encoder, of `first` */
    int slowest;         /* number of the device that computes longest, of engine_devices */
    int n;
    double *busy; /* [n] seconds that each device computes for a token; of an encoder, for the prompt */
} forecast;

/* Takes about a second, or as long as two chunks of the prompt and a few tokens. For an engine without queries; on the
 * engine thread. */
int forecast_make(forecast *out, engine *g, int64_t prompt, err *e);
void forecast_free(forecast *f);
