/* terminal.h - what the terminal at a file descriptor shows: its width, and whether a line can be written over. */
#pragma once
#include <stdbool.h>

/* Columns of the terminal, 80 where it does not say; 0: there is none. */
int terminal_columns(int fd);
/* Whether it is a terminal on which a line can be written over: any but TERM=dumb. */
bool terminal_rewrites(int fd);
