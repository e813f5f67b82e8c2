/* cmd_serve.c - `inferflow serve`: an HTTP server around one model (src/serve). */
#include "app/app.h"
#include "app/embed_flags.h"
#include "engine/engine.h"
#include "serve/serve.h"

#include <string.h>

typedef struct serve_command {
    engine_options model;
    serve_options serve;
    embed_flags how;
} serve_command;

static const flag_group groups[] = {
    {"Server", serve_param_rows, &serve_param_count, offsetof(serve_command, serve)},
    MODEL_FLAGS(serve_command, model),
    {"Chat", chat_param_rows, &chat_param_count, offsetof(serve_command, serve) + offsetof(serve_options, chat)},
    {"Vectors", embed_param_rows, &embed_param_count, offsetof(serve_command, how)},
    {"Sampling, unless the request says", sample_param_rows, &sample_param_count,
     offsetof(serve_command, serve) + offsetof(serve_options, sample)},
    {NULL},
};

static int run_serve(const invocation *v, err *e)
{
    const serve_command *o = v->options;
    engine_options model = o->model;
    if (o->how.pooling && strcmp(o->how.pooling, "none") == 0)
        return err_set(e, ERR_USAGE, "--pooling none: the server gives one vector for a text");
    embed_flags_apply(v, &o->how, &model);
    return serve_run(&o->serve, &model, e);
}

const command command_serve = {
    .name = "serve",
    .summary = "HTTP server with the OpenAI API",
    .flags = groups,
    .options_size = sizeof(serve_command),
    .run = run_serve,
    .notes = "The server listens before it loads: GET /health answers 503 until the model is ready, then 200.\n"
             "SIGTERM lets running requests finish (--drain); a second one ends the server at once.\n"
             "\n"
             "  inferflow serve --port 8080 &\n"
             "  curl localhost:8080/v1/completions -d '{\"prompt\": \"Once upon a time\", \"stream\": true}'\n",
};
