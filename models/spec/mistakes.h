/* mistakes.h - every mistake of a file, for readers that want more than the first. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

typedef struct mistakes {
    buf lines; /* a message each */
    int n;
} mistakes;

/* Of a check that gave rc: takes what e says and clears it, so that the caller goes on. Returns OK; rc where there is
 * no list (m NULL) or memory is short. */
int mistake_noted(mistakes *m, int rc, err *e);
