/* cmd_node.c - `inferflow node`: lends this machine's devices to commands elsewhere (src/net). */
#include "app/app.h"
#include "app/node_http.h"
#include "app/output_check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/arithmetic.h"
#include "engine/backend_list.h"
#include "net/key_file.h"
#include "net/node.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct node_flags {
    const char *listen, *key_file, *new_key, *model, *cache, *devices, *as, *metrics, *api_key_file, *allow_host;
    int64_t memory, cache_bytes, threads, drain;
    double peer_timeout, device_timeout;
    bool json, verify;
} node_flags;

static const param rows[] = {
    PARAM_ROW(node_flags, listen, PARAM_TEXT, .keeps_bits = true, .otherwise = "127.0.0.1:7071", .words = "H:P",
              .doc = "address to listen at; port 0 picks one"),
    PARAM_ROW(node_flags, key_file, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
              .doc = "key that leaders share, mode 0600"),
    PARAM_ROW(node_flags, new_key, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_OUT,
              .doc = "writes a new key there, and ends"),
    PARAM_ROW(node_flags, model, PARAM_TEXT, .keeps_bits = true, .words = "PATH[,PATH]", .alias = "m",
              .path = PATH_MODEL,
              .doc = "own copies of the models that leaders serve (default: leaders send their weights)"),
    PARAM_ROW(
        node_flags, verify, PARAM_BOOL, .keeps_bits = true,
        .doc = "first read the copies from the disk and compare them with the digests of an earlier start: a disk "
               "may change a file that nobody wrote to"),
    PARAM_ROW(node_flags, cache, PARAM_TEXT, .keeps_bits = true, .words = "DIR", .path = PATH_FILE,
              .doc = "folder for weights that leaders send where no own copy fits (default: memory, without --model)"),
    PARAM_ROW(
        node_flags, cache_bytes, PARAM_BYTES, .keeps_bits = true, .min = 1 << 20, .max = 1e18, .words = "N",
        .doc = "bytes that --cache may take (default: half of its disk); the models that were not used for longest go "
               "first, but for those that a leader has open"),
    PARAM_ROW(node_flags, devices, PARAM_TEXT, .keeps_bits = true, .words = "LIST",
              .doc = "devices that it lends: \"cpu:1,cpu:2\" (default: cpu, and cpu:N of any N)"),
    PARAM_ROW(
        node_flags, memory, PARAM_BYTES, .keeps_bits = true, .min = 1, .max = 1e15, .words = "BYTES",
        .doc = "quota: memory that it lends for weights that are not mapped, pages and buffers; K, M, G: KiB, MiB, "
               "GiB (default: all free memory)"),
    PARAM_ROW(node_flags, threads, PARAM_INT, .keeps_bits = true, .max = 1024, .alias = "t",
              .doc = "threads of a cpu device without a number (default: the cores this process may use)"),
    PARAM_ROW(
        node_flags, as, PARAM_TEXT, .keeps_bits = true, .words = "GB/s,GOP/s",
        .doc = "simulates a machine that reads and computes so fast, by sleeping: many on one machine, for trials"),
    PARAM_ROW(node_flags, peer_timeout, PARAM_FLOAT, .keeps_bits = true, .otherwise = "3", .min = 0.1, .max = 3600,
              .doc = "seconds of silence after which a leader or node counts as lost; the longer of both sides' values "
                     "holds"),
    PARAM_ROW(node_flags, device_timeout, PARAM_FLOAT, .keeps_bits = true, .otherwise = "600", .min = 0.1, .max = 1e6,
              .doc = "seconds that an NVIDIA GPU may take for its part of a step of up to 512 rows, of more in "
                     "proportion; then it counts as lost"),
    PARAM_ROW(node_flags, drain, PARAM_INT, .keeps_bits = true, .otherwise = "30", .max = 3600,
              .doc = "seconds that SIGTERM leaves to steps under way; a second one ends the node at once"),
    PARAM_ROW(node_flags, metrics, PARAM_TEXT, .keeps_bits = true, .words = "H:P",
              .doc = "answers GET /metrics (for Prometheus) and /health over HTTP at this address; port 0 picks one, "
                     "which is printed"),
    PARAM_ROW(node_flags, api_key_file, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
              .doc = "keys for /metrics, one per line, as `serve` reads them"),
    PARAM_ROW(node_flags, allow_host, PARAM_TEXT, .keeps_bits = true, .words = "NAME,...",
              .doc = "host names, besides localhost, by which --metrics answers on a loopback address without keys"),
    PARAM_ROW(node_flags, json, PARAM_BOOL, .keeps_bits = true,
              .doc = "the line that says where it listens as a JSON object"),
};
static const size_t n_rows = sizeof rows / sizeof *rows;
static const flag_group groups[] = {{"Node", rows, &n_rows, 0}, {NULL}};

enum { MODELS_MAX = 64 };

static volatile sig_atomic_t stops;

static void on_signal(int unused)
{
    (void)unused;
    stops++;
}

/* web: of --metrics; NULL: none. */
static int say_ready(const node *n, const char *as, const address *web, bool as_json, err *e)
{
    char at[TCP_NAME_MAX], web_at[TCP_NAME_MAX], id[17];
    const hello *says = node_says(n);
    int rc = OK;
    address_print(node_address(n), at);
    if (web) address_print(web, web_at);
    snprintf(id, sizeof id, "%016" PRIx64, says->node);
    if (!as_json) {
        printf("listening on %s, node %s%s%s\n", at, id, as ? ", as " : "", as ? as : "");
        if (web) printf("metrics at http://%s/metrics\n", web_at);
    } else {
        json *out = json_new_object();
        json_add_str(out, "listening", at);
        json_add_str(out, "node", id);
        json *list = json_add_array(out, "devices");
        for (uint32_t i = 0; i < says->n_device; i++) json_add_str(list, NULL, says->device[i].name);
        json_add_int(out, "arithmetic", ARITHMETIC);
        if (as) json_add_str(out, "as", as);
        if (web) json_add_str(out, "metrics", web_at);
        rc = app_print_json(out, e);
        json_free(out);
    }
    fflush(stdout);
    return rc;
}

/* Until a signal, and then until nothing has been under way for a while, in which leaders may leave. */
static void lend(node *n, int64_t drain)
{
    enum { QUIET = 10 };
    const struct timespec tick = {.tv_nsec = 50000000};
    int64_t left = drain * 20;
    for (; !stops; nanosleep(&tick, NULL)) node_tidy(n);
    node_drain(n);
    for (int quiet = 0; stops < 2 && left > 0 && quiet < QUIET && node_leases(n); left--) {
        node_tidy(n);
        quiet = node_works(n) ? 0 : quiet + 1;
        nanosleep(&tick, NULL);
    }
}

/* The paths of a list with commas. */
static int split_paths(char *text, const char **to)
{
    int n = 0;
    for (char *save = NULL, *at = strtok_r(text, ",", &save); at && n < MODELS_MAX; at = strtok_r(NULL, ",", &save))
        to[n++] = at;
    return n;
}

static int run_node(const invocation *v, err *e)
{
    const node_flags *o = v->options;
    const own_options own = {.cpu.threads = (int)o->threads, .cuda.timeout = o->device_timeout};
    const backend_use backends[] = {
#define X(backend, member) {&backend, &own.member},
        BACKEND_LIST(X)
#undef X
            {0}};
    const char *models[MODELS_MAX];
    node_options no = {.key_file = o->key_file,
                       .backends = backends,
                       .models = models,
                       .cache = o->cache,
                       .cache_bytes = (uint64_t)o->cache_bytes,
                       .devices = o->devices,
                       .memory = (uint64_t)o->memory,
                       .verify = o->verify,
                       .timeout = o->peer_timeout,
                       .pretended_speed = o->as};
    node *n;
    node_http *web = NULL;
    address web_at;
    if (o->new_key) return key_file_write(o->new_key, e);
    if (!o->key_file) return err_set(e, ERR_USAGE, "--key-file is missing (--new-key FILE makes a key)");
    int rc = address_parse(&no.at, o->listen, true, e);
    if (!rc && o->metrics && address_parse(&web_at, o->metrics, true, e)) rc = err_wrap(e, "--metrics");
    if (rc) return rc;
    char *text = mem_str(o->model ? o->model : "");
    if (!text) return err_memory(e, NULL);
    no.n_model = split_paths(text, models);
    struct sigaction act = {.sa_handler = on_signal};
    signal(SIGPIPE, SIG_IGN);
    log_set_times(true);
    if (o->metrics) rc = node_http_open(&web, &web_at, o->api_key_file, o->allow_host, e);
    if (!rc) rc = node_open(&n, &no, e); /* which --verify makes long: a signal ends it */
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    if (!rc) {
        if (web) node_http_tell(web, n);
        rc = say_ready(n, o->as, web ? &web_at : NULL, o->json, e);
        if (!rc) lend(n, o->drain);
        node_http_close(web);
        web = NULL;
        node_close(n);
    }
    node_http_close(web);
    mem_free(text);
    return rc;
}

const command command_node = {
    .name = "node",
    .summary = "lends this machine's devices to commands elsewhere",
    .flags = groups,
    .options_size = sizeof(node_flags),
    .run = run_node,
    .notes = "Both sides have the same key; connections are encrypted. A leader names devices as host:port/cpu:\n"
             "\n"
             "  inferflow node --new-key key\n"
             "  inferflow node --key-file key --model llama.gguf &\n"
             "  inferflow run --key-file key --model llama.gguf --devices '127.0.0.1:7071/cpu;cpu' -p Hello\n",
};
