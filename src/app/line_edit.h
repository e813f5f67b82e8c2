/* line_edit.h - one line from a terminal, with history and cursor keys where libedit was found at build time. */
#pragma once
/* The line without its newline, to be freed with line_free; NULL at the end of input. */
char *line_read(const char *prompt);
void line_free(char *line);
