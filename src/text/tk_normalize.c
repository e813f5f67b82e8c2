/* tk_normalize.c - see tk_normalize.h. Semantics: Hugging Face tokenizers, and SentencePiece for its own step. */
#define _GNU_SOURCE
#include "text/tk_normalize.h"

#include "base/utf8.h"
#include "text/tk_pretokenize.h"

#include <string.h>

static const uint8_t space_sign[3] = {0xe2, 0x96, 0x81}; /* U+2581 */

void normalizer_free(normalizer *m)
{
    for (int i = 0; i < m->n; i++) {
        regex_free(m->step[i].pattern);
        charsmap_free(&m->step[i].map);
    }
    m->n = 0;
}

void norm_work_free(norm_work *w)
{
    buf_free(&w->text[0]);
    buf_free(&w->text[1]);
}

static void put_code_point(buf *out, uint32_t c)
{
    uint8_t text[4];
    buf_add(out, text, utf8_encode(c, text));
}

static void lower(span in, buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t low[2];
        if ((len = utf8_ascii_run(in.p + i, in.n - i))) {
            if (!buf_add(out, in.p + i, len)) return;
            for (uint8_t *p = out->p + out->n - len; p < out->p + out->n; p++)
                *p |= (uint8_t)(*p >= 'A' && *p <= 'Z') << 5;
            continue;
        }
        int n = uc_lower(utf8_decode(in.p + i, in.n - i, &len), low);
        for (int k = 0; k < n; k++) put_code_point(out, low[k]);
    }
}

static span strip_spaces(span s, bool left, bool right)
{
    size_t len, end = 0;
    while (left && s.n && uc_is_space(utf8_decode(s.p, s.n, &len))) s = span_of(s.p + len, s.n - len);
    for (size_t i = 0; i < s.n; i += len)
        if (!uc_is_space(utf8_decode(s.p + i, s.n - i, &len))) end = i + len;
    return right ? span_of(s.p, end) : s;
}

/* Copies the characters that `drop` does not name; it names no ASCII. */
static void filter(span in, bool (*drop)(uint32_t c), buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        bool plain = (len = utf8_ascii_run(in.p + i, in.n - i));
        if (plain || !drop(utf8_decode(in.p + i, in.n - i, &len))) buf_add(out, in.p + i, len);
    }
}

/* Single bytes go through memchr, which stops at the match; ThreadSanitizer checks the whole rest at every memmem. */
static const uint8_t *find_text(const uint8_t *p, size_t n, span text)
{
    if (text.n == 1) return memchr(p, text.p[0], n);
    return text.n ? memmem(p, n, text.p, text.n) : NULL;
}

static int replace(const norm_step *st, regex_work *rx, span in, buf *out, err *e)
{
    if (!st->pattern) {
        for (size_t i = 0; i < in.n;) {
            const uint8_t *hit = find_text(in.p + i, in.n - i, st->from);
            size_t n = hit ? (size_t)(hit - (in.p + i)) : in.n - i;
            buf_add(out, in.p + i, n);
            if (hit) buf_add(out, st->to.p, st->to.n);
            i += n + (hit ? st->from.n : 0);
        }
        return OK;
    }
    regex_walk m = regex_begin(st->pattern, rx, in);
    size_t start, end, done = 0;
    int rc;
    while ((rc = regex_next(&m, &start, &end, e)) > 0) {
        buf_add(out, in.p + done, start - done);
        buf_add(out, st->to.p, st->to.n);
        done = end;
    }
    buf_add(out, in.p + done, in.n - done);
    return rc;
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
}

static bool nmt_space(uint32_t c)
{
    return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
           c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

static void nmt(span in, buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        uint32_t c = utf8_decode(in.p + i, in.n - i, &len);
        if (nmt_space(c)) buf_byte(out, ' ');
        else if (!nmt_drops(c)) buf_add(out, in.p + i, len);
    }
}

static void bert_clean(span in, buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        for (len = 0; i + len < in.n && in.p[i + len] >= 32 && in.p[i + len] < 127;) len++;
        if (len) {
            buf_add(out, in.p + i, len);
            continue;
        }
        uint32_t c = utf8_decode(in.p + i, in.n - i, &len);
        if (c == 0 || c == 0xfffd || uc_bert_control(c)) continue;
        if (uc_is_space(c)) buf_byte(out, ' ');
        else buf_add(out, in.p + i, len);
    }
}

static bool is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static void bert_chinese(span in, buf *out)
{
    for (size_t i = 0, len; i < in.n; i += len) {
        bool apart = !(len = utf8_ascii_run(in.p + i, in.n - i)) && is_ideograph(utf8_decode(in.p + i, in.n - i, &len));
        if (apart) buf_byte(out, ' ');
        buf_add(out, in.p + i, len);
        if (apart) buf_byte(out, ' ');
    }
}

/* Hugging Face looks up grapheme clusters under 6 bytes, then single characters, and takes the first key it meets. */
static void by_charsmap(const charsmap *m, span in, buf *out)
{
    span to;
    for (size_t i = 0; i < in.n;) {
        size_t cluster = uc_grapheme(span_of(in.p + i, in.n - i)), len;
        if (cluster < 6 && charsmap_shortest(m, span_of(in.p + i, cluster), &to)) {
            buf_add(out, to.p, to.n);
            i += cluster;
            continue;
        }
        for (size_t end = i + cluster; i < end; i += len) {
            utf8_decode(in.p + i, in.n - i, &len);
            if (charsmap_shortest(m, span_of(in.p + i, len), &to)) buf_add(out, to.p, to.n);
            else buf_add(out, in.p + i, len);
        }
    }
}

static void spell_bytes(span in, buf *out)
{
    for (size_t i = 0; i < in.n; i++) put_code_point(out, byte_char(in.p[i]));
}

/* SentencePiece: the replacement of the next *used bytes of s. */
static span sentencepiece_next(const norm_step *st, span s, size_t *used)
{
    span to;
    size_t n;
    if (st->user && trie_longest(st->user, s, &n) >= 0) {
        *used = n;
        return span_of(s.p, n);
    }
    if ((n = charsmap_longest(&st->map, s, &to))) {
        *used = n;
        return to;
    }
    utf8_decode(s.p, s.n, used);
    return span_of(s.p, *used);
}

static void put_escaped(const norm_step *st, buf *out, span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ' ' && st->escape) buf_add(out, space_sign, 3);
        else buf_byte(out, s.p[i]);
    }
}

static void normalize_sentencepiece(const norm_step *st, span in, bool first, buf *out)
{
    size_t used;
    bool add_space = st->add_space && (first || !st->first_only);
    while (st->trim && in.n) { /* spaces in front */
        span to = sentencepiece_next(st, in, &used);
        if (!span_is(to, " ")) break;
        in = span_of(in.p + used, in.n - used);
    }
    if (!in.n) return;
    size_t start = out->n;
    if (add_space && !st->space_after) put_escaped(st, out, span_str(" "));
    bool after_space = st->trim;
    for (; in.n; in = span_of(in.p + used, in.n - used)) {
        span to = sentencepiece_next(st, in, &used);
        while (after_space && to.n && to.p[0] == ' ') to = span_of(to.p + 1, to.n - 1);
        if (to.n) {
            put_escaped(st, out, to);
            after_space = to.p[to.n - 1] == ' ';
        }
        if (!st->trim) after_space = false;
    }
    span space = st->escape ? span_of(space_sign, 3) : span_str(" ");
    while (st->trim && out->n >= start + space.n && memcmp(out->p + out->n - space.n, space.p, space.n) == 0)
        out->n -= space.n;
    if (add_space && st->space_after) put_escaped(st, out, span_str(" "));
}

int norm_step_run(const norm_step *st, regex_work *rx, span in, bool first, buf *out, err *e)
{
    int rc = OK;
    span s;
    switch (st->kind) {
    case NORM_FORM:
        if (!uc_normalize(st->form, in, out)) out->bad = true;
        break;
    case NORM_LOWER: lower(in, out); break;
    case NORM_STRIP:
        s = strip_spaces(in, st->left, st->right);
        buf_add(out, s.p, s.n);
        break;
    case NORM_STRIP_ACCENTS: filter(in, uc_is_mark, out); break;
    case NORM_REPLACE: rc = replace(st, rx, in, out, e); break;
    case NORM_PREPEND:
        if (in.n) buf_add(out, st->to.p, st->to.n);
        buf_add(out, in.p, in.n);
        break;
    case NORM_NMT: nmt(in, out); break;
    case NORM_BERT_CLEAN: bert_clean(in, out); break;
    case NORM_BERT_CHINESE: bert_chinese(in, out); break;
    case NORM_BERT_ACCENTS: filter(in, uc_bert_nonspacing, out); break;
    case NORM_CHARSMAP: by_charsmap(&st->map, in, out); break;
    case NORM_BYTES: spell_bytes(in, out); break;
    case NORM_SENTENCEPIECE: normalize_sentencepiece(st, in, first, out); break;
    }
    if (!rc && out->bad) rc = err_memory(e, "normalized text");
    return rc;
}

size_t norm_map_stream(const charsmap *m, span in, bool last, buf *out)
{
    size_t at = 0;
    while (at < in.n) {
        span rest = span_of(in.p + at, in.n - at), to;
        if (!last && charsmap_open_ended(m, rest)) break;
        size_t n = charsmap_longest(m, rest, &to);
        if (n) {
            buf_add(out, to.p, to.n);
        } else {
            utf8_decode(rest.p, rest.n, &n);
            buf_add(out, rest.p, n);
        }
        at += n;
    }
    return at;
}

/* Whether a step removes characters at the front. */
static bool took_front(const norm_step *st, span in)
{
    size_t len;
    if (!in.n) return false;
    uint32_t c = utf8_decode(in.p, in.n, &len);
    switch (st->kind) {
    case NORM_STRIP: return st->left && uc_is_space(c);
    case NORM_STRIP_ACCENTS: return uc_is_mark(c);
    case NORM_NMT: return nmt_drops(c);
    case NORM_BERT_CLEAN: return c == 0 || c == 0xfffd || uc_bert_control(c);
    case NORM_BERT_ACCENTS: return uc_bert_nonspacing(c);
    default: return false;
    }
}

int normalizer_run(const normalizer *m, norm_work *w, regex_work *rx, span in, bool first, span *out, bool *moved,
                   err *e)
{
    *moved = false;
    *out = in;
    for (int i = 0; i < m->n; i++) {
        buf *to = &w->text[out->p == w->text[0].p && out->p ? 1 : 0];
        to->n = 0;
        to->bad = false;
        *moved = *moved || took_front(&m->step[i], *out);
        int rc = norm_step_run(&m->step[i], rx, *out, first, to, e);
        if (rc) return rc;
        *out = buf_span(to);
    }
    return OK;
}
