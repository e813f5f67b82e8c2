/* api_list.h - the endpoints; each is `const route route_<name>` in api_<x>.c. */
#pragma once
#include "serve/exchange.h"

#define ROUTE_LIST(X)                                                                                                  \
    X(page)                                                                                                            \
    X(health)                                                                                                          \
    X(metrics)                                                                                                         \
    X(models)                                                                                                          \
    X(model)                                                                                                           \
    X(completions)                                                                                                     \
    X(chat)                                                                                                            \
    X(responses)                                                                                                       \
    X(messages)                                                                                                        \
    X(count_tokens)                                                                                                    \
    X(apply_template)                                                                                                  \
    X(native)                                                                                                          \
    X(fill_in)                                                                                                         \
    X(embeddings)                                                                                                      \
    X(rerank)                                                                                                          \
    X(tokenize)                                                                                                        \
    X(detokenize)                                                                                                      \
    X(tokenizer_info)                                                                                                  \
    X(props)                                                                                                           \
    X(slots)                                                                                                           \
    X(version)

#define X(name) extern const route route_##name;
ROUTE_LIST(X)
#undef X
