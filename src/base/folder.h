/* folder.h - small files by name: those of a directory, or files in memory (of a self-contained model).
 *
 * So a reader of several files that belong together is written once. */
#pragma once
#include "base/file.h"
#include "base/json.h"

typedef struct held_file {
    const char *name;
    span bytes;
} held_file;

typedef struct file_folder {
    const char *path;      /* of the directory; of files in memory what messages put in front of their names */
    bool held;             /* the files are these, and nothing on disk is looked at */
    const held_file *file; /* n of them; they belong to whoever made the folder */
    size_t n;
} file_folder;

/* The folder with the files of a model that is given as a folder: itself, or of a hub cache root (models--ORG--NAME)
 * the snapshot that refs/main names, else the newest. mem_free the result. NULL: out of memory. */
char *folder_of_model(const char *dir);

/* "ORG/NAME" of a path that is a hub cache root or a snapshot in it; false: it is neither. */
bool folder_hub_name(const char *path, char *name, size_t cap);

bool folder_has(const file_folder *f, const char *name);

/* One of the files, open. */
typedef struct folder_file {
    span bytes;
    char *path; /* for messages */
    file_mapping *mapping;
} folder_file;

int folder_open(folder_file *out, const file_folder *f, const char *name, err *e);
bool folder_file_torn(const folder_file *f); /* file_torn */
void folder_file_close(folder_file *f);      /* also of one that is all zero */

/* folder_open, at most max_bytes, and json_parse. */
int folder_json(json **out, const file_folder *f, const char *name, size_t max_bytes, err *e);
