/* version.h - which build this is: `inferflow --version`, the server's fingerprint, the header of files we write. */
#pragma once
#define INFERFLOW_RELEASE "0.1.0"

extern const char inferflow_version[];  /* "0.1.0 (abc1234-dirty)": release and commit; without git "0.1.0" */
extern const char inferflow_compiler[]; /* "gcc 12.2.0" */
extern const char inferflow_cflags[];   /* flags common to all files */
