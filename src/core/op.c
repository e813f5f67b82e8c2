/* op.c - the lists of op.h as tables. */
#include "core/op.h"

const op_row op_info[OP_COUNT] = {
#define X(id, name, doc) [OP_##id] = {name, doc},
    OP_LIST(X)
#undef X
};

const char *const score_name[SCORE_COUNT] = {"softmax", "picked", "sigmoid", "mixer"};

const char *const act_name[ACT_COUNT] = {
#define X(id, name, doc) [ACT_##id] = name,
    ACT_LIST(X)
#undef X
};
