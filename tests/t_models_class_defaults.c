/* t_models_class_defaults.c - a config.json that leaves out what is default in its class means what the class means.
 * tests/vectors/class_defaults.json (tools/oracle/oracle.py defaults) has the whole configuration of every class and
 * the keys that the class does not need; here they are taken away, together and one by one, and every name of [config],
 * class of layers and option of a slot must stay what it was. */
#include "test.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "models/compile/spec_unused.h"
#include "models/compile/module.h"
#include "models/spec/config_eval.h"
#include "models/spec/spec_load.h"

enum { CLASSES_MIN = 97 };

typedef struct opened {
    spec *s;
    config_eval *values;
} opened;

static bool open_family(opened *o, const char *name, const json *config, err *e)
{
    *o = (opened){0};
    config_sources from = {.hf = config, .option = module_option};
    return !spec_load_builtin(&o->s, name, e) && !config_open(&o->values, o->s, &from, e);
}

static void close_family(opened *o)
{
    config_close(o->values);
    spec_free(o->s);
}

/* The default of an option that is called so; "none" where there is none. */
static const char *by_default(const char *name)
{
    for (int type = PARAM_INT; type <= PARAM_BOOL; type++) {
        const param *row = module_option(name, (param_type)type);
        if (row && row->otherwise) return row->otherwise;
    }
    return "none";
}

static void print_value(buf *out, const char *what, const char *name, int layer, int rc, const value *v, const err *e)
{
    buf text = {0};
    if (rc) buf_printf(&text, "error: %s", e->msg);
    else if (v->kind == VALUE_NONE) buf_str(&text, by_default(name));
    else if (!value_print(v, &text)) text.n = 0, buf_str(&text, "object");
    buf_printf(out, "%s@%d = %s\n", what, layer, buf_cstr(&text));
    buf_free(&text);
}

/* Everything that a family's spec says of a configuration, a line each. */
static void describe(const opened *o, buf *out)
{
    const int layers = config_layers(o->values);
    buf_printf(out, "layers@-1 = %d\n", layers);
    for (int layer = OUTSIDE; layer < layers; layer++) {
        for (size_t i = 0; i < o->s->n; i++) {
            const spec_row *r = &o->s->rows[i];
            err e = {0};
            value v;
            if (strcmp(r->section, "config") != 0 || !spec_name_stays(o->s, r->key, true)) continue;
            int rc = config_name(o->values, r->key, layer, &v, &e);
            print_value(out, r->key, r->key, layer, rc, &v, &e);
        }
        for (size_t k = 0; k < o->s->n_class && layer >= 0; k++)
            buf_printf(out, "%s@%d = %d\n", o->s->classes[k].section, layer, config_in_class(o->values, k, layer));
        for (size_t k = 0; k < o->s->n_slot; k++)
            for (size_t i = 0; i < o->s->slots[k].n; i++) {
                const slot_option *p = &o->s->slots[k].options[i];
                const param *row = module_option(p->key, PARAM_WORD);
                char what[200];
                err e = {0};
                value v;
                snprintf(what, sizeof what, "[%s] %s.%s", o->s->slots[k].section, o->s->slots[k].name, p->key);
                int rc = config_value(o->values, p->value, layer, row ? row->words : NULL, what, &v, &e);
                print_value(out, what, p->key, layer, rc, &v, &e);
            }
    }
}

/* What tensors decide is no difference, nor are objects, whose members count. */
static bool is_settled(const char *line, size_t n)
{
    static const char *const words[] = {" = \"auto\"", " = object"};
    for (int i = 0; i < 2; i++)
        if (n > strlen(words[i]) && memcmp(line + n - strlen(words[i]), words[i], strlen(words[i])) == 0) return true;
    return false;
}

/* Prints the first line of every name in which the two differ; how many there are. */
static int compare(const char *class, const char *without, const char *whole, const char *less)
{
    int wrong = 0;
    buf seen = {0};
    while (*whole && *less) {
        size_t n = strcspn(whole, "\n"), m = strcspn(less, "\n"), name = strcspn(whole, "@");
        char word[200];
        snprintf(word, sizeof word, "<%.*s>", (int)name, whole);
        bool same = (n == m && memcmp(whole, less, n) == 0) || is_settled(less, m) || is_settled(whole, n);
        if (!same && !strstr(buf_cstr(&seen), word)) {
            printf("%s without %s: %.*s, in the class %.*s\n", class, without, (int)m, less, (int)(n - name),
                   whole + name);
            buf_str(&seen, word);
            wrong++;
        }
        whole += n + (whole[n] == '\n');
        less += m + (less[m] == '\n');
    }
    buf_free(&seen);
    return wrong;
}

static int check_without(const json *class, const json *less, const char *without, const char *whole)
{
    const char *name = json_str(json_get(class, "name"), "");
    opened o;
    err e = {0};
    buf text = {0};
    int wrong = 0;
    if (open_family(&o, json_str(json_get(class, "spec"), ""), less, &e)) {
        describe(&o, &text);
        wrong = compare(name, without, whole, buf_cstr(&text));
    } else {
        wrong = 1;
        printf("%s without %s: %s\n", name, without, e.msg);
    }
    close_family(&o);
    buf_free(&text);
    return wrong;
}

static bool is_free(const json *class, const char *key)
{
    for (const json *j = json_first(json_get(class, "free")); j; j = json_next(j))
        if (strcmp(json_str(j, ""), key) == 0) return true;
    return false;
}

/* The configuration without `path`, a key or two of them and a dot; NULL: without any that the class does not need. */
static json *config_without(const json *class, const char *path)
{
    json *out = json_new_object();
    size_t n = path ? strcspn(path, ".") : 0;
    for (const json *j = json_first(json_get(class, "config")); j; j = json_next(j)) {
        const char *name = json_key(j);
        bool meant = path ? strlen(name) == n && memcmp(name, path, n) == 0 : is_free(class, name);
        if (!meant) assert_non_null(json_add_copy(out, name, j));
        if (!meant || !path || !path[n]) continue;
        json *object = json_add_object(out, name);
        for (const json *k = json_first(j); k; k = json_next(k))
            if (strcmp(json_key(k), path + n + 1) != 0) assert_non_null(json_add_copy(object, json_key(k), k));
    }
    return out;
}

static int check_class(const json *class)
{
    int wrong;
    opened o;
    err e = {0};
    buf whole = {0};
    json *less = config_without(class, NULL);
    if (!open_family(&o, json_str(json_get(class, "spec"), ""), json_get(class, "config"), &e)) fail_msg("%s", e.msg);
    describe(&o, &whole);
    close_family(&o);
    wrong = check_without(class, less, "defaults", buf_cstr(&whole));
    json_free(less);
    for (const json *j = json_first(json_get(class, "free")); j; j = json_next(j)) {
        less = config_without(class, json_str(j, ""));
        wrong += check_without(class, less, json_str(j, ""), buf_cstr(&whole));
        json_free(less);
    }
    buf_free(&whole);
    return wrong;
}

static void every_class(void **unused)
{
    (void)unused;
    json *all;
    err e = {0};
    int seen = 0, wrong = 0;
    assert_ok(json_read(&all, "tests/vectors/class_defaults.json", 1 << 20, &e), &e);
    for (const json *class = json_first(all); class; class = json_next(class), seen++) wrong += check_class(class);
    json_free(all);
    assert_true(seen >= CLASSES_MIN);
    if (wrong) fail_msg("%d values are not what the class says", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_class)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
