/* t_app_conversation.c - `run` on a terminal: a conversation on the built-in model through a pseudo-terminal. */
#include "tests/command.h"

#include "base/json.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char seen[1 << 20];
static size_t n_seen;
static int terminal;
static pid_t program;

static void start(const char *const *args)
{
    char state[256];
    snprintf(state, sizeof state, "%s", temp_path("state"));
    n_seen = 0;
    seen[0] = 0;
    program = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(program >= 0);
    if (program == 0) {
        char line[1000];
        int n = snprintf(line, sizeof line, "exec %s run", command_binary());
        for (int i = 0; args[i]; i++) n += snprintf(line + n, sizeof line - (size_t)n, " '%s'", args[i]);
        setenv("XDG_STATE_HOME", state, 1);
        setenv("TERM", "dumb", 1);
        setenv("NO_COLOR", "1", 1);
        unsetenv("LANG");
        setenv("LC_ALL", "C", 1);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
}

/* Reads until `text` has come, from byte `from` of what was seen on. Returns where it ends. */
static size_t expect(const char *text, size_t from)
{
    const int patience = (int)(20000 * test_slowness());
    for (int waited = 0; waited < patience;) {
        const char *found = strstr(seen + from, text);
        if (found) return (size_t)(found - seen) + strlen(text);
        struct pollfd p = {terminal, POLLIN, 0};
        if (poll(&p, 1, 100) > 0) {
            ssize_t n = read(terminal, seen + n_seen, sizeof seen - 1 - n_seen);
            if (n <= 0) break;
            n_seen += (size_t)n;
            seen[n_seen] = 0;
        } else {
            waited += 100;
        }
    }
    fail_msg("\"%s\" did not come: %s", text, seen + from);
    return 0;
}

static void type(const char *text) { assert_int_equal(write(terminal, text, strlen(text)), (ssize_t)strlen(text)); }

static int finish(void)
{
    int status = -1;
    char rest[4096];
    while (read(terminal, rest, sizeof rest) > 0) continue;
    assert_int_equal(waitpid(program, &status, 0), program);
    close(terminal);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void lines_are_answered(void **state)
{
    (void)state;
    const char *const args[] = {"-n", "8", "--temperature", "0", "--system", "Be kind.", NULL};
    start(args);
    size_t at = expect(">>> ", 0);
    type("Good morning!\r");
    at = expect("answer tokens at", at);
    at = expect(">>> ", at);
    type("/system\r");
    at = expect("Be kind.", at);
    at = expect(">>> ", at);
    type("/set top_k 5\r");
    at = expect(">>> ", at);
    type("/set top_p 5\r");
    at = expect("error: top_p", at);
    at = expect(">>> ", at);
    type("\"\"\"\r");
    at = expect("... ", at);
    type("one\r");
    at = expect("... ", at);
    type("two\r");
    at = expect("... ", at);
    type("\"\"\"\r"); /* the block ends with its last line, not with a newline */
    at = expect("answer tokens at", at);
    at = expect(">>> ", at);
    type("  \r"); /* not sent */
    at = expect(">>> ", at);
    type("a\\\r");
    at = expect("... ", at);
    type("b\r");
    at = expect("answer tokens at", at);
    at = expect(">>> ", at);
    const char *saved = temp_path("saved.json");
    char line[300];
    snprintf(line, sizeof line, "/save %s\r", saved);
    type(line);
    at = expect(">>> ", expect("/save", at));
    FILE *f = fopen(saved, "r");
    assert_non_null(f);
    static char text[1 << 16];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    unlink(saved);
    assert_non_null(strstr(text, "Good morning!"));
    assert_non_null(strstr(text, "\"one\\ntwo\""));
    assert_non_null(strstr(text, "\"a\\nb\""));
    assert_non_null(strstr(text, "Be kind."));
    assert_null(strstr(text, "\"  \""));
    type("/dance\r");
    at = expect("unknown command /dance;", at);
    type("/quit\r");
    assert_int_equal(finish(), 0);
    assert_null(strstr(seen, "\033[2m")); /* NO_COLOR */
}

static void an_interrupt_stops_the_answer_alone(void **state)
{
    (void)state;
    const char *const args[] = {"--temperature", "0", "--chat", "on", NULL};
    start(args);
    size_t at = expect(">>> ", 0);
    type("Tell me everything.\r");
    usleep(300000);
    kill(program, SIGINT);
    at = expect("answer tokens at", at);
    at = expect(">>> ", at);
    type("\004");
    expect("\n", at); /* the shell's prompt has a line of its own */
    assert_int_equal(finish(), 0);
}

static void without_the_template_lines_are_continued(void **state)
{
    (void)state;
    const char *const args[] = {"--chat", "off", "-n", "4", NULL};
    start(args);
    size_t at = expect("> ", 0);
    type("It was\r");
    at = expect("> ", expect("\n", expect("It was", at)));
    type("\004");
    assert_int_equal(finish(), 0);
    assert_non_null(strstr(seen, "continues texts, as --chat off says"));
    assert_null(strstr(seen, "answer tokens"));
}

/* A vocabulary without a chat template. */
static const char plain[] = "tests/vectors/tokenizers/random0.json";

static void a_model_without_template_says_so(void **state)
{
    (void)state;
    const char *const args[] = {"--tokenizer", plain, "-n", "4", "--temperature", "0", NULL};
    start(args);
    size_t at = expect("has no chat template: it continues texts; Ctrl-C stops a text, /bye or Ctrl-D ends", 0);
    at = expect("> ", at);
    type("/help\r");
    at = expect("> ", expect("Type the beginning of a text", at));
    type("/exit\r");
    assert_int_equal(finish(), 0);
}

static void a_system_message_needs_a_template(void **state)
{
    (void)state;
    static const struct {
        const char *args, *message;
        int status;
    } cases[] = {
        {"--tokenizer tests/vectors/tokenizers/random0.json -p hi --system X", "this model has no chat template", 1},
        {"-p hi --system X --chat off", "--system needs the chat template, which --chat off leaves out", 2},
        {"--ids 1,2 --system X", "--system needs the chat template, which --ids leaves out", 2},
        {"--ids 1,2 --chat on", "--chat on needs a text (-p or -f): --ids are taken as they are", 2},
        {"--ids 1,2 --chat-template x", "--chat-template needs a text", 2},
    };
    buf out = {0}, errors = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[200];
        snprintf(args, sizeof args, "run -n 4 %s", cases[i].args);
        assert_int_equal(command_run(NULL, args, &out, &errors), cases[i].status);
        assert_non_null(strstr(buf_cstr(&errors), cases[i].message));
        assert_int_equal(out.n, 0);
    }
    const char *const args[] = {"--tokenizer", plain, "--system", "X", NULL};
    start(args);
    expect("this model has no chat template", 0);
    assert_int_equal(finish(), 1);
    buf_free(&out);
    buf_free(&errors);
}

static size_t ask(const char *line, const char *answer, size_t from)
{
    type(line);
    type("\r");
    return expect(">>> ", expect(answer, from));
}

/* A file of messages as /save writes them; the path lasts until the next call. */
static const char *write_saved(const char *text)
{
    const char *path = temp_path("conversation.json");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void commands_say_what_they_did(void **state)
{
    (void)state;
    const char *const args[] = {"-n", "4", "--temperature", "0", NULL};
    char line[400], told[400];
    static const char *const bad[] = {"{\"messages\": [", "{\"messages\": [{\"role\": 1}]}", "[]", "no JSON"};
    start(args);
    size_t at = expect(">>> ", 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = write_saved(bad[i]);
        snprintf(line, sizeof line, "/load %s", path);
        snprintf(told, sizeof told, "error: %s is no saved conversation, which /save writes\r\n", path);
        at = ask(line, told, at);
    }
    at = ask("/load /nonexistent", "No such file or directory\r\n", at);
    const char *path = write_saved("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
                                   "{\"role\": \"assistant\", \"content\": \"b\"}], \"system\": \"c\"}");
    snprintf(line, sizeof line, "/load %s", path);
    at = ask(line, "loaded 2 messages and the system message\r\nthe last question: \"a\"\r\n", at);
    unlink(path);
    at = ask("/set temprature 1", "unknown parameter \"temprature\"; did you mean temperature?", at);
    at = ask("/set max_token 1", "unknown parameter \"max_token\"; did you mean max_tokens?", at);
    at = ask("/set dance 1", "unknown parameter \"dance\"; /set lists them\r\n", at);
    type("/bye\r");
    assert_int_equal(finish(), 0);
}

static void read_back(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
}

/* /save replaces conversations that it wrote, and nothing else, by whatever name. */
static void other_files_stay(void **state)
{
    (void)state;
    const char *const args[] = {"-n", "4", "--temperature", "0", NULL};
    static char text[1 << 16];
    char line[400], other[300], alias[300], saved[300];
    struct stat st;
    snprintf(other, sizeof other, "%s", temp_path("weights.safetensors"));
    snprintf(alias, sizeof alias, "%s", temp_path("alias"));
    snprintf(saved, sizeof saved, "%s", temp_path("talk.json"));
    static const char *const foreign[] = {"weights", "{\"messages\": [{\"role\": 1}]}", "{\"model\": {}}"};
    start(args);
    size_t at = expect(">>> ", 0);
    at = ask("h\u00e9llo \u65e5\u672c w\u00f6rld", "answer tokens at", at);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        FILE *f = fopen(other, "w");
        assert_non_null(f);
        fputs(foreign[i], f);
        fclose(f);
        assert_int_equal(symlink(other, alias), 0);
        for (int by_link = 0; by_link < 2; by_link++) {
            snprintf(line, sizeof line, "/save %s", by_link ? alias : other);
            at = ask(line, "is there and no saved conversation: choose another name\r\n", at);
            read_back(other, text, sizeof text);
            assert_string_equal(text, foreign[i]);
        }
        unlink(alias);
    }
    at = ask("/save /tmp", "is no file: choose another name\r\n", at);
    for (int again = 0; again < 2; again++) {
        snprintf(line, sizeof line, "/save %s\r", saved);
        type(line);
        at = expect(">>> ", at);
        assert_int_equal(stat(saved, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    read_back(saved, text, sizeof text);
    assert_non_null(strstr(text, "h\u00e9llo \u65e5\u672c w\u00f6rld")); /* in a locale of ASCII */
    unlink(saved);
    unlink(other);
    type("/bye\r");
    assert_int_equal(finish(), 0);
}

/* The built-in model's prompts have some tokens for each word. */
static void prompt_tokens_are_told_by_where_they_came_from(void **state)
{
    (void)state;
    const char *const args[] = {"-n", "4", "--temperature", "0", NULL};
    char words[400] = "";
    for (int i = 0; i < 40; i++) strcat(words, "Good day ");
    start(args);
    size_t at = expect(">>> ", 0);
    size_t before = at;
    at = ask(words, "answer tokens at", at);
    assert_null(strstr(seen + before, "cached"));
    before = at;
    at = ask("And then?", "answer tokens at", at);
    const char *told = strstr(seen + before, " prompt tokens, ");
    assert_non_null(told);
    while (told[-1] != '[') told--;
    long long all, cached, rest;
    assert_int_equal(sscanf(told, "%lld prompt tokens, %lld cached, %lld at", &all, &cached, &rest), 3);
    assert_int_equal(cached % 64, 0);
    assert_true(cached > 0 && rest > 0);
    assert_int_equal(all, cached + rest);
    type("/bye\r");
    assert_int_equal(finish(), 0);
}

static void a_full_context_says_what_helps(void **state)
{
    (void)state;
    const char *const args[] = {"-c", "64", "--temperature", "0", "--ignore-eos", NULL};
    static const char helps[] = "is full: -c N makes it larger, /clear forgets the conversation\r\n";
    start(args);
    size_t at = expect(">>> ", 0), before = at;
    at = ask("Good morning!", helps, at);
    assert_non_null(strstr(seen + before, "cut where the context ends]"));
    assert_non_null(strstr(seen + before, "the context of 64 tokens is full"));
    before = at;
    at = ask("And then? And then? And then? And then? And then? And then? And then? And then?", helps, at);
    assert_non_null(strstr(seen + before, "error: with this message the conversation has"));
    at = ask("/set max_tokens 2", "/set", at);
    at = ask("/clear", "/clear", at);
    at = ask("Good morning!", ", cut at the limit]", at);
    type("/bye\r");
    assert_int_equal(finish(), 0);
}

static void expect_row(const char *name, const char *value, const char *source, size_t from)
{
    char row[100];
    snprintf(row, sizeof row, "\n%-18s %6s  %-12s  ", name, value, source);
    if (!strstr(seen + from, row)) fail_msg("%s: %s", row, seen + from);
}

/* The table of /set: what holds, and who said so. */
static void parameters_are_a_table(void **state)
{
    (void)state;
    const char *const args[] = {"-n", "4", "--top-k", "7", NULL};
    start(args);
    size_t at = expect(">>> ", 0), before = at;
    at = ask("/set top_k 9", "top_k 9 (was 7)\r\n", at);
    at = ask("/set temp 0", "temperature 0 (was 1)\r\n", at);
    at = ask("/set max_tokens 5", "max_tokens 5 (was 4)\r\n", at);
    at = ask("/set top_p", "top_p 1 (default): only the likeliest tokens", at);
    at = ask("/set top_p high", "error: top_p: 'high' is not a number\r\n", at);
    at = ask("/set max_tokens -2", "error: max_tokens: -2 is out of range: -1 to 1073741824\r\n", at);
    at = ask("/set strategy dance", "error: strategy: 'dance' is not one of std|greedy|", at);
    at = ask("/set strategy min_p", "strategy min_p (was none)\r\n", at);
    before = at;
    at = ask("/set", "fsd_steps", at);
    expect_row("temperature", "0", "/set", before);
    expect_row("top_k", "0", "strategy", before);
    expect_row("min_p", "0.05", "strategy", before);
    expect_row("strategy", "min_p", "/set", before);
    expect_row("max_tokens", "5", "/set", before);
    expect_row("seed", "-1", "default", before);
    type("/bye\r");
    assert_int_equal(finish(), 0);

    static const char *const plainly[] = {NULL};
    start(plainly); /* what conversations get, and what flags say */
    at = expect(">>> ", 0);
    before = at;
    at = ask("/set", "fsd_steps", at);
    expect_row("temperature", "0.8", "chat", before);
    at = ask("/show", "sampling  temperature 0.8, top_k 40, top_p 0.95, min_p 0.05 (/set lists all)\r\n", at);
    type("/bye\r");
    assert_int_equal(finish(), 0);
}

static void the_file_of_a_model_is_named_by_its_parameters(void **state)
{
    (void)state;
    const char *spec = temp_path("warm.ini");
    FILE *f = fopen(spec, "w");
    assert_non_null(f);
    fputs("[model]\npath = builtin\n[generate]\ntemperature = 0.3\n", f);
    fclose(f);
    const char *const args[] = {"--spec", spec, "--top-k", "7", NULL};
    start(args);
    size_t at = expect(">>> ", 0), before = at;
    at = ask("/set", "fsd_steps", at);
    expect_row("temperature", "0.3", "spec", before);
    expect_row("top_k", "7", "flag", before);
    type("/bye\r");
    assert_int_equal(finish(), 0);
    unlink(spec);
}

/* Messages of a saved conversation; each is followed by a newline. */
static void saved_contents(buf *out, const char *path)
{
    json *root;
    err e = {0};
    out->n = 0;
    assert_int_equal(json_read(&root, path, 1 << 20, &e), OK);
    for (const json *m = json_first(json_get(root, "messages")); m; m = json_next(m))
        buf_printf(out, "%s: %s\n", json_str(json_get(m, "role"), ""), json_str(json_get(m, "content"), ""));
    json_free(root);
}

/* The prompt tokens of the last answer that the cache had; 0: none. */
static long long cached_since(size_t from)
{
    long long all, cached = 0;
    const char *told = strstr(seen + from, " prompt tokens");
    assert_non_null(told);
    while (told[-1] != '[') told--;
    sscanf(told, "%lld prompt tokens, %lld cached", &all, &cached);
    return cached;
}

static void answers_come_again_or_go(void **state)
{
    (void)state;
    char words[400] = "", line[400], path[300], kept[300];
    snprintf(path, sizeof path, "%s", temp_path("talk.json"));
    snprintf(kept, sizeof kept, "%s", temp_path("kept.session"));
    const char *const args[] = {"-n", "6", "--temperature", "2", "--seed", "1", "--session", kept, NULL};
    buf first = {0}, second = {0};
    for (int i = 0; i < 40; i++) strcat(words, "Good day ");
    start(args);
    size_t at = expect(">>> ", 0);
    at = ask("/retry", "error: /retry: there is no question yet\r\n", at);
    at = ask("/undo", "error: /undo: there is no question yet\r\n", at);
    at = ask("/show", "context   0 of 2048 tokens", at);
    at = ask(words, "answer tokens at", at);
    snprintf(line, sizeof line, "/save %s", path);
    at = ask(line, "saved 2 messages", at);
    saved_contents(&first, path);
    size_t before = at;
    at = ask("/retry", "answer tokens at", at); /* the next choice of this seed */
    assert_true(cached_since(before) >= 64);
    at = ask(line, "saved 2 messages", at);
    saved_contents(&second, path);
    assert_string_not_equal(buf_cstr(&first), buf_cstr(&second));
    at = ask("And then?", "answer tokens at", at);
    at = ask("/undo", "dropped \"And then?\"; 2 messages are left\r\n", at);
    at = ask(line, "saved 2 messages", at);
    saved_contents(&first, path);
    assert_string_equal(buf_cstr(&first), buf_cstr(&second));
    at = ask("/set temperature 0", "temperature 0", at);
    at = ask("/retry", "the temperature is 0: the same answer comes again", at);
    at = ask("/show", "of 2048 tokens, 2 messages\r\n", at);
    at = ask("/undo", "0 messages are left", at);
    at = ask("/undo", "error: /undo: there is no question yet\r\n", at);
    at = ask(line, "saved 0 messages", at);
    snprintf(line, sizeof line, "/load %s", path);
    at = ask(line, "loaded 0 messages", at);
    at = ask("/help", "/undo", at);
    type("/bye\r");
    assert_int_equal(finish(), 0);
    assert_int_equal(access(kept, F_OK), 0);
    unlink(path), unlink(kept);
    buf_free(&first), buf_free(&second);
}

/* A question that found no place is asked again when there is some; one whose retry fails keeps its answer. */
static void a_question_without_answer_is_kept(void **state)
{
    (void)state;
    const char *const args[] = {"-c", "64", "--temperature", "0", "--ignore-eos", "-n", "8", NULL};
    char words[400] = "", line[420], path[300];
    buf text = {0};
    snprintf(path, sizeof path, "%s", temp_path("talk.json"));
    for (int i = 0; i < 24; i++) strcat(words, "And then? ");
    start(args);
    size_t at = expect(">>> ", 0);
    at = ask("Good morning!", "answer tokens at", at);
    at = ask(words, "the conversation has", at);
    at = ask("/undo", "dropped \"And then? And then?", at); /* of these the one that has no answer */
    snprintf(line, sizeof line, "/save %s", path);
    at = ask(line, "saved 2 messages", at);
    snprintf(line, sizeof line, "/system %s", words);
    at = ask(line, "is set", at);
    at = ask("/retry", "error: with this message the conversation has", at);
    snprintf(line, sizeof line, "/save %s", path);
    at = ask(line, "saved 2 messages and the system message", at);
    saved_contents(&text, path);
    assert_non_null(strstr(buf_cstr(&text), "assistant: "));
    at = ask("/clear", "forgotten", at);
    at = ask("/retry", "error: /retry: there is no question yet\r\n", at);
    type("/bye\r");
    assert_int_equal(finish(), 0);
    unlink(path);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_answered),
        cmocka_unit_test(an_interrupt_stops_the_answer_alone),
        cmocka_unit_test(without_the_template_lines_are_continued),
        cmocka_unit_test(a_model_without_template_says_so),
        cmocka_unit_test(a_system_message_needs_a_template),
        cmocka_unit_test(commands_say_what_they_did),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(prompt_tokens_are_told_by_where_they_came_from),
        cmocka_unit_test(a_full_context_says_what_helps),
        cmocka_unit_test(parameters_are_a_table),
        cmocka_unit_test(the_file_of_a_model_is_named_by_its_parameters),
        cmocka_unit_test(answers_come_again_or_go),
        cmocka_unit_test(a_question_without_answer_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
