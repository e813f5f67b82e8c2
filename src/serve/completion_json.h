/* completion_json.h - the choices of a completion as JSON; parts of it that other forms have too. */
#pragma once
#include "serve/completion.h"

/* A reply up to its choices. */
void reply_head_write(buf *out, const job *j);
/* A whole reply: its head, each choice by `write` (index: in the reply), its usage. */
void reply_whole_write(buf *out, job *j, void (*write)(buf *out, const job *j, choice *c, int index));
void reply_logprob_write(buf *out, float v);
/* Members of a choice behind the usual ones (whole: it is the choice's only or last part; index: in the reply). */
void reply_extras_write(buf *out, const job *j, choice *c, int index, bool whole);
void reply_usage_write(buf *out, const job *j); /* "usage":{ and its members; open */
/* How far the prompt has been read, as llama.cpp names it: a member; a chunk without choices. */
void reply_progress_write(buf *out, const job *j, const choice *c, int64_t read);
void reply_reading_write(buf *out, const job *j, const choice *c, int64_t read);
/* Events: a chunk without choices that tells the usage; an error. */
void reply_usage_event_write(buf *out, const job *j);
void reply_error_event_write(buf *out, int status, const char *code, const char *message);
