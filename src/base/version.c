/* version.c - see version.h. The Makefile gives the texts and rebuilds this file alone when the version moves. */
#include "base/version.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char inferflow_version[] = INFERFLOW_VERSION;
const char inferflow_compiler[] = COMPILER;
const char inferflow_cflags[] = INFERFLOW_CFLAGS;
