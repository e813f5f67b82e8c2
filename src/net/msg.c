/* msg.c - see msg.h. */
#include "net/msg.h"

const msg_row *msg_find(uint16_t kind)
{
    static const msg_row rows[] = {
#define X(name, number, direction, receiver, use, bytes, doc)                                                          \
    {#name, number, direction, receiver, use, bytes, &on_##name},
        MSG_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == kind) return &rows[i];
    return NULL;
}
