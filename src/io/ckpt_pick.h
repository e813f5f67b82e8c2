/* ckpt_pick.h - which files of a folder are the model, and which files an index names. */
#pragma once
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* The weight files of a folder, names without folder, sorted: an index alone, or one file, or unindexed shards. Release
 * with ckpt_names_free (also after an error). ERR_NOT_FOUND says what was looked for. */
int ckpt_pick_files(const char *dir, char ***names, size_t *n, err *e);

/* Keeps of the names of a folder's files those of its model, and frees the others; false, and all stay: it has none.
 * *many: they are shards of one model, else more than one is one too many. */
bool ckpt_keep_model(char **names, size_t *n, bool *many);

/* Says that a file of the model in dir is missing, which shard it is, and whether a download did not end.
 * ERR_NOT_FOUND. */
int ckpt_say_missing(const char *dir, const char *name, err *e);

/* Replaces the name of one shard ("model-00002-of-00003.safetensors") by that of the index beside it, where there is
 * one that names the shard: a shard alone is never a model. *name belongs to the caller before and after. */
int ckpt_prefer_index(const char *dir, char **name, err *e);

/* *yes: whether a file is JSON text (then it can only be an index). */
int ckpt_is_index(const char *path, bool *yes, err *e);

/* The distinct files that the weight map of an index names, sorted. Names that leave the folder are refused. */
int ckpt_index_files(const json *index, const char *path, char ***names, size_t *n, err *e);

/* *path = dir/name for a part that a file names; refuses names that leave the folder. mem_free *path. */
int ckpt_part_path(char **path, const char *dir, const char *name, err *e);

void ckpt_names_free(char **names, size_t n);
