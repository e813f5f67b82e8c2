/* cmd_list.h - the sub-commands in the order of `inferflow --help`; command_<name> is in cmd_<name>.c. */
#pragma once
#include "app/app.h"

/* One command a line. */
#define COMMAND_LIST(X)                                                                                                \
    X(run)                                                                                                             \
    X(serve)                                                                                                           \
    X(replay)                                                                                                          \
    X(node)                                                                                                            \
    X(pull)                                                                                                            \
    X(spec)                                                                                                            \
    X(tokenize)                                                                                                        \
    X(detokenize)                                                                                                      \
    X(template)                                                                                                        \
    X(embed)                                                                                                           \
    X(fill_mask)                                                                                                       \
    X(eval)                                                                                                            \
    X(bench)                                                                                                           \
    X(plan)                                                                                                            \
    X(quantize)                                                                                                        \
    X(export)                                                                                                          \
    X(info)                                                                                                            \
    X(man)                                                                                                             \
    X(completion)

#define X(name) extern const command command_##name;
COMMAND_LIST(X)
#undef X
