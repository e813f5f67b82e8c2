/* flags.c - see flags.h. */
#include "app/flags.h"

#include "app/flag_hints.h"
#include "app/hub_models.h"
#include "app/settings.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const param common_rows[] = {
    PARAM_ROW(common_flags, help, PARAM_BOOL, .alias = "h", .doc = "the flags that many need"),
    PARAM_ROW(common_flags, help_all, PARAM_BOOL, .doc = "all flags"),
    PARAM_ROW(common_flags, log_level, PARAM_WORD, .rare = true, .keeps_bits = true, .words = "error|warn|info|debug",
              .doc = "what goes to standard error (default info)"),
    PARAM_ROW(common_flags, yes, PARAM_BOOL, .rare = true, .keeps_bits = true,
              .doc = "download models of the hub that are not here without asking"),
    PARAM_ROW(common_flags, json, PARAM_BOOL, .doc = "print one JSON object on standard output"),
};
static const size_t common_count = sizeof common_rows / sizeof *common_rows;

/* --json is the last common row, so that commands without it can leave it out. */
static size_t common_rows_of(const command *cmd) { return cmd->prints_json ? common_count : common_count - 1; }

const param *flags_rows(const command *cmd, size_t g, size_t *n, const char **title)
{
    const flag_group *own = cmd->flags;
    size_t i = 0;
    while (own && own[i].title) {
        if (i == g) {
            *n = *own[i].n;
            *title = own[i].title;
            return own[i].rows;
        }
        i++;
    }
    *n = common_rows_of(cmd);
    *title = "General";
    return i == g ? common_rows : NULL;
}

/* The row of a key and the struct it fills. Exact keys only; `short_only`: one-letter aliases. */
static const param *find_row(const invocation *v, common_flags *common, const char *key, bool short_only, void **into)
{
    size_t n;
    const char *title;
    const param *rows;
    for (size_t g = 0; (rows = flags_rows(v->cmd, g, &n, &title)); g++) {
        const param *row = param_find(rows, n, key);
        bool one_letter = row && row->alias && strcmp(row->alias, key) == 0 && !row->alias[1];
        if (!row || (one_letter != short_only)) continue;
        *into = rows == common_rows ? (char *)common : (char *)v->options + v->cmd->flags[g].offset;
        return row;
    }
    return NULL;
}

/* The row of an alias of several letters: "-ngl". */
static const param *find_alias(const invocation *v, common_flags *common, const char *alias, void **into)
{
    const param *row = alias[0] && alias[1] ? find_row(v, common, alias, false, into) : NULL;
    return row && row->alias && !strcmp(row->alias, alias) ? row : NULL;
}

static int unknown_flag(invocation *v, common_flags *common, const char *flag, const char *key, err *e)
{
    const flag_hint *hint = flag_hint_find(flag);
    void *into;
    if (hint && !hint->key) return err_set(e, ERR_USAGE, "%s: unknown flag %.60s (%s)", v->cmd->name, flag, hint->text);
    if (hint && find_row(v, common, hint->key, false, &into))
        return err_set(e, ERR_USAGE, "%s: unknown flag %.60s; did you mean --%s?", v->cmd->name, flag, hint->key);
    size_t n;
    const char *title, *best = NULL;
    const param *rows;
    int best_distance = 99;
    for (size_t g = 0; (rows = flags_rows(v->cmd, g, &n, &title)); g++) {
        const char *near = param_nearest(rows, n, key);
        int d = near ? edit_distance(near, key) : 99;
        if (d < best_distance) {
            best_distance = d;
            best = near;
        }
    }
    if (!best) return err_set(e, ERR_USAGE, "%s: unknown flag %.60s", v->cmd->name, flag);
    char shown[80];
    param_spell(best, shown);
    return err_set(e, ERR_USAGE, "%s: unknown flag %.60s; did you mean %s%s?", v->cmd->name, flag,
                   shown[1] ? "--" : "-", shown);
}

static bool is_switch_word(const char *s)
{
    return s && (!strcmp(s, "on") || !strcmp(s, "off") || !strcmp(s, "true") || !strcmp(s, "false"));
}

/* One flag; *used is how many words it took. */
static int take_flag(invocation *v, common_flags *common, int argc, char **argv, int *used, err *e)
{
    const char *word = argv[0], *value = NULL;
    char key[80], where[84];
    bool is_long = word[1] == '-', negated = false;
    void *into = NULL;
    const param *row;
    *used = 1;
    if (is_long) {
        const char *eq = strchr(word, '=');
        size_t n = eq ? (size_t)(eq - word - 2) : strlen(word + 2);
        snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : (int)sizeof key - 1, word + 2);
        snprintf(where, sizeof where, "--%s", key);
        value = eq ? eq + 1 : NULL;
        row = find_row(v, common, key, false, &into);
        if (!row && (strncmp(key, "no-", 3) == 0 || strncmp(key, "no_", 3) == 0)) {
            row = find_row(v, common, key + 3, false, &into);
            negated = row && row->type == PARAM_BOOL;
            if (!negated) row = NULL;
        }
    } else if ((row = find_alias(v, common, word + 1, &into))) {
        snprintf(where, sizeof where, "%.60s", word);
        is_long = true;
    } else {
        snprintf(key, sizeof key, "%c", word[1]);
        snprintf(where, sizeof where, "-%c", word[1]);
        value = word[2] ? word + 2 : NULL;
        row = find_row(v, common, key, true, &into);
        if (row && row->type == PARAM_BOOL && value) row = NULL; /* "-hx" */
    }
    bool number = row && (row->type == PARAM_INT || row->type == PARAM_FLOAT);
    if (!is_long && word[2] && (flag_hint_find(word) || (number && strspn(word + 2, "+-.0123456789") == 0))) row = NULL;
    if (!row) return unknown_flag(v, common, is_long ? where : word, is_long ? key : word + 1, e);
    if (into != common && v->n_given < GIVEN_MAX) v->given[v->n_given++] = row;
    if (negated) {
        if (value) return err_set(e, ERR_USAGE, "%s: takes no value", where);
        return param_set(row, into, "false", where, e);
    }
    if (row->type == PARAM_BOOL) {
        if (!value && argc > 1 && (is_switch_word(argv[1]) || (row->words && argv[1][0] != '-'))) {
            value = argv[1];
            *used = 2;
        }
        return param_set(row, into, value ? value : "true", where, e);
    }
    if (!value) {
        if (argc < 2) return err_set(e, ERR_USAGE, "%s: needs a value (%s)", where, row->doc);
        value = argv[1];
        *used = 2;
    }
    return param_set(row, into, value, where, e);
}

static void set_defaults(const invocation *v)
{
    for (const flag_group *g = v->cmd->flags; g && g->title; g++)
        param_defaults(g->rows, *g->n, (char *)v->options + g->offset);
}

/* A word too many is the model, for commands that take one and were not told which: `inferflow run DIR`. */
static void take_model_word(invocation *v, common_flags *common)
{
    const command *cmd = v->cmd;
    const char *words = cmd->operands && *cmd->operands == '[' ? cmd->operands + 1
                                                               : NULL; /* "[a|b]": or none of them */
    int at = cmd->operand_max;
    void *into, *of_spec;
    const param *row = find_row(v, common, "model", false, &into),
                *other = find_row(v, common, "spec", false, &of_spec);
    if (!row || row->path != PATH_MODEL || !other) return;
    if (words && v->n_operand == 1 && !strstr(words, v->operand[0]) && file_exists(v->operand[0])) at = 0;
    const char **model = (const char **)((char *)into + row->offset);
    if (v->n_operand != at + 1 || *model || *(const char **)((char *)of_spec + other->offset)) return;
    *model = v->operand[at];
    v->n_operand = at;
}

/* Flags into options, operands to the front of argv. */
static int take_words(invocation *v, common_flags *common, int argc, char **argv, err *e)
{
    v->operand = argv;
    v->n_operand = 0;
    bool flags_over = false;
    for (int i = 0; i < argc;) {
        if (!flags_over && strcmp(argv[i], "--") == 0) {
            flags_over = true;
            i++;
        } else if (!flags_over && argv[i][0] == '-' && argv[i][1]) {
            int used, rc = take_flag(v, common, argc - i, argv + i, &used, e);
            if (rc) return rc;
            i += used;
        } else {
            v->operand[v->n_operand++] = argv[i++];
        }
    }
    take_model_word(v, common);
    return OK;
}

help_wanted flags_help_wanted(int argc, char **words)
{
    for (int i = 0; i < argc && strcmp(words[i], "--") != 0; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) return HELP_COMMON;
        if (strcmp(words[i], "--help-all") == 0 || strcmp(words[i], "--help_all") == 0) return HELP_ALL;
    }
    return HELP_NONE;
}

/* The words again, over the defaults of a model and a spec (NULL: none). Operands are found where the first pass put
 * them. */
static int take_flags_again(invocation *v, int argc, char **words, const char *model, spec *over, err *e)
{
    const char *strategy = settings_strategy(v);
    invocation again = *v;
    common_flags ignored;
    set_defaults(v);
    if (model) settings_of_model(model, v);
    int rc = over ? settings_apply(over, v, e) : OK;
    if (!rc && strategy) rc = settings_of_strategy(v, strategy, e);
    return rc ? rc : take_words(&again, &ignored, argc, words, e);
}

int flags_parse(invocation *v, common_flags *common, int argc, char **argv, spec **over, err *e)
{
    const command *cmd = v->cmd;
    char **words = mem_array((size_t)argc + 1, sizeof *words);
    *common = (common_flags){0};
    if (over) *over = NULL;
    if (!words) return err_memory(e, NULL);
    if (argc) memcpy(words, argv, (size_t)argc * sizeof *words);
    set_defaults(v);
    int rc = take_words(v, common, argc, argv, e);
    const help_wanted help = flags_help_wanted(argc, words);
    if (rc && help) {
        rc = OK;
        common->help = true;
        common->help_all = help == HELP_ALL;
        if (e) *e = (err){0};
    }
    common->help |= common->help_all;
    if (!rc && over && !common->help) rc = hub_models_take(v, common->yes, e);
    if (!rc && over && !common->help) rc = settings_open(over, v, e);
    const char *model = !rc && over && !common->help ? settings_sampled_model(*over, v) : NULL;
    if (!rc && !common->help && (model || settings_strategy(v) || (over && *over))) {
        rc = take_flags_again(v, argc, words, model, over ? *over : NULL, e);
        if (!rc && over) rc = hub_models_take(v, common->yes, e);
    }
    mem_free(words);
    if (rc) return rc;
    v->json = common->json;
    if (common->help) return OK;
    if (v->n_operand > cmd->operand_max)
        return err_set(e, ERR_USAGE, "%s: unexpected word \"%.60s\"; a model is given by -m, a text by -p", cmd->name,
                       v->operand[cmd->operand_max]);
    if (v->n_operand < cmd->operand_min) return err_set(e, ERR_USAGE, "%s: needs %s", cmd->name, cmd->operands);
    return OK;
}

int flags_allow_only(const invocation *v, const char *const *keys, const char *what, err *e)
{
    for (size_t i = 0; i < v->n_given; i++) {
        const char *const *k = keys;
        char shown[80];
        while (*k && strcmp(*k, v->given[i]->key) != 0) k++;
        if (!*k) return err_set(e, ERR_USAGE, "--%s means nothing to %s", param_spell(v->given[i]->key, shown), what);
    }
    return OK;
}

/* The rows from `at` on that stand under one heading. */
static size_t count_under_heading(const param *rows, size_t n, size_t at)
{
    size_t to = at + 1;
    while (to < n && !rows[to].heading) to++;
    return to - at;
}

bool flags_help(const command *cmd, bool all, int width, buf *out)
{
    buf text = {0};
    buf_printf(&text, "%s\n\nusage: inferflow %s%s%s [flags]\n", cmd->summary, cmd->name, cmd->operands ? " " : "",
               cmd->operands ? cmd->operands : "");
    param_wrap(buf_cstr(&text), width, out);
    text.n = 0;
    size_t n, left = 0;
    const char *title;
    const param *rows;
    for (size_t g = 0; (rows = flags_rows(cmd, g, &n, &title)); g++)
        for (size_t at = 0, some; at < n; at += some) {
            const size_t before = out->n;
            buf_printf(out, "\n%s:\n", rows[at].heading ? rows[at].heading : title);
            some = count_under_heading(rows, n, at);
            const size_t without = param_help(&rows[at], some, all, width, out);
            if (without == some) out->n = before;
            left += without;
        }
    if (left) buf_printf(&text, "\n`inferflow %s --help-all` lists %zu more flags.\n", cmd->name, left);
    if (cmd->notes) buf_printf(&text, "\n%s", cmd->notes);
    param_wrap(buf_cstr(&text), width, out);
    out->bad |= text.bad;
    buf_free(&text);
    return !out->bad;
}
