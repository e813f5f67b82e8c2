/* tokenizer.c - see tokenizer.h: runs the parts of a tokenizer on a text. What it is made of: tokenizer_state.h. */
#define _GNU_SOURCE
#include "text/tokenizer_state.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum {
    KEEP_WORK_BYTES = 8 << 20, /* buffers larger than this are released after use */
    MARK_WORK_MAX = 64 << 20   /* bytes that are normalized to find where marks go */
};

static void work_free(tokenizer_work *w)
{
    if (!w) return;
    buf_free(&w->clean);
    buf_free(&w->marks);
    norm_work_free(&w->prefix);
    norm_work_free(&w->norm);
    pretok_work_free(&w->pre);
    regex_work_free(w->rx);
    bpe_work_free(&w->bp);
    unigram_work_free(&w->ug);
    word_cache_free(&w->words);
    for (int i = 0; i < 2; i++) token_list_free(&w->text[i]);
    mem_free(w);
}

void tokenizer_close(tokenizer *t)
{
    if (!t) return;
    while (t->idle) {
        tokenizer_work *w = t->idle;
        t->idle = w->next;
        work_free(w);
    }
    pthread_mutex_destroy(&t->lock);
    normalizer_free(&t->norm);
    pretok_free(&t->pre);
    decoder_free(&t->dec);
    bpe_free(&t->bp);
    unigram_free(&t->ug);
    wordpiece_free(&t->wp);
    vocab_free(&t->model_voc);
    mem_free(t->number);
    added_free(&t->raw);
    added_free(&t->normalized);
    vocab_free(&t->voc);
    mem_free(t->shown);
    mem_free(t->chat_template);
    arena_free(&t->mem);
    mem_free(t);
}

static tokenizer_work *work_take(const tokenizer *shared, err *e)
{
    tokenizer *t = (tokenizer *)shared; /* the list of idle memory is all that changes after opening */
    pthread_mutex_lock(&t->lock);
    tokenizer_work *w = t->idle;
    if (w) t->idle = w->next;
    pthread_mutex_unlock(&t->lock);
    if (w) return w;
    w = mem_zero(1, sizeof *w);
    if (!w) {
        err_memory(e, "the tokenizer");
        return NULL;
    }
    if (regex_work_open(&w->rx, e)) {
        mem_free(w);
        return NULL;
    }
    return w;
}

static void buf_trim(buf *b)
{
    b->bad = false;
    if (b->cap > KEEP_WORK_BYTES) buf_free(b);
}

static void work_give(const tokenizer *shared, tokenizer_work *w)
{
    tokenizer *t = (tokenizer *)shared;
    buf_trim(&w->clean);
    buf_trim(&w->marks);
    for (int i = 0; i < 2; i++) {
        buf_trim(&w->norm.text[i]);
        buf_trim(&w->prefix.text[i]);
        buf_trim(&w->pre.text[i]);
        if (w->text[i].cap * sizeof(int32_t) > KEEP_WORK_BYTES) token_list_free(&w->text[i]);
        if (w->pre.list[i].cap * sizeof(text_piece) > KEEP_WORK_BYTES) {
            mem_free(w->pre.list[i].v);
            w->pre.list[i] = (piece_list){0};
        }
    }
    if (w->bp.sym_cap * sizeof(bpe_symbol) > KEEP_WORK_BYTES) bpe_work_free(&w->bp);
    if (w->ug.cap * sizeof(unigram_node) > KEEP_WORK_BYTES) unigram_work_free(&w->ug);
    pthread_mutex_lock(&t->lock);
    w->next = t->idle;
    t->idle = w;
    pthread_mutex_unlock(&t->lock);
}

static int encode_bpe(const tokenizer *t, tokenizer_work *w, span word, token_list *out, err *e)
{
    size_t first = out->n;
    int rc = bpe_encode(&t->bp, &w->bp, word, out, e);
    for (size_t i = first; t->number && !rc && i < out->n; i++) out->id[i] = t->number[out->id[i]];
    return rc;
}

static int encode_by_model(const tokenizer *t, tokenizer_work *w, span word, token_list *out, err *e)
{
    switch (t->model) {
    case MODEL_BPE: return encode_bpe(t, w, word, out, e);
    case MODEL_UNIGRAM: return unigram_encode(&t->ug, &w->ug, word, out, e);
    case MODEL_WORDPIECE: return wordpiece_encode(&t->wp, word, out, e);
    case MODEL_WORDLEVEL: {
        int32_t id = vocab_find_known(&t->voc, word);
        if (id < 0 || (t->voc.flag[id] & PIECE_SPECIAL)) id = t->wp.unk;
        if (id < 0) return err_set(e, ERR_FORMAT, "the vocabulary has no unknown token, and lacks a word of the text");
        return token_list_add(out, id) ? OK : err_memory(e, "the tokenizer");
    }
    }
    return OK;
}

static int encode_word(const tokenizer *t, tokenizer_work *w, span word, token_list *out, err *e)
{
    if (t->model == MODEL_BPE || t->model == MODEL_WORDLEVEL)
        return encode_by_model(t, w, word, out, e); /* has its own, needs none */
    word_slot *slot = word_cache_slot(&w->words, word);
    if (word_cache_hit(slot, word)) return word_cache_give(slot, out) ? OK : err_memory(e, "the tokenizer");
    size_t first = out->n;
    int rc = encode_by_model(t, w, word, out, e);
    if (!rc) word_cache_keep(slot, word, out, first);
    return rc;
}

/* Text without added tokens: pre-tokenizers, then the model. */
static int encode_plain(const tokenizer *t, tokenizer_work *w, span text, bool first, token_list *out, err *e)
{
    const piece_list *pieces = NULL;
    span cut;
    if (!text.n) return OK;
    int rc = pretok_run(&t->pre, &w->pre, w->rx, text, first, &cut, &pieces, e);
    for (size_t i = 0; !rc && i < pieces->n; i++)
        rc = encode_word(t, w, span_of(cut.p + pieces->v[i].at, pieces->v[i].n), out, e);
    return rc;
}

/* Text of two origins: special tokens count only where no byte of them is marked. */
typedef struct origin {
    bool parse;          /* special tokens count at all */
    const uint8_t *user; /* a byte for each of the text; NULL: no byte is marked */
} origin;

/* Carries marks over to the normalized text, into w->marks: a boundary lies where the text before it ends when it is
 * normalized alone. False: it does not lie anywhere, or there are too many. */
static bool mark_normalized(const tokenizer *t, tokenizer_work *w, span text, bool first, span norm,
                            const uint8_t *user)
{
    size_t from = 0, work = 0;
    w->marks.n = 0;
    for (size_t i = 1; i <= text.n; i++) {
        if (i < text.n && user[i] == user[i - 1]) continue;
        span part = norm;
        bool moved;
        work += i;
        if (work > MARK_WORK_MAX && i < text.n) return false;
        if (i < text.n && normalizer_run(&t->norm, &w->prefix, w->rx, span_of(text.p, i), first, &part, &moved, NULL))
            return false;
        if (part.n < from || part.n > norm.n || (part.n && memcmp(part.p, norm.p, part.n) != 0)) return false;
        const bool own_space = user[i - 1] && part.n >= from + 3 && memcmp(norm.p + part.n - 3, "\xe2\x96\x81", 3) == 0;
        for (size_t k = from; k < part.n; k++) /* a space may belong to the token behind it */
            buf_byte(&w->marks, user[i - 1] && !(own_space && k + 3 >= part.n));
        from = part.n;
    }
    return !w->marks.bad && w->marks.n == norm.n;
}

/* A stretch of the input between tokens that match as they are. */
static int encode_stretch(const tokenizer *t, tokenizer_work *w, span text, bool first, origin from, token_list *out,
                          err *e)
{
    span norm;
    bool moved, parse = from.parse;
    const bool begins = first;
    if (t->language_codes && span_starts(text, ">>")) { /* Marian: a leading >>code<< is one token */
        const uint8_t *end = memmem(text.p, text.n, "<<", 2);
        size_t n = end ? (size_t)(end + 2 - text.p) : 0;
        int32_t id = vocab_find(&t->voc, span_of(text.p, n));
        if (n && !token_list_add(out, id >= 0 ? id : t->role[TOKEN_UNK])) return err_memory(e, "the tokenizer");
        text = span_of(text.p + n, text.n - n);
    }
    int rc = text.n ? normalizer_run(&t->norm, &w->norm, w->rx, text, first, &norm, &moved, e) : OK;
    if (rc || !text.n) return rc;
    first = first && !moved;
    const bool marked = parse && from.user && t->normalized.has_special && memchr(from.user, 1, text.n);
    if (marked && !mark_normalized(t, w, text, begins, norm, from.user)) parse = false;
    added_walk walk = {.set = &t->normalized, .text = norm, .parse = parse, .user = marked ? w->marks.p : NULL};
    size_t start, stop;
    for (const added_token *a; !rc && (a = added_next(&walk, &start, &stop)); walk.done = stop) {
        if (start > walk.done)
            rc = encode_plain(t, w, span_of(norm.p + walk.done, start - walk.done), first && !walk.done, out, e);
        if (!rc && stop > start && !token_list_add(out, a->id)) rc = err_memory(e, "the tokenizer");
    }
    if (rc || walk.done >= norm.n) return rc;
    return encode_plain(t, w, span_of(norm.p + walk.done, norm.n - walk.done), first && !walk.done, out, e);
}

static origin origin_at(origin from, size_t at) { return (origin){from.parse, from.user ? from.user + at : NULL}; }

static int encode_text(const tokenizer *t, tokenizer_work *w, span text, origin from, token_list *out, err *e)
{
    if (text.n > (size_t)1 << 30) return err_set(e, ERR_LIMIT, "text of %zu bytes: at most 1 GiB at once", text.n);
    if (!utf8_is_valid(text)) {
        w->clean.n = 0;
        for (size_t i = 0, n; i < text.n; i += n ? n : 1) {
            n = utf8_valid_length(text.p + i, text.n - i);
            buf_add(&w->clean, n ? text.p + i : (const uint8_t *)"\xef\xbf\xbd", n ? n : 3);
        }
        if (w->clean.bad) return err_memory(e, "the tokenizer");
        text = buf_span(&w->clean);
    }
    added_walk walk = {.set = &t->raw, .text = text, .parse = from.parse, .user = from.user};
    size_t start, stop;
    int rc = OK;
    for (const added_token *a; !rc && (a = added_next(&walk, &start, &stop)); walk.done = stop) {
        if (start > walk.done)
            rc = encode_stretch(t, w, span_of(text.p + walk.done, start - walk.done), !walk.done,
                                origin_at(from, walk.done), out, e);
        if (!rc && stop > start && !token_list_add(out, a->id)) rc = err_memory(e, "the tokenizer");
    }
    if (rc || walk.done >= text.n) return rc;
    return encode_stretch(t, w, span_of(text.p + walk.done, text.n - walk.done), !walk.done, origin_at(from, walk.done),
                          out, e);
}

/* How many ids of each text stay within `room` together: the longer text shrinks until both are equally long. */
static void share_room(size_t room, size_t n[2])
{
    int longer = n[0] > n[1] ? 0 : 1;
    if (n[0] + n[1] <= room) return;
    n[1 - longer] = n[1 - longer] < room / 2 ? n[1 - longer] : room / 2;
    n[longer] = room - n[1 - longer];
}

static bool append_id(token_list *out, token_list *types, int32_t id, int32_t type)
{
    return token_list_add(out, id) && (!types || token_list_add(types, type));
}

static int fill_template(const tokenizer *t, const token_list text[2], const token_input *in, bool special,
                         token_list *out, token_list *types, err *e)
{
    const post_template *p = in->b ? &t->pair : &t->single;
    size_t stay[2] = {text[0].n, text[1].n}, around = 0;
    if (p->n < 0) return err_set(e, ERR_FORMAT, "this tokenizer's post-processors cannot take two texts");
    for (int i = 0; i < p->n; i++) around += special && p->item[i].id >= 0;
    if (in->ids_max && in->ids_max < around)
        return err_set(e, ERR_USAGE, "at most %zu tokens: the special tokens around the text alone are %zu",
                       in->ids_max, around);
    if (in->ids_max) share_room(in->ids_max - around, stay);
    bool ok = true;
    for (int i = 0; i < p->n && ok; i++) {
        post_item item = p->item[i];
        if (in->language > 0 && item.id >= 0 && item.id == t->language) item.id = in->language;
        if (item.id >= 0) {
            ok = !special || append_id(out, types, item.id, item.type);
            continue;
        }
        int side = item.id == POST_B;
        size_t first = t->cut_left ? text[side].n - stay[side] : 0;
        for (size_t k = 0; k < stay[side] && ok; k++) ok = append_id(out, types, text[side].id[first + k], item.type);
    }
    return ok ? OK : err_memory(e, "the tokenizer");
}

int tokenizer_encode_input(const tokenizer *t, const token_input *in, int flags, token_list *out, token_list *types,
                           err *e)
{
    tokenizer_work *w = work_take(t, e);
    if (!w) return ERR_MEMORY;
    size_t start = out->n, start_types = types ? types->n : 0;
    const origin parse = {flags & TOKENIZE_PARSE, NULL};
    w->text[0].n = w->text[1].n = 0;
    int rc = encode_text(t, w, in->a, parse, &w->text[0], e);
    if (!rc && in->b) rc = encode_text(t, w, *in->b, parse, &w->text[1], e);
    if (!rc) rc = fill_template(t, w->text, in, flags & TOKENIZE_SPECIAL, out, types, e);
    if (rc) out->n = start;
    if (rc && types) types->n = start_types;
    work_give(t, w);
    return rc;
}

int tokenizer_encode(const tokenizer *t, span text, int flags, token_list *out, err *e)
{
    return tokenizer_encode_input(t, &(token_input){.a = text}, flags, out, NULL, e);
}

int tokenizer_encode_marked(const tokenizer *t, span text, const uint8_t *user, token_list *out, err *e)
{
    if (!utf8_is_valid(text)) return err_set(e, ERR_FORMAT, "the text is not valid UTF-8");
    tokenizer_work *w = work_take(t, e);
    if (!w) return ERR_MEMORY;
    const size_t start = out->n;
    int rc = encode_text(t, w, text, (origin){true, user}, out, e);
    if (rc) out->n = start;
    work_give(t, w);
    return rc;
}

struct detok {
    const tokenizer *t;
    int flags;
    decode_stream s;
};

int detok_open(detok **out, const tokenizer *t, int flags, err *e)
{
    detok *d = *out = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, "the tokenizer");
    d->t = t;
    d->flags = flags;
    d->s = (decode_stream){.d = &t->dec, .voc = &t->voc, .begun = flags & DETOKENIZE_CONTINUE};
    return OK;
}

int detok_next(detok *d, int32_t id, buf *out, err *e)
{
    const vocab *v = &d->t->voc;
    if (!vocab_has(v, id))
        return err_set(e, ERR_USAGE, "token id %d is not in the vocabulary (0..%u)", id, v->size - 1);
    bool skip = (d->flags & DETOKENIZE_SKIP_SPECIAL) && (v->flag[id] & PIECE_SPECIAL);
    bool other = d->t->shown && d->t->shown[id].p;
    int rc = skip ? OK : decode_push(&d->s, id, other ? d->t->shown[id] : v->piece[id], out, e);
    d->s.before = id;
    return rc;
}

int detok_finish(detok *d, buf *out, err *e) { return decode_finish(&d->s, out, e); }

void detok_close(detok *d)
{
    if (!d) return;
    decode_stream_free(&d->s);
    mem_free(d);
}

int tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, int flags, buf *out, err *e)
{
    detok *d;
    int rc = detok_open(&d, t, flags, e);
    for (size_t i = 0; i < n && !rc; i++) rc = detok_next(d, id[i], out, e);
    if (!rc) rc = detok_finish(d, out, e);
    detok_close(d);
    return rc;
}

uint32_t tokenizer_size(const tokenizer *t) { return t->voc.size; }

span tokenizer_piece(const tokenizer *t, int32_t id) { return vocab_has(&t->voc, id) ? t->voc.piece[id] : (span){0}; }

int32_t tokenizer_id(const tokenizer *t, const char *piece) { return vocab_find(&t->voc, span_str(piece)); }

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    return vocab_has(&t->voc, id) && (t->voc.flag[id] & PIECE_SPECIAL);
}

/* Whether any piece spelled <0xXX> stands for a byte when ids become text. */
static bool joins_bytes(const tokenizer *t)
{
    for (int i = 0; i < (int)t->dec.n; i++)
        if (t->dec.step[i].kind == DECODE_BYTE_FALLBACK || t->dec.step[i].kind == DECODE_LLAMA2C) return true;
    return false;
}

bool tokenizer_bytes(const tokenizer *t, int32_t id, buf *out)
{
    if (!vocab_has(&t->voc, id) || (t->voc.flag[id] & PIECE_SPECIAL)) return false;
    span piece = t->voc.piece[id];
    int byte = vocab_piece_byte(piece);
    if (t->byte_level) return byte_unspell(piece, out) || buf_add(out, piece.p, piece.n);
    if (byte >= 0 && ((t->voc.flag[id] & PIECE_BYTE) || joins_bytes(t))) return buf_byte(out, (uint8_t)byte);
    detok *d;
    size_t start = out->n;
    bool ok = detok_open(&d, t, DETOKENIZE_CONTINUE, NULL) == OK;
    if (ok && t->dec.n && t->dec.step[0].kind == DECODE_BYTES) ok = buf_add(out, piece.p, piece.n);
    else if (ok) ok = detok_next(d, id, out, NULL) == OK && detok_finish(d, out, NULL) == OK;
    detok_close(d);
    if (!ok) out->n = start;
    return ok;
}

int32_t tokenizer_language(const tokenizer *t, const char *code)
{
    static const char *const around[][2] = {{"", ""}, {"__", "__"}, {">>", "<<"}};
    char name[64];
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        int n = snprintf(name, sizeof name, "%s%s%s", around[i][0], code, around[i][1]);
        int32_t id = n > 0 && (size_t)n < sizeof name ? tokenizer_id(t, name) : -1;
        if (id >= 0 && (tokenizer_is_special(t, id) || i == 2)) return id;
    }
    return -1;
}

int32_t tokenizer_role(const tokenizer *t, token_role role) { return role < TOKEN_ROLE_COUNT ? t->role[role] : -1; }
const char *tokenizer_chat_template(const tokenizer *t) { return t->chat_template; }
const char *tokenizer_kind(const tokenizer *t) { return t->kind; }
