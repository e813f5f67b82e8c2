/* fuzz_tokenizer.h - what the tokenizer fuzzers share: uses everything of a tokenizer that a hostile file made, or of a
 * good one on a hostile text, and aborts when a promise is broken. */
#pragma once
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer_build.h"

#include <stdlib.h>

static inline void promise(bool kept)
{
    if (!kept) abort();
}

/* Whole and streamed decoding are the same, and the stream never gives half a character. */
static inline void use_decoder(const tokenizer *t, const token_list *ids, int flags)
{
    buf whole = {0}, parts = {0};
    err e = {0}, f = {0};
    detok *d;
    int rc = tokenizer_decode(t, ids->id, ids->n, flags, &whole, &e), again;
    promise(detok_open(&d, t, flags, &f) == OK);
    for (size_t i = 0; i < ids->n && !f.code; i++) {
        size_t before = parts.n;
        detok_next(d, ids->id[i], &parts, &f);
        promise(f.code || parts.n == before || utf8_is_valid(span_of(parts.p + before, parts.n - before)));
    }
    again = f.code ? f.code : detok_finish(d, &parts, &f);
    promise((rc == OK) == (again == OK));
    promise(rc || span_eq(buf_span(&whole), buf_span(&parts)));
    detok_close(d);
    buf_free(&whole);
    buf_free(&parts);
}

static inline void use_text(const tokenizer *t, span text)
{
    for (int flags = 0; flags < 4; flags++) {
        token_list ids = {0}, again = {0};
        err e = {0};
        int rc = tokenizer_encode(t, text, flags, &ids, &e);
        promise((rc == OK) == (e.code == 0));
        for (size_t i = 0; i < ids.n; i++) {
            promise(tokenizer_piece(t, ids.id[i]).p != NULL);
            bool unknown = ids.id[i] == t->ug.unk || ids.id[i] == t->wp.unk || ids.id[i] == t->ug.number_unk;
            promise(flags || unknown || t->model == MODEL_BPE || !tokenizer_is_special(t, ids.id[i]));
        }
        if (!rc) promise(tokenizer_encode(t, text, flags, &again, NULL) == OK && again.n == ids.n);
        promise(rc || ids.n == 0 || memcmp(ids.id, again.id, ids.n * sizeof *ids.id) == 0);
        if (!rc) use_decoder(t, &ids, flags & 1 ? DETOKENIZE_SKIP_SPECIAL : 0);
        if (!rc) use_decoder(t, &ids, DETOKENIZE_CONTINUE);
        token_list_free(&ids);
        token_list_free(&again);
    }
}

/* Two texts as one input, whole and cut. */
static inline void use_pair(const tokenizer *t, span a, span b)
{
    for (size_t most = 0; most < 9; most += 4) {
        token_list ids = {0}, types = {0};
        err e = {0};
        int rc = tokenizer_encode_input(t, &(token_input){a, &b, most}, TOKENIZE_SPECIAL, &ids, &types, &e);
        promise((rc == OK) == (e.code == 0) && ids.n == types.n && (rc == OK || ids.n == 0));
        for (size_t i = 0; i < ids.n; i++) promise(tokenizer_piece(t, ids.id[i]).p != NULL && types.id[i] >= 0);
        token_list_free(&ids);
        token_list_free(&types);
    }
}

/* A tokenizer from a hostile file, or none and a message. */
static inline void use_tokenizer(tokenizer *t, int rc, err *e)
{
    static const char *const texts[] = {
        "", "Hello world's 123  \n\n x", "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\xe2\x80\x8d",
        "<s>a</s> [UNK] <|endoftext|>", "\xe2\x96\x81 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    promise((rc == OK) == (e->code == 0) && (rc == OK || e->msg[0]));
    if (rc) return;
    promise(tokenizer_complete(t, e) == OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) use_text(t, span_str(texts[i]));
    use_pair(t, span_str(texts[1]), span_str(texts[3]));
    token_list all = {0};
    buf bytes = {0};
    for (int32_t id = 0; id < (int32_t)tokenizer_size(t) && id < 600; id++) {
        if (!tokenizer_piece(t, id).p) continue;
        promise(token_list_add(&all, id));
        tokenizer_bytes(t, id, &bytes);
    }
    use_decoder(t, &all, 0);
    token_list_free(&all);
    buf_free(&bytes);
}
