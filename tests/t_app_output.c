/* t_app_output.c - what commands write: no command overwrites what it reads, under whatever names; what happens to
 * outputs that a limit or a signal cuts short. */
#define _GNU_SOURCE
#include "tests/command.h"

#include <sys/stat.h>

static char dir[512];
static buf said;

/* A shell line in the test's folder (command_shell); what it says on standard error comes into `said`. */
__attribute__((format(printf, 1, 2))) static int shell(const char *fmt, ...)
{
    char *line;
    va_list ap;
    va_start(ap, fmt);
    assert_true(vasprintf(&line, fmt, ap) > 0);
    va_end(ap);
    int rc = command_shell(dir, line, &said);
    free(line);
    return rc;
}

static bool says(const char *part) { return strstr(buf_cstr(&said), part) != NULL; }

static void expect(int status, const char *part, const char *line)
{
    int rc = shell("%s", line);
    if (rc != status || !says(part)) fail_msg("'%s' ended with %d and said: %s", line, rc, buf_cstr(&said));
}

static int begin(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s", temp_path("output"));
    if (mkdir(dir, 0700)) return -1;
    return shell("cp $V/../../specs/builtin.gguf model && printf 'Once upon a time there was a girl.\\n' >text && "
                 "printf '1,2,3' >ids && printf '* = q8_0\\n' >policy && printf '[model]\\nbase = llama\\n' >spec && "
                 "printf '[model]\\npath = d/in.gguf\\n' >names.ini && printf '{}' >import && "
                 "cp -r $V/models/llama F && chmod -R u+w F && ln -s F fl && mkdir d && ln -s d dl && "
                 "$P eval importance -p 'Once upon a time' -o weights.gguf && mv weights.gguf importance");
}

static int end(void **state)
{
    (void)state;
    buf_free(&said);
    char line[600];
    snprintf(line, sizeof line, "rm -r %s", dir);
    return system(line);
}

/* Every command that writes, by every input of it. IN and OUT are put in place of $I and $O. */
static const struct {
    const char *args, *input;
} writers[] = {
    {"eval logits --ids 1,2 --model $I", "model"},
    {"eval hidden --ids 1,2 --model $I", "model"},
    {"eval importance -f text --model $I", "model"},
    {"eval importance -f $I", "text"},
    {"eval importance -f - <$I", "text"},
    {"eval importance -f /dev/stdin <$I", "text"},
    {"eval logits -f $I", "text"},
    {"eval logits --ids @$I", "ids"},
    {"eval hidden -p a --tokenizer $I", "model"},
    {"eval logits --ids 1 --model model --spec $I", "spec"},
    {"eval logits --ids 1 --spec names.ini", "model"},
    {"embed --pooling mean --model $I <text", "model"},
    {"embed --pooling mean <$I", "text"},
    {"embed --pooling mean --tokenizer $I <text", "model"},
    {"quantize --bits 4 --model $I", "model"},
    {"quantize --bits 4 --importance $I", "importance"},
    {"quantize --policy $I", "policy"},
    {"quantize --bits 4 --spec names.ini", "model"},
    {"quantize --bits 4 --tokenizer $I", "model"},
    {"export --model $I", "model"},
    {"export --tokenizer $I", "model"},
    {"export --spec $I --model model", "spec"},
    {"spec show --model $I", "model"},
    {"spec show $I --model model", "spec"},
    {"spec show --spec $I --model model", "spec"},
    {"spec derive --model $I", "model"},
    {"spec check $I", "spec"},
    {"spec check names.ini", "model"},
    {"spec import $I", "import"},
};

static void no_command_overwrites_what_it_reads(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"d/in.gguf", "d/in.gguf"},
        {"d/in.gguf", "./d/../d/in.gguf"},
        {"d/in.gguf", "$PWD/d/in.gguf"},
        {"d/in.gguf", "sym.gguf"},
        {"d/in.gguf", "hard.gguf"},
        {"d/in.gguf", "dl/in.gguf"},
        {"sym.gguf", "d/in.gguf"},
        {"hard.gguf", "d/in.gguf"},
        {"$PWD/dl/in.gguf", "d/in.gguf"},
        {"d/in.gguf", "to_sym.gguf"},
        {"dl/in.gguf", "/proc/self/cwd/d/in.gguf"},
    };
    for (size_t w = 0; w < sizeof writers / sizeof *writers; w++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            int rc = shell("cp %s d/in.gguf && ln -sf d/in.gguf sym.gguf && ln -f d/in.gguf hard.gguf && "
                           "ln -sf sym.gguf to_sym.gguf && I=%s && O=%s && $P %s -o $O >/dev/null; r=$?; "
                           "cmp -s %s d/in.gguf || r=lost; test $r = 2",
                           writers[w].input, names[i][0], names[i][1], writers[w].args, writers[w].input);
            if (rc || !says("-o ") || !says("would overwrite"))
                fail_msg("'%s -o %s' with I=%s: %s", writers[w].args, names[i][1], names[i][0], buf_cstr(&said));
        }
}

static void folders_too(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "$P export --model F -o F",
        "$P export --model F -o fl",
        "$P export --model F -o ./fl/",
        "$P export --model F/model.safetensors -o F",
        "$P export --model d/in.gguf -o d",
        "$P export --model dl/in.gguf -o .",
        "$P export --tokenizer d/in.gguf -o d",
        "$P export --spec d/s.ini --model F -o d",
        "$P eval logits --ids 1 --model F -o F/model.safetensors",
        "$P eval logits --ids 1 --model F -o fl/config.json",
        "$P eval logits --ids 1 --model F -o config",
        "$P eval logits --ids 1 --model F/model.safetensors -o F/config.json",
        "$P quantize --bits 4 --model F -o w.safetensors",
        "$P quantize --bits 4 --spec F.ini -o w.safetensors",
        "$P spec show --model F -o F/config.json",
    };
    assert_int_equal(
        shell("cp model d/in.gguf && cp spec d/s.ini && ln F/config.json config && "
              "ln F/model.safetensors w.safetensors && printf '[model]\\npath = F\\n' >F.ini && cp -r F kept"),
        0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect(2, "reads", bad[i]);
    expect(2, "--receipt F/config.json: would", "$P run -p a -n 1 --model F --receipt F/config.json");
    expect(2, "--session F/config.json: would", "$P run -p a -n 1 --model F --session F/config.json");
    assert_int_equal(shell("diff -r F kept && cmp model d/in.gguf && rm config w.safetensors"), 0);
    /* what is no input may be written, and again */
    static const char *const good[] = {
        "$P eval logits --ids 1 --model F -o F/new.npy",
        "$P eval logits --ids 1 --model F -o F/new.npy",
        "$P quantize --bits 4 --model d/in.gguf -o d/out.gguf",
        "$P quantize --bits 4 --model d/in.gguf -o d/out.gguf",
        "$P export --model F -o F/again",
        "$P export --model F -o F/again",
        "$P eval importance -f text -o /dev/null </dev/null",
        "$P eval logits --ids 1 -o /dev/stdout </dev/null | cat >/dev/null",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) expect(0, "", good[i]);
    assert_int_equal(shell("rm -r F/new.npy F/again && diff -r F kept && cmp model d/in.gguf"), 0);
}

/* Files that only lie beside a model are no inputs; a folder that is missing is told before the work. */
static void other_files_may_be_replaced(void **state)
{
    (void)state;
    static const char run[] = "$P run --model model -p Once -n 3 --seed 1 --receipt ";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(shell("%sr.json >/dev/null", run), 0);
        assert_int_equal(shell("%snotes.txt >/dev/null", run), 0);
    }
    assert_int_equal(shell("touch tokenizer_config.json"), 0);
    expect(2, "--receipt tokenizer_config.json: would overwrite",
           "$P run --model model -p Once -n 3 --receipt tokenizer_config.json");
    expect(1, "--receipt none/r.json: none: No such file",
           "$P run --model model -p Once -n 3 --receipt none/r.json >out");
    expect(1, "--session none/s: none: No such file", "$P run --model model -p Once -n 3 --session none/s >out");
    assert_int_equal(shell("test ! -s out && rm out r.json notes.txt tokenizer_config.json"), 0);
    expect(1, "-o none/m.gguf: none: No such file", "$P export --model model -o none/m.gguf");
    assert_int_equal(shell("$P export --model model -o new/inner/folder && $P export --model model -o other/"), 0);
    assert_int_equal(shell("test -e new/inner/folder/config.json && test -e other/config.json && rm -r new other"), 0);
}

static void a_size_limit_is_an_error(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "ulimit -f 40; $P quantize --bits 4 -o old.safetensors",
        "ulimit -f 40; $P quantize --bits 4 -o old.gguf",
        "ulimit -f 40; $P export -o old.gguf",
        "ulimit -f 4; $P eval logits -f text -o old.npy",
        "ulimit -f 2; cat text text text text | $P embed --pooling mean -o old.npy",
        "ulimit -f 2; $P spec show -o old.ini",
    };
    assert_int_equal(shell("for f in old.safetensors old.gguf old.npy old.ini; do echo old >$f; done"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect(1, "inferflow: error: ", bad[i]);
        if (!says(": write failed: File too large") && !says(": File too large")) fail_msg("%s", buf_cstr(&said));
        if (!says("error: old.") && !says("/old.")) fail_msg("'%s' says: %s", bad[i], buf_cstr(&said));
        if (says(".checking")) fail_msg("'%s' says: %s", bad[i], buf_cstr(&said));
    }
    expect(1, "File too large", "ulimit -f 40; $P export -o folder");
    expect(1, "standard output: File too large", "ulimit -f 2; $P info >listing");
    assert_int_equal(shell("for f in old.*; do test \"$(cat $f)\" = old || exit 1; done; test ! -e folder && "
                           "test -z \"$(ls -A | grep -e checking -e tmp)\" && rm old.* listing"),
                     0);
}

static void what_killed_runs_left_is_removed(void **state)
{
    (void)state;
    pid_t gone = fork(); /* a process that is no more */
    if (!gone) _exit(0);
    waitpid(gone, NULL, 0);
    int pid = (int)gone;
    assert_int_equal(shell("touch .checking.%d.q.gguf .checking.%d.other.gguf .checking.1.q.gguf .checking.x.q.gguf && "
                           "mkdir -p out/.export.%d.abc/sub out/.export.1.abc && touch out/.export.%d.abc/sub/file",
                           pid, pid, pid, pid),
                     0);
    expect(0, "", "$P quantize --bits 4 -o q.gguf");
    assert_int_equal(
        shell("test ! -e .checking.%d.q.gguf && test -e .checking.%d.other.gguf && test -e .checking.1.q.gguf && "
              "test -e .checking.x.q.gguf && rm .checking.* q.gguf",
              pid, pid),
        0);
    expect(0, "", "$P export -o out");
    assert_int_equal(shell("test ! -e out/.export.%d.abc && test -e out/.export.1.abc && rm -r out", pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_command_overwrites_what_it_reads), cmocka_unit_test(folders_too),
        cmocka_unit_test(other_files_may_be_replaced),         cmocka_unit_test(a_size_limit_is_an_error),
        cmocka_unit_test(what_killed_runs_left_is_removed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
