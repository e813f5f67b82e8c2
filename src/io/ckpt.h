/* ckpt.h - a checkpoint: a list of named tensors that lie in mapped files, and the metadata that came with them.
 *
 * Formats only list (fmt_*.c); no weight byte is read before it is needed. Names, types, shapes, bounds, duplicates and
 * overlaps are checked here, once, so that an entry can be trusted: file bytes [data, data + bytes) exist in the
 * mapping, and bytes fits dtype and shape exactly. */
#pragma once
#include "base/err.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/span.h"
#include "tensor/dtype.h"
#include "tensor/stored.h"

#include <stdint.h>

typedef struct ckpt ckpt;

typedef struct ckpt_entry {
    const char *name; /* as in the file, UTF-8 */
    dtype type;
    shape dims;          /* row-major: dims.dim[rank-1] contiguous (GGUF's order is reversed on reading) */
    const uint8_t *data; /* in a mapping, or rewritten at opening (ckpt_entry_mapped); any alignment */
    uint64_t bytes;
    uint32_t file; /* which mapped file, for messages: ckpt_file */
    bool packed;   /* the bytes are panels of tensor/panel.h, of a matrix or of a stack of them */
    const stored_matrix
        *stored; /* NULL, or how rows of this type and shape are read from several tensors (ckpt_join) */
    uint32_t of; /* then: the tensor of the codes, whose data, bytes and file these are */
} ckpt_entry;

/* Opens a model file or a directory in Hugging Face layout (config.json beside *.safetensors, a *.index.json, or
 * pytorch_model*.bin). Formats are recognised by content, never by name. Errors name the file and what is wrong. */
int ckpt_open(ckpt **out, const char *path, err *e);
/* The same for one file that is already in memory (the built-in model, tests). `bytes` must outlive the checkpoint. */
int ckpt_open_bytes(ckpt **out, span bytes, const char *name, err *e);
void ckpt_close(ckpt *c); /* NULL ok; entries die with it */

const char *ckpt_path(const ckpt *c);
const char *ckpt_format(const ckpt *c); /* "safetensors", "gguf", "pickle", "llama2c" */
/* The prefix of its keys and tensor names in specs: "gguf", "llama2c"; "hf" where they are those of Hugging Face. */
const char *ckpt_source(const ckpt *c);
bool ckpt_is_source(span name); /* whether some format has that source */
/* Whether the file itself says what the model is, as GGUF and llama2.c files do; else a config.json beside it does. */
bool ckpt_describes_itself(const ckpt *c);
/* Its architecture by a file that describes itself ("unknown" where it names none); else NULL. */
const char *ckpt_arch(const ckpt *c);
bool ckpt_keys_have_arch(const ckpt *c); /* keys of ckpt_config begin with it: "llama.block_count" */
bool ckpt_has_factors(const ckpt *c);    /* X.scale and X.input_scale are factors of X.weight */
uint32_t ckpt_count(const ckpt *c);
const ckpt_entry *ckpt_at(const ckpt *c, uint32_t i); /* as in the files */
/* NULL when absent; a matrix that was joined before a tensor of its name. */
const ckpt_entry *ckpt_find(const ckpt *c, const char *name);
uint32_t ckpt_index(const ckpt *c, const ckpt_entry *t); /* of a joined matrix that of its codes */
/* Makes a matrix of several tensors known by a name: `as` has type, dims, stored and `of`. name and stored must live
 * as long as the checkpoint: ckpt_memory gives room for them. Its tensors, and those that ckpt_set_aside names, count
 * as read (ckpt_is_aside). */
int ckpt_join(ckpt *c, const char *name, const ckpt_entry *as, err *e);
void *ckpt_memory(ckpt *c, size_t bytes);
int ckpt_set_aside(ckpt *c, uint32_t i, err *e);
bool ckpt_is_aside(const ckpt *c, uint32_t i);
const char *ckpt_file(const ckpt *c, uint32_t file);
/* False for the few entries that could not stay in the file: Q8 of llama2.c, transposed pickle tensors. */
bool ckpt_entry_mapped(const ckpt *c, const ckpt_entry *t);

/* Metadata as one JSON object: config.json of a directory (NULL when there is none); for gguf its key-values, keys as
 * in the file ("llama.block_count"), huge arrays (more than 1024 elements: the vocabulary) left out, see
 * ckpt_meta_array; for llama2.c the header under its struct's names (dim, hidden_dim, n_layers, n_heads, n_kv_heads,
 * vocab_size, seq_len, shared_classifier, version, group_size). */
const json *ckpt_config(const ckpt *c);
/* The "__metadata__" object of safetensors, the plain values in a pickle (epoch, arguments); NULL: there is none. */
const json *ckpt_metadata(const ckpt *c);
/* Adds the weights in a folder beside those of the checkpoint ("2_Dense"): its model.safetensors or pytorch_model.bin;
 * names get the folder in front ("2_Dense.linear.weight"). Nothing happens where the checkpoint has such names already.
 * Not after somebody holds an entry. */
int ckpt_add_part(ckpt *c, const char *folder, err *e);
/* A file beside the weights ("generation_config.json", "tokenizer.json"), parsed; NULL when there is none or it is
 * malformed (then `e` says so). Owned by the checkpoint. Only for directories, files inside one, and self-contained
 * models. */
const json *ckpt_side_json(ckpt *c, const char *name, err *e);
/* The folder that the side files are in. */
const char *ckpt_dir(const ckpt *c);
/* The side files: that folder, or the files that a self-contained model carries (io/self_contained.h). */
const file_folder *ckpt_folder(const ckpt *c);
/* Of a self-contained model: its spec; the side file that is its tokenizer (NULL: the rules of folders find it). */
const char *ckpt_own_spec(const ckpt *c);
const char *ckpt_tokenizer_file(const ckpt *c);

/* One array of a GGUF file, by key: element type as in GGUF (ckpt_array.kind), strings as spans into the mapping. */
typedef enum { META_NONE, META_INT, META_FLOAT, META_STRING, META_BOOL } meta_kind;
typedef struct ckpt_array {
    meta_kind kind;
    uint64_t count, bytes;
    const uint8_t *data; /* packed elements; strings are a 64-bit length and bytes each */
    uint32_t type;       /* GGUF element type id */
} ckpt_array;
bool ckpt_meta_array(const ckpt *c, const char *key, ckpt_array *out);
/* All key-values of a GGUF file, in its order, scalars as arrays of one (*scalar); false after the last. */
bool ckpt_meta_at(const ckpt *c, uint32_t i, const char **key, ckpt_array *out, bool *scalar);
/* ERR_UNAVAILABLE when a mapped file shrank while it was used, or could not be read (file_torn). Call after reading
 * weights. */
int ckpt_check_torn(const ckpt *c, err *e);
/* The same, and when a file was written to since it was mapped or restored. *touched becomes true where one should be
 * hashed again (file_look). One thread at a time. */
int ckpt_look(ckpt *c, bool *touched, err *e);
/* Maps the files that are not as they were again, at the same addresses (file_restore). */
int ckpt_restore(ckpt *c, err *e);
