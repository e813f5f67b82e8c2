/* line_edit.h - one line from a terminal, with history and cursor keys where libedit was found at build time. */
#ifndef APP_LINE_EDIT_H
#define APP_LINE_EDIT_H

/* The line without its newline, to be freed with line_free; NULL at the end of input. */
char *line_read(const char *prompt);
void line_free(char *line);

#endif
