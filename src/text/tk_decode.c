/* tk_decode.c - see tk_decode.h. Semantics: the decoders of Hugging Face tokenizers and of sentencepiece. */
#define _GNU_SOURCE
#include "text/tk_decode.h"

#include "base/utf8.h"
#include "text/tk_pretokenize.h"
#include "text/tk_unicode.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

void decoder_free(decoder *d)
{
    for (int i = 0; i < d->n; i++) {
        regex_free(d->step[i].replace.pattern);
        charsmap_free(&d->step[i].replace.map);
    }
    d->n = 0;
}

void decode_stream_free(decode_stream *s)
{
    for (int i = 0; i < DECODE_STEPS_MAX; i++) {
        buf_free(&s->stage[i].hold);
        buf_free(&s->stage[i].out);
    }
    regex_work_free(s->rx);
    s->rx = NULL;
}

/* How many bytes at the start of s cannot become a character any more: one U+FFFD replaces them (Unicode 3.9, "maximal
 * subpart"). */
static size_t bad_run(span s)
{
    size_t n = 1;
    while (n < s.n && n < 4 && utf8_incomplete_tail(span_of(s.p, n)) == n &&
           utf8_incomplete_tail(span_of(s.p, n + 1)) == n + 1)
        n++;
    return n;
}

static void drop_front(buf *b, size_t n)
{
    if (n) memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

/* What Python's str.strip takes away. */
static bool is_blank(uint32_t c) { return uc_is_space(c) || (c >= 0x1c && c <= 0x1f); }

/* Only memory can fail, and out->bad says so. */
static void add_replaced(buf *out, span in, span from, span to)
{
    norm_step st = {.kind = NORM_REPLACE, .from = from, .to = to};
    (void)norm_step_run(&st, NULL, in, false, out, NULL);
}

static void replace_in(buf *text, span from, span to)
{
    buf next = {0};
    add_replaced(&next, buf_span(text), from, to);
    next.bad |= text->bad;
    buf_free(text);
    *text = next;
}

/* The tidying of English that BERT's decoder does inside each token. */
static void clean_up(buf *text)
{
    static const char *const rule[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    if (!memchr(text->p ? text->p : (const uint8_t *)"", ' ', text->n)) return;
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        replace_in(text, span_str(rule[i][0]), span_str(rule[i][1]));
}

static int add_metaspace(const decode_step *st, buf *out, span tok, bool drop)
{
    for (size_t i = 0, len; i < tok.n; i += len) {
        if (utf8_decode(tok.p + i, tok.n - i, &len) != st->sign) buf_add(out, tok.p + i, len);
        else if (!drop) buf_byte(out, ' ');
    }
    return OK;
}

/* ---- what each kind of step does with a token, with a part of a long token, and at the end ---- */

/* One step of a stream at work. */
typedef struct working {
    decode_stream *s;
    int i;      /* which step */
    int32_t id; /* of the token; -1: an earlier step made it */
    const decode_step *st;
    decode_stage *g;
    buf *out; /* of the whole chain */
    err *e;
} working;

/* What becomes of a token. A negative code, OK (the next step gets the text in g->out), or: */
enum {
    PASS = 1, /* the next step gets *tok */
    KEPT,     /* the next step gets nothing */
    COLLECT   /* of parts: this step has to see the whole token */
};
typedef int (*step_function)(const working *w, span *tok);
typedef int (*end_function)(const working *w);

static int push_next(const working *w, span tok, bool part);

static bool is_first(const working *w) { return w->g->seen++ == 0 && !w->s->begun; }

static int pass_on(const working *w, span *tok) { return (void)w, (void)tok, PASS; }

/* Text of the bytes held, but for an incomplete character at their end unless this is the end of all. */
static int bytes_to_text(decode_stage *g, bool last)
{
    size_t keep = last ? 0 : utf8_incomplete_tail(buf_span(&g->hold)), at = 0;
    while (at + keep < g->hold.n) {
        span rest = span_of(g->hold.p + at, g->hold.n - keep - at);
        size_t n = utf8_valid_length(rest.p, rest.n);
        if (n) buf_add(&g->out, rest.p, n);
        else buf_add(&g->out, replacement, 3);
        at += n ? n : bad_run(rest);
    }
    drop_front(&g->hold, at);
    return OK;
}

static int spelled_bytes(const working *w, span *tok)
{
    if (!byte_unspell(*tok, &w->g->hold)) buf_add(&w->g->hold, tok->p, tok->n);
    return bytes_to_text(w->g, false);
}

static int plain_bytes(const working *w, span *tok)
{
    buf_add(&w->g->hold, tok->p, tok->n);
    return bytes_to_text(w->g, false);
}

static int llama2c_piece(const working *w, span *tok)
{
    int byte = vocab_piece_byte(*tok);
    bool bos = w->id == 1 || w->id == 2, drop = w->s->before == 1 && tok->n && tok->p[0] == ' ';
    if (byte >= 0) buf_byte(&w->g->hold, (uint8_t)byte);
    else if (!bos) buf_add(&w->g->hold, tok->p + drop, tok->n - drop);
    return bytes_to_text(w->g, false);
}

static int last_bytes(const working *w) { return bytes_to_text(w->g, true); }

/* The bytes held as one token, or as many U+FFFD as there are bytes. */
static int flush_fallback(const working *w)
{
    span held = buf_span(&w->g->hold);
    bool good = utf8_is_valid(held);
    int rc = OK;
    if (good && held.n) rc = push_next(w, held, false);
    for (size_t k = 0; !good && k < held.n && !rc; k++) rc = push_next(w, span_of(replacement, 3), false);
    w->g->hold.n = 0;
    return rc ? rc : KEPT;
}

static int byte_fallback(const working *w, span *tok)
{
    int byte = vocab_piece_byte(*tok);
    if (byte >= 0) {
        buf_byte(&w->g->hold, (uint8_t)byte);
        return KEPT;
    }
    int rc = flush_fallback(w);
    return rc < 0 ? rc : PASS;
}

static int strip_ends(const working *w, span *tok)
{
    const decode_step *st = w->st;
    uint8_t sign[4];
    size_t k = utf8_encode(st->sign, sign);
    for (size_t i = 0; i < st->start && tok->n >= k && memcmp(tok->p, sign, k) == 0; i++)
        *tok = span_of(tok->p + k, tok->n - k);
    for (size_t i = 0; i < st->stop && tok->n >= k && memcmp(tok->p + tok->n - k, sign, k) == 0; i++) tok->n -= k;
    return PASS;
}

static int strip_part(const working *w, span *part)
{
    uint8_t sign[4];
    size_t k = utf8_encode(w->st->sign, sign);
    if (w->st->stop) return COLLECT;
    while (!w->s->begun && w->g->seen < w->st->start && part->n) {
        if (part->n >= k && memcmp(part->p, sign, k) == 0) {
            *part = span_of(part->p + k, part->n - k);
            w->g->seen++;
        } else {
            w->g->seen = w->st->start;
        }
    }
    return PASS;
}

static int replace_token(const working *w, span *tok)
{
    const norm_step *r = &w->st->replace;
    if (r->pattern && !w->s->rx && regex_work_open(&w->s->rx, w->e)) return ERR_MEMORY;
    return norm_step_run(r, w->s->rx, *tok, false, &w->g->out, w->e);
}

/* Only a plain character map works on a stream. */
static bool is_map(const norm_step *r) { return r->kind == NORM_SENTENCEPIECE && !r->trim && !r->add_space; }

static int replace_part(const working *w, span *part)
{
    buf *hold = &w->g->hold;
    if (!is_map(&w->st->replace)) return COLLECT;
    buf_add(hold, part->p, part->n);
    drop_front(hold, norm_map_stream(&w->st->replace.map, buf_span(hold), false, &w->g->out));
    return OK;
}

static int replace_end(const working *w)
{
    if (w->st->replace.kind != NORM_SENTENCEPIECE) return KEPT;
    norm_map_stream(&w->st->replace.map, buf_span(&w->g->hold), true, &w->g->out);
    w->g->hold.n = 0;
    return OK;
}

static int decode_metaspace(const working *w, span *tok)
{
    return add_metaspace(w->st, &w->g->out, *tok, is_first(w) && w->st->first_differs);
}

static int metaspace_part(const working *w, span *tok)
{
    return add_metaspace(w->st, &w->g->out, *tok, w->st->first_differs && !w->s->begun);
}

static int wordpiece(const working *w, span *tok)
{
    size_t n = w->st->text.n;
    buf *text = &w->g->out;
    bool first = is_first(w), joined = tok->n >= n && memcmp(tok->p, w->st->text.p, n) == 0;
    if (!first && !joined) buf_byte(text, ' ');
    if (!first && joined) *tok = span_of(tok->p + n, tok->n - n);
    buf_add(text, tok->p, tok->n);
    if (w->st->cleanup) clean_up(text);
    return OK;
}

/* One token is kept back: it may be the last. */
static int suffix(const working *w, span *tok)
{
    decode_stage *g = w->g;
    if (g->seen) add_replaced(&g->out, buf_span(&g->hold), w->st->text, span_str(" "));
    g->hold.n = 0;
    buf_add(&g->hold, tok->p, tok->n);
    return g->seen++ ? OK : KEPT;
}

static int suffix_end(const working *w)
{
    if (!w->g->seen) return KEPT;
    add_replaced(&w->g->out, buf_span(&w->g->hold), w->st->text, (span){0});
    w->g->hold.n = 0;
    return OK;
}

static int ctc(const working *w, span *tok)
{
    decode_stage *g = w->g;
    bool again = g->seen++ && span_eq(buf_span(&g->hold), *tok);
    g->hold.n = 0;
    buf_add(&g->hold, tok->p, tok->n);
    if (again) return KEPT;
    add_replaced(&g->out, *tok, w->st->text, (span){0});
    if (w->st->cleanup) {
        clean_up(&g->out);
        replace_in(&g->out, w->st->delimiter, span_str(" "));
    }
    return g->out.n ? OK : KEPT;
}

static int join_tokens(const working *w, span *tok)
{
    if (!is_first(w)) buf_byte(&w->g->out, ' ');
    buf_add(&w->g->out, tok->p, tok->n);
    return OK;
}

static unsigned flags_of(const working *w)
{
    return w->id >= 0 && (uint32_t)w->id < w->s->voc->size ? w->s->voc->flag[w->id] : 0;
}

/* Runs of byte pieces give their good characters and one U+FFFD per bad byte. */
static int flush_sentencepiece(const working *w)
{
    buf *hold = &w->g->hold;
    for (size_t at = 0, n; at < hold->n; at += n ? n : 1) {
        n = utf8_valid_length(hold->p + at, hold->n - at);
        buf_add(&w->g->out, n ? hold->p + at : (const uint8_t *)replacement, n ? n : 3);
    }
    hold->n = 0;
    return OK;
}

/* `seen` counts bytes of text here: only the first text may lose its space. */
static void add_sentencepiece(const working *w, unsigned flags, span tok)
{
    decode_stage *g = w->g;
    if (flags & PIECE_BYTE) {
        buf_byte(&g->hold, (uint8_t)vocab_piece_byte(tok));
        return;
    }
    flush_sentencepiece(w);
    bool front = !w->s->begun && !g->space_seen && g->seen + g->out.n == 0;
    if (flags & PIECE_CONTROL) return;
    if (flags & PIECE_UNKNOWN) {
        buf_add(&g->out, w->st->text.p, w->st->text.n);
        return;
    }
    if (front && w->st->first_differs && span_starts(tok, "\xe2\x96\x81")) {
        tok = span_of(tok.p + 3, tok.n - 3);
        g->space_seen = !w->st->trim;
    }
    add_metaspace(&(decode_step){.sign = 0x2581}, &g->out, tok, false);
}

static int decode_sentencepiece(const working *w, span *tok)
{
    add_sentencepiece(w, flags_of(w), *tok);
    w->g->seen += w->g->out.n;
    return OK;
}

/* Marian's and M2M100's special tokens end a stretch of text; pieces that the model does not know print as they are. */
static int marian(const working *w, span *tok)
{
    decode_stage *g = w->g;
    if (!(flags_of(w) & PIECE_SPECIAL)) return decode_sentencepiece(w, tok);
    flush_sentencepiece(w);
    buf_add(&g->out, tok->p, tok->n);
    if (w->st->kind == DECODE_MARIAN) buf_byte(&g->out, ' ');
    g->seen = 0;
    g->space_seen = false;
    return OK;
}

static int trim_ends(const working *w, span *tok)
{
    size_t len, end = 0;
    (void)w;
    while (tok->n && is_blank(utf8_decode(tok->p, tok->n, &len))) *tok = span_of(tok->p + len, tok->n - len);
    for (size_t i = 0; i < tok->n; i += len)
        if (!is_blank(utf8_decode(tok->p + i, tok->n - i, &len))) end = i + len;
    tok->n = end;
    return PASS;
}

/* White space in front vanishes; white space at the end waits for the text that follows it. */
static int trim_part(const working *w, span *part)
{
    decode_stage *g = w->g;
    for (size_t i = 0, len; i < part->n; i += len) {
        if (is_blank(utf8_decode(part->p + i, part->n - i, &len))) {
            if (g->seen || w->s->begun) buf_add(&g->hold, part->p + i, len);
            continue;
        }
        buf_add(&g->out, g->hold.p, g->hold.n);
        g->hold.n = 0;
        buf_add(&g->out, part->p + i, len);
        g->seen++;
    }
    return OK;
}

typedef struct step_row {
    step_function token, part; /* part NULL: parts are collected */
    end_function end;          /* NULL: nothing is left at the end */
    bool joins;                /* makes one long token of all: what it hands on are parts of it */
} step_row;

static const step_row rows[] = {
    [DECODE_BYTE_LEVEL] = {spelled_bytes, .end = last_bytes, .joins = true},
    [DECODE_BYTES] = {plain_bytes, .end = last_bytes, .joins = true},
    [DECODE_BYTE_FALLBACK] = {byte_fallback, .end = flush_fallback},
    [DECODE_FUSE] = {pass_on, .part = pass_on, .joins = true},
    [DECODE_STRIP] = {strip_ends, .part = strip_part},
    [DECODE_REPLACE] = {replace_token, .part = replace_part, .end = replace_end},
    [DECODE_METASPACE] = {decode_metaspace, .part = metaspace_part},
    [DECODE_WORDPIECE] = {wordpiece},
    [DECODE_SUFFIX] = {suffix, .end = suffix_end},
    [DECODE_CTC] = {ctc},
    [DECODE_JOIN] = {join_tokens},
    [DECODE_SENTENCEPIECE] = {decode_sentencepiece, .end = flush_sentencepiece, .joins = true},
    [DECODE_MARIAN] = {marian, .end = flush_sentencepiece, .joins = true},
    [DECODE_M2M100] = {marian, .end = flush_sentencepiece, .joins = true},
    [DECODE_TRIM] = {trim_ends, .part = trim_part},
    [DECODE_LLAMA2C] = {llama2c_piece, .end = last_bytes, .joins = true},
};

static working step_at(decode_stream *s, int i, buf *out, err *e)
{
    return (working){s, i, -1, &s->d->step[i], &s->stage[i], out, e};
}

/* Gives the result of a step's function, which was given `tok`, to the next step. */
static int settle_token(const working *w, int rc, span tok, bool part)
{
    if (rc < 0) return rc;
    if (rc == COLLECT) {
        w->g->collect = true;
        buf_add(&w->g->hold, tok.p, tok.n);
    }
    if (w->g->out.bad || w->g->hold.bad) return err_memory(w->e, "decoded text");
    return rc == KEPT || rc == COLLECT ? OK : push_next(w, rc == PASS ? tok : buf_span(&w->g->out), part);
}

static int push_token(const working *w, span tok, bool part)
{
    const step_row *r = &rows[w->st->kind];
    w->g->out.n = 0;
    int rc = !part ? r->token(w, &tok) : r->part ? r->part(w, &tok) : COLLECT;
    return settle_token(w, rc, tok, part || r->joins);
}

static int push_next(const working *w, span tok, bool part)
{
    if (w->i + 1 < w->s->d->n) {
        working next = step_at(w->s, w->i + 1, w->out, w->e);
        return push_token(&next, tok, part);
    }
    return buf_add(w->out, tok.p, tok.n) ? OK : err_memory(w->e, "decoded text");
}

int decode_push(decode_stream *s, int32_t id, span piece, buf *out, err *e)
{
    if (!s->d->n) return buf_add(out, piece.p, piece.n) ? OK : err_memory(e, "decoded text");
    working w = step_at(s, 0, out, e);
    w.id = id;
    return push_token(&w, piece, false);
}

int decode_finish(decode_stream *s, buf *out, err *e)
{
    int rc = OK;
    for (int i = 0; i < s->d->n && !rc; i++) {
        working w = step_at(s, i, out, e);
        const step_row *r = &rows[w.st->kind];
        if (w.g->collect) { /* the long token is complete: now it is one token */
            buf whole = w.g->hold;
            w.g->hold = (buf){0};
            w.g->collect = false;
            rc = push_token(&w, buf_span(&whole), false);
            buf_free(&whole);
        }
        w.g->out.n = 0;
        if (!rc && r->end) rc = settle_token(&w, r->end(&w), (span){0}, r->joins || r->part);
    }
    return rc;
}
