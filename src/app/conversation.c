/* conversation.c - see conversation.h. The messages are kept as the JSON that templates take; /save writes it. A
 * question that got no answer is kept beside them, so that no template meets it: /retry asks it again. */
#include "app/conversation.h"

#include "app/answer_loop.h"
#include "app/interrupt.h"
#include "app/line_edit.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/call_parser.h"
#include "chat/chat_messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAVED_BYTES_MAX = 64 << 20 };
#define MORE_ROOM "-c N makes it larger, /clear forgets the conversation"

typedef struct conversation {
    engine *eng;
    const chat_template *chat;
    conversation_options o;
    json *messages; /* {"messages": [...]}, without the system message */
    char *system;   /* NULL: none */
    char *open;     /* the last question, if it got no answer; NULL: it got one, or there is none */
    int32_t tries;  /* answers to the last question before this one: each is another choice of the seed */
    bool colours, ends;
} conversation;

/* An answer, read for its reasoning. */
typedef struct reply {
    conversation *c;
    answer said;
    call_parser *parser;
    chat_message message;
    size_t taken;                          /* bytes of the text that the parser has */
    size_t shown_reasoning, shown_content; /* of the message */
    int64_t unread;                        /* of the prompt, as it was stopped */
    err why;                               /* the answer failed */
} reply;

static const char *style(const conversation *c, const char *code) { return c->colours ? code : ""; }

/* ---- an answer ---- */

static void show(reply *r)
{
    const chat_message *m = &r->message;
    const conversation *c = r->c;
    if (m->reasoning.n > r->shown_reasoning) {
        printf("%s%.*s%s", style(c, "\033[2m"), (int)(m->reasoning.n - r->shown_reasoning),
               m->reasoning.p + r->shown_reasoning, style(c, "\033[0m"));
        r->shown_reasoning = m->reasoning.n;
    }
    if (m->content.n > r->shown_content) {
        if (!r->shown_content && m->reasoning.n) fputs("\n\n", stdout);
        fwrite(m->content.p + r->shown_content, 1, m->content.n - r->shown_content, stdout);
        r->shown_content = m->content.n;
    }
    fflush(stdout);
}

static bool on_token(void *ctx, const token_event *ev)
{
    reply *r = ctx;
    answer_take(&r->said, ev, &r->why);
    if (ev->token >= 0) log_progress_end();
    const span more = span_of(r->said.text.p + r->taken, r->said.text.n - r->taken);
    r->taken = r->said.text.n;
    if (call_parser_feed(r->parser, more, r->said.finish != FINISH_NONE, &r->message, &r->why))
        r->said.finish = FINISH_ERROR;
    show(r);
    return r->said.finish == FINISH_NONE;
}

static void tell_speed(const reply *r, int64_t n_prompt, double began)
{
    const conversation *c = r->c;
    const answer *a = &r->said;
    const int ctx = engine_describe(c->eng)->ctx;
    const double reading = a->n_tokens ? a->first - began : clock_now() - began, writing = a->last - a->first;
    const int64_t taken = n_prompt - r->unread, computed = taken - a->cached;
    const bool cut = a->finish == FINISH_LENGTH, full = cut && n_prompt + a->n_tokens >= ctx;
    printf("\n%s[%lld ", style(c, "\033[2m"), (long long)taken);
    if (r->unread) printf("of %lld ", (long long)n_prompt);
    printf("prompt tokens");
    if (a->cached) printf(", %lld cached, %lld", (long long)a->cached, (long long)computed);
    printf(" at %.1f tokens/s; %lld answer tokens at %.1f tokens/s%s%s]%s\n",
           reading > 0 ? (double)computed / reading : 0, (long long)a->n_tokens,
           writing > 0 ? (double)(a->n_tokens - 1) / writing : 0, interrupted ? ", stopped" : "",
           full  ? ", cut where the context ends"
           : cut ? ", cut at the limit"
                 : "",
           style(c, "\033[0m"));
    fflush(stdout);
    if (full) log_line(LOG_WARN, "the context of %d tokens is full: " MORE_ROOM, ctx);
}

/* The marks of reasoning may be special tokens. */
static bool wants_mark(const void *ctx, span special) { return call_parser_wants(ctx, special); }

static int write_reply(reply *r, const token_list *prompt, bool thinking, err *e)
{
    conversation *c = r->c;
    const call_parser_options parse = {.reasoning = chat_template_reasoning(c->chat), .thinking = thinking};
    const answer_rules rules = {.wants = wants_mark, .ctx = &parse};
    query q = {.ids = prompt->id,
               .n_ids = prompt->n,
               .max_tokens = c->o.sample.max_tokens < 0 ? INT32_MAX : c->o.sample.max_tokens,
               .min_tokens = c->o.min_tokens,
               .ignore_eos = c->o.ignore_eos,
               .sample = *c->o.sample.params,
               .constraint = c->o.form,
               .n_logprobs = -1,
               .beams = 1,
               .on_token = on_token,
               .ctx = r};
    q.sample.choice = c->tries;
    sample_seed_draw(&q.sample);
    uint64_t id;
    const double began = clock_now();
    int rc = answer_open(&r->said, engine_target_tokenizer(c->eng), &rules, e);
    if (!rc) rc = call_parser_open(&r->parser, &parse, e);
    if (!rc) rc = answer_read(&r->said, prompt->id, prompt->n, e);
    if (!rc) rc = answer_show(&r->said, (span){0}, e);
    if (!rc) rc = engine_add_query(c->eng, &q, &id, e);
    if (rc == ERR_LIMIT) {
        *e = (err){0};
        err_set(e, rc, "with this message the conversation has %zu tokens, and the context of %d is full: " MORE_ROOM,
                prompt->n, engine_describe(c->eng)->ctx);
    }
    if (!rc) rc = answer_loop(c->eng, &r->said, id, true, &r->unread, e);
    if (!rc) rc = err_copy(e, &r->why);
    if (!rc) tell_speed(r, (int64_t)prompt->n, began);
    answer_close(&r->said);
    call_parser_close(r->parser);
    return rc;
}

/* ---- the prompt ---- */

/* The ids of the conversation; *thinking: the template has opened the reasoning. */
static int make_prompt(const engine *eng, const chat_template *chat, const conversation_options *o, const char *system,
                       const json *messages, bool *thinking, token_list *out, err *e)
{
    json *root = json_new_object(), *list = json_add_array(root, "messages");
    jinja_output text = {0};
    if (system) chat_message_add(list, "system", system);
    for (const json *m = json_first(messages); m; m = json_next(m)) json_add_copy(list, NULL, m);
    int rc = chat_template_apply(
        chat, &(chat_input){.messages = list, .add_generation_prompt = true, .now = time(NULL)}, &text, e);
    const tokenizer *t = engine_tokenizer(eng);
    if (!rc && o->parse_special) rc = tokenizer_encode(t, buf_span(&text.text), TOKENIZE_PARSE, out, e);
    else if (!rc) rc = tokenizer_encode_marked(t, buf_span(&text.text), text.user.p, out, e);
    *thinking = !rc && chat_template_thinks(chat, buf_span(&text.text));
    if (!rc && !out->n) rc = err_set(e, ERR_USAGE, "the chat template gives an empty prompt");
    jinja_output_free(&text);
    json_free(root);
    return rc;
}

int conversation_prompt(const engine *eng, const chat_template *chat, const conversation_options *o, const char *text,
                        token_list *out, err *e)
{
    json *root = json_new_object(), *list = json_add_array(root, "messages");
    bool thinking;
    chat_message_add(list, "user", text);
    int rc = make_prompt(eng, chat, o, o->system, list, &thinking, out, e);
    json_free(root);
    return rc;
}

static const json *messages_of(const conversation *c) { return json_get(c->messages, "messages"); }

/* The first `n` messages, as a list of their own. */
static json *first_messages(const conversation *c, size_t n)
{
    json *root = json_new_object(), *list = json_add_array(root, "messages");
    for (const json *m = json_first(messages_of(c)); m && n; m = json_next(m), n--) json_add_copy(list, NULL, m);
    return root;
}

static void replace_messages(conversation *c, json *with)
{
    json_free(c->messages);
    c->messages = with;
}

static void forget_open(conversation *c)
{
    mem_free(c->open);
    c->open = NULL;
    c->tries = 0;
}

static void forget_all(conversation *c)
{
    replace_messages(c, first_messages(c, 0));
    forget_open(c);
}

/* The index of the last message of the user, and its text; -1: there is none. */
static int64_t last_question(const conversation *c, const char **text)
{
    int64_t at = -1, i = 0;
    for (const json *m = json_first(messages_of(c)); m; m = json_next(m), i++) {
        if (strcmp(json_str(json_get(m, "role"), ""), "user") != 0) continue;
        at = i;
        *text = json_str(json_get(m, "content"), "");
    }
    return at;
}

/* Asks after the first `before` messages. Without an answer all messages stay as they were. */
static int ask(conversation *c, const char *text, size_t before, err *e)
{
    json *root = first_messages(c, before), *list = (json *)json_get(root, "messages");
    token_list prompt = {0};
    reply r = {.c = c};
    bool thinking;
    interrupted = 0;
    chat_message_add(list, "user", text);
    int rc = make_prompt(c->eng, c->chat, &c->o, c->system, list, &thinking, &prompt, e);
    if (!rc) rc = write_reply(&r, &prompt, thinking, e);
    const bool answered = !rc && r.said.n_tokens;
    if (answered) {
        json *m = chat_message_add(list, "assistant", buf_cstr(&r.message.content));
        if (r.message.reasoning.n) json_add_str(m, "reasoning_content", buf_cstr(&r.message.reasoning));
        replace_messages(c, root);
        mem_free(c->open);
        c->open = NULL;
    } else {
        json_free(root);
    }
    chat_message_free(&r.message);
    mem_free(prompt.id);
    return rc;
}

static int answer_line(conversation *c, const char *text, err *e)
{
    forget_open(c);
    c->open = mem_str(text);
    return ask(c, text, json_count(messages_of(c)), e);
}

/* ---- commands ---- */

static int do_bye(conversation *c, const char *rest, err *e)
{
    (void)rest, (void)e;
    c->ends = true;
    return OK;
}

static int do_clear(conversation *c, const char *rest, err *e)
{
    (void)rest, (void)e;
    forget_all(c);
    printf("the conversation is forgotten%s\n", c->system ? "; the system message stays" : "");
    return OK;
}

/* The same question gets another answer. A retry that fails keeps the one that it has. */
static int do_retry(conversation *c, const char *rest, err *e)
{
    const char *text;
    (void)rest;
    const int64_t at = last_question(c, &text);
    if (c->open) return ask(c, c->open, json_count(messages_of(c)), e);
    if (at < 0) return err_set(e, ERR_USAGE, "/retry: there is no question yet");
    if (c->o.sample.params->temperature == 0)
        printf("the temperature is 0: the same answer comes again; /set temperature 0.8 draws others\n");
    char *again = mem_str(text);
    c->tries++;
    int rc = again ? ask(c, again, (size_t)at, e) : err_memory(e, NULL);
    mem_free(again);
    return rc;
}

/* The first line of a text, in quotes. */
static void print_quoted(const char *text)
{
    const size_t n = strcspn(text, "\n");
    printf("\"%.*s%s\"", (int)n, text, text[n] ? " …" : "");
}

/* Drops the last question with its answer, and with what came between them. */
static int do_undo(conversation *c, const char *rest, err *e)
{
    const char *text = c->open;
    (void)rest;
    const int64_t at = c->open ? 0 : last_question(c, &text);
    if (at < 0) return err_set(e, ERR_USAGE, "/undo: there is no question yet");
    const size_t left = c->open ? json_count(messages_of(c)) : (size_t)at;
    printf("dropped ");
    print_quoted(text);
    printf("; %zu message%s left\n", left, left == 1 ? " is" : "s are");
    if (!c->open) replace_messages(c, first_messages(c, left));
    forget_open(c);
    return OK;
}

static int do_show(conversation *c, const char *rest, err *e)
{
    const engine_info *info = engine_describe(c->eng);
    const size_t n = json_count(messages_of(c));
    token_list ids = {0};
    bool thinking;
    (void)rest, (void)e;
    err why = {0}; /* of templates that begin with a question: then nothing is used */
    if (n || c->system) make_prompt(c->eng, c->chat, &c->o, c->system, messages_of(c), &thinking, &ids, &why);
    printf("model     %s (%s, %d layers), on %s\n", info->name, info->arch, info->n_layer, info->devices);
    printf("context   %zu of %d tokens, %zu message%s%s\n", ids.n, info->ctx, n, n == 1 ? "" : "s",
           c->system ? ", system message" : "");
    if (c->o.sample.max_tokens >= 0) printf("answers   up to %lld tokens\n", (long long)c->o.sample.max_tokens);
    printf("sampling  ");
    sampling_table_summary(&c->o.sample);
    printf(" (/set lists all)\n");
    mem_free(ids.id);
    return OK;
}

static int do_system(conversation *c, const char *rest, err *e)
{
    (void)e;
    if (!*rest) {
        printf("%s\n", c->system ? c->system : "(none)");
        return OK;
    }
    mem_free(c->system);
    c->system = mem_str(rest);
    printf("the system message is set\n");
    return OK;
}

static int do_set(conversation *c, const char *rest, err *e)
{
    if (*rest) return sampling_table_set(&c->o.sample, rest, e);
    sampling_table_print(&c->o.sample);
    return OK;
}

/* A file as /save writes it. ERR_FORMAT: it is another one; errors of reading. */
static int read_saved(json **out, const char *path, err *e)
{
    int rc = json_read(out, path, SAVED_BYTES_MAX, e);
    if (rc && rc != ERR_FORMAT) return rc;
    bool good = !rc && json_type(json_get(*out, "messages")) == JSON_ARRAY;
    for (const json *m = rc ? NULL : json_first(json_get(*out, "messages")); m; m = json_next(m))
        good = good && json_str(json_get(m, "role"), NULL) && json_str(json_get(m, "content"), NULL);
    if (good) return OK;
    if (!rc) json_free(*out);
    *out = NULL;
    *e = (err){0};
    return err_set(e, ERR_FORMAT, "%s is no saved conversation, which /save writes", path);
}

/* Nothing but a saved conversation, or an empty file, is replaced: weights, templates and texts of others stay. */
static int check_target(const char *path, err *e)
{
    json *old = NULL;
    struct stat st;
    err why = {0};
    if (stat(path, &st) != 0 || S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode) || (S_ISREG(st.st_mode) && !st.st_size))
        return OK;
    if (!S_ISREG(st.st_mode)) return err_set(e, ERR_USAGE, "/save: %s is no file: choose another name", path);
    int rc = read_saved(&old, path, &why);
    json_free(old);
    return rc ? err_set(e, ERR_USAGE, "/save: %s is there and no saved conversation: choose another name", path) : OK;
}

static void print_count(const char *what, size_t n, const char *system)
{
    printf("%s %zu message%s%s\n", what, n, n == 1 ? "" : "s", system ? " and the system message" : "");
}

static int do_save(conversation *c, const char *rest, err *e)
{
    if (!*rest) return err_set(e, ERR_USAGE, "/save: a file name is missing");
    int rc = check_target(rest, e);
    if (rc) return rc;
    json *root = json_copy(c->messages);
    buf text = {0};
    file_out *f = NULL;
    if (c->system) json_add_str(root, "system", c->system);
    bool made = root && json_print(&text, root, true) && buf_byte(&text, '\n');
    json_free(root);
    rc = made ? file_create_private(&f, rest, e) : err_memory(e, "the conversation");
    if (!rc && (rc = file_write(f, text.p, text.n, e))) file_abandon(f);
    else if (!rc) rc = file_commit(f, e);
    buf_free(&text);
    if (rc) return err_wrap(e, "/save");
    print_count("saved", json_count(messages_of(c)), c->system);
    return OK;
}

static int do_load(conversation *c, const char *rest, err *e)
{
    json *root;
    if (!*rest) return err_set(e, ERR_USAGE, "/load: a file name is missing");
    int rc = read_saved(&root, rest, e);
    if (rc) return rc;
    const char *system = json_str(json_get(root, "system"), NULL);
    forget_all(c);
    for (const json *m = json_first(json_get(root, "messages")); m; m = json_next(m))
        json_add_copy((json *)json_get(c->messages, "messages"), NULL, m);
    if (system) {
        mem_free(c->system);
        c->system = mem_str(system);
    }
    print_count("loaded", json_count(json_get(root, "messages")), system);
    const char *text;
    if (last_question(c, &text) >= 0) {
        printf("the last question: ");
        print_quoted(text);
        putchar('\n');
    }
    json_free(root);
    return OK;
}

static int do_help(conversation *c, const char *rest, err *e);

static const struct {
    const char *name, *doc;
    int (*run)(conversation *c, const char *rest, err *e);
} commands[] = {
    {"/help", "this list", do_help},
    {"/bye", "ends the program, as /exit, /quit and Ctrl-D do", do_bye},
    {"/exit", NULL, do_bye},
    {"/quit", NULL, do_bye},
    {"/?", NULL, do_help},
    {"/retry", "answers the last question again", do_retry},
    {"/undo", "drops the last question and its answer", do_undo},
    {"/clear", "forgets the conversation", do_clear},
    {"/show", "the model, how much of the context is used, and the sampling", do_show},
    {"/system", "TEXT: what the model is told before the conversation; without TEXT: shows it", do_system},
    {"/set", "NAME VALUE: a sampling parameter, or max_tokens; without NAME: a table of them", do_set},
    {"/save", "FILE: writes the conversation", do_save},
    {"/load", "FILE: goes on with a conversation", do_load},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int do_help(conversation *c, const char *rest, err *e)
{
    (void)c, (void)rest, (void)e;
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].doc) printf("%-8s %s\n", commands[i].name, commands[i].doc);
    printf("A \\ at the end of a line, or \"\"\" around several, makes them one message. Ctrl-C stops an answer.\n");
    return OK;
}

/* The command that a line begins with, and what follows it; -1: there is none of this name. */
static int find_command(const char *line, const char **rest)
{
    const size_t n = strcspn(line, " ");
    *rest = line + n + strspn(line + n, " ");
    for (int i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, line, n) == 0) return i;
    return -1;
}

line_kind conversation_line(const char *line)
{
    const char *rest;
    const int i = find_command(line, &rest);
    if (!line[strspn(line, " \t\r\n")]) return LINE_BLANK;
    if (i < 0 || *rest) return LINE_TEXT;
    return commands[i].run == do_bye ? LINE_BYE : commands[i].run == do_help ? LINE_HELP : LINE_TEXT;
}

static int run_command(conversation *c, const char *line, err *e)
{
    const char *rest;
    const int i = find_command(line, &rest), n = (int)strcspn(line, " ");
    if (i >= 0) return commands[i].run(c, rest, e);
    return err_set(e, ERR_USAGE, "unknown command %.*s; /help lists them", n < 60 ? n : 60, line);
}

/* ---- input ---- */

/* One input: a line, or lines joined by a trailing backslash or between """. False: the end. */
static bool read_input(buf *out)
{
    bool quoted = false;
    out->n = 0;
    for (const char *prompt = ">>> ";; prompt = "... ") {
        char *line = line_read(prompt);
        if (!line) return out->n > 0;
        if (line_dropped()) { /* with all lines before it */
            printf("/bye or Ctrl-D ends\n");
            line_free(line);
            out->n = 0;
            return true;
        }
        size_t n = strlen(line);
        const char *from = line;
        bool more = false;
        if (!quoted && !out->n && strncmp(line, "\"\"\"", 3) == 0) {
            quoted = true;
            from += 3;
            n -= 3;
            if (*from == '\n') from++, n--; /* a paste */
        }
        if (quoted && n >= 3 && strcmp(from + n - 3, "\"\"\"") == 0) {
            quoted = false;
            n -= 3;
            if (n && from[n - 1] == '\n') n--; /* of a paste */
            else if (!n && out->n) out->n--;   /* that of the line before */
        } else if (!quoted && n && from[n - 1] == '\\') {
            more = true;
            n--;
        }
        buf_add(out, from, n);
        if ((quoted && (from == line || n)) || more) buf_byte(out, '\n'); /* nothing for a """ alone */
        line_free(line);
        if (!quoted && !more) return true;
    }
}

int conversation_run(engine *eng, const chat_template *chat, const conversation_options *o, err *e)
{
    conversation c = {.eng = eng, .chat = chat, .o = *o, .system = mem_str(o->system)};
    const char *plain = getenv("NO_COLOR"), *kind = getenv("TERM");
    buf input = {0};
    c.colours = isatty(STDOUT_FILENO) && !(plain && *plain) && kind && strcmp(kind, "dumb") != 0;
    forget_all(&c);
    interrupt_watch();
    if (strcmp(engine_describe(eng)->name, "builtin") == 0)
        fprintf(stderr, "The built-in model is a toy of 5.5M parameters that writes like an old novel.\n"
                        "-m FILE takes a model that chats.\n");
    fprintf(stderr, "%s: /help lists commands, Ctrl-C stops an answer, /bye or Ctrl-D ends\n",
            engine_describe(eng)->name);
    int rc = OK;
    while (!rc && !c.ends && read_input(&input)) {
        const char *text = buf_cstr(&input);
        if (conversation_line(text) == LINE_BLANK) continue;
        rc = *text == '/' ? run_command(&c, text, e) : answer_line(&c, text, e);
        if (!rc || rc == ERR_MEMORY) continue;
        log_line(LOG_ERROR, "%s", e->msg);
        *e = (err){0};
        rc = OK;
    }
    if (!rc && !c.ends) putchar('\n'); /* after the prompt of the line that did not come */
    line_close();
    buf_free(&input);
    json_free(c.messages);
    mem_free(c.system);
    mem_free(c.open);
    return rc;
}
