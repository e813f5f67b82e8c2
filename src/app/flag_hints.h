/* flag_hints.h - flags that users of other programs know: what they are called here, or why there is none. */
#pragma once
typedef struct flag_hint {
    const char *flags; /* split by blanks */
    const char *key;   /* the row of ours, as it is written; NULL: there is none */
    const char *text;  /* then this is said */
} flag_hint;

/* The hint for a flag as it was written ("-ngl", "--ctx-size"); NULL: there is none. */
const flag_hint *flag_hint_find(const char *flag);
