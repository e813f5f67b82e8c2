/* hub_choose.h - which files of a repository loading needs: weights in one format, and the small files that describe
 * them and their tokenizer.
 *
 * The same choice is made of a hub's list before a download, and of a folder in the cache: there it says whether all
 * is there. Of several GGUF files one is chosen by type, and all its parts come with it; `mmproj` (pictures) and
 * `imatrix` files are no models. */
#pragma once
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct hub_choice {
    char **name; /* n files, without doubles */
    size_t n, cap;
    const char *model; /* the one to open; NULL: their folder */
    const char *index; /* the one that names further files (hub_choose_shards); NULL: none */
} hub_choice;

/* Of n names with slashes; `pick` is a hub_name's, `what` stands in messages. ERR_NOT_FOUND: there are no weights, or
 * none that `pick` means. hub_choice_free also after an error. */
int hub_choose(hub_choice *out, char *const *names, size_t n, const char *pick, const char *what, err *e);
/* Adds the files that the index names. */
int hub_choose_shards(hub_choice *c, const json *index, const char *what, err *e);
void hub_choice_free(hub_choice *c);
