/* mistakes.c - see mistakes.h. */
#include "models/spec/mistakes.h"

int mistake_noted(mistakes *m, int rc, err *e)
{
    if (!rc || !m || !e || rc == ERR_MEMORY || !buf_printf(&m->lines, "%s\n", e->msg)) return rc;
    m->n++;
    *e = (err){0};
    return OK;
}
