/* t_models_import.c - model files of the original engine as specs: small files in its schema, what they become, and
 * that the models of tests/vectors run by them with the same bits as by the built-in specs. */
#include "base/buf.h"
#include "models/import/import.h"
#include "models/import/import_write.h"
#include "models/spec/spec_load.h"

#include "vector_rig.h"

#include <sys/stat.h>

static const import_place nowhere = {.dir = "/m", .generate = "", .settings = "", .remarks = ""};

/* A decoder-only file with more members of the top level and of network_structure. */
static const char *file_of(const char *top, const char *network)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "# a comment\n\n{\"config_file\": \"config.json\", \"model_files\": [\"model.safetensors\"], "
             "\"model_file_format\": \"safetensors\"%s, \"network_structure\": {%s}}",
             top, network);
    return text;
}

static char *imported(const char *text, const import_place *place)
{
    buf out = {0};
    err e = {0};
    spec *s;
    assert_ok(import_model_spec(span_str(text), "m.json", place, &out, &e), &e);
    assert_ok(spec_parse(&s, buf_span(&out), "m.ini", "/m", NULL, &e), &e);
    spec_free(s);
    char *copy = strdup(buf_cstr(&out));
    buf_free(&out);
    assert_non_null(copy);
    return copy;
}

typedef struct line_case {
    const char *network; /* members of network_structure */
    const char *lines[6];
} line_case;

static void structure(void **unused)
{
    (void)unused;
    static const line_case cases[] = {
        {"\"type\": \"transformer.decoder_only\", \"normalization_function\": \"rms\", \"qk_column_order\": 2, "
         "\"tensor_name_prefix\": \"model.\", \"tensor_name_mapping\": {\"norm.weight\": \"dec.output_norm.weight\"}",
         {"block  = x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))\n", "norm   = rms\n", "rope = neox\n",
          "ffn    = gated", "prefix = model.\n", "norm.f = norm\n"}},
        {"\"type\": \"transformer.llama\", \"qk_column_order\": 1, \"position_embedding\": \"alibi\", \"qkv_format\": "
         "1, "
         "\"normalize_lm_head\": true",
         {"rope = none, alibi = true\n", "| layers.{i}.self_attn.W_pack (rows 0 .. q_rows)\n",
          "head = lm_head (unit) | output (unit)\n", "kv_rows  = kv_heads * head_dim\n"}},
        {"\"type\": \"transformer.decoder_only\", \"is_parallel_attn\": true, \"activation_function\": \"gelu\", "
         "\"tensor_name_mapping\": {\"h.{i}.ln.weight\": \"dec.{i}.self_attn.pre_norm.weight\", \"h.{i}.up.weight\": "
         "\"dec.{i}.feed_forward.w1.weight\", \"h.{i}.down.weight\": \"dec.{i}.feed_forward.w2.weight\", "
         "\"h.{i}.qkv.weight\": \"dec.{i}.self_attn.qkv.weight\"}",
         {"block  = a = norm.a(x); x = x + attn(a) + ffn(a)\n", "ffn    = plain", "norm   = layer, bias = auto\n",
          "{i}.attn.k = h.{i}.qkv (every group + 2 * head_dim take head_dim at group)\n", "{i}.ffn.up = h.{i}.up\n",
          "prefix = model. | transformer.\n"}},
        {"\"type\": \"transformer.decoder_only\", \"mlp_attn_share_input\": 1, \"attn_out_scale\": 0.25, "
         "\"has_embedding_linear_norm\": true, \"attn_pre_norm_base\": 1, \"out_scale\": 0.5",
         {"block  = x = x + attn_scale * attn(norm.a(x)) + ffn(norm.b(x))\n", "embed  = token * embed_scale\n",
          "embed_scale = scale_emb | sqrt(dim)\n", "{i}.norm.a = layers.{i}.input_layernorm (+ 1)\n",
          "final  = norm.f(x) * out_scale\n"}},
        {"\"type\": \"transformer.decoder_only\", \"position_embedding\": \"\", \"pos_embedding_offset\": 2, "
         "\"tensor_name_mapping\": {\"pos.weight\": \"dec.pos_embeddings.weight\", \"l.{i}.n1.gamma\": "
         "\"dec.{i}.self_attn.post_norm.weight\", \"l.{i}.n1.beta\": \"dec.{i}.self_attn.post_norm.bias\", "
         "\"l.{i}.n2.weight\": \"dec.{i}.feed_forward.post_norm.weight\"}",
         {"block  = x = norm.c(x + attn(x)); x = norm.d(x + ffn(x))\n", "position = learned, offset = 2\n",
          "{i}.norm.c.bias = l.{i}.n1.beta | l.{i}.n1.bias\n", "{i}.norm.c = l.{i}.n1.gamma | l.{i}.n1\n",
          "embed  = token + position\n"}},
        {"\"type\": \"transformer.decoder_only\", \"is_attn_post_as_residual\": false, \"tensor_name_mapping\": "
         "{\"layers.{i}.post_attention_layernorm.weight\": \"dec.{i}.self_attn.post_norm.weight\"}",
         {"block  = x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))\n",
          "{i}.norm.b = layers.{i}.post_attention_layernorm\n"}},
        {"\"type\": \"transformer.decoder_only\", \"activation_function\": \"glu_silu\", \"rope_dim\": 64, "
         "\"kq_scale\": 10, "
         "\"rope_theta\": 5000, \"tensor_name_pre_mapping\": {\"old.head\": \"top.weight\"}, \"tensor_name_mapping\": "
         "{\"top.weight\": \"output.weight\"}, \"novel\": 3",
         {"{i}.ffn.up = layers.{i}.mlp.gate_proj (rows ffn_dim .. 2 * ffn_dim)\n", "rope_dims = 64\n",
          "theta    = scaling.rope_theta | rope_theta | 5000\n", "# left out: kq_scale 10", "# left out: novel",
          "head = top | old.head\n"}},
        {"\"type\": \"transformer.encoder_only\", \"activation_function\": \"gelu\", \"position_embedding\": "
         "\"empty\", "
         "\"tensor_name_prefix\": \"b.\", \"tensor_name_mapping\": {\"words.weight\": \"enc.token_embeddings.weight\", "
         "\"places.weight\": \"enc.pos_embeddings.weight\", \"kinds.weight\": \"enc.token_type_embeddings.weight\", "
         "\"n.gamma\": \"enc.input_norm.weight\", \"n.beta\": \"enc.input_norm.bias\", \"l.{i}.n1.weight\": "
         "\"enc.{i}.self_attn.post_norm.weight\", \"l.{i}.n2.weight\": \"enc.{i}.feed_forward.post_norm.weight\", "
         "\"l.{i}.q.weight\": \"enc.{i}.self_attn.wq.weight\", \"t.weight\": \"output_transform.weight\", "
         "\"t.n.weight\": "
         "\"output_transform.post_norm.weight\", \"o.bias\": \"enc.output.bias\"}",
         {"base = bert\n",
          "embed  = norm.e(token + type + position)\nblock  = x = norm.c(x + attn(x)); x = norm.d(x + ffn(x))\n",
          "logits = masked ? head(norm.h(linear.h(x))) : 0\n", "norm.e = n.gamma | n\nnorm.e.bias = n.beta | n.bias\n",
          "type = kinds\n", "head.bias = o.bias\n"}},
        {"\"type\": \"transformer.encoder_decoder\", \"activation_function\": \"relu\", \"position_embedding\": "
         "\"sinusoidal2\", "
         "\"tensor_name_mapping\": {\"encoder.layers.{i}.fc1.weight\": \"enc.{i}.feed_forward.w1.weight\", "
         "\"decoder.layers.{i}.fc1.weight\": \"dec.{i}.feed_forward.w1.weight\", \"decoder.layer_norm.weight\": "
         "\"dec.output_norm.weight\"}",
         {"base = bart\n",
          "enc.embed = token * embed_scale + position\nenc.block = x = x + attn(norm.a(x)); x = x + ffn(x)\n",
          "block  = x = x + attn(norm.a(x)); x = x + cross(norm.x(x)); x = x + ffn(x)\nfinal  = norm.f(x)\n",
          "enc.token = shared | encoder.embed_tokens\n", "{i}.cross.q = decoder.layers.{i}.encoder_attn.q_proj\n",
          "enc.{i}.ffn.up = encoder.layers.{i}.fc1\n"}},
        {"\"type\": \"transformer.decoder_only.sparse_moe\", \"expert_count\": 8, \"moe_top_k\": 2, "
         "\"moe_layer_start\": 1, "
         "\"moe_norm_top_k_prob\": false, \"has_shared_expert\": true, \"tensor_name_mapping\": {\"l.{i}.r.weight\": "
         "\"dec.{i}.moe.gate.weight\", \"l.{i}.e.{j}.g.weight\": \"dec.{i}.moe.expert.{j}.w1.weight\", "
         "\"l.{i}.s.g.weight\": "
         "\"dec.{i}.moe.shared_expert.w1.weight\"}",
         {"block  = x = x + attn(norm.a(x)); b = norm.b(x); x = x + (ffn(b) + ffn.shared(b))\n",
          "ffn    = moe, renorm = false\n", "where  = i < (first_k_dense_replace | 1)\n",
          "{i}.ffn.gate = l.{i}.e.{0 .. experts}.g | layers.{i}.mlp.gate_proj\n", "{i}.ffn.router = l.{i}.r\n",
          "{i}.ffn.shared.gate = l.{i}.s.g\n"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = imported(file_of("", cases[i].network), &nowhere);
        for (size_t k = 0; k < 6 && cases[i].lines[k]; k++)
            if (!strstr(text, cases[i].lines[k])) fail_msg("case %zu: no line '%s' in\n%s", i, cases[i].lines[k], text);
        free(text);
    }
}

typedef struct refusal {
    const char *top, *network, *part;
} refusal;

static void refusals(void **unused)
{
    (void)unused;
    static const char decoder[] = "\"type\": \"transformer.decoder_only\"";
    static const refusal cases[] = {
        {"", "\"type\": \"general\"", "'general' does not say what the layers are"},
        {"", "\"type\": \"rnn\"", "type 'rnn' is none of the original's"},
        {"", "\"type\": \"bloom\", \"normalization_function\": \"linear\"", "norms nothing"},
        {"", "\"type\": \"bloom\", \"normalization_function\": \"batch\"", "normalization_function"},
        {"", "\"type\": \"bloom\", \"activation_function\": \"elu\"", "cannot run it"},
        {"", "\"type\": \"bloom\", \"qk_column_order\": 7", "qk_column_order"},
        {"", "\"type\": \"bloom\", \"qk_column_order\": [1]", "expected a single value"},
        {", \"token_remap_file\": \"r.pkl\"", decoder, "ids renumbered"},
        {", \"output_vocab_size\": 5", decoder, "second vocabulary"},
        {", \"tokenizer_file\": \"a\\nb\"", decoder, "control characters"},
        {"", "\"type\": \"bloom\", \"tensor_name_mapping\": {\"a b\": \"output.weight\"}", "is not a name of tensors"},
        {"", "\"type\": \"bloom\", \"tensor_name_mapping\": {\"a{k}\": \"output.weight\"}", "is not a name of tensors"},
        {"", "\"type\": \"bloom\", \"tensor_name_pre_mapping\": {\"a\": \"b\"}",
         "which no line of tensor_name_mapping has"},
        {"", "\"type\": \"bloom\", \"tensor_name_prefix\": \"a (\"", "is not a name"},
        {"", "\"type\": \"transformer.decoder_only.sparse_moe\"", "a mixture needs both"},
        {"",
         "\"type\": \"transformer.decoder_only.sparse_moe\", \"expert_count\": 8, \"using_expert_count\": 4, "
         "\"moe_top_k\": 2",
         "without some of its experts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        buf out = {0};
        const char *text = file_of(cases[i].top, cases[i].network);
        if (!import_model_spec(span_str(text), "m.json", &nowhere, &out, &e)) fail_msg("case %zu passes", i);
        if (!strstr(e.msg, cases[i].part)) fail_msg("case %zu: %s", i, e.msg);
        buf_free(&out);
    }
    static const char *const formats[][2] = {{"ggml", "before GGUF"}, {"std", "no reader for it"}, {"", "(missing)"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char text[300];
        err e = {0};
        buf out = {0};
        snprintf(text, sizeof text, "{\"model_file_format\": \"%s\", \"network_structure\": {%s}}", formats[i][0],
                 decoder);
        assert_int_equal(import_model_spec(span_str(text), "m.json", &nowhere, &out, &e), ERR_SPEC);
        assert_non_null(strstr(e.msg, formats[i][1]));
        buf_free(&out);
    }
}

/* ---- whole models */

typedef struct model_case {
    const char *vector, *network;
} model_case;

static const model_case models[] = {
    {"llama", "\"type\": \"transformer.llama\", \"qk_column_order\": 2, \"tensor_name_prefix\": \"model.\""},
    {"bloom", "\"type\": \"transformer.bloom\", \"tensor_name_prefix\": \"transformer.\""},
    {"qwen2",
     "\"type\": \"transformer.decoder_only\", \"normalization_function\": \"rms\", \"qk_column_order\": 2, "
     "\"tensor_name_prefix\": \"model.\", \"tensor_name_mapping\": {\"norm.weight\": \"dec.output_norm.weight\"}"},
    {"mixtral",
     "\"type\": \"transformer.decoder_only.sparse_moe\", \"normalization_function\": \"rms\", \"qk_column_order\": 2, "
     "\"expert_count\": 8, \"moe_top_k\": 2, \"is_attn_post_as_residual\": false, \"tensor_name_prefix\": \"model.\", "
     "\"tensor_name_mapping\": {\"norm.weight\": \"dec.output_norm.weight\", "
     "\"layers.{i}.post_attention_layernorm.weight\": "
     "\"dec.{i}.self_attn.post_norm.weight\", \"layers.{i}.block_sparse_moe.gate.weight\": "
     "\"dec.{i}.moe.gate.weight\", "
     "\"layers.{i}.block_sparse_moe.experts.{j}.w1.weight\": \"dec.{i}.moe.expert.{j}.w1.weight\", "
     "\"layers.{i}.block_sparse_moe.experts.{j}.w2.weight\": \"dec.{i}.moe.expert.{j}.w2.weight\", "
     "\"layers.{i}.block_sparse_moe.experts.{j}.w3.weight\": \"dec.{i}.moe.expert.{j}.w3.weight\"}"},
    {"falcon-7b",
     "\"type\": \"transformer.decoder_only\", \"activation_function\": \"gelu\", \"qk_column_order\": 2, "
     "\"is_parallel_attn\": true, \"tensor_name_prefix\": \"transformer.\", \"tensor_name_mapping\": {"
     "\"word_embeddings.weight\": \"dec.token_embeddings.weight\", \"ln_f.weight\": \"dec.output_norm.weight\", "
     "\"h.{i}.input_layernorm.weight\": \"dec.{i}.self_attn.pre_norm.weight\", \"h.{i}.self_attention.dense.weight\": "
     "\"dec.{i}.self_attn.wo.weight\", \"h.{i}.self_attention.query_key_value.weight\": "
     "\"dec.{i}.self_attn.qkv.weight\", \"h.{i}.mlp.dense_h_to_4h.weight\": \"dec.{i}.feed_forward.w1.weight\", "
     "\"h.{i}.mlp.dense_4h_to_h.weight\": \"dec.{i}.feed_forward.w2.weight\"}"},
    {"opt-350m",
     "\"type\": \"transformer.decoder_only\", \"activation_function\": \"relu\", \"position_embedding\": \"empty\", "
     "\"pos_embedding_offset\": 2, \"tensor_name_prefix\": \"model.decoder.\", \"tensor_name_mapping\": {"
     "\"embed_positions.weight\": \"dec.pos_embeddings.weight\", \"layers.{i}.self_attn_layer_norm.weight\": "
     "\"dec.{i}.self_attn.post_norm.weight\", \"layers.{i}.final_layer_norm.weight\": "
     "\"dec.{i}.feed_forward.post_norm.weight\", \"layers.{i}.fc1.weight\": \"dec.{i}.feed_forward.w1.weight\", "
     "\"layers.{i}.fc2.weight\": \"dec.{i}.feed_forward.w2.weight\", \"layer_norm.weight\": "
     "\"dec.output_norm.weight\", "
     "\"project_in.weight\": \"input_transform.weight\", \"project_out.weight\": \"output_transform.weight\"}"},
};

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void whole_models(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char folder[400];
        expected x = {0};
        snprintf(folder, sizeof folder, "%s/%s", vectors, models[i].vector);
        expected_read(&x, folder);
        import_place place = nowhere;
        char *full = realpath(folder, NULL), *text;
        place.model = full;
        text = imported(file_of("", models[i].network), &place);
        const char *path = temp_path("imported.ini");
        write_text(path, text);
        table plain = logits_of(open_model((engine_options){.model = folder, .threads = 1}), &x);
        table by_import = logits_of(open_model((engine_options){.spec = path, .threads = 1}), &x);
        if (!same_bits(&plain, &by_import)) fail_msg("%s: other bits by the imported spec\n%s", models[i].vector, text);
        free(plain.at);
        free(by_import.at);
        free(text);
        free(full);
        json_free(x.file);
        unlink(path);
    }
}

/* ---- a service's configuration */

static const char service[] =
    "; comment\n[main]\nhttp_port = 8123\nglobal_model_dir = ${data_root_dir}../models/\n\n"
    "[transformer_engine]\nmodels = small; large\ndevices = 0&1;2&3\nmax_concurrent_queries = 6\nCPU_Threads = 3\n\n"
    "[model.small]\nmodel_dir = replaced\n\n"
    "[model.small]\nmodel_dir = ${global_model_dir}/$(model_name)/\nmodel_specification_file = spec.json\n"
    "device_weight_data_type = Q8\ndevice_kv_cache_data_type = F16\nmax_context_len = 4096\n"
    "decoding_strategy = {\"name\": \"sample.top_p\", \"top_p\": 0.8}\nprompt_template = short\n\n"
    "[model.large]\nmodel_dir = %s\nmodel_spec_file = spec.json\ndevice_weight_data_type = q3h\n"
    "device_weight_data_type.ffn_w1 = Q8\nhost_kv_cache_percent = 50\ndecoding_strategy = greedy\n"
    "prompt_template = <|im_start|>{query}{\\n}\n\n"
    "[model.odd]\nmodel_dir = %s\nmodel_spec_file = spec.json\ndevice_weight_data_type = Q99\n\n"
    "[prompt_template.short]\nline_count = 2\nline1 = Q: {query}\nline2 = A:\n\n"
    "[app_env.base]\ndata_root_dir = ${config_dir}data/\n";

static int import_named(const char *root, const char *id, buf *out, err *e)
{
    char text[4096];
    snprintf(text, sizeof text, service, root, root);
    *out = (buf){0};
    *e = (err){0};
    return import_service_text(span_str(text), "s.ini", root, id, NULL, NULL, out, e);
}

static void services(void **unused)
{
    (void)unused;
    char root[] = "/tmp/inferflow-import-XXXXXX", path[200], want[300];
    buf out;
    err e;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/spec.json", root);
    write_text(path, file_of("", "\"type\": \"transformer.llama\""));

    assert_int_equal(import_named(root, NULL, &out, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "several: small, large: choose one with --name"));
    assert_int_equal(import_named(root, "tiny", &out, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "no section [model.tiny]; there are: small, large, odd"));
    assert_int_equal(import_named(root, "odd", &out, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "'Q99' is no type"));
    /* the macros lead through folders that need not exist */
    assert_int_equal(import_named(root, "small", &out, &e), ERR_NOT_FOUND);
    snprintf(want, sizeof want, "%s/models/small/spec.json", root);
    assert_non_null(strstr(e.msg, want));

    static const char *const lines[] = {"name = LARGE\n",
                                        "weights = q3h_b64\n",
                                        "max_batch = 6\n",
                                        "threads = 3\n",
                                        "port = 8123\n",
                                        "temperature = 0\n",

                                        "# device_weight_data_type.ffn_w1 = Q8: ",
                                        "# host_kv_cache_percent = 50: ",
                                        "# devices = cuda:0&cuda:1;cuda:2&cuda:3: ",
                                        "# prompt_template = <|im_start|>{query}{\\n}: "};
    assert_ok(import_named(root, "LARGE", &out, &e), &e);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(buf_cstr(&out), lines[i])) fail_msg("no '%s' in\n%s", lines[i], buf_cstr(&out));
    snprintf(want, sizeof want, "path = %s/model.safetensors\n", root);
    assert_non_null(strstr(buf_cstr(&out), want));
    buf_free(&out);

    snprintf(path, sizeof path, "%s/models", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/models/small", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/models/small/spec.json", root);
    write_text(path, file_of("", "\"type\": \"transformer.llama\""));
    assert_ok(import_named(root, "small", &out, &e), &e);
    static const char *const small[] = {"weights = q8_0\n", "kv = f16\n",  "ctx = 4096\n",
                                        "top_p = 0.8\n",    "top_k = 8\n", "# prompt_template = Q: {query}{\\n}A:: "};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (!strstr(buf_cstr(&out), small[i])) fail_msg("no '%s' in\n%s", small[i], buf_cstr(&out));
    buf_free(&out);
    unlink(path);
    snprintf(path, sizeof path, "%s/models/small", root);
    rmdir(path);
    snprintf(path, sizeof path, "%s/models", root);
    rmdir(path);
    snprintf(path, sizeof path, "%s/spec.json", root);
    unlink(path);
    rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(structure), cmocka_unit_test(refusals),
                                       cmocka_unit_test(whole_models), cmocka_unit_test(services)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
