/* version.c - see version.h. The Makefile gives commit and flags, and rebuilds this file alone when the commit moves.
 * */
#include "base/version.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char inferflow_version[] = INFERFLOW_RELEASE INFERFLOW_COMMIT;

const char inferflow_compiler[] = COMPILER;
const char inferflow_cflags[] = INFERFLOW_CFLAGS;
