/* model.c - see model.h: finds checkpoint and spec for each other, then builds.
 *
 * A spec names a checkpoint ([model] path), a checkpoint finds a built-in spec (the architecture in its configuration);
 * a command may give either or both. The built-in model is an embedded GGUF file. */
#include "models/model.h"

#include "base/embed.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/stored_find.h"
#include "models/arch.h"
#include "models/compile/build.h"
#include "models/compile/spec_unread.h"
#include "models/compile/wrapped.h"
#include "models/heads.h"
#include "models/spec_show.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX_DEFAULT = 8192, CTX_UNKNOWN = 2048, CTX_MAX = 1 << 24 };

/* Everything one model owns; model is the public part. */
typedef struct opened {
    model m;
    const char *quantized; /* what its configuration says of its quantizer; NULL: nothing */
    config_eval *values;
    json *config; /* what stands in for config.json: that of [model] config, of the text model in a wrapper; or NULL */
    arena mem;
} opened;

int model_weights(ckpt **out, const char *path, err *e)
{
    if (strcmp(path, "builtin") != 0) {
        const int rc = ckpt_open(out, path, e);
        if (rc != ERR_NOT_FOUND || file_exists(path)) return rc;
        if (e) *e = (err){0};
        return err_set(e, rc, "%s: no such folder or file", path);
    }
    span file = embedded_find("builtin.gguf");
    if (!file.p) return err_set(e, ERR_NOT_FOUND, "this build has no built-in model: give --model PATH or --spec FILE");
    return ckpt_open_bytes(out, file, "builtin", e);
}

int model_sources(ckpt **weights, json **config, spec *s, const char *path, err *e)
{
    const char *file = NULL;
    int rc = OK;
    if (!path && !s) path = "builtin";
    if (!path && (rc = spec_path(s, "model", "path", &path, e))) return rc;
    if (!path) return err_set(e, ERR_SPEC, "%s: which model? [model] path is missing (or give --model)", s->file);
    if ((rc = model_weights(weights, path, e))) return rc;
    if (s && (rc = spec_path(s, "model", "config", &file, e))) return rc;
    return file ? json_read(config, file, SPEC_BYTES_MAX, e) : OK;
}

/* The spec inside a self-contained model, or one that came from elsewhere (`what`), or the user's over it. It may not
 * make this program read other files. */
static int foreign_spec(opened *o, const char *text, const char *what, const char *user, err *e)
{
    static const char *const known[] = {"name", "arch", "doc", "code", "quantized"};
    spec_file f;
    int rc = spec_file_parse(&f, span_str(text), what, e);
    if (rc) return rc;
    for (size_t i = 0; i < f.n && !rc; i++) {
        const file_row *r = &f.rows[i];
        bool about = strcmp(r->section, "model") == 0, allowed = !*r->key || !about;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) allowed |= strcmp(r->key, known[k]) == 0;
        if (strcmp(r->section, "runtime") == 0 || strcmp(r->section, "serve") == 0 || strcmp(r->section, "chat") == 0)
            allowed = false;
        if (strcmp(r->section, "tokenizer") == 0 && strcmp(r->key, "path") == 0) allowed = false;
        if (!allowed)
            rc = err_set(e, ERR_SPEC, "%s:%d: [%.20s] %.40s: not in the spec that a model carries", what, r->line,
                         r->section, r->key);
    }
    spec_file_free(&f);
    if (rc) return rc;
    return user ? spec_load_over(&o->m.resolved, user, span_str(text), what, e)
                : spec_parse(&o->m.resolved, span_str(text), what, "", NULL, e);
}

/* Loads the spec over the built-in one of the checkpoint's architecture, if it needs one. */
static int find_spec(opened *o, const model_options *opt, err *e)
{
    model *m = &o->m;
    int rc = OK;
    if (opt->spec_given) {
        m->weights = opt->given;
        if (!m->weights) rc = model_sources(&m->weights, &o->config, NULL, opt->model_path, e);
        return rc ? rc : foreign_spec(o, opt->spec_given, "the spec of the leader", NULL, e);
    }
    if (opt->spec_path) rc = spec_load(&m->resolved, opt->spec_path, NULL, e);
    if (!rc) rc = model_sources(&m->weights, &o->config, m->resolved, opt->model_path, e);
    if (rc || (m->resolved && spec_find(m->resolved, "network", "block"))) return rc;

    char base[64], what[300];
    spec_free(m->resolved);
    m->resolved = NULL;
    snprintf(what, sizeof what, "%.250s: its spec", ckpt_path(m->weights));
    if (ckpt_own_spec(m->weights)) return foreign_spec(o, ckpt_own_spec(m->weights), what, opt->spec_path, e);
    if ((rc = arch_find(m->weights, o->config, base, sizeof base, e))) return rc;
    return opt->spec_path ? spec_load(&m->resolved, opt->spec_path, base, e) : spec_load_builtin(&m->resolved, base, e);
}

static int check_format(const model *m, err *e)
{
    const spec_row *r = spec_find(m->resolved, "model", "format");
    if (!r || strcmp(r->text, ckpt_format(m->weights)) == 0) return OK;
    return err_set(e, ERR_SPEC, "%s: format is %s, but %s is a %s file", r->where, r->text, ckpt_path(m->weights),
                   ckpt_format(m->weights));
}

/* Quantized matrices, by the configuration, or as the leader's spec says. */
static int find_stored(opened *o, err *e)
{
    buf said = {0};
    ckpt *c = o->m.weights;
    int rc = stored_find(c, o->config ? o->config : ckpt_config(c), spec_text(o->m.resolved, "model", "quantized"),
                         &said, e);
    if (!rc && said.n && !(o->quantized = arena_str(&o->mem, buf_cstr(&said)))) rc = err_memory(e, "a model");
    buf_free(&said);
    return rc;
}

/* Goes into the part of the configuration that the spec reads. */
static int enter_root(opened *o, err *e)
{
    const ckpt *c = o->m.weights;
    json *text;
    if (!o->config && ckpt_describes_itself(c)) return OK;
    int rc = wrapped_config(&text, o->m.resolved, o->config ? o->config : ckpt_config(c), e);
    if (rc || !text) return rc;
    json_free(o->config);
    o->config = text;
    return OK;
}

/* ---- what the engine wants to know */

typedef struct runtime_options {
    int64_t ctx;
    const char *weights, *act;
} runtime_options;

static const param runtime_rows[] = {
    {.key = "ctx", .type = PARAM_INT, .offset = offsetof(runtime_options, ctx), .min = 0, .max = CTX_MAX},
    {.key = "weights", .type = PARAM_TEXT, .offset = offsetof(runtime_options, weights)},
    {.key = "act", .type = PARAM_WORD, .words = "f32|q8", .offset = offsetof(runtime_options, act)},
};

/* The type that weights are held in, by the flag or by the spec, which the message names. */
static int read_weights(const model *m, const char *name, dtype *out, err *e)
{
    const spec_row *r = spec_find(m->resolved, "runtime", "weights");
    char where[300] = "--weights";
    if (r && strcmp(r->text, name) == 0) snprintf(where, sizeof where, "%s: [runtime] weights", r->where);
    return weight_type(name, where, out, e);
}

static int read_runtime(const model *m, const model_options *opt, runtime_options *out, err *e)
{
    *out = (runtime_options){0};
    for (size_t i = 0; i < sizeof runtime_rows / sizeof *runtime_rows; i++) {
        const spec_row *r = spec_find(m->resolved, "runtime", runtime_rows[i].key);
        char where[300];
        if (!r) continue;
        snprintf(where, sizeof where, "%s: [runtime] %s", r->where, r->key);
        int rc = param_set(&runtime_rows[i], out, r->text, where, e);
        if (rc) return rc;
    }
    if (opt->ctx) out->ctx = opt->ctx;
    if (opt->weights) out->weights = opt->weights;
    if (opt->act) out->act = opt->act;
    return OK;
}

static int choose_ctx(opened *o, int64_t asked, err *e)
{
    int64_t max;
    int rc = build_number(o->m.resolved, o->values, "positions", 0, &max, e);
    if (rc) return rc;
    if (asked < 0 || asked > CTX_MAX) return err_set(e, ERR_LIMIT, "a context of %lld tokens", (long long)asked);
    if (max && asked > max)
        log_line(LOG_WARN, "a context of %lld tokens; the model was made for %lld", (long long)asked, (long long)max);
    o->m.ctx = asked ? (int)asked : max == 0 ? CTX_UNKNOWN : max < CTX_DEFAULT ? (int)max : CTX_DEFAULT;
    return OK;
}

/* Leaves out ids that the model has no token for: configurations keep defaults of a class and tokens never added. */
static int read_ids(opened *o, const char *key, int32_t *out, int cap, int *n, err *e)
{
    const spec_row *r;
    value v;
    *n = 0;
    int rc = spec_value(o->m.resolved, "generate", key, &r, e);
    if (rc || !r) return rc;
    if ((rc = config_value(o->values, r->value, OUTSIDE, NULL, r->where, &v, e))) return rc;
    for (size_t i = 0, count = value_count(&v); i < count && *n < cap; i++) {
        value item = value_at(&v, i);
        if (item.kind != VALUE_NUMBER || item.number != floor(item.number) || fabs(item.number) > INT32_MAX)
            return err_set(e, ERR_SPEC, "%s: %s is not a token id or a list of them", r->where, key);
        if (item.number >= (double)o->m.prog->vocab)
            log_line(LOG_WARN, "%s: %s %.0f is not in the vocabulary of %lld tokens: ignored (%s)",
                     ckpt_path(o->m.weights), key, item.number, (long long)o->m.prog->vocab, r->where);
        else if (item.number >= 0) out[(*n)++] = (int32_t)item.number;
    }
    return OK;
}

static int read_wraps(opened *o, bool *out, err *e)
{
    const spec_row *r;
    value v = {0};
    int rc = spec_value(o->m.resolved, "generate", "wrap", &r, e);
    if (!rc && r) rc = config_value(o->values, r->value, OUTSIDE, NULL, r->where, &v, e);
    *out = v.number != 0;
    return rc || v.kind == VALUE_NONE || v.kind == VALUE_BOOL
               ? rc
               : err_set(e, ERR_SPEC, "%s: wrap is true or false", r->where);
}

/* "qwen2.5-0.5b" of "/models/qwen2.5-0.5b/", "stories" of "stories.gguf", "ORG/NAME" of a snapshot of the hub. */
static const char *name_of(opened *o, const model_options *opt)
{
    const char *given = spec_text(o->m.resolved, "model", "name"), *path = ckpt_path(o->m.weights);
    if (given) return given;
    if (opt->spec_path && !opt->model_path) path = opt->spec_path;
    char hub[250];
    if (folder_hub_name(path, hub, sizeof hub)) return arena_str(&o->mem, hub);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/') start--;
    static const char *const ends[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ini", ".json"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i]);
        if (n - start > k && strncmp(path + n - k, ends[i], k) == 0) {
            n -= k;
            break;
        }
    }
    return arena_strn(&o->mem, path + start, n - start);
}

/* An error at a line of a built-in spec is about the values it read: the file that holds them is named in front. */
static int name_values(const opened *o, err *e)
{
    char file[80];
    if (!e) return ERR_SPEC;
    snprintf(file, sizeof file, "%.*s", (int)strcspn(e->msg, ":"), e->msg);
    const ckpt *c = o->m.weights;
    if (e->code != ERR_SPEC || !embedded_find(file).p) return e->code;
    const char *other = spec_text(o->m.resolved, "model", "config");
    if (other) return err_wrap(e, "%s", other);
    return ckpt_describes_itself(c) ? err_wrap(e, "%s", ckpt_path(c)) : err_wrap(e, "%s/config.json", ckpt_dir(c));
}

/* Keys that the spec does not read. The spec in a file that this program wrote stands alone. */
static int judge_keys(const opened *o, const char *ignored, err *e)
{
    buf unknown = {0};
    const ckpt *c = o->m.weights;
    const bool own = !o->config && ckpt_describes_itself(c);
    const judged_keys of = {o->config ? o->config : ckpt_config(c), own ? ckpt_source(c) : "hf",
                            own && ckpt_keys_have_arch(c) ? ckpt_arch(c) : NULL};
    if (ckpt_own_spec(c)) return OK;
    int rc = spec_judge_keys(o->m.resolved, &of, ignored, &unknown, e);
    if (rc) err_wrap(e, "%s", ckpt_path(c));
    else if (unknown.n)
        log_line(LOG_WARN, "%s: %s does not read these keys, and no other spec does: %s", ckpt_path(c),
                 o->m.resolved->file, buf_cstr(&unknown));
    buf_free(&unknown);
    return rc;
}

/* The program's identity, with all that its spec says of how texts become tokens. */
static int identify(opened *o, err *e)
{
    buf text = {0};
    int rc = spec_show(o->m.resolved, o->values, NULL, NULL, NULL, &text, e);
    if (!rc) program_identify(o->m.prog, buf_span(&text));
    buf_free(&text);
    return rc;
}

static int fill_model(opened *o, const model_options *opt, err *e)
{
    model *m = &o->m;
    runtime_options run;
    config_sources from;
    int rc = check_format(m, e), n_bos;
    if (!rc) rc = enter_root(o, e);
    if (!rc) rc = find_stored(o, e);
    if (!rc) rc = build_sources(&from, m->weights, o->config, e);
    if (!rc) rc = heads_apply(m->resolved, m->weights, from.hf, e);
    if (!rc) rc = pooling_read(&m->texts, m->weights, e);
    if (!rc) rc = pooling_apply(m->resolved, &m->texts, opt->pooling, opt->normalize, e);
    if (!rc && (rc = config_open(&o->values, m->resolved, &from, e))) return name_values(o, e);
    if (!rc) rc = read_runtime(m, opt, &run, e);
    if (!rc) rc = choose_ctx(o, run.ctx, e);
    if (rc) return rc;
    m->act_f32 = run.act && strcmp(run.act, "f32") == 0;
    build_options build = {.ctx = m->ctx, .act_f32 = m->act_f32, .written = opt->written};
    weight_policy all = {0};
    if (opt->policy || run.weights) build.policy = opt->policy ? opt->policy : &all;
    if (!opt->policy && run.weights && (rc = read_weights(m, run.weights, &all.body, e))) return rc;
    all.head = all.table = all.body;
    m->name = name_of(o, opt);
    m->arch = ckpt_own_spec(m->weights) ? spec_text(m->resolved, "model", "arch") : NULL;
    if (!m->arch) m->arch = arch_name(m->weights, o->config);
    if ((rc = spec_path(m->resolved, "tokenizer", "path", &m->tokenizer_path, e))) return rc;
    m->tokenizer_pre = spec_text(m->resolved, "tokenizer", "pre");
    if (!m->name) return err_memory(e, "a model");
    if ((rc = judge_keys(o, opt->ignored_keys, e))) return rc;
    rc = build_program(&m->prog, m->resolved, o->values, m->weights, &build, e);
    if (rc) return name_values(o, e);
    rc = read_ids(o, "eos", m->eos, (int)(sizeof m->eos / sizeof *m->eos), &m->n_eos, e);
    m->bos = -1;
    if (!rc) rc = read_ids(o, "start", m->start, (int)(sizeof m->start / sizeof *m->start), &m->n_start, e);
    if (!rc) rc = read_wraps(o, &m->wraps, e);
    if (!rc) rc = read_ids(o, "bos", &m->bos, 1, &n_bos, e);
    return rc ? rc : identify(o, e);
}

int model_open(model **out, const model_options *opt, err *e)
{
    opened *o = mem_zero(1, sizeof *o);
    if (!o) {
        ckpt_close(opt->given);
        return err_memory(e, "a model");
    }
    int rc = find_spec(o, opt, e);
    if (!rc) rc = fill_model(o, opt, e);
    if (rc) {
        model_close(&o->m);
        return rc;
    }
    *out = &o->m;
    return OK;
}

config_eval *model_values(const model *m) { return ((const opened *)m)->values; }

/* The whole path of a model; the name of a file stays, also where it is a link: in a cache of the hub it says which
 * part of a model the file is. */
static char *whole_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = file_is_dir(path) ? mem_str(path) : file_dir(path), *real = dir ? realpath(dir, NULL) : NULL;
    char *full = real && !file_is_dir(path) ? file_join(real, slash ? slash + 1 : path) : mem_str(real);
    mem_free(dir);
    free(real);
    return full;
}

int model_spec_text(const model *m, buf *out, err *e)
{
    const opened *o = (const opened *)m;
    const char *path = ckpt_path(m->weights);
    char *full = strcmp(path, "builtin") == 0 ? NULL : whole_path(path);
    bool prefixed = ckpt_describes_itself(m->weights);
    char arch[128];
    snprintf(arch, sizeof arch, "%s%s%s", prefixed ? ckpt_source(m->weights) : "", prefixed ? ":" : "", m->arch);
    int rc = spec_show(m->resolved, o->values, arch, full ? full : path, NULL, out, e);
    mem_free(full);
    return rc;
}

int model_own_spec_text(const model *m, const char *tensors, buf *out, err *e)
{
    const opened *o = (const opened *)m;
    int rc = spec_show(m->resolved, o->values, m->arch, NULL, tensors, out, e);
    if (!rc && !tensors && o->quantized) buf_printf(out, "\n[model]\nquantized = %s\n", o->quantized);
    return rc ? rc : out->bad ? err_memory(e, "a spec") : OK;
}

void model_close(model *m)
{
    if (!m) return;
    opened *o = (opened *)m;
    program_free(m->prog);
    config_close(o->values);
    spec_free(m->resolved);
    ckpt_close(m->weights);
    json_free(o->config);
    arena_free(&o->mem);
    mem_free(o);
}
