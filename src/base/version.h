/* version.h - which build this is: `inferflow --version`, the server's fingerprint, the header of files we write. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char inferflow_version[];  /* "v0.3-12-gabc1234", from git describe when the executable was made */
extern const char inferflow_compiler[]; /* "gcc 12.2.0" */
extern const char inferflow_cflags[];   /* flags common to all files */

#endif
