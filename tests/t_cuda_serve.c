/* t_cuda_serve.c - a server on the CUDA backend (programs here, tests/gpu) where one call of the driver fails.
 *
 * It does not start and says why in one line, or it answers two queries at once and a third one, each with the CPU's
 * tokens or with an error that names the device. Then /health is 503 and names it too, unless the third one is
 * answered. Nothing hangs, also where the device does, and it ends when it is asked to. */
#include "command.h"
#include "cuda_rig.h"

#include "base/clock.h"

#include <sys/stat.h>

static char work[256];

/* Writes a, b and c, what it answers; health and its status, after that; `said`, its lines; rc, its exit status; and
 * counts of calls. */
static const char script[] =
    "rm -f url said a b c rc counts health status\n"
    "timeout -k 10 200 $P serve -m $V/models/llama --port 0 --log-level error $1 >url 2>said & p=$!\n"
    "while kill -0 $p 2>/dev/null && ! grep -q http url; do sleep 0.02; done\n"
    "u=$(grep -o 'http://127.0.0.1:[0-9]*' url)\n"
    "while [ \"$(curl -s -o health -w '%{http_code}' $u/health)\" = 503 ]; do sleep 0.02; done\n"
    "ask() {\n"
    "  curl -s -m 100 $u/v1/completions -d \\\n"
    "    '{\"prompt\":[1,2,3],\"max_tokens\":4,\"temperature\":0,\"ignore_eos\":true,\"return_token_ids\":true}' >$1\n"
    "}\n"
    "ask a & a=$!\n"
    "ask b & wait $! $a\n"
    "ask c\n"
    "curl -s -m 20 -o health -w '%{http_code}' $u/health >status\n"
    "kill $p 2>/dev/null\n"
    "wait $p; echo $? >rc\n";

static void serve(const char *settings, const char *flags)
{
    char line[6000], gpu[4096], folder[1024];
    buf errors = {0};
    gpu_folder(folder);
    assert_non_null(realpath(folder, gpu));
    snprintf(line, sizeof line,
             "export P V SOFT_GPU_RACES=0 SOFT_GPU_COUNT=counts LD_LIBRARY_PATH=%s %s && sh serve.sh '%s'", gpu,
             settings, flags);
    command_shell(work, line, &errors);
    buf_free(&errors);
}

/* What the script has written; a static buffer, 8 in rotation. */
static const char *text_of(const char *name)
{
    static buf all[8];
    static int turn;
    char path[400];
    buf *b = &all[turn++ & 7];
    b->n = 0;
    snprintf(path, sizeof path, "%s/%s", work, name);
    file_read(b, path, 1 << 16, NULL);
    return buf_cstr(b);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

static char tokens[200]; /* "token_ids":[...] */

static bool is_answer(const char *reply)
{
    const char *at = strstr(reply, "\"token_ids\":");
    return at && !strncmp(at, tokens, strlen(tokens));
}

/* After the third query. */
static void check_health(const char *what)
{
    const char *c = text_of("c"), *health = text_of("health"), *status = text_of("status");
    const bool lost = strstr(c, "{\"error\":{\"message\":\"cuda:") != NULL;
    if (strcmp(status, lost ? "503" : "200")) fail_msg("%s: health %s %s, after %s", what, status, health, c);
    if (lost && (!strstr(health, "\"unavailable\"") || !strstr(health, "\"detail\":\"cuda:")))
        fail_msg("%s: health %s %s", what, status, health);
    if (lost && !strstr(c, "\"code\":\"unavailable\"")) fail_msg("%s: %s", what, c);
}

/* False: the call was not reached. */
static bool check_fault(int k)
{
    char settings[64];
    snprintf(settings, sizeof settings, "SOFT_GPU_FAIL=%d", k);
    serve(settings, "--devices cuda:0");
    const char *said = text_of("said"), *rc = text_of("rc");
    if (!strstr(said, "as SOFT_GPU_FAIL asks for")) return false;
    if (!*text_of("a")) {
        if (atoi(rc) != 1 || count_of(said, "inferflow: error: ") != 1)
            fail_msg("call %d: exit status %s, %s", k, rc, said);
        return true;
    }
    if (atoi(rc) != 0 || count_of(said, "\n") > 3) fail_msg("call %d: exit status %s, %s", k, rc, said);
    for (int i = 0; i < 3; i++) {
        const char *reply = text_of((const char *[]){"a", "b", "c"}[i]);
        if (!is_answer(reply) && !strstr(reply, "the CUDA device")) fail_msg("call %d, query %d: %s", k, i, reply);
    }
    check_health(settings);
    return true;
}

static void one_call_fails(void **unused)
{
    (void)unused;
    enum { EACH = 23 };
    serve("", "--devices cpu");
    const char *reply = text_of("a"), *at = strstr(reply, "\"token_ids\":");
    assert_non_null(at);
    snprintf(tokens, sizeof tokens, "%.*s", (int)(strcspn(at, "]") + 1), at);
    serve("", "--devices cuda:0");
    for (int i = 0; i < 3; i++) assert_true(is_answer(text_of((const char *[]){"a", "b", "c"}[i])));
    int k = 1;
    while (check_fault(k)) k += EACH;
    assert_true(k > 300);
}

/* A device that never ends a kernel: queries end after a time, and so does the server; of a group, a pipeline too. */
static void a_device_hangs(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"SOFT_GPU_HANG=cuda_rows:8", "--devices cuda:0 --device-timeout 1"},
        {"SOFT_GPU_HANG=join_columns:3", "--devices cuda:0&cuda:1 --device-timeout 1"},
        {"SOFT_GPU_HANG=cuda_rows:20", "--devices cuda:0;cuda:1 --device-timeout 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double start = clock_now();
        serve(rows[i][0], rows[i][1]);
        const double seconds = clock_now() - start;
        if (!strstr(text_of("health"), "hangs: it has not ended its work in ")) fail_msg("%s", text_of("health"));
        check_health(rows[i][0]);
        if (atoi(text_of("rc")) || seconds > 60)
            fail_msg("%s: %s s, rc %s", rows[i][0], text_of("said"), text_of("rc"));
        for (int k = 0; k < 3; k++) {
            const char *reply = text_of((const char *[]){"a", "b", "c"}[k]);
            if (!is_answer(reply) && !strstr(reply, "the CUDA device hangs")) fail_msg("%s: %s", rows[i][0], reply);
        }
        assert_null(strstr(text_of("c"), "\"token_ids\""));
    }
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    if (system("command -v curl >/dev/null")) {
        skip_msg("there is no curl");
        return 0;
    }
    char path[400];
    snprintf(work, sizeof work, "%s", temp_path("serve"));
    snprintf(path, sizeof path, "%s/serve.sh", work);
    if (mkdir(work, 0700)) return perror(work), 1;
    FILE *f = fopen(path, "w");
    if (!f || fputs(script, f) < 0 || fclose(f)) return perror(path), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_call_fails), cmocka_unit_test(a_device_hangs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
