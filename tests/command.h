/* command.h - the executable, run from a test by a shell. */
#pragma once
#include "tests/test.h"

#include "base/buf.h"
#include "base/file.h"

#include <sys/wait.h>

static inline const char *command_binary(void)
{
    return getenv("INFERFLOW_BIN") ? getenv("INFERFLOW_BIN") : "build/inferflow";
}

/* Runs a shell line in a folder, with $P the executable and $V tests/vectors; `errors` gets its standard error. Its
 * exit status, -1: it did not exit. */
static inline int command_shell(const char *dir, const char *shell, buf *errors)
{
    char line[14000], binary[4096], vectors[4096];
    const char *path = temp_path("shell-errors");
    assert_true(realpath(command_binary(), binary) && realpath("tests/vectors", vectors));
    int n = snprintf(line, sizeof line, "cd %s && P=%s && V=%s && { %s; } 2>%s", dir, binary, vectors, shell, path);
    assert_true(n > 0 && (size_t)n < sizeof line);
    int rc = system(line);
    errors->n = 0;
    file_read(errors, path, 1 << 20, NULL);
    unlink(path);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

/* Runs "inferflow ARGS" with the file `input` (NULL: the test's own) as standard input; `out` and `errors` get what
 * it prints. Its exit status, -1: it did not exit. */
static inline int command_run(const char *input, const char *args, buf *out, buf *errors)
{
    char line[8800], read_in[4096];
    const char *path = temp_path("command-errors");
    int n = snprintf(line, sizeof line, "exec 2>%s%s%s; %s %s", path, input ? " <" : "", input ? input : "",
                     command_binary(), args);
    assert_true(n > 0 && (size_t)n < sizeof line);
    out->n = errors->n = 0;
    FILE *f = popen(line, "r");
    assert_non_null(f);
    for (size_t got; (got = fread(read_in, 1, sizeof read_in, f)) > 0;) buf_add(out, read_in, got);
    int rc = pclose(f);
    file_read(errors, path, 1 << 20, NULL);
    unlink(path);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}
