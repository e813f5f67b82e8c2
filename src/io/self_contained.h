/* self_contained.h - the "__metadata__" that makes a safetensors file of quantized weights a whole model.
 *
 *     inferflow.layout            "1": the version of all this; a file without it is like any other
 *     inferflow.spec              the resolved spec, as `spec show` prints it
 *     inferflow.file.NAME         a file that lay beside the model, as text: tokenizer.json, generation_config.json …
 *     inferflow.base64.NAME       the same of files that are no text
 *     inferflow.tokenizer         which of them is the tokenizer, where the rules of folders would not find it
 *     TENSOR                      its type: "f32", "q8_0" (blocks row by row), "q4_b64.r16" (panels of tensor/panel.h)
 *     inferflow.shape.TENSOR      rows and columns of one whose bytes are U8: "2048,5632"
 *
 * Panels lie at multiples of 64 bytes in the file. */
#pragma once
#include "base/arena.h"
#include "base/folder.h"
#include "base/map.h"
#include "tensor/dtype.h"

#define SELF_LAYOUT    "inferflow.layout"
#define SELF_VERSION   "1"
#define SELF_SPEC      "inferflow.spec"
#define SELF_FILE      "inferflow.file."
#define SELF_BASE64    "inferflow.base64."
#define SELF_TOKENIZER "inferflow.tokenizer"
#define SELF_SHAPE     "inferflow.shape."
#define SELF_PANELS    ".r16"

/* Metadata by key. */
typedef struct self_contained {
    const json *metadata; /* NULL: the file is like any other */
    map by_key;           /* -> value */
    const json **value;
} self_contained;

/* metadata may be NULL. ERR_FORMAT for a layout that is not known. self_close also after an error. */
int self_open(self_contained *s, const json *metadata, err *e);
void self_close(self_contained *s);

/* Type, form and shape of a tensor whose bytes are U8; *type stays DTYPE_U8 when the metadata does not name it. */
int self_tensor(const self_contained *s, const char *name, dtype *type, bool *packed, shape *dims, err *e);

/* The files that the metadata holds; text stays where it is, the rest is decoded into `mem`. */
int self_files(const json *metadata, arena *mem, const held_file **files, size_t *n, err *e);

/* Adds a file to the metadata that is being written. */
int self_add_file(json *metadata, const char *name, span bytes, err *e);
