/* fuzz_spec.c - spec texts: read, evaluated, built against a small checkpoint. What opens prints to a resolved spec
 * that opens to the same program. */
#include "base/mem.h"
#include "models/compile/build.h"
#include "models/spec_show.h"
#include "models/spec/spec_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char config_text[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2,"
    "\"num_key_value_heads\": 1, \"intermediate_size\": 12, \"vocab_size\": 10, \"max_position_embeddings\": 32,"
    "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"layer_types\": [\"a\", \"b\"], \"list\": [1, 2.5]}";

/* A safetensors file of a Llama of two layers, all zeros. */
static ckpt *make_checkpoint(void)
{
    static const struct {
        const char *name;
        int layers, rows, cols;
    } part[] = {{"model.embed_tokens.weight", 0, 10, 8},
                {"model.layers.%d.input_layernorm.weight", 2, 8, 0},
                {"model.layers.%d.self_attn.q_proj.weight", 2, 8, 8},
                {"model.layers.%d.self_attn.k_proj.weight", 2, 4, 8},
                {"model.layers.%d.self_attn.v_proj.weight", 2, 4, 8},
                {"model.layers.%d.self_attn.o_proj.weight", 2, 8, 8},
                {"model.layers.%d.post_attention_layernorm.weight", 2, 8, 0},
                {"model.layers.%d.mlp.gate_proj.weight", 2, 12, 8},
                {"model.layers.%d.mlp.up_proj.weight", 2, 12, 8},
                {"model.layers.%d.mlp.down_proj.weight", 2, 8, 12},
                {"model.norm.weight", 0, 8, 0}};
    static buf file;
    buf head = {0};
    size_t at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (int l = 0; l < (part[i].layers ? part[i].layers : 1); l++) {
            char name[80], dims[32];
            size_t bytes = 4 * (size_t)part[i].rows * (size_t)(part[i].cols ? part[i].cols : 1);
            snprintf(name, sizeof name, "%s", part[i].name);
            char *mark = strstr(name, "%d");
            if (mark) mark[0] = (char)('0' + l), memmove(mark + 1, mark + 2, strlen(mark + 2) + 1);
            snprintf(dims, sizeof dims, part[i].cols ? "[%d, %d]" : "[%d]", part[i].rows, part[i].cols);
            buf_printf(&head, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}",
                       at ? "," : "{", name, dims, at, at + bytes);
            at += bytes;
        }
    buf_str(&head, "}");
    while (head.n % 8) buf_byte(&head, ' ');
    buf_uint(&file, head.n, 8);
    buf_add(&file, head.p, head.n);
    while (at--) buf_byte(&file, 0);
    buf_free(&head);
    ckpt *c;
    err e = {0};
    if (ckpt_open_bytes(&c, buf_span(&file), "zeros", &e)) {
        fprintf(stderr, "%s\n", e.msg);
        abort();
    }
    return c;
}

typedef struct opened {
    spec *s;
    config_eval *values;
    program *p;
} opened;

static void drop(opened *o)
{
    program_free(o->p);
    config_close(o->values);
    spec_free(o->s);
}

static int open_text(opened *o, span text, ckpt *c, const json *config, err *e)
{
    config_sources from;
    *o = (opened){0};
    int rc = spec_parse(&o->s, text, "fuzz.ini", "", "llama", e);
    if (rc) return o->s = NULL, rc;
    rc = build_sources(&from, c, config, e);
    if (!rc) rc = config_open(&o->values, o->s, &from, e);
    if (rc) return o->values = NULL, rc;
    rc = build_program(&o->p, o->s, o->values, c, &(build_options){.ctx = 16}, e);
    if (rc) o->p = NULL;
    return rc;
}

/* Expressions of every name at a few layers, whether or not the whole makes a model. */
static void evaluate_all(opened *o)
{
    for (size_t i = 0; o->values && i < o->s->n; i++)
        for (int layer = OUTSIDE; layer < 2 && strcmp(o->s->rows[i].section, "config") == 0; layer++) {
            value v;
            err e = {0};
            if (layer < config_layers(o->values)) config_name(o->values, o->s->rows[i].key, layer, &v, &e);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ckpt *c;
    static json *config;
    if (!c) {
        c = make_checkpoint();
        if (json_parse(&config, span_str(config_text), "config.json", NULL)) abort();
    }
    opened o, again;
    err e = {0};
    buf text = {0};
    int rc = open_text(&o, span_of(data, n), c, config, &e);
    if (rc && !e.msg[0]) abort();
    evaluate_all(&o);
    if (!rc) {
        if (spec_show(o.s, o.values, "fuzz", NULL, NULL, &text, &e)) abort();
        if (open_text(&again, buf_span(&text), c, NULL, &e) || memcmp(again.p->hash, o.p->hash, SHA256_BYTES)) {
            fprintf(stderr, "%s\n%s\n", e.msg, buf_cstr(&text));
            abort();
        }
        drop(&again);
    }
    drop(&o);
    buf_free(&text);
    return 0;
}
