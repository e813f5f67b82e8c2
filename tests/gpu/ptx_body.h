/* ptx_body.h - the body of a function. */
#pragma once
#include "tests/gpu/ptx_lex.h"

/* Reads from { to its }. Registers and parameters of calls get their places in f's frame. */
void ptx_body_read(ptx_cursor *c, ptx_function *f);
/* Past it; f has its shared_bytes alone. */
void ptx_body_skip(ptx_cursor *c, ptx_function *f);
