/* api_fill_in.h - prompts that are filled in between two texts, for vocabularies that have tokens for it: `suffix` of
 * /v1/completions, and /infill.
 *
 * Order of parts: prefix, suffix, middle (PSM), as Bavarian et al. (arXiv 2207.14255) and llama.cpp have it. */
#pragma once
#include "serve/request.h"

/* Whether the request is one to fill in. */
bool fill_in_asked(const request *r);
/* reply_form.read_prompts: makes its one prompt. */
bool fill_in_read(server *s, exchange *x, request *r);
