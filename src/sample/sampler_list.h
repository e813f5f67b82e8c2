/* sampler_list.h - the samplers in the order in which they are applied, and their parameters.
 *
 * A sampler is `const sample_step smp_<name>` in smp_<name>.c plus one line here. A parameter is one row here, the only
 * place: the member of sample_params, the flag of `run` and `serve`, the key of [generate] and the field of a request
 * follow, with range, default and help. Ranges are the widest that llama.cpp, vLLM and OpenAI have. */
#pragma once
#define SAMPLER_LIST(X)                                                                                                \
    X(repetition)                                                                                                      \
    X(occurrence)                                                                                                      \
    X(top_k)                                                                                                           \
    X(top_p)                                                                                                           \
    X(min_p)

/* X(kind, name, default, min, max, value shown in help, doc, alias); min = max = 0: any value */
#define SAMPLE_PARAM_LIST(X)                                                                                           \
    X(FLOAT, temperature, "1", 0, 100, "T", "divides the logits; 0 always takes the likeliest token", "temp")          \
    X(INT, top_k, "0", -1, 1 << 30, "K", "only the K likeliest tokens; 0 or -1 = all", NULL)                           \
    X(FLOAT, top_p, "1", 0, 1, "P", "only the likeliest tokens whose probabilities sum to P; 1 = all", NULL)           \
    X(FLOAT, min_p, "0", 0, 1, "P", "only tokens at least P times as likely as the likeliest; 0 = all", NULL)          \
    X(FLOAT, repetition_penalty, "1", 0.01, 100, "F", "divides the logits of tokens seen before; 1 = off",             \
      "repeat_penalty")                                                                                                \
    X(FLOAT, presence_penalty, "0", -2, 2, "F", "subtracted from the logits of tokens generated before", NULL)         \
    X(FLOAT, frequency_penalty, "0", -2, 2, "F", "the same, once for each time the token was generated", NULL)         \
    X(INT, seed, "-1", 0, 0, "N", "same seed, same text; -1 draws one", NULL)
