/* t_conversation.c - `run` on a terminal: a conversation on the built-in model through a pseudo-terminal. */
#include "tests/command.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
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
    type("two\"\"\"\r");
    at = expect("answer tokens at", at);
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
    type("/dance\r");
    at = expect("unknown command /dance", at);
    type("/bye\r");
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
    assert_null(strstr(seen, "answer tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_answered),
        cmocka_unit_test(an_interrupt_stops_the_answer_alone),
        cmocka_unit_test(without_the_template_lines_are_continued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
