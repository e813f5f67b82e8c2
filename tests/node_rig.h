/* node_rig.h - nodes of this process, reached by real connections. */
#pragma once
#include "cpu/cpu_backend.h"
#include "engine/engine.h"
#include "net/key_file.h"
#include "net/node.h"

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NODES = 3 };

typedef struct nodes {
    node *at[NODES]; /* NULL: dropped */
    char name[NODES][TCP_NAME_MAX], key[256];
    const char *model;
    node_options o;
    pthread_t tidier;
    atomic_bool over;
} nodes;

static inline void *nodes_tidy(void *arg)
{
    nodes *n = arg;
    for (; !atomic_load(&n->over); usleep(2000))
        for (int i = 0; i < NODES; i++)
            if (n->at[i]) node_tidy(n->at[i]);
    return NULL;
}

static inline void nodes_go_on(nodes *n)
{
    atomic_store(&n->over, false);
    assert_int_equal(pthread_create(&n->tidier, NULL, nodes_tidy, n), 0);
}

static inline void nodes_hold(nodes *n)
{
    atomic_store(&n->over, true);
    pthread_join(n->tidier, NULL);
}

/* With a copy of a model (NULL: none), and a folder for weights from leaders (NULL: in memory). */
static inline void nodes_open(nodes *n, const char *path, const char *cache)
{
    static const cpu_options one_thread = {.threads = 1};
    static const backend_use lent[] = {{&cpu_backend, &one_thread}, {0}};
    err e = {0};
    *n = (nodes){.model = path};
    n->o = (node_options){.key_file = n->key,
                          .at = {"127.0.0.1", 0},
                          .backends = lent,
                          .models = &n->model,
                          .n_model = path != NULL,
                          .cache = cache};
    snprintf(n->key, sizeof n->key, "%s", temp_path("node-key"));
    unlink(n->key);
    assert_ok(key_file_write(n->key, &e), &e);
    for (int i = 0; i < NODES; i++) {
        assert_ok(node_open(&n->at[i], &n->o, &e), &e);
        address_print(node_address(n->at[i]), n->name[i]);
    }
    nodes_go_on(n);
}

static inline void nodes_drop(nodes *n, int which)
{
    nodes_hold(n);
    node_close(n->at[which]);
    n->at[which] = NULL;
    nodes_go_on(n);
}

/* Opens one that was dropped, where it was. */
static inline void nodes_return(nodes *n, int which)
{
    node_options o = n->o;
    err e = {0};
    assert_ok(address_parse(&o.at, n->name[which], false, &e), &e);
    nodes_hold(n);
    assert_ok(node_open(&n->at[which], &o, &e), &e);
    nodes_go_on(n);
}

/* Opens all anew, where they were, with what `o` says now. */
static inline void nodes_again(nodes *n)
{
    for (int i = 0; i < NODES; i++) {
        nodes_drop(n, i);
        nodes_return(n, i);
    }
}

/* Waits until leaders that have left have given back what they had: nobody who comes now shares it. */
static inline void nodes_await_end(const nodes *n)
{
    for (int i = 0; i < NODES; i++) {
        node_report r = {.parts = 1};
        for (int k = 0; k < 2000 && n->at[i] && r.parts; k++, usleep(2000)) node_look(n->at[i], &r);
    }
}

static inline void nodes_close(nodes *n)
{
    nodes_hold(n);
    for (int i = 0; i < NODES; i++) node_close(n->at[i]);
    unlink(n->key);
}

/* A list in which "A" to "C" became the nodes' addresses, in a static buffer. */
static inline const char *list_of(const nodes *n, const char *form)
{
    static char to[2000];
    size_t at = 0;
    for (; *form && at + TCP_NAME_MAX < sizeof to; form++)
        if (*form >= 'A' && *form < 'A' + NODES) at += (size_t)sprintf(to + at, "%s", n->name[*form - 'A']);
        else to[at++] = *form;
    to[at] = 0;
    return to;
}

/* Bytes of pages on the node: of device 1 of the list. */
static inline int64_t nodes_page_bytes(engine *g)
{
    err e = {0};
    buf text = {0};
    json *built = json_new_object(), *root;
    assert_ok(engine_plan_json(g, NULL, built, &e), &e);
    assert_true(json_print(&text, built, false));
    assert_ok(json_parse(&root, buf_span(&text), "plan", &e), &e);
    const int64_t n = json_int(json_get(json_at(json_get(root, "ranks"), 1), "kv_bytes"), 0);
    json_free(root);
    json_free(built);
    buf_free(&text);
    return n;
}
