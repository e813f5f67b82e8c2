/* hub_name.h - how a model of a hub is called, "ORG/NAME[:FILE|:TYPE][@REV]", and which names may become files here.
 *
 * What a hub says of names is not trusted: one that could lead out of the folder it is put into is refused. */
#pragma once
#include <stdbool.h>

typedef struct hub_name {
    char repo[200];     /* "ORG/NAME" */
    char pick[256];     /* a file of it, or a type such as Q4_K_M; "": neither */
    char revision[128]; /* a branch, a tag or a commit; "main" unless given */
} hub_name;

/* false: the text is no such name. Whether a folder is called so is not looked at. */
bool hub_name_read(hub_name *out, const char *text);

/* Whether a name may be that of a file in a folder: letters, digits and "._-", at most 128, no dot in front. */
bool hub_name_is_plain(const char *name);
/* Whether a name with slashes stays in its folder: no empty part, ".", "..", backslash or control character. */
bool hub_name_stays(const char *path);
