/* cmd_run.c - `inferflow run`: continues a text, on this thread, token by token. */
#include "app/answer_loop.h"
#include "app/app.h"
#include "app/conversation.h"
#include "app/ids.h"
#include "app/interrupt.h"
#include "app/line_edit.h"
#include "app/receipt_file.h"
#include "app/text_form.h"
#include "app/tokenizer_choice.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "measure/auto_open.h"
#include "measure/busy.h"
#include "engine/decoder_prompt.h"
#include "chat/chat_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT_BYTES_MAX = 64 << 20 };

typedef struct run_options {
    const char *prompt, *file, *ids, *decoder_prompt, *decoder_ids, *output;
    int64_t max_tokens, min_tokens;
    bool echo, ignore_eos;
    int64_t beams;
    double length_penalty;
    const char *early_stopping, *receipt, *session, *stop;
    const char *grammar, *json_schema;
    const char *system, *chat;
    chat_options talk;
    bool parse_special;
    struct grammar *form; /* of these files; NULL: any text */
    engine_options model;
    sample_params sample;
} run_options;

#define ROW(field, kind, ...) PARAM_ROW(run_options, field, kind, __VA_ARGS__)

static const param own_rows[] = {
    ROW(prompt, PARAM_TEXT, .alias = "p", .doc = "text to continue; \"\" starts from nothing"),
    ROW(file, PARAM_TEXT, .alias = "f", .words = "FILE", .path = PATH_FILE,
        .doc = "text to continue, from a file; -: standard input"),
    ROW(ids, PARAM_TEXT, .words = "IDS", .path = PATH_IDS,
        .doc = "token ids to continue: 1,2,3 or @FILE; needs no tokenizer"),
    ROW(decoder_prompt, PARAM_TEXT, .rare = true, .words = "TEXT",
        .doc = "encoder-decoders: start of the output, such as a language token (default: the model's)"),
    ROW(decoder_ids, PARAM_TEXT, .rare = true, .words = "IDS", .path = PATH_IDS,
        .doc = "encoder-decoders: the start of the output as token ids, with the start token"),
    ROW(max_tokens, PARAM_INT, .alias = "n", .otherwise = "256", .min = -1, .max = 1 << 30,
        .doc =
            "tokens to generate (default 256, in a conversation -1); -1: until the model ends or the context is full"),
    ROW(min_tokens, PARAM_INT, .rare = true, .min = 0, .max = 1 << 30, .doc = "tokens before the model may end"),
    ROW(ignore_eos, PARAM_BOOL, .rare = true, .doc = "go on after the model's end token"),
    ROW(beams, PARAM_INT, .rare = true, .otherwise = "1", .min = 1, .max = BEAMS_MAX,
        .doc = "beam search: follow this many texts at once, print the best at the end; no sampling"),
    ROW(length_penalty, PARAM_FLOAT, .rare = true, .otherwise = "1", .min = -100, .max = 100,
        .doc = "beams: divides scores by length to this power; larger prefers longer texts"),
    ROW(stop, PARAM_TEXT, .words = "TEXT", .doc = "ends the answer where this text comes, which is not shown"),
    ROW(early_stopping, PARAM_WORD, .rare = true, .otherwise = "off", .words = "off|on|never",
        .doc =
            "beams: on: stop when as many texts as beams have ended; off: when also a better one is unlikely; never: "
            "when also a better one is impossible"),
    ROW(grammar, PARAM_TEXT, .rare = true, .words = "FILE", .path = PATH_FILE,
        .doc = "the text follows this grammar (GBNF)"),
    ROW(json_schema, PARAM_TEXT, .words = "FILE", .path = PATH_FILE,
        .doc = "structured output: the text is JSON that satisfies this schema"),
    ROW(chat, PARAM_WORD, .otherwise = "auto", .words = "auto|on|off",
        .doc = "apply the model's chat template: on a terminal (auto), always, never"),
    ROW(system, PARAM_TEXT, .words = "TEXT", .doc = "chat: what the model is told before the conversation"),
    ROW(parse_special, PARAM_BOOL, .rare = true, .doc = "special-token text in prompts counts as the tokens"),
    ROW(echo, PARAM_BOOL, .rare = true, .doc = "show the prompt too"),
    ROW(receipt, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "FILE", .path = PATH_OUT,
        .doc = "write what `inferflow replay` needs to draw the text again, token by token"),
    ROW(session, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_OUT,
        .doc =
            "save the KV cache in this file; a later run whose prompt begins the same continues from it (texts of 64 "
            "tokens or more)"),
    ROW(output, PARAM_WORD, .otherwise = "text", .words = "text|ids|json",
        .doc = "what to print: text, one JSON array of the generated ids, or one JSON object"),
};
static const size_t own_count = sizeof own_rows / sizeof *own_rows;

static const flag_group groups[] = {
    {"Text", own_rows, &own_count, 0},
    {"Chat", chat_param_rows, &chat_param_count, offsetof(run_options, talk)},
    {"Sampling", sample_param_rows, &sample_param_count, offsetof(run_options, sample)},
    MODEL_FLAGS(run_options, model),
    {NULL},
};

typedef enum { OUTPUT_TEXT, OUTPUT_IDS, OUTPUT_JSON } output_kind;

/* One continuation. */
typedef struct generation {
    output_kind output;
    answer said;
    size_t printed; /* bytes of its text */
    float score;    /* of the best beam */
    err why;        /* the answer failed */
} generation;

static void print_text(generation *g)
{
    const size_t n = answer_certain(&g->said) - g->printed;
    if (g->output != OUTPUT_TEXT || !n) return;
    fwrite(g->said.text.p + g->printed, 1, n, stdout);
    fflush(stdout);
    g->printed += n;
}

static bool on_token(void *ctx, const token_event *ev)
{
    generation *g = ctx;
    answer_take(&g->said, ev, &g->why);
    g->score = ev->score;
    if (ev->token >= 0) log_progress_end();
    if (ev->token >= 0 && g->output == OUTPUT_IDS) {
        printf("%s%d", g->said.n_tokens > 1 ? "," : "[", ev->token);
        fflush(stdout);
    }
    print_text(g);
    return g->said.finish == FINISH_NONE;
}

static int print_json(engine *eng, const token_list *prompt, const generation *g, const run_options *o,
                      const sample_params *sample, err *e)
{
    json *root = json_new_object();
    json_add_str(root, "model", engine_describe(eng)->name);
    json *ids = json_add_array(root, "prompt_ids");
    for (size_t i = 0; i < prompt->n; i++) json_add_int(ids, NULL, prompt->id[i]);
    ids = json_add_array(root, "ids");
    for (size_t i = 0; i < g->said.ids.n; i++) json_add_int(ids, NULL, g->said.ids.id[i]);
    buf quoted = {0};
    if (g->said.maker && json_quote(&quoted, buf_span(&g->said.text))) json_add_raw(root, "text", buf_cstr(&quoted));
    else json_add_null(root, "text");
    buf_free(&quoted);
    json_add_str(root, "finish_reason", g->said.finish == FINISH_LENGTH ? "length" : "stop");
    if (o->beams > 1) json_add_num(root, "score", (double)g->score);
    else json_add_int(root, "seed", sample->seed);
    json_add_int(root, "cached_tokens", g->said.cached);
    if (g->said.ids.n > 1 && o->beams == 1)
        json_add_num(root, "tokens_per_s", (double)(g->said.ids.n - 1) / (g->said.last - g->said.first));
    busy_marks devices;
    int rc = busy_open(&devices, eng, e);
    if (!rc && busy_as(&devices)) json_add_str(root, "as", busy_as(&devices));
    busy_close(&devices);
    if (!rc) rc = app_print_json(root, e);
    json_free(root);
    return rc;
}

/* enc: what the encoder reads; empty for models without one. */
static int continue_prompt(engine *eng, const run_options *o, const token_list *enc, const token_list *prompt, err *e)
{
    generation g = {.output = strcmp(o->output, "ids") == 0    ? OUTPUT_IDS
                              : strcmp(o->output, "json") == 0 ? OUTPUT_JSON
                                                               : OUTPUT_TEXT};
    query q = {.ids = prompt->id,
               .n_ids = prompt->n,
               .enc_ids = enc->id,
               .n_enc = enc->n,
               .max_tokens = o->max_tokens < 0 ? INT32_MAX : o->max_tokens,
               .min_tokens = o->min_tokens,
               .ignore_eos = o->ignore_eos,
               .sample = o->sample,
               .constraint = o->form,
               .n_logprobs = -1,
               .beams = (int32_t)o->beams,
               .length_penalty = o->length_penalty,
               .early_stopping = strcmp(o->early_stopping, "on") == 0      ? BEAM_STOP_FIRST
                                 : strcmp(o->early_stopping, "never") == 0 ? BEAM_STOP_NEVER
                                                                           : BEAM_STOP_BETTER,
               .on_token = on_token,
               .ctx = &g};
    const answer_rules rules = {
        .stop = &o->stop, .n_stop = o->stop && *o->stop, .min_tokens = o->min_tokens, .keeps_ids = true};
    q.sample.strategy = NULL; /* it has done its work */
    sample_seed_draw(&q.sample);
    const bool bar = !o->echo || !isatty(STDOUT_FILENO); /* it would stand in the line of the echo */
    uint64_t id;
    double began = clock_now();
    fingerprint here;
    int rc = o->receipt ? engine_fingerprint(eng, &here, e) : OK;
    if (!rc && o->receipt) rc = receipt_check_query(&here, &q, e);
    if (!rc) rc = answer_open(&g.said, engine_target_tokenizer(eng), &rules, e);
    if (!rc) rc = answer_read(&g.said, prompt->id, prompt->n, e);
    if (!rc && !o->echo) rc = answer_show(&g.said, (span){0}, e);
    if (!rc) print_text(&g);
    if (!rc) rc = engine_add_query(eng, &q, &id, e);
    if (!rc) rc = answer_loop(eng, &g.said, id, bar, NULL, e);
    if (!rc) rc = err_copy(e, &g.why);
    if (!rc && g.output == OUTPUT_IDS) printf("%s]\n", g.said.ids.n ? "" : "[");
    if (!rc && g.output == OUTPUT_JSON) rc = print_json(eng, prompt, &g, o, &q.sample, e);
    if (!rc && o->receipt)
        rc = receipt_file_write(o->receipt, eng, &here, &q, &g.said.ids,
                                g.said.finish == FINISH_LENGTH    ? RECEIPT_LENGTH
                                : interrupted || g.said.stop_word ? RECEIPT_STOP_TEXT
                                                                  : RECEIPT_END_TOKEN,
                                e);
    if (!rc && g.said.ids.n > 1)
        log_line(LOG_DEBUG, "%zu prompt tokens, %lld of them cached, first token after %.1f ms, then %.1f tokens/s",
                 prompt->n, (long long)g.said.cached, (g.said.first - began) * 1e3,
                 (double)(g.said.ids.n - 1) / (g.said.last - g.said.first));
    answer_close(&g.said);
    return rc;
}

/* Text to ids; an empty prompt begins with the model's first token. */
static int encode_prompt(const engine *eng, const run_options *o, span text, token_list *out, err *e)
{
    const tokenizer *t = engine_tokenizer(eng);
    if (!t) return tokenizer_missing(eng, ", or --ids with --output ids", e);
    int rc = tokenizer_encode(t, text, TOKENIZE_SPECIAL | (o->parse_special ? TOKENIZE_PARSE : 0), out, e);
    if (rc || out->n) return rc;
    char first[16];
    if (engine_describe(eng)->bos < 0)
        return err_set(e, ERR_USAGE, "an empty prompt needs a model with a token to begin with; this one has none");
    snprintf(first, sizeof first, "%d", engine_describe(eng)->bos);
    return ids_parse_text(out, span_str(first), "bos", e);
}

/* Whether the template is applied: asked for (an error where there is none), or on a terminal where there is one. */
static bool chats(const run_options *o, const engine *eng, bool terminal)
{
    const tokenizer *t = engine_tokenizer(eng);
    const bool has = t && !engine_describe(eng)->n_enc_vocab && (o->talk.chat_template || tokenizer_chat_template(t));
    if (strcmp(o->chat, "auto") != 0) return strcmp(o->chat, "on") == 0;
    return o->system || (has && (terminal || o->talk.chat_template));
}

static conversation_options conversation_of(run_options *o)
{
    return (conversation_options){.system = o->system,
                                  .sample = {.params = &o->sample, .max_tokens = o->max_tokens},
                                  .min_tokens = o->min_tokens,
                                  .ignore_eos = o->ignore_eos,
                                  .parse_special = o->parse_special,
                                  .form = o->form};
}

/* chat: NULL: the text is continued. */
static int read_prompt(const engine *eng, run_options *o, const chat_template *chat, token_list *out, err *e)
{
    if (o->ids) return ids_parse(out, o->ids, e);
    buf b = {0};
    const conversation_options told = conversation_of(o);
    int rc = o->prompt ? OK : file_read_text(&b, o->file ? o->file : "-", PROMPT_BYTES_MAX, e);
    if (!rc && chat) rc = conversation_prompt(eng, chat, &told, o->prompt ? o->prompt : buf_cstr(&b), out, e);
    else if (!rc) rc = encode_prompt(eng, o, o->prompt ? span_str(o->prompt) : buf_span(&b), out, e);
    buf_free(&b);
    return rc;
}

/* Continues the ids that were read, or gives them to the encoder of a model that has one. */
static int continue_read(engine *eng, const run_options *o, const token_list *read, err *e)
{
    token_list none = {0}, decoder = {0};
    if (!engine_describe(eng)->n_enc_vocab) return continue_prompt(eng, o, &none, read, e);
    int rc = o->decoder_ids ? ids_parse(&decoder, o->decoder_ids, e)
                            : engine_decoder_ids(eng, o->decoder_prompt, &decoder, e);
    if (!rc) rc = continue_prompt(eng, o, read, &decoder, e);
    mem_free(decoder.id);
    return rc;
}

/* What lines on the terminal are to this model. */
static const char *banner(const engine *eng, const run_options *o)
{
    return engine_describe(eng)->n_enc_vocab ? "is an encoder-decoder: it reads a line and writes its own text"
           : strcmp(o->chat, "off") == 0     ? "continues texts, as --chat off says"
                                             : "has no chat template: it continues texts";
}

/* A prompt on the terminal: every line is continued by itself. SIGINT ends the continuation, end of input or /bye the
 * program. */
static int talk(engine *eng, const run_options *o, err *e)
{
    static const char keys[] = "Ctrl-C stops a text, /bye or Ctrl-D ends";
    interrupt_watch();
    fprintf(stderr, "%s %s; %s\n", engine_describe(eng)->name, banner(eng, o), keys);
    int rc = OK;
    char *line;
    bool leaves = false;
    while (!rc && !leaves && (line = line_read("> "))) {
        token_list prompt = {0};
        const line_kind kind = conversation_line(line);
        interrupted = 0;
        if (kind == LINE_HELP) printf("Type the beginning of a text; %s\n", keys);
        if (kind == LINE_TEXT) {
            rc = encode_prompt(eng, o, span_str(line), &prompt, e);
            if (!rc) rc = continue_read(eng, o, &prompt, e);
            putchar('\n');
        }
        if (rc == ERR_LIMIT) { /* a line that is too long is no reason to leave */
            log_line(LOG_ERROR, "%s", e->msg);
            *e = (err){0};
            rc = OK;
        }
        mem_free(prompt.id);
        line_free(line);
        leaves = kind == LINE_BYE;
    }
    if (!rc && !leaves) putchar('\n'); /* after the prompt of the line that did not come */
    line_close();
    return rc;
}

static bool is_given(const invocation *v, const char *key)
{
    for (size_t i = 0; i < v->n_given; i++)
        if (strcmp(v->given[i]->key, key) == 0) return true;
    return false;
}

static int check_combination(const run_options *o, err *e)
{
    if (!!o->prompt + !!o->file + !!o->ids > 1) return err_set(e, ERR_USAGE, "run: give one of -p, -f and --ids");
    if (o->decoder_prompt && o->decoder_ids)
        return err_set(e, ERR_USAGE, "run: give one of --decoder-prompt and --decoder-ids");
    if (o->system && (o->ids || strcmp(o->chat, "off") == 0))
        return err_set(e, ERR_USAGE, "run: --system needs the chat template, which %s leaves out",
                       o->ids ? "--ids" : "--chat off");
    if (o->ids && (o->talk.chat_template || strcmp(o->chat, "on") == 0))
        return err_set(e, ERR_USAGE, "run: %s needs a text (-p or -f): --ids are taken as they are",
                       o->talk.chat_template ? "--chat-template" : "--chat on");
    return OK;
}

/* Whether a flag says how to draw, if only what holds anyway. */
static bool samples_as_told(const invocation *v)
{
    for (size_t i = 0; i < v->n_given; i++) {
        const param *row = v->given[i];
        const bool own = row >= sample_param_rows && row < sample_param_rows + sample_param_count;
        if (own && strcmp(row->key, "seed") != 0) return true;
    }
    return false;
}

/* Who set what holds in a conversation: conversations themselves, where `before` is otherwise; then the flags. */
static void note_sources(const invocation *v, const sample_params *before, const run_options *o, sampling_table *to)
{
    memcpy(to->source, v->sample_source, sizeof to->source);
    sample_note_source(to->source, "chat", before, &o->sample);
    for (size_t i = 0; i < v->n_given; i++) {
        const param *row = v->given[i];
        if (row >= sample_param_rows && row < sample_param_rows + sample_param_count)
            to->source[row - sample_param_rows] = "flag";
        if (strcmp(row->key, "max_tokens") == 0) to->length_source = "flag";
    }
}

static int run_run(const invocation *v, err *e)
{
    run_options *o = v->options;
    if (v->json) o->output = "json";
    int rc = check_combination(o, e);
    if (rc) return rc;
    const bool talks = !o->prompt && !o->file && !o->ids && isatty(STDIN_FILENO);
    if (talks && o->receipt) return err_set(e, ERR_USAGE, "run: --receipt needs -p, -f or --ids: it is of one text");
    engine *eng;
    chat_template *chat = NULL;
    token_list prompt = {0};
    engine_options model = o->model;
    if (!model.max_batch) model.max_batch = o->beams; /* nothing else runs */
    rc = auto_open(&eng, &model, e);
    if (rc) return rc;
    if ((o->decoder_prompt || o->decoder_ids) && !engine_describe(eng)->n_enc_vocab)
        rc = err_set(e, ERR_USAGE, "run: this model has no encoder, so it takes no decoder prompt");
    if (!rc && strcmp(o->output, "text") == 0 && !engine_tokenizer(eng))
        rc = tokenizer_missing(eng, ", or --ids with --output ids", e);
    if (!rc && o->session) rc = engine_keep_file(eng, o->session, e);
    if (!rc) rc = text_form_read(&o->form, eng, o->grammar, o->json_schema, e);
    if (!rc && chats(o, eng, talks)) rc = chat_options_open(&chat, &o->talk, engine_tokenizer(eng), e);
    if (talks && chat && !is_given(v, "max_tokens")) o->max_tokens = -1; /* an answer ends by itself */
    const sample_params before = o->sample;
    if (!rc && chat && !samples_as_told(v) && sample_for_conversation(&o->sample))
        log_line(LOG_INFO, "sampling: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05 (the model's files set none)");
    conversation_options told = conversation_of(o);
    note_sources(v, &before, o, &told.sample);
    if (!rc && talks) rc = chat ? conversation_run(eng, chat, &told, e) : talk(eng, o, e);
    if (!rc && !talks) rc = read_prompt(eng, o, chat, &prompt, e);
    if (!rc && !talks) rc = continue_read(eng, o, &prompt, e);
    if (!rc && !talks && isatty(STDOUT_FILENO)) putchar('\n');
    if (!rc && o->session) rc = engine_session_save(eng, o->session, e);
    mem_free(prompt.id);
    chat_template_close(chat);
    grammar_drop(o->form);
    engine_close(eng);
    return rc;
}

const command command_run = {
    .name = "run",
    .summary = "chat with a model, or continue a text",
    .prints_json = true,
    .flags = groups,
    .options_size = sizeof(run_options),
    .run = run_run,
    .notes = "Without -p, -f and --ids the text comes from standard input; on a terminal it is a conversation\n"
             "through the model's chat template, which --system and --chat on apply to -p, -f and standard\n"
             "input too.\n"
             "\n"
             "  inferflow run -p \"Once upon a time\" -n 100 --temp 0.8 --seed 1\n"
             "  inferflow run --model ./Qwen2.5-0.5B --temp 0 < question.txt\n",
};
