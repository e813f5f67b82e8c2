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
    X(tail_free)                                                                                                       \
    X(typical)                                                                                                         \
    X(top_p)                                                                                                           \
    X(min_p)                                                                                                           \
    X(mirostat)                                                                                                        \
    X(fsd)

enum { FSD_K_MAX = 256, FSD_N_MAX = 8 };

/* X(kind, name, default, min, max, value shown in help, doc, alias, whether few need it); min = max = 0: any value */
#define SAMPLE_PARAM_LIST(X)                                                                                           \
    X(FLOAT, temperature, "1", 0, 100, "T", "divides the logits; 0 always takes the likeliest token", "temp", false)   \
    X(INT, top_k, "0", -1, 1 << 30, "K", "only the K likeliest tokens; 0 or -1 = all", NULL, false)                    \
    X(FLOAT, top_p, "1", 0, 1, "P", "only the likeliest tokens whose probabilities sum to P; 1 = all", NULL, false)    \
    X(FLOAT, min_p, "0", 0, 1, "P", "only tokens at least P times as likely as the likeliest; 0 = all", NULL, false)   \
    X(FLOAT, typical_p, "1", 0, 1, "P",                                                                                \
      "locally typical sampling: tokens near the mean surprise whose probabilities sum to P; 1 = off", NULL, true)     \
    X(FLOAT, tfs_z, "1", 0, 1, "Z", "tail-free sampling: cuts where probabilities become even; 1 = off", NULL, true)   \
    X(INT, mirostat, "0", 0, 2, "0|1|2", "keeps the mean surprise at mirostat_tau by version 1 or 2; 0 = off", NULL,   \
      true)                                                                                                            \
    X(FLOAT, mirostat_tau, "5", 0, 100, "T", "mean surprise of a token in bits", NULL, true)                           \
    X(FLOAT, mirostat_eta, "0.1", 0, 1, "E", "how fast mirostat moves", NULL, true)                                    \
    X(FLOAT, repetition_penalty, "1", 0.01, 100, "F", "divides the logits of tokens seen before; 1 = off",             \
      "repeat_penalty", false)                                                                                         \
    X(FLOAT, presence_penalty, "0", -2, 2, "F", "subtracted from the logits of tokens generated before", NULL, true)   \
    X(FLOAT, frequency_penalty, "0", -2, 2, "F", "the same, once for each time the token was generated", NULL, true)   \
    X(TEXT, strategy, NULL, 0, 0, "NAME",                                                                              \
      "other defaults for the flags above and below: std, greedy, top_k, top_p, min_p, tfs, typical, mirostat, fsd, "  \
      "random_fsd",                                                                                                    \
      NULL, true)                                                                                                      \
    X(INT, fsd_k, "0", 0, FSD_K_MAX, "K",                                                                              \
      "of the K likeliest tokens takes the one that repeats n-grams of prompt and output least; 0 = off", NULL, true)  \
    X(FLOAT, fsd_alpha, "0.5", 0, 1, "A", "weight of the n-grams against the probability", NULL, true)                 \
    X(INT, fsd_n, "3", 1, FSD_N_MAX, "N", "tokens of the longest n-gram", NULL, true)                                  \
    X(FLOAT, fsd_beta, "0.9", 0, 1, "B", "weight of longer n-grams against shorter ones", NULL, true)                  \
    X(INT, fsd_steps, "0", 0, 1 << 30, "N", "in the first N tokens a coin decides for top_p 0.93 instead", NULL, true) \
    X(INT, seed, "-1", 0, 0, "N", "same seed, same text; -1 draws one", NULL, false)
