/* tk_decode.c - see tk_decode.h. Semantics: the decoders of the Hugging Face tokenizers library and of sentencepiece. */
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

static int push(decode_stream *s, int i, int32_t id, span tok, bool part, buf *out, err *e);
static int finish(decode_stream *s, int i, buf *out, err *e);

/* Bytes of what cannot become a character any more at the start of s: one U+FFFD stands for them (Unicode 3.9, "maximal subpart"). */
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

static span trim(span s)
{
    size_t len, end = 0;
    while (s.n && is_blank(utf8_decode(s.p, s.n, &len))) s = span_of(s.p + len, s.n - len);
    for (size_t i = 0; i < s.n; i += len)
        if (!is_blank(utf8_decode(s.p + i, s.n - i, &len))) end = i + len;
    return span_of(s.p, end);
}

/* Text of bytes, keeping back an incomplete character at the end unless this is the end. */
static void bytes_to_text(buf *hold, buf *text, bool last)
{
    size_t keep = last ? 0 : utf8_incomplete_tail(buf_span(hold)), at = 0;
    while (at + keep < hold->n) {
        span rest = span_of(hold->p + at, hold->n - keep - at);
        size_t n = utf8_valid_length(rest.p, rest.n);
        if (n) buf_add(text, rest.p, n);
        else buf_add(text, replacement, 3);
        at += n ? n : bad_run(rest);
    }
    drop_front(hold, at);
}

static void add_replaced(buf *out, span in, const char *from, const char *to)
{
    norm_step st = {.kind = NORM_REPLACE, .from = span_str(from), .to = span_str(to)};
    (void)norm_step_run(&st, NULL, in, false, out, NULL); /* plain text: only memory can fail, and out->bad says so */
}

/* The tidying of English that BERT's decoder does inside each token. */
static void clean_up(buf *text)
{
    static const char *const rule[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    if (!memchr(text->p ? text->p : (const uint8_t *)"", ' ', text->n)) return;
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
        buf next = {0};
        add_replaced(&next, buf_span(text), rule[i][0], rule[i][1]);
        if (next.bad) text->bad = true;
        buf_free(text);
        *text = next;
    }
}

static void add_metaspace(const decode_step *st, buf *out, span tok, bool drop)
{
    for (size_t i = 0, len; i < tok.n; i += len) {
        if (utf8_decode(tok.p + i, tok.n - i, &len) != st->sign) buf_add(out, tok.p + i, len);
        else if (!drop) buf_byte(out, ' ');
    }
}

static span strip_token(const decode_step *st, span tok)
{
    uint8_t sign[4];
    size_t k = utf8_encode(st->sign, sign);
    for (size_t i = 0; i < st->start && tok.n >= k && memcmp(tok.p, sign, k) == 0; i++)
        tok = span_of(tok.p + k, tok.n - k);
    for (size_t i = 0; i < st->stop && tok.n >= k && memcmp(tok.p + tok.n - k, sign, k) == 0; i++) tok.n -= k;
    return tok;
}

/* The bytes held by DECODE_BYTE_FALLBACK as one token, or as many U+FFFD as there are bytes. */
static int flush_fallback(decode_stream *s, int i, buf *out, err *e)
{
    decode_stage *g = &s->stage[i];
    span held = buf_span(&g->hold);
    int rc = OK;
    if (held.n && utf8_is_valid(held)) rc = push(s, i + 1, -1, held, false, out, e);
    else
        for (size_t k = 0; k < held.n && !rc; k++) rc = push(s, i + 1, -1, span_of(replacement, 3), false, out, e);
    g->hold.n = 0;
    return rc;
}

/* sentencepiece: runs of byte pieces give their good characters and one U+FFFD per bad byte. */
static void flush_sentencepiece(buf *hold, buf *text)
{
    for (size_t at = 0, n; at < hold->n; at += n) {
        n = utf8_valid_length(hold->p + at, hold->n - at);
        if (n) buf_add(text, hold->p + at, n);
        else buf_add(text, replacement, 3), n = 1;
    }
    hold->n = 0;
}

/* The flag `seen` counts bytes of text so far here: only the first text may lose its space. */
static void sentencepiece(decode_stream *s, const decode_step *st, decode_stage *g, int32_t id, span tok)
{
    unsigned flags = id >= 0 && (uint32_t)id < s->voc->size ? s->voc->flag[id] : 0;
    buf *text = &g->out;
    if (flags & PIECE_BYTE) {
        buf_byte(&g->hold, (uint8_t)vocab_piece_byte(tok));
        return;
    }
    flush_sentencepiece(&g->hold, text);
    bool front = !s->begun && !g->space_seen && g->seen + text->n == 0;
    if (flags & PIECE_CONTROL) return;
    if (flags & PIECE_UNKNOWN) {
        buf_add(text, st->text.p, st->text.n);
        return;
    }
    if (front && st->first_differs && span_starts(tok, "\xe2\x96\x81")) {
        tok = span_of(tok.p + 3, tok.n - 3);
        g->space_seen = !st->trim;
    }
    decode_step sign = {.sign = 0x2581};
    add_metaspace(&sign, text, tok, false);
}

/* Marian's and M2M100's special tokens end a stretch of text; pieces that the model does not know print as they are. */
static void marian(decode_stream *s, const decode_step *st, decode_stage *g, int32_t id, span tok)
{
    unsigned flags = id >= 0 && (uint32_t)id < s->voc->size ? s->voc->flag[id] : 0;
    if (!(flags & PIECE_SPECIAL)) {
        sentencepiece(s, st, g, id, tok);
        g->seen += g->out.n;
        return;
    }
    flush_sentencepiece(&g->hold, &g->out);
    buf_add(&g->out, tok.p, tok.n);
    if (st->kind == DECODE_MARIAN) buf_byte(&g->out, ' ');
    g->seen = 0;
    g->space_seen = false;
}

static int step_token(decode_stream *s, int i, int32_t id, span tok, buf *out, err *e)
{
    const decode_step *st = &s->d->step[i];
    decode_stage *g = &s->stage[i];
    buf *text = &g->out;
    text->n = 0;
    bool first = g->seen == 0 && !s->begun;
    bool part = false;
    switch (st->kind) {
    case DECODE_BYTE_LEVEL:
        if (!byte_unspell(tok, &g->hold)) buf_add(&g->hold, tok.p, tok.n);
        bytes_to_text(&g->hold, text, false);
        part = true;
        break;
    case DECODE_BYTES:
        buf_add(&g->hold, tok.p, tok.n);
        bytes_to_text(&g->hold, text, false);
        part = true;
        break;
    case DECODE_LLAMA2C: {
        int byte = vocab_piece_byte(tok);
        bool bos = id == 1 || id == 2;
        if (byte >= 0) buf_byte(&g->hold, (uint8_t)byte);
        else if (!bos) {
            bool drop = s->before == 1 && tok.n && tok.p[0] == ' ';
            buf_add(&g->hold, tok.p + drop, tok.n - drop);
        }
        bytes_to_text(&g->hold, text, false);
        part = true;
        break;
    }
    case DECODE_BYTE_FALLBACK: {
        int byte = vocab_piece_byte(tok), rc;
        if (byte >= 0) {
            buf_byte(&g->hold, (uint8_t)byte);
            return g->hold.bad ? err_set(e, ERR_MEMORY, "out of memory decoding") : OK;
        }
        if ((rc = flush_fallback(s, i, out, e))) return rc;
        buf_add(text, tok.p, tok.n);
        break;
    }
    case DECODE_FUSE:
        buf_add(text, tok.p, tok.n);
        part = true;
        break;
    case DECODE_STRIP:
        tok = strip_token(st, tok);
        buf_add(text, tok.p, tok.n);
        break;
    case DECODE_REPLACE: {
        if (st->replace.pattern && !s->rx && regex_work_open(&s->rx, e)) return ERR_MEMORY;
        int rc = norm_step_run(&st->replace, s->rx, tok, false, text, e);
        if (rc) return rc;
        break;
    }
    case DECODE_METASPACE: add_metaspace(st, text, tok, first && st->first_differs); break;
    case DECODE_WORDPIECE: {
        bool joined = tok.n >= st->text.n && memcmp(tok.p, st->text.p, st->text.n) == 0;
        if (!first && !joined) buf_byte(text, ' ');
        if (!first && joined) tok = span_of(tok.p + st->text.n, tok.n - st->text.n);
        buf_add(text, tok.p, tok.n);
        if (st->cleanup) clean_up(text);
        break;
    }
    case DECODE_SUFFIX: /* one token is kept back: it may be the last */
        if (g->seen) {
            norm_step r = {.kind = NORM_REPLACE, .from = st->text, .to = span_str(" ")};
            (void)norm_step_run(&r, NULL, buf_span(&g->hold), false, text, NULL);
        }
        g->hold.n = 0;
        buf_add(&g->hold, tok.p, tok.n);
        if (!g->seen++) return OK;
        break;
    case DECODE_CTC: {
        bool again = g->seen && span_eq(buf_span(&g->hold), tok);
        g->hold.n = 0;
        buf_add(&g->hold, tok.p, tok.n);
        g->seen++;
        if (again) return OK;
        norm_step r = {.kind = NORM_REPLACE, .from = st->text};
        (void)norm_step_run(&r, NULL, tok, false, text, NULL);
        if (st->cleanup) {
            clean_up(text);
            buf next = {0};
            r = (norm_step){.kind = NORM_REPLACE, .from = st->delimiter, .to = span_str(" ")};
            (void)norm_step_run(&r, NULL, buf_span(text), false, &next, NULL);
            buf_free(text);
            *text = next;
        }
        if (!text->n) return OK;
        break;
    }
    case DECODE_JOIN:
        if (!first) buf_byte(text, ' ');
        buf_add(text, tok.p, tok.n);
        break;
    case DECODE_SENTENCEPIECE:
        sentencepiece(s, st, g, id, tok);
        g->seen += text->n;
        part = true;
        break;
    case DECODE_MARIAN:
    case DECODE_M2M100:
        marian(s, st, g, id, tok);
        part = true;
        break;
    case DECODE_TRIM:
        tok = trim(tok);
        buf_add(text, tok.p, tok.n);
        break;
    }
    bool counts = st->kind != DECODE_SENTENCEPIECE && st->kind != DECODE_MARIAN && st->kind != DECODE_M2M100 &&
                  st->kind != DECODE_SUFFIX && st->kind != DECODE_CTC;
    g->seen += counts;
    if (text->bad || g->hold.bad) return err_set(e, ERR_MEMORY, "out of memory decoding");
    return push(s, i + 1, -1, buf_span(text), part, out, e);
}

/* Parts of the text to be trimmed: spaces in front vanish, spaces at the end wait for what comes. */
static void trim_part(decode_stream *s, decode_stage *g, span part)
{
    for (size_t i = 0, len; i < part.n; i += len) {
        if (is_blank(utf8_decode(part.p + i, part.n - i, &len))) {
            if (g->seen || s->begun) buf_add(&g->hold, part.p + i, len);
            continue;
        }
        buf_add(&g->out, g->hold.p, g->hold.n);
        g->hold.n = 0;
        buf_add(&g->out, part.p + i, len);
        g->seen++;
    }
}

/* A part of the one long token that an earlier step made. */
static int step_part(decode_stream *s, int i, span part, buf *out, err *e)
{
    const decode_step *st = &s->d->step[i];
    decode_stage *g = &s->stage[i];
    g->out.n = 0;
    switch (st->kind) {
    case DECODE_FUSE: return push(s, i + 1, -1, part, true, out, e);
    case DECODE_STRIP: {
        if (st->stop) break;
        uint8_t sign[4];
        size_t k = utf8_encode(st->sign, sign);
        while (!s->begun && g->seen < st->start && part.n) {
            if (part.n >= k && memcmp(part.p, sign, k) == 0) {
                part = span_of(part.p + k, part.n - k);
                g->seen++;
            } else {
                g->seen = st->start;
            }
        }
        return push(s, i + 1, -1, part, true, out, e);
    }
    case DECODE_METASPACE:
        add_metaspace(st, &g->out, part, st->first_differs && !s->begun);
        if (g->out.bad) return err_set(e, ERR_MEMORY, "out of memory decoding");
        return push(s, i + 1, -1, buf_span(&g->out), true, out, e);
    case DECODE_TRIM:
        trim_part(s, g, part);
        if (g->out.bad || g->hold.bad) return err_set(e, ERR_MEMORY, "out of memory decoding");
        return push(s, i + 1, -1, buf_span(&g->out), true, out, e);
    case DECODE_REPLACE:
        if (st->replace.kind != NORM_SENTENCEPIECE || st->replace.trim || st->replace.add_space) break;
        buf_add(&g->hold, part.p, part.n);
        drop_front(&g->hold, norm_map_stream(&st->replace.map, buf_span(&g->hold), false, &g->out));
        if (g->out.bad || g->hold.bad) return err_set(e, ERR_MEMORY, "out of memory decoding");
        return push(s, i + 1, -1, buf_span(&g->out), true, out, e);
    default: break;
    }
    g->collect = true;
    return buf_add(&g->hold, part.p, part.n) ? OK : err_set(e, ERR_MEMORY, "out of memory decoding");
}

static int push(decode_stream *s, int i, int32_t id, span tok, bool part, buf *out, err *e)
{
    if (i == s->d->n) return buf_add(out, tok.p, tok.n) ? OK : err_set(e, ERR_MEMORY, "out of memory decoding");
    return part ? step_part(s, i, tok, out, e) : step_token(s, i, id, tok, out, e);
}

static int finish(decode_stream *s, int i, buf *out, err *e)
{
    if (i == s->d->n) return OK;
    const decode_step *st = &s->d->step[i];
    decode_stage *g = &s->stage[i];
    int rc = OK;
    if (g->collect) { /* the long token is complete: now it is one token */
        buf whole = g->hold;
        g->hold = (buf){0};
        g->collect = false;
        rc = step_token(s, i, -1, buf_span(&whole), out, e);
        buf_free(&whole);
    }
    if (rc) return rc;
    g->out.n = 0;
    switch (st->kind) {
    case DECODE_BYTE_LEVEL:
    case DECODE_BYTES:
    case DECODE_LLAMA2C:
        bytes_to_text(&g->hold, &g->out, true);
        rc = push(s, i + 1, -1, buf_span(&g->out), true, out, e);
        break;
    case DECODE_REPLACE:
        if (st->replace.kind != NORM_SENTENCEPIECE) break;
        norm_map_stream(&st->replace.map, buf_span(&g->hold), true, &g->out);
        g->hold.n = 0;
        rc = push(s, i + 1, -1, buf_span(&g->out), true, out, e);
        break;
    case DECODE_MARIAN:
    case DECODE_M2M100:
    case DECODE_SENTENCEPIECE:
        flush_sentencepiece(&g->hold, &g->out);
        rc = push(s, i + 1, -1, buf_span(&g->out), true, out, e);
        break;
    case DECODE_BYTE_FALLBACK: rc = flush_fallback(s, i, out, e); break;
    case DECODE_SUFFIX:
        if (g->seen) {
            norm_step r = {.kind = NORM_REPLACE, .from = st->text};
            (void)norm_step_run(&r, NULL, buf_span(&g->hold), false, &g->out, NULL);
            rc = push(s, i + 1, -1, buf_span(&g->out), false, out, e);
        }
        g->hold.n = 0;
        break;
    default: break;
    }
    if (!rc && (g->out.bad || g->hold.bad)) rc = err_set(e, ERR_MEMORY, "out of memory decoding");
    return rc ? rc : finish(s, i + 1, out, e);
}

int decode_push(decode_stream *s, int32_t id, span piece, buf *out, err *e)
{
    return push(s, 0, id, piece, false, out, e);
}
int decode_finish(decode_stream *s, buf *out, err *e) { return finish(s, 0, out, e); }
