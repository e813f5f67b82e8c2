/* attempt_server.c - rows of commands that run until they are told to end: serve, node. */
#define _GNU_SOURCE
#include "tests/pairs/attempt_server.h"

#include "base/clock.h"
#include "base/file.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits until a program has printed a line with `mark` on standard output; the text from there, or NULL: it ended. */
static const char *wait_for(const attempt *t, pid_t pid, const char *mark, buf *printed)
{
    for (double end = clock_now() + t->limit; clock_now() < end; usleep(2000)) {
        siginfo_t ended = {0};
        attempt_printed(printed, t->w, t->name, "out");
        const char *at = strstr(buf_cstr(printed), mark);
        if (at && strchr(at, '\n')) return at;
        if (!waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid) return NULL;
    }
    return NULL;
}

/* ---- serve */

typedef struct client {
    const attempt *t;
    char url[200];
    bool key;
} client;

/* One request by curl; its status, 0: there was no reply within the seconds. */
static int ask(const client *c, double seconds, const char *path, const char *body, buf *reply)
{
    char line[1500];
    snprintf(line, sizeof line, "curl -skN -m %g %s%s%s%s%s -w '\\n%%{http_code}' '%s%s'", seconds,
             c->key ? "-H 'Authorization: Bearer secret-of-this-check' " : "",
             body ? "-H 'Content-Type: application/json' -d '" : "", body ? body : "", body ? "'" : "", "", c->url,
             path);
    char part[4096];
    FILE *f = popen(line, "r");
    reply->n = 0;
    if (!f) return 0;
    for (size_t got; (got = fread(part, 1, sizeof part, f)) > 0;) buf_add(reply, part, got);
    pclose(f);
    const char *text = buf_cstr(reply), *code = strrchr(text, '\n');
    int status = code ? atoi(code + 1) : 0;
    if (code) reply->n = (size_t)(code - text);
    return status;
}

static bool is_up(const client *c)
{
    buf reply = {0};
    int status = 0;
    for (double end = clock_now() + c->t->limit; status != 200 && clock_now() < end; usleep(3000)) {
        siginfo_t ended = {0};
        status = ask(c, 5, "/health", NULL, &reply);
        if (status == 0 && !waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid) break;
    }
    buf_free(&reply);
    return status == 200;
}

/* The member "token_ids":[…] of each choice. */
static void add_ids(buf *to, const buf *reply)
{
    static const char key[] = "\"token_ids\":";
    const char *text = buf_cstr((buf *)reply);
    while ((text = strstr(text, key))) {
        text += sizeof key - 1;
        buf_add(to, text, strcspn(text, "]"));
    }
}

static const struct {
    const char *path, *body;
    bool ids; /* what it writes is compared */
} request[] = {
    {"/v1/completions", "{\"prompt\":[5,6,7,8],\"max_tokens\":6,\"seed\":3,\"return_token_ids\":true}", true},
    {"/v1/completions",
     "{\"prompt\":[[5,6,7,8],[9,10]],\"n\":2,\"max_tokens\":5,\"temperature\":0.7,\"seed\":4,\"logprobs\":2,"
     "\"return_token_ids\":true}",
     true},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":5}", false},
    {"/v1/completions",
     "{\"prompt\":\"a\",\"max_tokens\":8,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
     "\"schema\":{\"type\":\"integer\"}}},\"stream\":true}",
     false},
    {"/v1/embeddings", "{\"input\":\"a\"}", false},
    {"/metrics", NULL, false},
    {"/props", NULL, false},
    {"/slots", NULL, false},
    {"/v1/models", NULL, false},
};

static void ask_all(const client *c, attempt_outcome *out, char *bad, size_t bad_size)
{
    buf reply = {0};
    for (size_t i = 0; i < sizeof request / sizeof *request && !*bad; i++) {
        int status = ask(c, c->t->limit, request[i].path, request[i].body, &reply);
        if (status >= 500 || status < 200 || status == 401 || status == 403 || status == 404)
            snprintf(bad, bad_size, "%s: status %d: %.300s", request[i].path, status, buf_cstr(&reply));
        else if (status >= 400 && !strstr(buf_cstr(&reply), "\"message\""))
            snprintf(bad, bad_size, "%s: status %d without a message: %.300s", request[i].path, status,
                     buf_cstr(&reply));
        else if (status == 429 || strstr(buf_cstr(&reply), "--max-queue")) out->partial = true; /* no room for all */
        else if (request[i].ids && status == 200) add_ids(&out->result, &reply);
    }
    ask(c, 0.05, "/v1/completions", "{\"prompt\":[5,6,7],\"max_tokens\":400,\"ignore_eos\":true,\"stream\":true}",
        &reply); /* whoever leaves */
    buf_free(&reply);
}

void attempt_serve(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    attempt_args a;
    buf printed = {0};
    char bad[500] = "";
    client c = {.t = t, .key = attempt_given(t, row, "api_key_file") != NULL};
    attempt_args_begin(&a, t->w, "serve");
    if (!attempt_given(t, row, "port")) attempt_args_add(&a, "--port=0");
    if (!attempt_given(t, row, "log_level")) attempt_args_add(&a, "--log-level=error");
    if (!attempt_given(t, row, "seed")) attempt_args_add(&a, "--seed=7");
    attempt_args_row(&a, t, row, false);
    pid_t pid = attempt_start(&a, t->w, t->name);
    const char *url = wait_for(t, pid, "http", &printed);
    if (url) {
        snprintf(c.url, sizeof c.url, "%.*s", (int)strspn(url, "htps:/abcdelo0123456789.[]"), url);
        if (is_up(&c)) ask_all(&c, out, bad, sizeof bad);
    }
    kill(pid, SIGTERM);
    attempt_wait(pid, t, t->name, t->limit, out);
    if (out->end != ATTEMPT_REFUSED && *bad) {
        out->end = ATTEMPT_FAULT;
        snprintf(out->why, sizeof out->why, "%s", bad);
    }
    attempt_args_end(&a);
    buf_free(&printed);
}

/* ---- node */

/* A leader's text over the node. */
static void lead(const attempt *t, const char *at, const char *key, attempt_outcome *out)
{
    attempt leader = *t;
    attempt_args a;
    char devices[200];
    leader.name = "leader";
    attempt_args_begin(&a, t->w,
                       "run --log-level=error --ids=5,6,7,8 --max-tokens=5 --temperature=0 --output=ids --peer-wait=5");
    snprintf(devices, sizeof devices, "--devices=%s/cpu", at);
    attempt_args_add(&a, devices);
    attempt_args_add(&a, key);
    attempt_wait(attempt_start(&a, t->w, leader.name), &leader, leader.name, t->limit, out);
    if (out->end == ATTEMPT_WELL) attempt_printed(&out->result, t->w, leader.name, "out");
    attempt_args_end(&a);
}

void attempt_node(const attempt *t, const uint8_t *row, attempt_outcome *out)
{
    attempt_args a;
    buf printed = {0};
    char key[400], at[100] = "";
    attempt_outcome led = {.end = ATTEMPT_WELL};
    snprintf(key, sizeof key, "--key-file=%s/key", t->w->dir);
    attempt_args_begin(&a, t->w, "node");
    if (!attempt_given(t, row, "key_file") && !attempt_given(t, row, "new_key")) attempt_args_add(&a, key);
    if (!attempt_given(t, row, "listen") && !attempt_given(t, row, "new_key"))
        attempt_args_add(&a, "--listen=127.0.0.1:0");
    if (!attempt_given(t, row, "log_level")) attempt_args_add(&a, "--log-level=error");
    attempt_args_row(&a, t, row, false);
    pid_t pid = attempt_start(&a, t->w, t->name);
    const char *from = wait_for(t, pid, "listening", &printed);
    if (from) {
        from += strcspn(from, " :") + 1; /* "listening on A", or "listening":"A" in an object */
        from += strncmp(from, "on ", 3) == 0 ? 3 : strspn(from, " \"");
        snprintf(at, sizeof at, "%.*s", (int)strcspn(from, " ,\"\n"), from);
        lead(t, at, key, &led);
    }
    kill(pid, SIGTERM);
    attempt_wait(pid, t, t->name, t->limit, out);
    out->partial = !from; /* --new-key ends it at once */
    if (out->end == ATTEMPT_WELL && led.end != ATTEMPT_WELL) {
        out->end = led.end;
        snprintf(out->why, sizeof out->why, "its leader: %.600s", led.why);
    }
    buf_free(&out->result);
    out->result = led.result;
    attempt_args_end(&a);
    buf_free(&printed);
}
