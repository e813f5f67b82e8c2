/* load_spm.h - SentencePiece models: tokenizer.model itself, and what GGUF and Marian vocabularies share with it. */
#pragma once
#include "text/tokenizer_state.h"

typedef struct spm_normalizer {
    span charsmap;
    bool add_space, trim, escape;
} spm_normalizer;

typedef struct spm_model {
    uint32_t type; /* 1 unigram, 2 BPE */
    bool fall_back, space_after, has_denorm;
    int32_t bos, eos, pad;
    span unk_surface;
    spm_normalizer norm, denorm;
    float *score; /* by piece; owned */
} spm_model;

/* Reads a model: pieces and their kinds into *voc. Spans lie in `file`. spm_free the result. */
int spm_read(span file, spm_model *m, vocab *voc, const char *path, err *e);
void spm_free(spm_model *m);
/* Builds a tokenizer from a model whose pieces are in t->voc already. */
int spm_build(tokenizer *t, const spm_model *m, const char *path, err *e);
/* Reads and builds. */
int load_spm(tokenizer *t, span file, const char *path, err *e);
/* Whether the bytes look like a model, without reading all of it. */
bool spm_probe(span file);
