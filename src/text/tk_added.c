/* tk_added.c - see tk_added.h. */
#include "text/tk_added.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tk_unicode.h"

int added_put(added_set *s, added_token t, err *e)
{
    void *p = s->v;
    if (!mem_grow(&p, &s->cap, s->n + 1, sizeof *s->v)) return err_memory(e, "added tokens");
    s->v = p;
    s->v[s->n] = t;
    s->has_special |= t.special;
    return trie_put(&s->texts, t.text, (int32_t)s->n++, e);
}

void added_free(added_set *s)
{
    mem_free(s->v);
    trie_free(&s->texts);
    *s = (added_set){0};
}

/* Start of the character that ends at `end`. */
static size_t char_before(span s, size_t end)
{
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && (s.p[at] & 0xc0) == 0x80) at--;
    return at;
}

static bool word_before(span s, size_t at)
{
    size_t len, start = at ? char_before(s, at) : 0;
    return at && uc_is_word(utf8_decode(s.p + start, at - start, &len));
}

static bool word_after(span s, size_t at)
{
    size_t len;
    return at < s.n && uc_is_word(utf8_decode(s.p + at, s.n - at, &len));
}

static size_t spaces_before(span s, size_t at)
{
    for (size_t start, len; at; at = start) {
        start = char_before(s, at);
        if (!uc_is_space(utf8_decode(s.p + start, at - start, &len))) break;
    }
    return at;
}

static size_t spaces_after(span s, size_t at)
{
    for (size_t len; at < s.n && uc_is_space(utf8_decode(s.p + at, s.n - at, &len)); at += len) continue;
    return at;
}

/* Whether a special token at [at, at + n) counts where it was found. Where marked text has lengthened it, *n becomes
 * the length of the longest one in the text before. */
static bool is_token_at(const added_walk *w, size_t at, size_t *n, int32_t *i)
{
    if (!w->parse) return false;
    if (!w->user) return true;
    size_t own = 0, shorter;
    while (own < *n && !w->user[at + own]) own++;
    if (own == *n) return true;
    int32_t k = own ? trie_longest(&w->set->texts, span_of(w->text.p + at, own), &shorter) : -1;
    if (k < 0) return false;
    *n = shorter;
    *i = k;
    return true;
}

const added_token *added_next(added_walk *w, size_t *start, size_t *stop)
{
    if (!w->set->n) return NULL;
    span s = w->text;
    while (w->at < s.n) {
        size_t n;
        if (!w->set->texts.root[s.p[w->at]]) {
            w->at++;
            continue;
        }
        int32_t i = trie_longest(&w->set->texts, span_of(s.p + w->at, s.n - w->at), &n);
        if (i < 0) {
            w->at++;
            continue;
        }
        bool use = !w->set->v[i].special || is_token_at(w, w->at, &n, &i);
        const added_token *t = &w->set->v[i];
        *start = w->at;
        *stop = w->at += n;
        if (!use) continue;
        if (t->single_word && (word_before(s, *start) || word_after(s, *stop))) continue;
        if (t->lstrip) {
            *start = spaces_before(s, *start);
            if (*start < w->done) *start = w->done;
        }
        if (t->rstrip) *stop = spaces_after(s, *stop);
        return t;
    }
    return NULL;
}
