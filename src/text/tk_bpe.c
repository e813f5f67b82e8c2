/* tk_bpe.c - see tk_bpe.h.
 *
 * Words of up to SCAN_MAX symbols are merged by scanning for the best pair (quadratic, but in one or two cache lines),
 * longer ones by a heap with lazy deletion: a candidate counts while its symbols cover as many bytes as when it was
 * pushed. */
#include "text/tk_bpe.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SCAN_MAX = 24 };

static size_t pair_slot(const bpe *b, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32 ^ h >> 15) & (b->pair_cap - 1);
}

static bpe_pair *pair_find(const bpe *b, uint32_t left, uint32_t right)
{
    size_t i = pair_slot(b, left, right);
    while (b->pair[i].id != UINT32_MAX && (b->pair[i].left != left || b->pair[i].right != right))
        i = (i + 1) & (b->pair_cap - 1);
    return &b->pair[i];
}

int bpe_reserve(bpe *b, size_t n, err *e)
{
    if (n > (size_t)1 << 26) return err_set(e, ERR_LIMIT, "%zu merges: too many", n);
    size_t cap = 64;
    while (cap < n + n / 2) cap *= 2;
    b->pair = mem_array(cap, sizeof *b->pair);
    if (!b->pair) return err_memory(e, "the tokenizer");
    for (size_t i = 0; i < cap; i++) b->pair[i].id = UINT32_MAX;
    b->pair_cap = cap;
    return OK;
}

int bpe_merge(bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id, err *e)
{
    if (b->pair_n + 1 >= b->pair_cap) return err_set(e, ERR_LIMIT, "more merges than announced");
    bpe_pair *p = pair_find(b, left, right);
    b->pair_n += p->id == UINT32_MAX;
    *p = (bpe_pair){left, right, rank, id};
    return OK;
}

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int best_first(const void *x, const void *y)
{
    const scored *a = x, *b = y;
    return a->score > b->score ? -1 : a->score < b->score;
}

int bpe_rank_by_score(bpe *b, const float *score, err *e)
{
    const vocab *v = b->voc;
    scored *order = mem_array(v->size, sizeof *order);
    b->rank = mem_array(v->size, sizeof *b->rank);
    int rc = order && b->rank && map_reserve(&b->word, v->size) ? OK : err_memory(e, "the tokenizer");
    for (uint32_t i = 0; i < v->size && !rc; i++) order[i] = (scored){score[i], i};
    if (!rc) qsort(order, v->size, sizeof *order, best_first);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < v->size && !rc; i++) {
        uint32_t id = order[i].id;
        rank += i && order[i].score != order[i - 1].score;
        bool plain = v->piece[id].n && !(v->flag[id] & (PIECE_SPECIAL | PIECE_UNKNOWN | PIECE_BYTE));
        b->rank[id] = plain ? rank : UINT32_MAX;
        if (plain && !map_put(&b->word, v->piece[id], id)) rc = err_memory(e, "the tokenizer");
    }
    mem_free(order);
    return rc;
}

/* Whether a merged piece has the space sign after another character: "a▁b". Runs of spaces may merge as they like. */
static bool space_inside(const bpe *b, span piece)
{
    for (size_t i = 1; i + b->space.n <= piece.n; i++)
        if (memcmp(piece.p + i, b->space.p, b->space.n) == 0 &&
            (i < b->space.n || memcmp(piece.p + i - b->space.n, b->space.p, b->space.n) != 0))
            return true;
    return false;
}

void bpe_finish(bpe *b)
{
    b->cut = b->space.n && !b->bytes && !b->whole_first && !b->resplit && !b->prefix.n && !b->suffix.n &&
             vocab_find(b->voc, b->space) >= 0;
    for (size_t i = 0; b->cut && b->listed && i < b->pair_cap; i++)
        if (b->pair[i].id != UINT32_MAX) b->cut = !space_inside(b, b->voc->piece[b->pair[i].id]);
    for (uint32_t id = 0; b->cut && !b->listed && id < b->voc->size; id++)
        if (b->rank[id] != UINT32_MAX || b->frozen.nodes) b->cut = !space_inside(b, b->voc->piece[id]);
}

uint32_t *bpe_ranks(const bpe *b)
{
    uint32_t *rank = mem_array(b->voc->size, sizeof *rank);
    if (!rank) return NULL;
    for (uint32_t id = 0; id < b->voc->size; id++) rank[id] = !b->listed && b->rank ? b->rank[id] : UINT32_MAX;
    for (size_t i = 0; b->listed && i < b->pair_cap; i++) {
        const bpe_pair *p = &b->pair[i];
        if (p->id < b->voc->size && p->rank < rank[p->id]) rank[p->id] = p->rank;
    }
    return rank;
}

void bpe_free(bpe *b)
{
    mem_free(b->pair);
    mem_free(b->rank);
    map_free(&b->word);
    trie_free(&b->frozen);
    *b = (bpe){0};
}

void bpe_work_free(bpe_work *w)
{
    mem_free(w->sym);
    mem_free(w->heap);
    mem_free(w->split);
    word_cache_free(&w->cache);
    *w = (bpe_work){0};
}

/* Whether two neighbours may be joined, and into what. */
static bool may_join(const bpe *b, bpe_work *w, span text, const bpe_symbol *l, const bpe_symbol *r, uint32_t *rank,
                     uint32_t *id)
{
    if (b->listed) {
        if (!b->pair_cap) return false;
        const bpe_pair *p = pair_find(b, (uint32_t)l->id, (uint32_t)r->id);
        *rank = p->rank;
        *id = p->id;
        return p->id != UINT32_MAX;
    }
    if (l->frozen || r->frozen) return false;
    uint32_t found = map_get(&b->word, span_of(text.p + l->at, (size_t)l->n + r->n));
    if (found == MAP_NONE || b->rank[found] == UINT32_MAX) return false;
    if (b->resplit && (b->voc->flag[found] & PIECE_UNUSED)) w->split[found] = l->n;
    *rank = b->rank[found];
    *id = found;
    return true;
}

static bool add_symbol(bpe_work *w, size_t at, size_t n, int32_t id)
{
    if (w->n == w->sym_cap) {
        void *p = w->sym;
        if (!mem_grow(&p, &w->sym_cap, w->n + 1, sizeof *w->sym)) return false;
        w->sym = p;
    }
    w->sym[w->n] = (bpe_symbol){(uint32_t)at, (uint32_t)n, id, (int32_t)w->n - 1, (int32_t)w->n + 1, false};
    w->n++;
    return true;
}

enum { AFFIXED_MAX = 80 }; /* a character and two affixes of at most 32 bytes */

/* One character as the vocabulary spells it where affixes apply in old BPE files: "##x", "x</w>". */
static span affixed(const bpe *b, span ch, bool first, bool last, uint8_t text[AFFIXED_MAX])
{
    bool prefix = b->prefix.n && !first, suffix = b->suffix.n && last;
    if (!prefix && !suffix) return ch;
    size_t n = 0;
    if (prefix) memcpy(text, b->prefix.p, n = b->prefix.n);
    memcpy(text + n, ch.p, ch.n);
    n += ch.n;
    if (suffix) memcpy(text + n, b->suffix.p, b->suffix.n);
    return span_of(text, n + (suffix ? b->suffix.n : 0));
}

static int32_t char_id(const bpe *b, span ch)
{
    return ch.n == 1 && ch.p[0] < 128 ? b->unit[ch.p[0]] : vocab_find_known(b->voc, ch);
}

/* Characters of a file whose merges are listed: unknown ones are replaced before merging, in the order that the Hugging
 * Face library has (a pending unknown token comes after the bytes of later characters). */
static bool split_listed_chars(const bpe *b, bpe_work *w, span text)
{
    size_t unk_at = 0, unk_n = 0;
    for (size_t i = 0, len; i < text.n; i += len) {
        uint8_t spelled[AFFIXED_MAX];
        utf8_decode(text.p + i, text.n - i, &len);
        span ch = affixed(b, span_of(text.p + i, len), i == 0, i + len == text.n, spelled);
        int32_t id = char_id(b, ch);
        if (id >= 0) {
            if (unk_n && !add_symbol(w, unk_at, unk_n, b->unk)) return false;
            unk_n = 0;
            if (!add_symbol(w, i, len, id)) return false;
            continue;
        }
        bool bytes = b->fall_back;
        for (size_t k = 0; k < ch.n && bytes; k++) bytes = b->byte_piece[ch.p[k]] >= 0;
        for (size_t k = 0; k < ch.n && bytes; k++)
            if (!add_symbol(w, i, 1, b->byte_piece[ch.p[k]])) return false;
        if (bytes || b->unk < 0) continue;
        if (unk_n && b->fuse_unk) {
            unk_n += len;
            continue;
        }
        if (unk_n && !add_symbol(w, unk_at, unk_n, b->unk)) return false;
        unk_at = i;
        unk_n = len;
    }
    return !unk_n || add_symbol(w, unk_at, unk_n, b->unk);
}

static bool split_symbols(const bpe *b, bpe_work *w, span text)
{
    w->n = 0;
    if (b->bytes) {
        for (size_t i = 0; i < text.n; i++)
            if ((b->unit[text.p[i]] >= 0 || !b->listed) && !add_symbol(w, i, 1, b->unit[text.p[i]])) return false;
    } else if (b->listed) {
        if (!split_listed_chars(b, w, text)) return false;
    } else {
        for (size_t i = 0, len; i < text.n; i += len) {
            bool frozen = b->frozen.nodes && trie_longest(&b->frozen, span_of(text.p + i, text.n - i), &len) >= 0;
            if (!frozen) utf8_decode(text.p + i, text.n - i, &len);
            uint32_t id = map_get(&b->word, span_of(text.p + i, len));
            if (!add_symbol(w, i, len, id == MAP_NONE ? -1 : (int32_t)id)) return false;
            w->sym[w->n - 1].frozen = frozen;
        }
    }
    if (w->n) w->sym[w->n - 1].next = -1;
    return true;
}

static void merge_scan(const bpe *b, bpe_work *w, span text)
{
    uint32_t rank[SCAN_MAX], id[SCAN_MAX];
    bpe_symbol *s = w->sym;
    size_t n = w->n;
    for (size_t i = 0; i + 1 < n; i++)
        if (!may_join(b, w, text, &s[i], &s[i + 1], &rank[i], &id[i])) rank[i] = UINT32_MAX;
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == UINT32_MAX) break;
        s[best].n += s[best + 1].n;
        s[best].id = (int32_t)id[best];
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        memmove(&rank[best], &rank[best + 1], (n - best) * sizeof *rank);
        memmove(&id[best], &id[best + 1], (n - best) * sizeof *id);
        if (best + 1 < n && !may_join(b, w, text, &s[best], &s[best + 1], &rank[best], &id[best]))
            rank[best] = UINT32_MAX;
        if (best > 0 && !may_join(b, w, text, &s[best - 1], &s[best], &rank[best - 1], &id[best - 1]))
            rank[best - 1] = UINT32_MAX;
    }
    for (size_t i = 0; i < n; i++) s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    w->n = n;
}

static bool heap_push(const bpe *b, bpe_work *w, span text, int32_t left)
{
    const bpe_symbol *l = &w->sym[left], *r = &w->sym[l->next];
    uint32_t rank, id;
    if (!may_join(b, w, text, l, r, &rank, &id)) return true;
    void *p = w->heap;
    if (w->heap_n == w->heap_cap) {
        if (!mem_grow(&p, &w->heap_cap, w->heap_n + 1, sizeof *w->heap)) return false;
        w->heap = p;
    }
    bpe_candidate c = {(uint64_t)rank << 32 | (uint32_t)left, l->n + r->n, id};
    size_t i = w->heap_n++;
    for (; i && c.order < w->heap[(i - 1) / 2].order; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return true;
}

static bpe_candidate heap_pop(bpe_work *w)
{
    bpe_candidate top = w->heap[0], last = w->heap[--w->heap_n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < w->heap_n; i = k) {
        if (k + 1 < w->heap_n && w->heap[k + 1].order < w->heap[k].order) k++;
        if (last.order <= w->heap[k].order) break;
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = last;
    return top;
}

static bool merge_heap(const bpe *b, bpe_work *w, span text)
{
    w->heap_n = 0;
    for (size_t i = 0; i + 1 < w->n; i++)
        if (!heap_push(b, w, text, (int32_t)i)) return false;
    while (w->heap_n) {
        bpe_candidate c = heap_pop(w);
        int32_t at = (int32_t)(uint32_t)c.order;
        bpe_symbol *l = &w->sym[at];
        if (!l->n || l->next < 0 || l->n + w->sym[l->next].n != c.n) continue;
        bpe_symbol *r = &w->sym[l->next];
        l->n = c.n;
        l->id = (int32_t)c.id;
        l->next = r->next;
        r->n = 0;
        if (l->next >= 0) w->sym[l->next].prev = at;
        if (l->prev >= 0 && !heap_push(b, w, text, l->prev)) return false;
        if (l->next >= 0 && !heap_push(b, w, text, at)) return false;
    }
    return true;
}

/* Unknown text: bytes, or the unknown token (one for a run of them). */
static bool emit_unknown(const bpe *b, span text, const bpe_symbol *s, token_list *out, size_t first)
{
    for (uint32_t k = 0; b->fall_back && k < s->n; k++)
        if (b->byte_piece[text.p[s->at + k]] >= 0 && !token_list_add(out, b->byte_piece[text.p[s->at + k]]))
            return false;
    if (b->fall_back || b->unk < 0) return true;
    if (b->fuse_unk && out->n > first && out->id[out->n - 1] == b->unk) return true;
    return token_list_add(out, b->unk);
}

/* SentencePiece: a piece marked unused is taken apart as it was put together, until the parts are in use. */
static bool emit(const bpe *b, bpe_work *w, span text, bpe_symbol s, token_list *out, size_t first)
{
    size_t todo = w->n; /* a stack above the symbols */
    size_t floor = todo;
    for (;;) {
        if (s.id < 0) {
            if (!emit_unknown(b, text, &s, out, first)) return false;
        } else if (b->resplit && (b->voc->flag[s.id] & PIECE_UNUSED) && w->split[s.id] && w->split[s.id] < s.n) {
            uint32_t left = w->split[s.id], right_id = map_get(&b->word, span_of(text.p + s.at + left, s.n - left));
            w->n = todo;
            if (!add_symbol(w, s.at + left, s.n - left, right_id == MAP_NONE ? -1 : (int32_t)right_id)) return false;
            todo = w->n;
            uint32_t left_id = map_get(&b->word, span_of(text.p + s.at, left));
            s = (bpe_symbol){s.at, left, left_id == MAP_NONE ? -1 : (int32_t)left_id, 0, 0, false};
            continue;
        } else if (!token_list_add(out, s.id)) {
            return false;
        }
        if (todo == floor) break;
        s = w->sym[--todo];
    }
    w->n = floor;
    return true;
}

static bool encode_word(const bpe *b, bpe_work *w, span text, token_list *out)
{
    if (b->whole_first) {
        uint32_t id = map_get(&b->word, text);
        if (id != MAP_NONE) return token_list_add(out, (int32_t)id);
    }
    if (b->resplit && !w->split && !(w->split = mem_zero(b->voc->size, sizeof *w->split))) return false;
    if (!split_symbols(b, w, text)) return false;
    if (w->n > SCAN_MAX) {
        if (!merge_heap(b, w, text)) return false;
    } else {
        merge_scan(b, w, text);
    }
    size_t first = out->n;
    for (int32_t i = w->n ? 0 : -1; i >= 0;) {
        bpe_symbol s = w->sym[i];
        if (!emit(b, w, text, s, out, first)) return false;
        i = s.next;
    }
    return true;
}

static bool encode_cached(const bpe *b, bpe_work *w, span text, token_list *out)
{
    if (text.n == 0) return true;
    word_slot *slot = b->resplit ? NULL : word_cache_slot(&w->cache, text);
    if (word_cache_hit(slot, text)) return word_cache_give(slot, out);
    size_t first = out->n;
    if (!encode_word(b, w, text, out)) return false;
    word_cache_keep(slot, text, out, first);
    return true;
}

int bpe_encode(const bpe *b, bpe_work *w, span text, token_list *out, err *e)
{
    if (text.n > INT32_MAX) return err_set(e, ERR_LIMIT, "text of more than 2 GiB");
    if (!b->cut) return encode_cached(b, w, text, out) ? OK : err_memory(e, "the tokenizer");
    size_t start = 0, k = b->space.n;
    bool after_space = true;
    for (size_t i = 0; i < text.n;) {
        bool space = text.p[i] == b->space.p[0] && i + k <= text.n && memcmp(text.p + i, b->space.p, k) == 0;
        if (space && !after_space) {
            if (!encode_cached(b, w, span_of(text.p + start, i - start), out)) return err_memory(e, "the tokenizer");
            start = i;
        }
        after_space = space;
        i += space ? k : 1;
    }
    return encode_cached(b, w, span_of(text.p + start, text.n - start), out) ? OK : err_memory(e, "the tokenizer");
}
