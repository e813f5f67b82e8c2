/* cmd_quantize.c - `inferflow quantize`: a model in fewer bits, as one file that is loaded by mapping it.
 *
 * The types of its matrices come from --bits or --format, and a policy over them (models/compile/weight_policy.h). The
 * result is read back before it takes its place. */
#include "app/app.h"
#include "app/checked_file.h"
#include "app/gguf_file.h"
#include "app/quantize_report.h"
#include "app/side_files.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"
#include "base/log.h"
#include "base/span.h"
#include "engine/engine.h"
#include "io/importance.h"
#include "models/export/export.h"
#include "models/export/gguf_names.h"
#include "models/export/quantized.h"
#include "models/spec/spec_load.h"
#include "models/export/gguf_types.h"
#include "tensor/quant.h"
#include "text/tokenizer_equal.h"

#include <stdio.h>
#include <string.h>

typedef struct quantize_flags {
    const char *bits, *format, *policy, *importance, *out;
    int64_t block, threads;
} quantize_flags;

typedef struct quantize_options {
    quantize_flags own;
    engine_options model;
} quantize_options;

static const param rows[] = {
    {"bits", PARAM_WORD, offsetof(quantize_flags, bits), NULL, 0, 0, "2|3|3.5|4|5|6|8", "bits of a weight's code",
     NULL},
    {"block", PARAM_INT, offsetof(quantize_flags, block), NULL, 0, 64, "32|64",
     "weights that share a scale: the Inferflow paper's format of --bits and this block, for all matrices (default: "
     "the best format of --bits)",
     NULL},
    {"format", PARAM_TEXT, offsetof(quantize_flags, format), NULL, 0, 0, "TYPE",
     "type of all matrices, by name; an unknown name lists them", NULL},
    {"policy", PARAM_TEXT, offsetof(quantize_flags, policy), NULL, 0, 0, "FILE",
     "types by weight name: lines 'PATTERN = TYPE'; the last match wins", NULL, PATH_FILE},
    {"importance", PARAM_TEXT, offsetof(quantize_flags, importance), NULL, 0, 0, "FILE",
     "weight of each column in the fit: a file of eval importance, or an imatrix of llama.cpp", NULL, PATH_FILE},
    {"threads", PARAM_INT, offsetof(quantize_flags, threads), "0", 0, 1024, NULL,
     "threads (default: all this process may use)", "t"},
    {"output", PARAM_TEXT, offsetof(quantize_flags, out), NULL, 0, 0, "FILE", "OUT.safetensors or OUT.gguf", "o",
     PATH_OUT},
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Quantization", rows, &n_rows, offsetof(quantize_options, own)}, SOURCE_FLAGS(quantize_options, model), {0}};

enum { POLICY_MAX = 1 << 20 };

/* ---- types */

/* Types by bits: the best known format of about that size, with more bits for the output head and the token table,
 * which are the most sensitive; and the paper's formats by block (table 3 of arXiv 2401.08294). */
typedef struct bits_row {
    const char *bits;
    dtype body, head, table;
    dtype block[2]; /* blocks of 32 and 64; DTYPE_NONE: no such format */
} bits_row;
static const bits_row by_bits[] = {
    {"2", DTYPE_Q2_T, DTYPE_Q6_B64, DTYPE_Q4_B64, {DTYPE_Q2_B32, DTYPE_NONE}},
    {"3", DTYPE_Q3_T, DTYPE_Q6_B64, DTYPE_Q4_B64, {DTYPE_Q3_B32, DTYPE_NONE}},
    {"3.5", DTYPE_Q3H_T, DTYPE_Q6_B64, DTYPE_Q4_B64, {DTYPE_NONE, DTYPE_Q3H_B64}},
    {"4", DTYPE_Q4_T, DTYPE_Q6_B64, DTYPE_Q4_B64, {DTYPE_Q4_B32, DTYPE_Q4_B64}},
    {"5", DTYPE_Q5_B64, DTYPE_Q6_B64, DTYPE_Q5_B64, {DTYPE_NONE, DTYPE_Q5_B64}},
    {"6", DTYPE_Q6_B64, DTYPE_Q6_B64, DTYPE_Q6_B64, {DTYPE_NONE, DTYPE_Q6_B64}},
    {"8", DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0, {DTYPE_Q8_B32, DTYPE_Q8_B64}},
};

/* The same for GGUF. */
static const bits_row by_bits_gguf[] = {
    {.bits = "2", DTYPE_Q2_K, DTYPE_Q6_K, DTYPE_Q4_K},
    {.bits = "3", DTYPE_Q3_K, DTYPE_Q6_K, DTYPE_Q4_K},
    {.bits = "3.5", DTYPE_NONE},
    {.bits = "4", DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q4_K},
    {.bits = "5", DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q5_K},
    {.bits = "6", DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q6_K},
    {.bits = "8", DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0},
};

static bool is_gguf(const quantize_flags *f) { return str_ends(f->out, ".gguf"); }

/* Refuses bits and types that GGUF does not have. */
static int check_gguf(const quantize_flags *f, const weight_policy *p, err *e)
{
    buf can = {0};
    if (f->block) return err_set(e, ERR_USAGE, "--block names formats of the Inferflow paper, which GGUF has not");
    if (!f->bits && !f->format) return OK;
    if (p->body != DTYPE_NONE && dtype_info[p->body].ggml >= 0 && quant_can_encode(p->body)) return OK;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (dtype_is_block((dtype)t) && dtype_info[t].ggml >= 0 && quant_can_encode((dtype)t))
            buf_printf(&can, "%s%s", can.n ? ", " : "", dtype_info[t].name);
    err_set(e, ERR_USAGE, "GGUF has no type for %s %s: there is --format %s; or write OUT.safetensors",
            f->bits ? "--bits" : "--format", f->bits ? f->bits : f->format, buf_cstr(&can));
    buf_free(&can);
    return ERR_USAGE;
}

static int policy_of_bits(const quantize_flags *f, weight_policy *p, err *e)
{
    const bits_row *r = is_gguf(f) ? by_bits_gguf : by_bits;
    while (strcmp(r->bits, f->bits) != 0) r++;
    *p = (weight_policy){.body = r->body, .head = r->head, .table = r->table};
    if (!f->block || is_gguf(f)) return OK;
    if (f->block != 32 && f->block != 64) return err_set(e, ERR_USAGE, "--block %lld: 32 or 64", (long long)f->block);
    p->body = p->head = p->table = r->block[f->block == 64];
    if (p->body != DTYPE_NONE) return OK;
    return err_set(e, ERR_USAGE, "--bits %s has no blocks of %lld, but of %d", f->bits, (long long)f->block,
                   f->block == 64 ? 32 : 64);
}

static int read_policy(const quantize_flags *f, weight_policy *p, err *e)
{
    int rc = OK;
    if (f->bits && f->format) return err_set(e, ERR_USAGE, "give --bits or --format, not both");
    if (f->block && !f->bits) return err_set(e, ERR_USAGE, "--block goes with --bits");
    if (!f->bits && !f->format && !f->policy)
        return err_set(e, ERR_USAGE, "how many bits? --bits 2, 3, 3.5, 4, 5, 6 or 8 (or --format TYPE, --policy FILE)");
    if (f->bits) rc = policy_of_bits(f, p, e);
    if (f->format) rc = weight_type(f->format, "--format", &p->body, e);
    if (f->format) p->head = p->table = p->body;
    if (!rc && is_gguf(f)) rc = check_gguf(f, p, e);
    if (rc || !f->policy) return rc;
    buf text = {0};
    rc = file_read_text(&text, f->policy, POLICY_MAX, e);
    if (!rc) rc = policy_read(p, buf_span(&text), f->policy, e);
    buf_free(&text);
    return rc;
}

/* ---- the file */

/* The tokenizer that goes into the file; *out NULL: none. */
static int open_tokenizer(tokenizer **out, const engine_options *o, err *e)
{
    err why = {0};
    int rc = tokenizer_choose(out, o, &why);
    if (rc == OK) return OK;
    *out = NULL;
    if (o->tokenizer) return err_copy(e, &why);
    log_line(LOG_WARN, "the file will carry no tokenizer that can be used: %s", why.msg);
    return OK;
}

/* Reads the file back: it must be the same model, with the same tokenizer. */
static int check_file(const model *m, const tokenizer *t, const char *path, err *e)
{
    tokenizer *again = NULL;
    const engine_options written = {.model = path};
    int rc = export_check(m, path, e);
    if (!rc && t) rc = tokenizer_choose(&again, &written, e);
    if (!rc && t && !tokenizer_equal(t, again, true))
        rc = err_set(e, ERR_SPEC, "%s: its tokenizer would not be the model's", path);
    tokenizer_close(again);
    return rc;
}

/* Importance by tensor name, and for how many tensors it was found. */
typedef struct known_importance {
    importance *file;
    gguf_names *names;
    int found, missed;
} known_importance;

static fit_importance count_found(known_importance *k, fit_importance found)
{
    k->found += found.value != NULL;
    k->missed += !found.value;
    return found;
}

static fit_importance importance_named(void *self, const char *name, int64_t n, int64_t cols, int64_t parts)
{
    known_importance *k = self;
    return count_found(k, importance_find(k->file, name, n, cols, parts));
}

static fit_importance importance_of(void *self, const weight *w)
{
    known_importance *k = self;
    const char *names[GGUF_NAMES_MAX];
    err unread = {0}; /* then the weight has no name but its own */
    if (gguf_names_of(k->names, w, names, &unread)) names[0] = NULL;
    fit_importance found = importance_find(k->file, w->name, w->rows, w->cols, w->parts);
    for (size_t i = 0; names[i] && !found.value; i++)
        found = importance_find(k->file, names[i], w->rows, w->cols, w->parts);
    return count_found(k, found);
}

static void say_missed(const known_importance *k, const char *path)
{
    if (k->missed)
        log_line(k->found ? LOG_INFO : LOG_WARN, "%s: importance for %d of %d matrices", path, k->found,
                 k->found + k->missed);
}

/* Warns of matrices whose rows the blocks of the wanted type do not divide: they get another type. */
static void say_refitted(const program *p)
{
    int count[DTYPE_COUNT][DTYPE_COUNT] = {{0}};
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        if (!w->vector && w->want != DTYPE_NONE) count[w->want][gguf_type_fitting(w->want, w->cols)]++;
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int got = 0; got < DTYPE_COUNT; got++)
            if (got != t && count[t][got])
                log_line(LOG_WARN, "%d matrices become %s: blocks of %s (%d weights) do not divide their rows",
                         count[t][got], dtype_info[got].name, dtype_info[t].name, dtype_info[t].weights);
}

static int write_gguf_file(const model *m, const quantize_options *o, known_importance *known, const char *out, err *e)
{
    exporter *x;
    int rc = export_open_held(&x, m, e);
    if (rc) return rc;
    say_refitted(m->prog);
    if (known->file) export_weigh(x, importance_named, known);
    rc = gguf_file_write(m, &o->model, x, out, (int)o->own.threads, e);
    export_close(x);
    if (!rc) rc = ckpt_check_torn(m->weights, e);
    return rc ? rc : check_file(m, NULL, out, e);
}

static int write_own_file(const model *m, const quantize_options *o, known_importance *known, const char *out, err *e)
{
    const quantized_options how = {
        .threads = (int)o->own.threads, .importance = known->file ? importance_of : NULL, .self = known};
    tokenizer *t = NULL;
    json *metadata = json_new_object();
    int rc = metadata ? open_tokenizer(&t, &o->model, e) : err_memory(e, NULL);
    if (!rc && o->model.pre) rc = spec_put(m->resolved, "tokenizer", "pre", o->model.pre, e);
    if (!rc) rc = side_files_add(metadata, m, &o->model, e);
    if (!rc) rc = quantized_write(m, metadata, out, &how, e);
    json_free(metadata);
    if (!rc) rc = ckpt_check_torn(m->weights, e);
    if (!rc) rc = check_file(m, t, out, e);
    tokenizer_close(t);
    return rc;
}

static int write_checked(const model *m, const quantize_options *o, known_importance *known, err *e)
{
    char *name = checked_file_name(o->own.out);
    int rc = !name              ? err_memory(e, NULL)
             : is_gguf(&o->own) ? write_gguf_file(m, o, known, name, e)
                                : write_own_file(m, o, known, name, e);
    return checked_file_end(name, o->own.out, rc, e);
}

/* What the weights lost when they were quantized first is lost. */
static void warn_quantized(const model *m)
{
    for (uint32_t i = 0; i < m->prog->n_weight; i++) {
        const dtype type = m->prog->weights[i].pieces[0].type;
        if (dtype_info[type].weights < 2) continue;
        log_line(LOG_WARN, "%s holds weights in %s already: those of the float model give a better file of this size",
                 ckpt_path(m->weights), dtype_info[type].name);
        return;
    }
}

static dtype gguf_type_of(const weight *w)
{
    const dtype held = weight_held_type(w);
    return w->vector || w->want == DTYPE_NONE ? held : gguf_type_fitting(held, w->cols);
}

/* What the file holds. The importance is looked up again, which does not count. */
static int report_plan(const model *m, const quantize_options *o, const known_importance *known, err *e)
{
    known_importance again = *known;
    const quantize_report r = {.prog = m->prog,
                               .type = is_gguf(&o->own) ? gguf_type_of : weight_held_type,
                               .importance = known->file ? importance_of : NULL,
                               .self = &again};
    return quantize_report_print(&r, o->own.out, e);
}

static int run_quantize(const invocation *v, err *e)
{
    const quantize_options *o = v->options;
    weight_policy policy = {0};
    model *m;
    if (!o->own.out) return err_set(e, ERR_USAGE, "where to? -o OUT.safetensors, or -o OUT.gguf");
    if (!str_ends(o->own.out, ".safetensors") && !is_gguf(&o->own))
        return err_set(e, ERR_USAGE, "-o %s: a file that ends in .safetensors or .gguf", o->own.out);
    int rc = read_policy(&o->own, &policy, e);
    const model_options mo = {.spec_path = o->model.spec,
                              .model_path = o->model.model,
                              .policy = &policy,
                              .act = "f32",
                              .written = true,
                              .ignored_keys = o->model.ignore_key};
    if (!rc) rc = model_open(&m, &mo, e);
    if (rc) return policy_free(&policy), rc;
    warn_quantized(m);
    rc = policy_check_used(&policy, e);
    known_importance known = {0};
    if (!rc && o->own.importance) rc = importance_open(&known.file, o->own.importance, e);
    if (!rc && known.file) rc = gguf_names_open(&known.names, m, e);
    if (!rc) rc = write_checked(m, o, &known, e);
    if (!rc) say_missed(&known, o->own.importance);
    if (!rc) rc = report_plan(m, o, &known, e);
    gguf_names_close(known.names);
    importance_close(known.file);
    model_close(m);
    policy_free(&policy);
    return rc;
}

const command command_quantize = {
    .name = "quantize",
    .summary = "write the model in fewer bits, as one file that loads at once",
    .flags = flags,
    .options_size = sizeof(quantize_options),
    .notes = "--bits alone chooses a good format, and more bits for the output head. Lines of a policy:\n"
             "    *.attn.v = q6_b64        names as `plan --dump` prints them, or of tensors; * is any characters\n"
             "    head     = q8_0\n"
             "    embed    = keep          as in the file\n"
             "\n"
             "  inferflow quantize --model ./mistral-7b --bits 3.5 -o mistral-q3h.safetensors\n",
    .run = run_quantize,
};
