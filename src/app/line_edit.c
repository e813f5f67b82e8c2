/* line_edit.c - see line_edit.h. The only file that includes libedit. */
#define _GNU_SOURCE
#include "app/line_edit.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_EDIT
#include <editline/readline.h>

char *line_read(const char *prompt)
{
    char *line = readline(prompt);
    if (line && *line) add_history(line);
    return line;
}

#else

char *line_read(const char *prompt)
{
    char *line = NULL;
    size_t cap = 0;
    fputs(prompt, stdout);
    fflush(stdout);
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n && line[n - 1] == '\n') line[n - 1] = 0;
    return line;
}

#endif

void line_free(char *line) { free(line); }
