/* values.c - see values.h. */
#include "tests/pairs/values.h"

#include "app/flags.h"
#include "engine/engine_params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values by key, where the row does not give them. A blank ends the value; what follows are further flags, without
 * which the value means nothing. "%O": a new file for output. */
static const struct {
    const char *key, *value[COVER_VALUES_MAX];
} tried[] = {
    {"model", {"%V/models/mixtral", "%V/models/t5", "%V/models/lfm2", "%T/packed.safetensors"}},
    {"spec", {"%T/over.ini"}},
    {"tokenizer", {"%T/folder"}},
    {"pre", {"llama3"}},
    {"weights", {"f16", "q8", "q4_b64"}},
    {"devices",
     {"cpu:2", "cpu:1;cpu:1", "cpu:1&cpu:1", "cpu:1*3&cpu:1;cpu:1", "%N/cpu --key-file=%T/key",
      "%N/cpu;cpu:1 --key-file=%T/key"}},
    {"peers", {"%N --key-file=%T/key"}},
    {"key_file", {"%T/key"}},
    {"peer_timeout", {"0.5", "20"}},
    {"peer_wait", {"0", "5"}},
    {"device_timeout", {"60", "900"}},
    {"ctx", {"64", "1000"}},
    {"codec_group", {"32", "4096"}},
    {"threads", {"1", "3"}},
    {"chunk", {"1", "7", "2048"}},
    {"max_batch", {"1", "3"}},
    {"in_flight", {"1", "3"}},
    {"step_sequences", {"1", "2"}},
    {"draft", {"ngram", "builtin"}},
    {"draft_max", {"1", "16"}},
    {"prompt", {"Once\tupon\ta\ttime", ""}},
    {"file", {"%T/text"}},
    {"ids", {"5,6,7", "@%T/ids"}},
    {"decoder_prompt", {"a"}},
    {"decoder_ids", {"0,5"}},
    {"max_tokens", {"0", "5", "70"}},
    {"min_tokens", {"0", "9"}},
    {"beams", {"1", "3"}},
    {"stop", {"e"}},
    {"grammar", {"%T/words.gbnf"}},
    {"json_schema", {"%T/schema.json"}},
    {"system", {"Be\tbrief."}},
    {"chat_template", {"%T/chat.jinja"}},
    {"chat_format", {"hermes"}},
    {"strategy", {"greedy", "fsd", "mirostat", "typical"}},
    {"seed", {"0", "12345"}},
    {"fsd_steps", {"0", "3"}},
    {"fsd_k", {"0", "5"}},
    {"host", {"127.0.0.1", "localhost"}},
    {"port", {"0"}},
    {"alias", {"m"}},
    {"api_key_file", {"%T/api"}},
    {"cors_origin", {"*", "http://a.example"}},
    {"tls_cert", {"%T/cert.pem --tls-key=%T/cert.key"}},
    {"tls_key", {"%T/cert.key --tls-cert=%T/cert.pem"}},
    {"max_body", {"1024", "65536"}},
    {"max_queue", {"1", "100"}},
    {"cache_dir", {"%T/pages"}},
    {"cache_bytes", {"1M", "1G"}},
    {"drain", {"0", "5"}},
    {"head_timeout", {"1", "30"}},
    {"http_threads", {"1", "3"}},
    {"generate", {"0", "2"}},
    {"batch", {"1,2"}},
    {"depth", {"0,16"}},
    {"reps", {"1"}},
    {"layer", {"-1", "0"}},
    {"stride", {"0", "16"}},
    {"listen", {"127.0.0.1:0", "localhost:0"}},
    {"metrics", {"127.0.0.1:0"}},
    {"cache", {"%T/weights"}},
    {"memory", {"1M", "1G"}},
    {"as", {"20,200"}},
};

static char *copied(const char *text)
{
    char *to = strdup(text);
    if (!to) abort(); /* a program of the tests */
    return to;
}

/* A text in which "%T", "%V" and "%N" became names, and tabs blanks. */
static char *written(const char *text, const value_world *w)
{
    char to[9000];
    size_t n = 0;
    for (; *text && n < sizeof to - 4096; text++) {
        const char *name = *text != '%'     ? NULL
                           : text[1] == 'T' ? w->dir
                           : text[1] == 'V' ? w->vectors
                           : text[1] == 'N' ? w->node
                                            : NULL;
        if (name) {
            n += (size_t)snprintf(to + n, sizeof to - n, "%s", name);
            text++;
        } else {
            to[n++] = *text == '\t' ? ' ' : *text;
        }
    }
    to[n] = 0;
    return copied(to);
}

static void add_value(option *o, const char *value, const value_world *w)
{
    char flag[80], all[9000], *rest;
    char **to = o->word[o->n_values];
    if (o->n_values >= COVER_VALUES_MAX) return;
    param_spell(o->row->key, flag);
    snprintf(all, sizeof all, "--%s=%s", flag, value);
    int n = 0;
    for (char *part = strtok_r(all, " ", &rest); part && n + 1 < VALUE_WORDS_MAX; part = strtok_r(NULL, " ", &rest))
        to[n++] = written(part, w);
    to[n] = NULL;
    o->n_values++;
}

static void add_number(option *o, double value, const value_world *w)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    add_value(o, text, w);
}

static bool add_tried(option *o, const value_world *w)
{
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        if (strcmp(tried[i].key, o->row->key) == 0) {
            for (int v = 0; v < COVER_VALUES_MAX && tried[i].value[v]; v++) add_value(o, tried[i].value[v], w);
            return true;
        }
    return false;
}

static void add_values(option *o, const value_world *w)
{
    const param *r = o->row;
    bool number = r->type == PARAM_INT || r->type == PARAM_FLOAT || r->type == PARAM_BYTES;
    o->n_values = 1;
    if (r->path == PATH_OUT) return add_value(o, "%O", w);
    if (param_has_words(r)) {
        char words[400], *rest;
        snprintf(words, sizeof words, "%s", r->words);
        for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) add_value(o, word, w);
    } else if (r->type == PARAM_BOOL) {
        add_value(o, "true", w);
        add_value(o, "false", w);
    } else if (number && !add_tried(o, w)) {
        bool whole = r->type != PARAM_FLOAT, bounds = r->min || r->max, wide = !bounds || r->max > 64;
        double middle = wide ? (whole ? 3 : 0.5) : (r->min + r->max) / 2;
        if (bounds) add_number(o, r->min, w);
        if (middle > r->min && !(whole && !wide)) add_number(o, middle, w);
        if (!wide) add_number(o, r->max, w);
    } else if (!number && !add_tried(o, w)) {
        add_value(o, "x", w);
    }
}

int options_of(option *out, int max, const command *cmd, const char *without, const value_world *w)
{
    const char *title;
    const param *rows;
    size_t n_rows;
    int n = 0;
    for (size_t g = 0; (rows = flags_rows(cmd, g, &n_rows, &title)); g++)
        for (size_t i = 0; i < n_rows && n < max; i++) {
            if ((without && strcmp(title, without) == 0) || strncmp(rows[i].key, "help", 4) == 0) continue;
            out[n] = (option){.row = &rows[i], .of_model = rows == engine_param_rows};
            add_values(&out[n++], w);
        }
    return n;
}

const char *const *option_edges(const option *o)
{
    static const char *const texts[] = {"", "x", "\xff\xfe", "../../..", "/dev/null", NULL};
    static const char *const numbers[] = {"", "x", "-1", "0", "nan", "1e400", "99999999999999999999", "1.5", NULL};
    static const char *const words[] = {"", "x", "on|off", NULL};
    return o->row->type == PARAM_TEXT ? texts : param_has_words(o->row) || o->row->type == PARAM_BOOL ? words : numbers;
}
