/* generation_config.c - see generation_config.h. The keys are those of transformers 5.23 (GenerationConfig), with the
 * values that change nothing there. */
#include "app/generation_config.h"

#include "base/buf.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* Read here, or with the model (start and end tokens); or of no effect on which tokens come: what a call returns, how
 * it computes, which library wrote the file, lengths that requests here always have. */
static const char known[] =
    "do_sample|temperature|top_k|top_p|min_p|typical_p|repetition_penalty|bad_words_ids|suppress_tokens|"
    "bos_token_id|eos_token_id|pad_token_id|decoder_start_token_id|forced_bos_token_id|max_length|"
    "max_new_tokens|max_time|use_cache|cache_implementation|cache_config|return_legacy_cache|"
    "prefill_chunk_size|num_return_sequences|output_attentions|output_hidden_states|output_scores|"
    "output_logits|return_dict_in_generate|token_healing|low_memory|is_assistant|num_assistant_tokens|"
    "num_assistant_tokens_schedule|assistant_confidence_threshold|prompt_lookup_num_tokens|"
    "max_matching_ngram_size|assistant_early_exit|assistant_lookbehind|target_lookbehind|compile_config|"
    "disable_compile|continuous_batching_config|generation_kwargs|transformers_version|"
    "_from_model_config|chat_format|max_window_size|trust_remote_code|use_mrope|architectures|model_type|"
    "torch_dtype|dtype|remove_invalid_values|custom_generate|_commit_hash|_original_object_hash|"
    "transformers_weights|user_token_id|assistant_token_id|system_token_id";

/* Those that change texts, which is told unless they have this value. */
static const struct {
    const char *key;
    double same;
} changing[] = {{"min_length", 0},
                {"min_new_tokens", 0},
                {"num_beams", 1},
                {"num_beam_groups", 1},
                {"diversity_penalty", 0},
                {"length_penalty", 1},
                {"early_stopping", 0},
                {"no_repeat_ngram_size", 0},
                {"encoder_no_repeat_ngram_size", 0},
                {"epsilon_cutoff", 0},
                {"eta_cutoff", 0},
                {"penalty_alpha", 0},
                {"top_h", 1},
                {"encoder_repetition_penalty", 1},
                {"renormalize_logits", 0},
                {"guidance_scale", 1}};

/* Null, false, empty, or the value of transformers that changes nothing. */
static bool changes_nothing(const json *v)
{
    const json_kind type = json_type(v);
    if (type == JSON_NULL || ((type == JSON_ARRAY || type == JSON_OBJECT) && !json_count(v))) return true;
    for (size_t i = 0; i < sizeof changing / sizeof *changing; i++)
        if (strcmp(changing[i].key, json_key(v)) == 0)
            return type == JSON_BOOL ? json_bool(v, true) == (changing[i].same != 0)
                                     : type == JSON_NUMBER && json_num(v, 0) == changing[i].same;
    return type == JSON_BOOL && !json_bool(v, true);
}

static bool add_number(token_list *to, const json *v)
{
    int64_t id;
    return json_int64(v, &id) && id >= INT32_MIN && id <= INT32_MAX && token_list_add(to, (int32_t)id);
}

/* One sequence: a list of ids, or an id. */
static bool add_sequence(token_list *to, const json *v)
{
    const size_t at = to->n;
    bool good = token_list_add(to, 0); /* its length */
    if (json_type(v) == JSON_ARRAY)
        for (const json *m = json_first(v); m && good; m = json_next(m)) good = add_number(to, m);
    else good = good && add_number(to, v);
    good = good && to->n > at + 1;
    if (good) to->id[at] = (int32_t)(to->n - at - 1);
    else to->n = at;
    return good;
}

/* A list of sequences, or of ids. False: something else. */
static bool add_sequences(token_list *to, const json *v)
{
    bool good = json_type(v) == JSON_ARRAY;
    for (const json *m = good ? json_first(v) : NULL; m; m = json_next(m)) good = add_sequence(to, m) && good;
    return good || json_type(v) == JSON_NULL;
}

static void add_name(buf *names, const char *name) { buf_printf(names, "%s%.60s", names->n ? ", " : "", name); }

static void read_sampling(const json *file, const char *where, sample_params *to, buf *wrong)
{
    static const char *const keys[] = {"repetition_penalty", "temperature", "top_k", "top_p", "min_p", "typical_p"};
    const json *sample = json_get(file, "do_sample");
    if (json_type(sample) == JSON_BOOL && !json_bool(sample, false)) to->temperature = 0;
    for (size_t i = 0; i < (json_bool(sample, false) ? sizeof keys / sizeof *keys : 1); i++) {
        const json *value = json_get(file, keys[i]);
        const param *row = param_find(sample_param_rows, sample_param_count, keys[i]);
        err why = {0};
        if (json_type(value) == JSON_NULL) continue;
        if (json_type(value) != JSON_NUMBER || param_set_number(row, to, json_num(value, 0), where, &why))
            add_name(wrong, keys[i]);
    }
}

void generation_config_read(const json *file, const char *where, sample_params *to, token_list *bans)
{
    buf wrong = {0}, left = {0};
    read_sampling(file, where, to, &wrong);
    static const char *const lists[] = {"bad_words_ids", "suppress_tokens"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!add_sequences(bans, json_get(file, lists[i]))) add_name(&wrong, lists[i]);
    for (const json *m = json_first(file); m; m = json_next(m))
        if (!param_words_have(known, span_str(json_key(m))) && !changes_nothing(m)) add_name(&left, json_key(m));
    if (wrong.n) log_line(LOG_WARN, "%s: of a wrong type or out of range, ignored: %.400s", where, buf_cstr(&wrong));
    if (left.n) log_line(LOG_WARN, "%s: not followed: %.400s", where, buf_cstr(&left));
    buf_free(&wrong);
    buf_free(&left);
}
