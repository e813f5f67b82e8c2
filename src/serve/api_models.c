/* api_models.c - GET /v1/models, /v1/models/{id}, /health, /props and /version: what runs here, and whether it is
 * ready. */
#include "base/mem.h"
#include "base/version.h"
#include "sample/strategy.h"
#include "serve/api_list.h"
#include "serve/server.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void add_model(const server *s, const engine_info *info, const char *name, json *m)
{
    json_add_str(m, "id", name);
    json_add_str(m, "object", "model");
    json_add_int(m, "created", (int64_t)s->created);
    json_add_str(m, "owned_by", "inferflow");
    json_add_int(m, "max_model_len", info->ctx);
    json *meta = json_add_object(m, "meta");
    json_add_str(meta, "architecture", info->arch);
    json_add_str(meta, "format", info->format);
    json_add_int(meta, "n_vocab", info->n_vocab);
    json_add_int(meta, "n_embd", info->dim);
    json_add_int(meta, "n_layer", info->n_layer);
    json_add_int(meta, "n_ctx", info->ctx);
}

static void handle_models(server *s, exchange *x)
{
    json *root = json_new_object();
    json_add_str(root, "object", "list");
    json *list = json_add_array(root, "data");
    engine *g = atomic_load(&s->g);
    if (g) add_model(s, engine_describe(g), server_model_name(s), json_add_object(list, NULL));
    const char *names = g ? s->o->alias : NULL;
    for (span item; list_next(&names, &item);) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)item.n, (const char *)item.p);
        if (*name && !span_is(item, "*") && strcmp(name, server_model_name(s)) != 0)
            add_model(s, engine_describe(g), name, json_add_object(list, NULL));
    }
    reply_json(x, 200, root);
}

/* "%2F" → "/", as clients write the id of a model in a path. */
static void unescape(char *to, size_t size, const char *from)
{
    size_t n = 0;
    for (unsigned byte; *from && n + 1 < size; from++) {
        bool coded = from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]);
        to[n++] = coded && sscanf(from + 1, "%2x", &byte) == 1 ? (char)byte : *from;
        if (coded) from += 2;
    }
    to[n] = 0;
}

static void handle_model(server *s, exchange *x)
{
    char id[1024];
    unescape(id, sizeof id, x->tail);
    if (!exchange_check_model(s, x, id)) return;
    json *root = json_new_object();
    add_model(s, engine_describe(s->g), id, root);
    reply_json(x, 200, root);
}

static void handle_version(server *s, exchange *x)
{
    (void)s;
    json *root = json_new_object();
    json_add_str(root, "version", INFERFLOW_RELEASE);
    json_add_str(root, "build_info", inferflow_version);
    reply_json(x, 200, root);
}

enum { PEERS_MAX = 64 };

/* Nodes that have some of the model; none: it is all here, or who asks may not know. */
static void add_peers(engine *g, bool shown, json *root)
{
    static const char *const state[] = {"up", "away", "refused", "spare", "down"};
    engine_peer *all = mem_array(PEERS_MAX, sizeof *all);
    const int n = all && shown ? engine_peers(g, all, PEERS_MAX) : 0;
    json *list = n ? json_add_array(root, "peers") : NULL;
    for (int i = 0; i < n; i++) {
        json *one = json_add_object(list, NULL);
        json_add_str(one, "peer", all[i].name);
        json_add_str(one, "node", all[i].node);
        json_add_str(one, "state", state[all[i].state]);
        json_add_num(one, "rtt_ms", all[i].rtt_ms);
        json_add_str(one, "detail", all[i].detail);
        if (all[i].pretended_speed[0]) json_add_str(one, "as", all[i].pretended_speed);
        if (all[i].hashed) json_add_int(one, "hashed", all[i].hashed);
    }
    mem_free(all);
}

/* 503 while the model loads, so that whoever starts the server can wait for 200, and while no query can be served:
 * "detail" says why. 200 and "degraded": queries wait for a node, a spare serves, or a step takes too long. Where a key
 * is asked for, who has none sees the status alone. */
static void handle_health(server *s, exchange *x)
{
    if (!atomic_load(&s->g)) {
        reply_error(x, 503, NULL, "model_loading", "the model is still loading; try again soon");
        exchange_add_header(x, "Retry-After", "1");
        return;
    }
    err why = {0};
    const bool unavailable = engine_unavailable(s->g, &why);
    engine_stats st;
    engine_get_stats(s->g, &st);
    const bool degraded = st.away || st.spare || st.late || !server_is_alive(s);
    json *root = json_new_object();
    json_add_str(root, "status", unavailable ? "unavailable" : degraded ? "degraded" : "ok");
    if (unavailable && exchange_has_key(s, x)) json_add_str(root, "detail", why.msg);
    add_peers(s->g, exchange_has_key(s, x), root);
    reply_json(x, unavailable ? 503 : 200, root);
    if (unavailable) exchange_add_header(x, "Retry-After", "1");
}

/* What each field of generation does, with its range or its words: help for who sets it. */
static void add_fields(json *fields)
{
    for (size_t i = 0; i < sample_param_count; i++) {
        const param *p = &sample_param_rows[i];
        json *one = json_add_object(fields, p->key);
        json_add_str(one, "doc", p->doc);
        if (p->min || p->max) {
            json_add_num(one, "min", p->min);
            json_add_num(one, "max", p->max);
        }
        if (strcmp(p->key, "strategy") != 0) continue;
        json *words = json_add_array(one, "words");
        for (size_t k = 0; strategy_name(k); k++) json_add_str(words, NULL, strategy_name(k));
    }
}

static void handle_props(server *s, exchange *x)
{
    const engine_info *info = engine_describe(s->g);
    const tokenizer *t = engine_tokenizer(s->g);
    json *root = json_new_object();
    json_add_str(root, "model", server_model_name(s));
    json_add_str(root, "model_path", info->path ? info->path : "");
    json_add_int(root, "total_slots", info->max_batch);
    json_add_int(root, "n_ctx", info->ctx);
    json_add_str(root, "tokenizer", t ? tokenizer_kind(t) : "none");
    json_add_str(root, "chat_template", s->chat ? (const char *)chat_template_source(s->chat).p : "");
    json_add_str(root, "build_info", inferflow_version);
    json *defaults = json_add_object(root, "default_generation_settings");
    param_json(sample_param_rows, sample_param_count, &s->o->sample, defaults);
    sample_params talk = s->o->sample; /* for clients that converse, as the page; requests do not get it */
    sample_for_conversation(&talk);
    param_json(sample_param_rows, sample_param_count, &talk, json_add_object(root, "chat_generation_settings"));
    add_fields(json_add_object(root, "generation_fields"));
    reply_json(x, 200, root);
}

const route route_models = {.method = "GET", .path = "/v1/models", .handle = handle_models};
const route route_model = {.method = "GET", .path = "/v1/models/{id}", .needs_engine = true, .handle = handle_model};
const route route_health = {.method = "GET",
                            .path = "/health",
                            .also = {"/v1/health", "/ping"},
                            .open_to_all = true,
                            .is_probe = true,
                            .handle = handle_health};
const route route_props = {.method = "GET", .path = "/props", .needs_engine = true, .handle = handle_props};
const route route_version = {.method = "GET", .path = "/version", .handle = handle_version};
