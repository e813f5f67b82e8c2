/* t_pieces.c - weights of ranks on nodes: a node's own copy is used if its tensors hold what the leader's hold. */
#include "base/clock.h"
#include "copied_model.h"
#include "cpu/cpu_backend.h"
#include "net/key_file.h"
#include "net/node.h"
#include "engine/evaluate.h"
#include "rows_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static const char key_path[] = "build/t_pieces.key", copy_dir[] = "build/t_pieces.copy";
static const cpu_options one_thread = {.threads = 1};
static const backend_use lent[] = {{&cpu_backend, &one_thread}, {0}};

/* Up to two nodes in this process. */
typedef struct nodes {
    node *at[2];
    pthread_t tidier;
    atomic_bool over;
} nodes;

static void *tidy(void *arg)
{
    nodes *n = arg;
    while (!atomic_load(&n->over)) {
        for (int i = 0; i < 2; i++) node_tidy(n->at[i]);
        usleep(2000);
    }
    return NULL;
}

static void open_nodes(nodes *n, const node_options *o)
{
    err e = {0};
    *n = (nodes){.over = false};
    for (int i = 0; i < 2; i++) assert_ok(node_open(&n->at[i], o, &e), &e);
    assert_int_equal(pthread_create(&n->tidier, NULL, tidy, n), 0);
}

static void close_nodes(nodes *n)
{
    atomic_store(&n->over, true);
    pthread_join(n->tidier, NULL);
    for (int i = 0; i < 2; i++) node_close(n->at[i]);
}

/* "A" and "B" in a list become the nodes' addresses. */
static const char *list_of(const nodes *n, const char *form)
{
    static char to[2000];
    size_t at = 0;
    for (; *form; form++) {
        if (*form == 'A' || *form == 'B')
            address_print(node_address(n->at[*form - 'A']), to + at), at += strlen(to + at);
        else to[at++] = *form;
    }
    to[at] = 0;
    return to;
}

static int open_over(engine **g, const nodes *n, const char *path, const char *form, err *e)
{
    const engine_options o = {
        .model = path, .devices = list_of(n, form), .threads = 1, .ctx = IDS_MAX, .key_file = key_path};
    return engine_open(g, &o, e);
}

/* ---- a node's own copy */

static void other_contents_are_refused(void **unused)
{
    (void)unused;
    static const char changed[] = "model.layers.1.mlp.up_proj.weight";
    const char *paths[] = {copy_dir};
    const node_options o = {
        .key_file = key_path, .at = {"127.0.0.1", 0}, .backends = lent, .models = paths, .n_model = 1};
    err e = {0};
    engine *g = NULL;
    nodes n;
    drop_folder(copy_dir);
    write_model(copy_dir, &(layout){.shards = 2, .other_byte = changed});
    open_nodes(&n, &o);
    assert_ok(open_over(&g, &n, model_source, "A/cpu;cpu", &e), &e); /* layer 0 is there */
    engine_close(g);
    assert_int_equal(open_over(&g, &n, model_source, "cpu;B/cpu", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "127.0.0.1:"));
    assert_non_null(strstr(e.msg, "has other contents of tensor 'model.layers.1.mlp.up_proj.weight'"));
    close_nodes(&n);
    drop_folder(copy_dir);
}

int main(void)
{
    err e = {0};
    unlink(key_path);
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    if (key_file_write(key_path, &e)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_contents_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
