/* load_spm.c - SentencePiece models (tokenizer.model, *.spm): a protocol buffer, read with a small walker.
 * Source: github.com/google/sentencepiece, sentencepiece_model.proto.
 *
 * Fields: pieces = 1 {piece 1, score 2, type 3}, trainer_spec = 2 {model_type 3, treat_whitespace_as_suffix 24,
 * byte_fallback 35, bos/eos/pad_id 41..43, unk_surface 44}, normalizer_spec = 3 and denormalizer_spec = 5
 * {precompiled_charsmap 2, add_dummy_prefix 3, remove_extra_whitespaces 4, escape_whitespaces 5}. */
#include "text/load_spm.h"

#include "base/half.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer_build.h"

#include <float.h>
#include <math.h>

typedef struct field {
    uint32_t number, wire;
    uint64_t value; /* wire 0, 1, 5 */
    span bytes;     /* wire 2 */
} field;

static uint64_t varint(cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = cursor_u8(c);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
    }
    c->bad = true;
    return 0;
}

/* The next field of a message; false at its end or when it is malformed (then c->bad). */
static bool next_field(cursor *c, field *f)
{
    if (c->bad || c->at == c->n) return false;
    uint64_t tag = varint(c);
    *f = (field){(uint32_t)(tag >> 3), (uint32_t)(tag & 7), 0, {0}};
    if (tag >> 32) c->bad = true;
    switch (f->wire) {
    case 0: f->value = varint(c); break;
    case 1: f->value = cursor_u64(c); break;
    case 2: f->bytes = cursor_take(c, varint(c)); break;
    case 5: f->value = cursor_u32(c); break;
    default: c->bad = true;
    }
    return !c->bad;
}

bool spm_probe(span file)
{
    cursor c = cursor_of(file), inner;
    field f, g;
    for (int i = 0; i < 4; i++) {
        if (!next_field(&c, &f) || f.number != 1 || f.wire != 2) return false;
        inner = cursor_of(f.bytes);
        if (!next_field(&inner, &g) || g.number != 1 || g.wire != 2) return false;
    }
    return true;
}

static void read_normalizer(span bytes, spm_normalizer *n, bool *bad)
{
    cursor c = cursor_of(bytes);
    for (field f; next_field(&c, &f);) {
        if (f.number == 2 && f.wire == 2) n->charsmap = f.bytes;
        if (f.wire != 0) continue;
        if (f.number == 3) n->add_space = f.value;
        if (f.number == 4) n->trim = f.value;
        if (f.number == 5) n->escape = f.value;
    }
    *bad = *bad || c.bad;
}

static void read_trainer(span bytes, spm_model *m, bool *bad)
{
    cursor c = cursor_of(bytes);
    for (field f; next_field(&c, &f);) {
        if (f.number == 44 && f.wire == 2) m->unk_surface = f.bytes;
        if (f.wire != 0) continue;
        switch (f.number) {
        case 3: m->type = (uint32_t)f.value; break;
        case 24: m->space_after = f.value; break;
        case 35: m->fall_back = f.value; break;
        case 41: m->bos = (int32_t)f.value; break;
        case 42: m->eos = (int32_t)f.value; break;
        case 43: m->pad = (int32_t)f.value; break;
        }
    }
    *bad = *bad || c.bad;
}

static unsigned type_flags(uint64_t type)
{
    switch (type) {
    case 2: return PIECE_UNKNOWN | PIECE_SPECIAL;
    case 3: return PIECE_CONTROL | PIECE_SPECIAL;
    case 4: return PIECE_USER;
    case 5: return PIECE_UNUSED;
    case 6: return PIECE_BYTE;
    default: return 0;
    }
}

static int read_piece(span bytes, uint32_t id, vocab *voc, float *score, const char *path, err *e)
{
    cursor c = cursor_of(bytes);
    span piece = {0};
    uint64_t type = 1;
    *score = 0;
    for (field f; next_field(&c, &f);) {
        if (f.number == 1 && f.wire == 2) piece = f.bytes;
        if (f.number == 2 && f.wire == 5) *score = bits_float((uint32_t)f.value);
        if (f.number == 3 && f.wire == 0) type = f.value;
    }
    if (c.bad || piece.n == 0 || !isfinite(*score) || !utf8_is_valid(piece))
        return err_set(e, ERR_FORMAT, "%s: piece %u is malformed", path, id);
    return vocab_set(voc, id, piece, type_flags(type), e);
}

int spm_read(span file, spm_model *m, vocab *voc, const char *path, err *e)
{
    *m = (spm_model){.type = 1, .bos = 1, .eos = 2, .pad = -1, .unk_surface = span_str(" \xe2\x81\x87 ")};
    m->norm = m->denorm = (spm_normalizer){.add_space = true, .trim = true, .escape = true};
    bool bad = false;
    size_t cap = 0;
    void *score = NULL;
    int rc = OK;
    uint32_t n = 0;
    cursor c = cursor_of(file);
    for (field f; !rc && next_field(&c, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 1) {
            if (!mem_grow(&score, &cap, (size_t)n + 1, sizeof *m->score)) rc = err_memory(e, path);
            m->score = score;
            if (!rc) rc = read_piece(f.bytes, n, voc, &m->score[n], path, e);
            n++;
        }
        if (f.number == 2) read_trainer(f.bytes, m, &bad);
        if (f.number == 3) read_normalizer(f.bytes, &m->norm, &bad);
        if (f.number == 5) {
            m->has_denorm = true;
            read_normalizer(f.bytes, &m->denorm, &bad);
        }
    }
    if (!rc && (c.bad || bad))
        rc = err_set(e, ERR_FORMAT, "%s: not a SentencePiece model: malformed at byte %zu", path, c.at);
    if (!rc && !utf8_is_valid(m->unk_surface)) rc = err_set(e, ERR_FORMAT, "%s: unk_surface is not UTF-8", path);
    if (!rc && n == 0) rc = err_set(e, ERR_FORMAT, "%s: a SentencePiece model without pieces", path);
    if (rc) spm_free(m);
    return rc;
}

void spm_free(spm_model *m)
{
    mem_free(m->score);
    m->score = NULL;
}

static int set_normalizer(norm_step *st, const spm_normalizer *n, err *e)
{
    st->add_space = n->add_space;
    st->trim = n->trim;
    st->escape = n->escape;
    return charsmap_open(&st->map, n->charsmap, e);
}

/* Registers user-defined, control and unknown pieces. */
static int add_symbols(tokenizer *t, const char *path, err *e)
{
    const vocab *v = &t->voc;
    int rc = OK;
    for (uint32_t id = 0; id < v->size && !rc; id++) {
        if (v->flag[id] & PIECE_USER) rc = trie_put(&t->bp.frozen, v->piece[id], (int32_t)id, e);
        t->bp.resplit = t->bp.resplit || (v->flag[id] & PIECE_UNUSED);
        if ((v->flag[id] & PIECE_UNKNOWN) && t->role[TOKEN_UNK] < 0) t->role[TOKEN_UNK] = (int32_t)id;
        if (!rc && (v->flag[id] & PIECE_CONTROL)) rc = tokenizer_add_special(t, (int32_t)id, e);
    }
    if (!rc && t->role[TOKEN_UNK] < 0) rc = err_set(e, ERR_FORMAT, "%s: no piece of type unknown", path);
    return rc;
}

static int find_byte_pieces(const tokenizer *t, const spm_model *m, int32_t piece[256], const char *path, err *e)
{
    bool all = true;
    for (int i = 0; i < 256; i++) piece[i] = -1;
    for (uint32_t id = 0; id < t->voc.size; id++) {
        if (!(t->voc.flag[id] & PIECE_BYTE)) continue;
        int byte = vocab_piece_byte(t->voc.piece[id]);
        if (byte < 0) return err_set(e, ERR_FORMAT, "%s: byte piece %u is not spelled <0xXX>", path, id);
        piece[byte] = (int32_t)id;
    }
    for (int i = 0; i < 256; i++) all = all && piece[i] >= 0;
    return !m->fall_back || all ? OK : err_set(e, ERR_FORMAT, "%s: byte_fallback without all 256 byte pieces", path);
}

static int build_bpe(tokenizer *t, const spm_model *m, const char *path, err *e)
{
    bpe *b = &t->bp;
    t->kind = "spm-bpe";
    t->model = MODEL_BPE;
    b->fuse_unk = true;
    b->unk = t->role[TOKEN_UNK];
    b->fall_back = m->fall_back;
    b->space = span_str(m->norm.escape ? "\xe2\x96\x81" : " ");
    int rc = find_byte_pieces(t, m, b->byte_piece, path, e);
    if (!rc) rc = bpe_rank_by_score(b, m->score, e);
    if (!rc) bpe_finish(b);
    return rc;
}

static int build_unigram(tokenizer *t, const spm_model *m, const char *path, err *e)
{
    unigram *u = &t->ug;
    const vocab *v = &t->voc;
    t->kind = "unigram";
    t->model = MODEL_UNIGRAM;
    u->unk = t->role[TOKEN_UNK];
    u->fall_back = m->fall_back;
    u->single = true;
    u->score = mem_zero(v->size, sizeof *u->score);
    if (!u->score) return err_memory(e, "the vocabulary");
    u->count = v->size;
    int rc = find_byte_pieces(t, m, u->byte_piece, path, e);
    float min = FLT_MAX; /* of the normal pieces */
    for (uint32_t id = 0; id < v->size && !rc; id++) {
        span p = v->piece[id];
        if (p.p && !v->flag[id] && m->score[id] < min) min = m->score[id];
        if (!p.n || (v->flag[id] & (PIECE_SPECIAL | PIECE_UNKNOWN | PIECE_BYTE | PIECE_UNUSED))) continue;
        /* user-defined symbols must win; found by experiment with sentencepiece 0.2.3 (it shows in ties after one) */
        u->score[id] = v->flag[id] & PIECE_USER ? (float)(0.1 * (double)p.n - 0.1) : m->score[id];
        rc = trie_put(&u->pieces, p, (int32_t)id, e);
    }
    u->unk_score = min - 10.0f;
    return rc;
}

static int add_decoders(tokenizer *t, const spm_model *m, err *e)
{
    decode_step *d = tokenizer_add_decoder(t, DECODE_SENTENCEPIECE, e);
    if (!d) return ERR_LIMIT;
    d->text = tokenizer_keep(t, m->unk_surface);
    d->first_differs = m->norm.add_space || m->norm.trim;
    d->trim = m->norm.trim;
    if (!m->has_denorm || !m->denorm.charsmap.n) return OK;
    if (!(d = tokenizer_add_decoder(t, DECODE_REPLACE, e))) return ERR_LIMIT;
    d->replace.kind = NORM_SENTENCEPIECE;
    return set_normalizer(&d->replace, &m->denorm, e);
}

int spm_build(tokenizer *t, const spm_model *m, const char *path, err *e)
{
    const int32_t role[][2] = {{TOKEN_BOS, m->bos}, {TOKEN_EOS, m->eos}, {TOKEN_PAD, m->pad}};
    if (m->type != 1 && m->type != 2)
        return err_set(e, ERR_FORMAT, "%s: SentencePiece model type %u (word or character) is not supported", path,
                       m->type);
    for (size_t i = 0; i < sizeof role / sizeof *role; i++)
        t->role[role[i][0]] = vocab_has(&t->voc, role[i][1]) ? role[i][1] : -1;
    int rc = add_symbols(t, path, e);
    norm_step *n = rc ? NULL : tokenizer_add_normalizer(t, NORM_SENTENCEPIECE, e);
    if (!n) return rc ? rc : ERR_LIMIT;
    n->space_after = m->space_after;
    n->user = t->bp.frozen.nodes ? &t->bp.frozen : NULL;
    t->space_sign = true;
    rc = set_normalizer(n, &m->norm, e);
    if (!rc) rc = m->type == 2 ? build_bpe(t, m, path, e) : build_unigram(t, m, path, e);
    return rc ? rc : add_decoders(t, m, e);
}

int load_spm(tokenizer *t, span file, const char *path, err *e)
{
    spm_model m;
    int rc = spm_read(file, &m, &t->voc, path, e);
    if (rc) return rc;
    rc = spm_build(t, &m, path, e);
    spm_free(&m);
    return rc;
}
