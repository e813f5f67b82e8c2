/* t_app_bars.c - progress on a terminal: bars fit its width and are gone before a result comes, and results are the
 * same as without them. */
#define _GNU_SOURCE
#include "tests/command.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static const double PATIENCE = 100; /* seconds; only a test that fails waits this long */
static buf out;                     /* what came to the terminal */

/* Runs "inferflow ARGS" on a terminal of so many columns; its exit status, -1: there are no terminals here. Standard
 * output goes there too, or into `file`. */
static int run_on_terminal(int columns, const char *kind, const char *file, const char *args)
{
    char line[4096], part[4096];
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int master = posix_openpt(O_RDWR | O_NOCTTY), rc = -1;
    if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0 && ioctl(slave, TIOCSWINSZ, &size) == 0);
    snprintf(line, sizeof line, "exec %s %s%s%s", command_binary(), args, file ? " >" : "", file ? file : "");
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        for (int i = 0; i < 3; i++) dup2(slave, i);
        setenv("TERM", kind, 1);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    close(slave);
    out.n = 0;
    for (double end = clock_now() + PATIENCE; clock_now() < end;) {
        struct pollfd p = {master, POLLIN, 0};
        if (poll(&p, 1, 50) <= 0) continue;
        ssize_t n = read(master, part, sizeof part);
        if (n <= 0) break;
        buf_add(&out, part, (size_t)n);
    }
    close(master);
    assert_int_equal(waitpid(pid, &rc, 0), pid);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : 255;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n >= k && memcmp(text + n - k, end, k) == 0;
}

/* Whatever begins with a carriage return is a bar, narrower than the screen and without anything behind it, or blanks
 * over one; behind the blanks and another return comes what is no bar. A bar is left standing at 100 % alone. */
static void look_at_screen(const char *args, int columns)
{
    bool wiped = false;
    for (const char *c = strchr(buf_cstr(&out), '\r'); c; c = strchr(c, '\r')) {
        size_t n = strcspn(++c, "\r\n"), last = n;
        while (last && c[last - 1] == ' ') last--;
        const bool text = wiped, stays = strncmp(c + n, "\r\n", 2) == 0;
        wiped = n && !last;
        if (text || !n) continue;
        if (n >= (size_t)columns) fail_msg("%s: %zu columns on %d: \"%.*s\"", args, n, columns, (int)n, c);
        if (!last) continue;
        if (!ends_with(c, last, "%") && !ends_with(c, last, "/s") && !ends_with(c, last, " left"))
            fail_msg("%s: after a bar stands \"%.*s\"", args, (int)n, c);
        if (stays && !memmem(c, n, "100%", 4)) fail_msg("%s: a bar is left: \"%.*s\"", args, (int)n, c);
    }
}

static bool shows_bar(void)
{
    const char *text = buf_cstr(&out);
    return strstr(text, "[##") || strstr(text, "[..");
}

/* A bar that has not come to its end is gone before anything else is printed. */
static void bars_leave_results_alone(void **state)
{
    (void)state;
    static const char *const args[] = {
        "eval perplexity -f README.md --ctx 300 --devices cpu",
        "eval perplexity -f README.md --ctx 300 --devices cpu --json",
        "eval divergence --against builtin --weights q4_b64 -f README.md --ctx 300 --devices cpu",
        "eval perplexity -f README.md --ctx 300 --devices cpu --stride 250",
        "embed --pooling none --devices cpu <README.md",
    };
    static const int widths[] = {80, 132, 50, 24, 12};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int rc = run_on_terminal(widths[i], "xterm", NULL, args[i]);
        if (rc < 0) skip_msg("no pseudo-terminals here");
        if (rc < 0) return;
        assert_int_equal(rc, 0);
        look_at_screen(args[i], widths[i]);
        if (!shows_bar() && widths[i] > 40) printf("%s: no bar was seen\n", args[i]);
    }
}

/* A prompt that takes its time: a bar with rate and rest on standard error, gone when the text begins; the text is that
 * of a run without a terminal. */
static void prompts_have_a_bar(void **state)
{
    (void)state;
    char shell[300], dir[256], args[400];
    buf text = {0}, errors = {0}, plain = {0};
    snprintf(dir, sizeof dir, "%s", temp_path("bars"));
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(shell, sizeof shell, "head -c 500 README.md >%s/prompt", dir);
    assert_int_equal(system(shell), 0);
    snprintf(args, sizeof args, "run -f %s/prompt -n 6 --temp 0 --devices cpu", dir);
    assert_int_equal(command_run(NULL, args, &plain, &errors), 0);
    assert_int_equal(errors.n, 0);
    strcat(args, " --isa c --threads 1 --chunk 8"); /* seconds, and the same text */
    snprintf(shell, sizeof shell, "%s/text", dir);
    int rc = run_on_terminal(80, "xterm", shell, args);
    if (rc < 0) skip_msg("no pseudo-terminals here");
    if (rc < 0) return;
    assert_int_equal(rc, 0);
    assert_int_equal(file_read(&text, shell, 1 << 20, NULL), OK);
    assert_string_equal(buf_cstr(&text), buf_cstr(&plain));
    const char *bars = buf_cstr(&out);
    if (!shows_bar() || !strstr(bars, "\rreading [") || !strstr(bars, " tokens/s, ") || !strstr(bars, " s left"))
        fail_msg("no bar: \"%.300s\"", bars);
    assert_true(strstr(bars, "tokens") && bars[strlen(bars) - 1] == '\r'); /* wiped */
    look_at_screen(args, 80);

    assert_int_equal(run_on_terminal(80, "xterm", NULL, args), 0); /* the text follows on the same screen */
    const char *last = strrchr(buf_cstr(&out), '%');
    assert_non_null(last);
    assert_non_null(strstr(last, "   \r"));
    assert_int_equal(run_on_terminal(80, "dumb", NULL, args), 0);
    assert_false(shows_bar());
    assert_int_equal(command_shell(dir, "rm -r $PWD", &errors), 0);
    buf_free(&text);
    buf_free(&errors);
    buf_free(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bars_leave_results_alone),
                                       cmocka_unit_test(prompts_have_a_bar)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&out);
    return rc;
}
