/* line_edit.h - lines from a terminal; with cursor keys, history and pastes as one line where libedit was found at
 * build time. History lives in a file under the XDG state folder. */
#pragma once
#include <stdbool.h>

/* The line without its newline, to be freed with line_free; NULL at the end of input. Line ends within a paste stay. */
char *line_read(const char *prompt);
/* Whether Ctrl-C ended the last line, which is then empty. */
bool line_dropped(void);
void line_free(char *line);
/* Saves the history; after the last line. */
void line_close(void);
