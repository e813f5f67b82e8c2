/* tk_pretokenize.c - see tk_pretokenize.h. Semantics: Hugging Face tokenizers. */
#include "text/tk_pretokenize.h"

#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <string.h>

uint32_t byte_char(uint8_t b)
{
    if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae) return b;
    /* the others are numbered from U+0100 on, in order: 0..32, 127..160, 173 */
    return 256 + (b <= 32 ? b : b <= 160 ? (uint32_t)b - 127 + 33 : 67);
}

/* -1: no byte is spelled so */
static int byte_of_char(uint32_t c)
{
    if (c < 256) return byte_char((uint8_t)c) == c ? (int)c : -1;
    if (c < 256 + 33) return (int)c - 256;
    if (c < 256 + 67) return (int)c - 256 - 33 + 127;
    return c == 256 + 67 ? 173 : -1;
}

bool byte_unspell(span piece, buf *out)
{
    size_t start = out->n;
    for (size_t i = 0, len; i < piece.n; i += len) {
        int b = byte_of_char(utf8_decode(piece.p + i, piece.n - i, &len));
        if (b < 0 || !buf_byte(out, (uint8_t)b)) {
            out->n = start;
            return false;
        }
    }
    return true;
}

void pretok_free(pretok *p)
{
    for (int i = 0; i < p->n; i++) regex_free(p->step[i].pattern);
    p->n = 0;
}

void pretok_work_free(pretok_work *w)
{
    for (int i = 0; i < 2; i++) {
        buf_free(&w->text[i]);
        mem_free(w->list[i].v);
    }
    *w = (pretok_work){0};
}

/* Takes the stretches of a piece in order, each marked as a match of the delimiter or not, and makes pieces of them. */
typedef struct cutter {
    piece_list *out;
    split_behaviour behaviour;
    size_t start;   /* of the piece being cut */
    bool first;     /* of the piece being cut */
    bool matched;   /* the stretch before was a match */
    bool any;       /* a piece was begun */
    size_t at, end; /* the piece that may still grow */
} cutter;

static bool cut_flush(cutter *c)
{
    bool ok = !c->any || piece_add(c->out, c->at, c->end, c->first && c->at == c->start);
    c->any = false;
    return ok;
}

static bool cut(cutter *c, size_t at, size_t end, bool match)
{
    bool grow;
    switch (c->behaviour) {
    case SPLIT_REMOVED: return match || piece_add(c->out, at, end, c->first && at == c->start);
    case SPLIT_MERGED_WITH_PREVIOUS: grow = c->any && match && !c->matched; break;
    case SPLIT_MERGED_WITH_NEXT: grow = c->any && !match && c->matched; break;
    case SPLIT_CONTIGUOUS: grow = c->any && match == c->matched; break;
    default: return piece_add(c->out, at, end, c->first && at == c->start);
    }
    c->matched = match;
    if (!grow) {
        if (!cut_flush(c)) return false;
        c->at = at;
    }
    c->end = end;
    c->any = true;
    return true;
}

static int split_regex(const pretok_step *st, regex_work *rx, span text, text_piece p, piece_list *out, err *e)
{
    cutter c = {out, st->behaviour, p.at, p.first, .at = p.at, .end = p.at};
    regex_walk m = regex_begin(st->pattern, rx, span_of(text.p + p.at, p.n));
    size_t start, end, done = 0;
    int rc;
    while ((rc = regex_next(&m, &start, &end, e)) > 0) {
        if (start > done && !cut(&c, p.at + done, p.at + start, st->invert)) return err_memory(e, "the tokenizer");
        if (!cut(&c, p.at + start, p.at + end, !st->invert)) return err_memory(e, "the tokenizer");
        done = end;
    }
    if (rc < 0) return rc;
    if (done < p.n && !cut(&c, p.at + done, p.at + p.n, st->invert)) return err_memory(e, "the tokenizer");
    return cut_flush(&c) ? OK : err_memory(e, "the tokenizer");
}

static bool split_chars(const pretok_step *st, span text, text_piece p, piece_list *out)
{
    cutter c = {out, st->behaviour, p.at, p.first, .at = p.at, .end = p.at};
    size_t done = p.at, stop = (size_t)p.at + p.n;
    for (size_t i = p.at, len; i < stop; i += len) {
        uint32_t ch = utf8_decode(text.p + i, stop - i, &len);
        if (st->is ? !st->is(ch) : ch != st->sign) continue;
        if ((i > done && !cut(&c, done, i, st->invert)) || !cut(&c, i, i + len, !st->invert)) return false;
        done = i + len;
    }
    return (done == stop || cut(&c, done, stop, st->invert)) && cut_flush(&c);
}

static bool add_prefix(span text, text_piece p, buf *to, piece_list *out)
{
    size_t at = to->n;
    if (text.p[p.at] != ' ') buf_byte(to, ' ');
    return buf_add(to, text.p + p.at, p.n) && piece_add(out, at, to->n, p.first);
}

static bool spell_bytes(span text, text_piece p, buf *to, piece_list *out)
{
    size_t at = to->n;
    for (uint32_t i = 0; i < p.n; i++) {
        uint8_t ch[4];
        if (!buf_add(to, ch, utf8_encode(byte_char(text.p[p.at + i]), ch))) return false;
    }
    return piece_add(out, at, to->n, p.first);
}

static bool split_metaspace(const pretok_step *st, span text, text_piece p, buf *to, piece_list *out)
{
    uint8_t sign[4];
    size_t k = utf8_encode(st->sign, sign), start = to->n;
    bool has = text.p[p.at] == ' ' || (p.n >= k && memcmp(text.p + p.at, sign, k) == 0);
    bool wants = st->prepend == PREPEND_ALWAYS || (st->prepend == PREPEND_FIRST && p.first);
    if (wants && !has && !buf_add(to, sign, k)) return false;
    for (size_t i = p.at, stop = (size_t)p.at + p.n; i < stop;) {
        const uint8_t *space = memchr(text.p + i, ' ', stop - i);
        size_t n = space ? (size_t)(space - (text.p + i)) : stop - i;
        if (!buf_add(to, text.p + i, n) || (space && !buf_add(to, sign, k))) return false;
        i += n + (space ? 1 : 0);
    }
    if (!st->split) return piece_add(out, start, to->n, p.first);
    pretok_step at_sign = {.kind = PRETOK_CHARS, .behaviour = SPLIT_MERGED_WITH_NEXT, .sign = st->sign};
    return split_chars(&at_sign, buf_span(to), (text_piece){(uint32_t)start, (uint32_t)(to->n - start), p.first}, out);
}

static bool split_length(const pretok_step *st, span text, text_piece p, piece_list *out)
{
    size_t stop = (size_t)p.at + p.n;
    for (size_t i = p.at, end = i, len; i < stop; i = end) {
        for (size_t k = 0; k < st->count && end < stop; k++, end += len) utf8_decode(text.p + end, stop - end, &len);
        if (!piece_add(out, i, end, p.first && i == p.at)) return false;
    }
    return true;
}

/* A change of script starts a piece. Characters of no script join the piece before them, or vanish if there is none. */
static bool split_scripts(span text, text_piece p, piece_list *out)
{
    size_t stop = (size_t)p.at + p.n, begun = p.at;
    int last = 0;
    for (size_t i = p.at, len; i < stop; i += len) {
        int script = uc_script_of(utf8_decode(text.p + i, stop - i, &len));
        if (!script || script == last) continue;
        if (last && !piece_add(out, begun, i, p.first && begun == p.at)) return false;
        begun = i;
        last = script;
    }
    return !last || piece_add(out, begun, stop, p.first && begun == p.at);
}

static int run_step(const pretok_step *st, regex_work *rx, span text, const piece_list *in, buf *to, piece_list *out,
                    err *e)
{
    bool ok = true;
    for (size_t i = 0; i < in->n && ok; i++) {
        text_piece p = in->v[i];
        int rc;
        switch (st->kind) {
        case PRETOK_REGEX:
            if ((rc = split_regex(st, rx, text, p, out, e))) return rc;
            break;
        case PRETOK_CHARS: ok = split_chars(st, text, p, out); break;
        case PRETOK_PREFIX: ok = add_prefix(text, p, to, out); break;
        case PRETOK_BYTES: ok = spell_bytes(text, p, to, out); break;
        case PRETOK_METASPACE: ok = split_metaspace(st, text, p, to, out); break;
        case PRETOK_LENGTH: ok = split_length(st, text, p, out); break;
        case PRETOK_SCRIPTS: ok = split_scripts(text, p, out); break;
        }
    }
    return ok && to->n <= UINT32_MAX ? OK : err_memory(e, "the tokenizer");
}

int pretok_run(const pretok *p, pretok_work *w, regex_work *rx, span in, bool first, span *text, const piece_list **out,
               err *e)
{
    int side = 0;
    w->list[side].n = 0;
    *text = in;
    if (!piece_add(&w->list[side], 0, in.n, first)) return err_memory(e, "the tokenizer");
    for (int i = 0; i < p->n; i++) {
        const pretok_step *st = &p->step[i];
        bool rewrites = st->kind == PRETOK_PREFIX || st->kind == PRETOK_BYTES || st->kind == PRETOK_METASPACE;
        buf *to = &w->text[text->p == w->text[0].p && text->p ? 1 : 0];
        piece_list *cut_list = &w->list[1 - side];
        cut_list->n = 0;
        to->n = 0;
        int rc = run_step(st, rx, *text, &w->list[side], to, cut_list, e);
        if (rc) return rc;
        if (rewrites) *text = buf_span(to);
        side = 1 - side;
    }
    *out = &w->list[side];
    return OK;
}
