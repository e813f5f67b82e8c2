/* t_net_pieces.c - weights of ranks on nodes: a node's own copy is used if its tensors hold what the leader's hold; a
 * node without one fetches what its rank reads, keeps it, and gives the same bits. */
#include "copied_model.h"
#include "base/hash_tree.h"
#include "base/rng.h"
#include "models/model.h"
#include "net/piece_proof.h"
#include "net/supply.h"
#include "node_rig.h"
#include "rows_rig.h"

static const char copy_dir[] = "build/t_net_pieces.copy", cache_dir[] = "build/t_net_pieces.cache";

static int open_over(engine **g, const nodes *n, const char *path, const char *form, err *e)
{
    const engine_options o = {
        .model = path, .devices = list_of(n, form), .threads = 1, .ctx = IDS_MAX, .key_file = n->key};
    return engine_open(g, &o, e);
}

/* False: the model does not go with these devices, or has no logits. */
static bool gives_same_bits(const nodes *n, const char *path, const char *form, const char *weights)
{
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11, 12, 3, 4, 20, 30};
    const query q = {.ids = ids, .n_ids = 12, .enc_ids = ids, .n_enc = 12};
    engine_options o = {.model = strcmp(path, "builtin") ? path : NULL, .devices = "cpu", .weights = weights};
    buf want = {0}, got = {0};
    bool there = add_logits_over(o, q, &want);
    o.devices = list_of(n, form);
    o.key_file = n->key;
    there = there && add_logits_over(o, q, &got);
    nodes_await_end(n);
    if (there && !same_bytes(&want, &got)) fail_msg("%s: other logits on %s", path, form);
    buf_free(&want);
    buf_free(&got);
    return there;
}

/* ---- a node's own copy */

static void other_contents_are_refused(void **unused)
{
    (void)unused;
    static const char changed[] = "model.layers.1.mlp.up_proj.weight";
    err e = {0};
    engine *g = NULL;
    nodes n;
    drop_folder(copy_dir);
    write_model(copy_dir, &(layout){.shards = 2, .other_byte = changed});
    nodes_open(&n, copy_dir, NULL);
    assert_ok(open_over(&g, &n, model_source, "A/cpu;cpu", &e), &e); /* layer 0 is there */
    engine_close(g);
    assert_int_equal(open_over(&g, &n, model_source, "cpu;B/cpu", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "127.0.0.1:"));
    assert_non_null(strstr(e.msg, "has other contents of tensor 'model.layers.1.mlp.up_proj.weight'"));
    nodes_close(&n);
    drop_folder(copy_dir);
}

/* Every family, transposed and fused matrices among them. */
static void no_copy_is_needed(void **unused)
{
    (void)unused;
    static const char *const form[] = {"A/cpu&B/cpu", "A/cpu;B/cpu", "cpu&A/cpu;B/cpu", "A/cpu*3&B/cpu"};
    int done = 0, turn = 0;
    nodes n;
    DIR *d = opendir("tests/vectors/models");
    assert_non_null(d);
    nodes_open(&n, NULL, NULL);
    for (struct dirent *f; (f = readdir(d));) {
        char path[400];
        if (f->d_name[0] == '.' || strchr(f->d_name, '.') == f->d_name) continue;
        snprintf(path, sizeof path, "tests/vectors/models/%s", f->d_name);
        if (file_is_dir(path)) done += gives_same_bits(&n, path, form[turn++ % 4], NULL);
    }
    closedir(d);
    nodes_close(&n);
    assert_true(done >= 100);
}

/* Bytes that the leader sends while a model is opened. */
static uint64_t fetched_by(const nodes *n, const char *path, const char *form)
{
    const uint64_t before = supply_bytes();
    err e = {0};
    engine *g;
    assert_ok(open_over(&g, n, path, form, &e), &e);
    engine_close(g);
    nodes_await_end(n);
    return supply_bytes() - before;
}

static uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* Cuts off, or changes, what the cache has of a model. */
static void hurt(const char *ending, long cut, long flip)
{
    DIR *d = opendir(cache_dir);
    for (const struct dirent *f; d && (f = readdir(d));) {
        if (!str_ends(f->d_name, ending)) continue;
        char path[400];
        snprintf(path, sizeof path, "%s/%s", cache_dir, f->d_name);
        if (cut) assert_int_equal(truncate(path, (long)file_size(path) - cut), 0);
        if (!flip) continue;
        FILE *out = fopen(path, "r+b");
        int byte = (fseek(out, flip, SEEK_SET), fgetc(out));
        fseek(out, flip, SEEK_SET);
        fputc(byte ^ 1, out);
        fclose(out);
    }
    if (d) closedir(d);
}

static void cache_is_kept(void **unused)
{
    (void)unused;
    nodes n;
    drop_folder(cache_dir);
    nodes_open(&n, NULL, cache_dir);
    const uint64_t part = fetched_by(&n, model_source, "A/cpu;cpu");
    ckpt *c;
    err e = {0};
    uint64_t layer = 0;
    assert_ok(ckpt_open(&c, model_source, &e), &e);
    for (uint32_t i = 0; i < ckpt_count(c); i++)
        if (strstr(ckpt_at(c, i)->name, "layers.0.")) layer += ckpt_at(c, i)->bytes;
    ckpt_close(c);
    assert_true(part >= layer && part <= layer + layer / 50 + 4096);
    assert_int_equal(fetched_by(&n, model_source, "A/cpu;cpu"), 0);
    assert_true(gives_same_bits(&n, model_source, "A/cpu;B/cpu", NULL)); /* the other layer too */
    assert_int_equal(fetched_by(&n, model_source, "A/cpu;B/cpu"), 0);
    hurt(".tensors", 0, 5000);
    const uint64_t again = fetched_by(&n, model_source, "A/cpu;B/cpu");
    assert_true(again > 0 && again <= part + 4096);
    assert_int_equal(fetched_by(&n, model_source, "A/cpu;B/cpu"), 0);
    assert_true(gives_same_bits(&n, model_source, "A/cpu;B/cpu", NULL));
    nodes_close(&n);
    drop_folder(cache_dir);
}

/* The same model in one file, in shards, and with its tensors in another order has one place in the cache: what one of
 * them brought the others use, after one another and at once. */
static void order_of_files_does_not_matter(void **unused)
{
    (void)unused;
    static const layout forms[] = {
        {.shards = 1}, {.shards = 3}, {.shards = 2, .turned = true}, {.shards = 1, .turned = true}};
    enum { FORMS = sizeof forms / sizeof *forms };
    char dir[FORMS][64];
    engine *g[FORMS];
    err e = {0};
    nodes n;
    drop_folder(cache_dir);
    nodes_open(&n, NULL, cache_dir);
    for (int i = 0; i < FORMS; i++) {
        snprintf(dir[i], sizeof dir[i], "%s.%d", copy_dir, i);
        drop_folder(dir[i]);
        write_model(dir[i], &forms[i]);
        const uint64_t bytes = fetched_by(&n, dir[i], "A/cpu;B/cpu");
        if ((i == 0) != (bytes > 0)) fail_msg("form %d: %llu bytes fetched", i, (unsigned long long)bytes);
        assert_true(gives_same_bits(&n, dir[i], "A/cpu;B/cpu", NULL));
    }
    drop_folder(cache_dir);
    for (int i = 0; i < FORMS; i++) assert_ok(open_over(&g[i], &n, dir[i], "A/cpu;B/cpu", &e), &e);
    for (int i = 0; i < FORMS; i++) assert_true(gives_same_bits(&n, dir[i], "A/cpu;B/cpu", NULL));
    for (int i = 0; i < FORMS; i++) {
        engine_close(g[i]);
        drop_folder(dir[i]);
    }
    nodes_close(&n);
    drop_folder(cache_dir);
}

/* The list of a model's tensors, as its leader sends it. */
static void list_of_model(const model *m, buf *text, uint32_t *order, catalogue *told)
{
    err e = {0};
    contents_roots held;
    assert_ok(contents_roots_some(&held, m->weights, NULL, NULL, 0, 1, &e), &e);
    assert_true(catalogue_write(text, order, m->weights, &held, m->prog));
    assert_ok(catalogue_read(told, buf_span(text), &e), &e);
    contents_roots_free(&held);
}

static uint64_t listed_bytes(const void *ctx, uint32_t i) { return ((const catalogue *)ctx)->tensor[i].t.bytes; }

/* Any part of any tensor comes with what shows that it is the leader's: a leader that sends another byte is refused,
 * before anything of it reaches the cache, and no answer but the right one is believed. */
static void parts_prove_whose_they_are(void **unused)
{
    (void)unused;
    static piece_ask a;
    static uint8_t proof[PROOF_MAX], room[TREE_BYTES], bytes[PIECE_BYTES];
    buf text = {0};
    catalogue told;
    model *m;
    err e = {0};
    assert_ok(model_open(&m, &(model_options){.model_path = "builtin"}, &e), &e);
    uint32_t *order = mem_array(ckpt_count(m->weights), sizeof *order);
    list_of_model(m, &text, order, &told);
    for (uint32_t turn = 0; turn < 400; turn++) {
        a.n = a.bytes = 0;
        const uint32_t first = (uint32_t)(rng_bits(1, turn, 0) % told.n), stride = turn % 3;
        for (uint32_t i = 0; i < 1 + turn % 40; i++) {
            const uint32_t k = (first + i * stride) % told.n;
            const uint64_t all = told.tensor[k].t.bytes, at = rng_bits(2, turn, i) % all;
            uint64_t n = 1 + rng_bits(3, turn, i) % (turn % 2 ? 3000 : 90);
            if (n > all - at) n = all - at;
            if (n > TREE_BYTES - at % TREE_BYTES) n = TREE_BYTES - at % TREE_BYTES;
            a.run[a.n++] = (byte_run){k, at, n};
            a.bytes += (uint32_t)n;
        }
        assert_true(piece_proof_fits(&a));
        const uint32_t size = piece_proof_bytes(&a, listed_bytes, &told);
        assert_true(size <= sizeof proof);
        piece_prove(&a, m->weights, order, proof);
        assert_ok(piece_proof_check(&a, &told, span_of(proof, size), room, bytes, &e), &e);
        const uint8_t *got = bytes;
        for (uint32_t i = 0; i < a.n; got += a.run[i++].n)
            assert_memory_equal(got, ckpt_at(m->weights, order[a.run[i].entry])->data + a.run[i].at, a.run[i].n);
        const uint32_t at = (uint32_t)(rng_bits(4, turn, 0) % size);
        proof[at] ^= 1;
        assert_int_equal(piece_proof_check(&a, &told, span_of(proof, size), room, bytes, &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, "that the leader sent are not those of its list"));
        proof[at] ^= 1;
        assert_int_equal(piece_proof_check(&a, &told, span_of(proof, size - 1), room, bytes, &e), ERR_FORMAT);
        assert_int_equal(piece_proof_check(&a, &told, span_of(proof, size + 1), room, bytes, &e), ERR_FORMAT);
    }
    mem_free(order);
    catalogue_free(&told);
    buf_free(&text);
    model_close(m);
}

/* What a list says of names, shapes or bytes is in its identity, and so in the name of what is kept. */
static void lists_have_their_identity(void **unused)
{
    (void)unused;
    buf text = {0};
    catalogue told, other;
    model *m;
    err e = {0};
    assert_ok(model_open(&m, &(model_options){.model_path = model_source}, &e), &e);
    uint32_t *order = mem_array(ckpt_count(m->weights), sizeof *order);
    list_of_model(m, &text, order, &told);
    for (size_t i = 4; i < text.n; i += 1 + text.n / 500) {
        text.p[i] ^= 1;
        e = (err){0};
        if (catalogue_read(&other, buf_span(&text), &e) == OK) {
            assert_memory_not_equal(other.identity, told.identity, SHA256_BYTES);
            catalogue_free(&other);
        }
        text.p[i] ^= 1;
    }
    catalogue_free(&told);
    mem_free(order);
    buf_free(&text);
    model_close(m);
}

static int files_in_cache(void)
{
    int n = 0;
    DIR *d = opendir(cache_dir);
    for (const struct dirent *f; d && (f = readdir(d));) n += strstr(f->d_name, ".tensors") != NULL;
    if (d) closedir(d);
    return n;
}

/* Models that nobody has open go, the one that was used least recently first; one that does not fit is refused. */
static void the_cache_is_bounded(void **unused)
{
    (void)unused;
    static const char *const models[] = {"tests/vectors/models/llama", "tests/vectors/models/qwen2",
                                         "tests/vectors/models/gemma"};
    uint64_t bytes[3];
    engine *g;
    err e = {0};
    nodes n;
    drop_folder(cache_dir);
    nodes_open(&n, NULL, cache_dir);
    for (int i = 0; i < 3; i++) bytes[i] = fetched_by(&n, models[i], "A/cpu");
    assert_int_equal(files_in_cache(), 3);
    FILE *old = fopen("build/t_net_pieces.cache/0123456789abcdef0123456789abcdef.tensors", "w"); /* an old form */
    assert_non_null(old);
    fclose(old);
    n.o.cache_bytes = bytes[0] + bytes[1] + 4096;
    nodes_again(&n);
    drop_folder(cache_dir);
    for (int i = 0; i < 3; i++) assert_true(fetched_by(&n, models[i], "A/cpu") > 0);
    assert_true(files_in_cache() < 3);
    assert_int_equal(fetched_by(&n, models[2], "A/cpu"), 0); /* the last one is there */
    assert_true(fetched_by(&n, models[0], "A/cpu") > 0);     /* the first one went */
    n.o.cache_bytes = bytes[0] / 2;
    nodes_again(&n);
    drop_folder(cache_dir);
    assert_int_equal(open_over(&g, &n, models[0], "A/cpu", &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "--cache-bytes"));
    nodes_close(&n);
    drop_folder(cache_dir);
}

/* The built-in model, for nodes that have another one: of blocks of four bits, in several pieces. */
static void packed_files_are_cut(void **unused)
{
    (void)unused;
    static const char *const types[] = {"q8_0", "q4", "f16"};
    nodes n;
    drop_folder(cache_dir);
    nodes_open(&n, model_source, cache_dir);
    const uint64_t layers = fetched_by(&n, "builtin", "A/cpu;cpu") + fetched_by(&n, "builtin", "cpu;B/cpu");
    assert_true(layers > 3 << 20);
    hurt(".journal", 3, 0); /* as after the end of a process in between */
    const uint64_t again = fetched_by(&n, "builtin", "A/cpu;B/cpu");
    assert_true(again > 0 && again <= 2 << 20);
    assert_int_equal(fetched_by(&n, "builtin", "A/cpu;B/cpu"), 0);
    assert_true(gives_same_bits(&n, "builtin", "A/cpu;B/cpu", NULL));
    drop_folder(cache_dir);
    const uint64_t ranks = fetched_by(&n, "builtin", "A/cpu&B/cpu");
    if ((double)ranks > 1.02 * (double)layers + (1 << 20)) fail_msg("%f of the layers", (double)ranks / (double)layers);
    for (int i = 0; i < 3; i++) assert_true(gives_same_bits(&n, "builtin", "A/cpu&B/cpu", types[i]));
    nodes_close(&n);
    drop_folder(cache_dir);
}

static void nothing_is_fetched_beside_copies(void **unused)
{
    (void)unused;
    err e = {0};
    engine *g = NULL;
    nodes n;
    nodes_open(&n, model_source, NULL);
    assert_int_equal(open_over(&g, &n, "builtin", "A/cpu", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "no copy of this model"));
    nodes_close(&n);
}

static uint64_t thousand(const void *ctx, uint32_t i)
{
    (void)ctx;
    return 1000 + i;
}

static void hostile_asks_are_refused(void **unused)
{
    (void)unused;
    static const byte_run bad[] = {{3, 0, 1},          {0, 1001, 1}, {0, 0, 1001},
                                   {0, UINT64_MAX, 2}, {0, 1, 0},    {1, 0, UINT32_MAX}};
    static piece_ask a, back;
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        buf b = {0};
        a = (piece_ask){.n = 1, .run = {i ? bad[i - 1] : (byte_run){2, 2, 1000}}};
        assert_true(piece_ask_write(&b, &a));
        cursor c = cursor_of(buf_span(&b));
        assert_int_equal(piece_ask_read(&back, &c, 3, thousand, NULL, NULL), i ? ERR_FORMAT : OK);
        buf_free(&b);
    }
}

int main(void)
{
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_contents_are_refused),
                                       cmocka_unit_test(no_copy_is_needed),
                                       cmocka_unit_test(nothing_is_fetched_beside_copies),
                                       cmocka_unit_test(packed_files_are_cut),
                                       cmocka_unit_test(cache_is_kept),
                                       cmocka_unit_test(order_of_files_does_not_matter),
                                       cmocka_unit_test(parts_prove_whose_they_are),
                                       cmocka_unit_test(lists_have_their_identity),
                                       cmocka_unit_test(the_cache_is_bounded),
                                       cmocka_unit_test(hostile_asks_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
