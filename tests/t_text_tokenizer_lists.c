/* t_text_tokenizer_lists.c - goes over the lists of src/text: patterns, classes, types of steps in tokenizer.json. */
#include "test.h"

#include "base/json.h"
#include "text/load_class.h"
#include "text/load_hf_steps.h"
#include "text/tk_patterns.h"
#include "text/tk_regex.h"
#include "text/tokenizer_build.h"

/* Every pattern compiles as both libraries have it, and is found by its name. */
static void patterns(void **unused)
{
    (void)unused;
    for (const pattern_row *r = pattern_rows; r->name; r++) {
        assert_ptr_equal(pattern_find(r->name), r);
        assert_non_null(r->step[0]);
        for (int i = 0; i < PATTERN_STEPS_MAX && r->step[i]; i++)
            for (int fancy = 0; fancy < 2; fancy++) {
                err e = {0};
                regex *x = NULL;
                int rc = regex_compile(&x, span_str(r->step[i]), fancy ? REGEX_FANCY : REGEX_ONIGURUMA, &e);
                if (rc) fail_msg("%s: %s", r->name, e.msg);
                regex_free(x);
            }
    }
    for (const char *const *name = pattern_names; *name; name++) assert_non_null(pattern_find(*name));
}

static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

/* Every name leads to its row; patterns exist, languages have a default; a pair's frame mentions both texts. */
static void classes(void **unused)
{
    (void)unused;
    for (const tokenizer_class *c = class_rows; c->names; c++) {
        char names[800], *at = names;
        snprintf(names, sizeof names, "%s", c->names);
        for (char *name = strsep(&at, " "); name; name = strsep(&at, " ")) {
            char text[200];
            tokenizer_config config = {0};
            snprintf(text, sizeof text, "{\"tokenizer_class\":\"%s%s\"}", name, *name ? "Fast" : "");
            assert_int_equal(json_parse(&config.config, span_str(text), "config", NULL), OK);
            assert_ptr_equal(class_find(&config, c->files), c);
            tokenizer_config_free(&config);
        }
        assert_int_equal(c->files == BARE_BYTE_BPE, c->pattern != NULL);
        assert_true(!c->pattern || pattern_find(c->pattern));
        assert_true(!c->languages || listed(c->languages, c->source));
        assert_true(!c->one == !c->two && (!c->one || (strstr(c->one, "$A") && strstr(c->two, "$B"))));
    }
}

typedef int (*reader)(tokenizer *t, const json *j, const char *path, err *e);

/* Every type is known by its name, and needs no more than its name or says what is missing. */
static void steps(void **unused)
{
    static const struct {
        const hf_step_row *rows;
        reader read;
    } lists[] = {{hf_normalizer_rows, hf_read_normalizer},
                 {hf_pretokenizer_rows, hf_read_pretokenizer},
                 {hf_postprocessor_rows, hf_read_postprocessor},
                 {hf_decoder_rows, hf_read_decoder}};
    (void)unused;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const hf_step_row *r = lists[i].rows;; r++) {
            char text[100];
            err e = {0};
            json *j;
            tokenizer *t = tokenizer_new();
            snprintf(text, sizeof text, "{\"type\":\"%s\"}", r->type ? r->type : "Unheard");
            assert_ok(json_parse(&j, span_str(text), "step", &e), &e);
            int rc = lists[i].read(t, j, "step", &e);
            assert_true(rc == OK || rc == ERR_FORMAT);
            assert_int_equal(rc && strstr(e.msg, "is not supported"), !r->type);
            json_free(j);
            tokenizer_close(t);
            if (!r->type) break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(classes), cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
