/* tokenizer_build.c - see tokenizer_build.h. */
#include "text/tokenizer_build.h"

#include "base/mem.h"

bool tokenizer_file_line(cursor *c, span *line)
{
    if (!cursor_left(c)) return false;
    const uint8_t *p = c->p + c->at, *end = memchr(p, '\n', c->n - c->at);
    size_t n = end ? (size_t)(end - p) : c->n - c->at;
    cursor_take(c, n + (end ? 1 : 0));
    if (n && p[n - 1] == '\r') n--;
    *line = span_of(p, n);
    return true;
}

tokenizer *tokenizer_new(void)
{
    tokenizer *t = mem_zero(1, sizeof *t);
    if (!t) return NULL;
    for (int i = 0; i < TOKEN_ROLE_COUNT; i++) t->role[i] = -1;
    t->single = (post_template){{{POST_A, 0}}, 1};
    t->pair = (post_template){{{POST_A, 0}, {POST_B, 1}}, 2};
    t->language = t->bp.unk = t->ug.unk = t->wp.unk = -1;
    t->bp.voc = t->ug.voc = &t->voc;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

int tokenizer_complete(tokenizer *t, err *e)
{
    trie *tries[] = {&t->ug.pieces, &t->wp.first, &t->wp.rest, &t->bp.frozen, &t->raw.texts, &t->normalized.texts};
    int rc = t->short_of_memory ? err_memory(e, "the tokenizer") : OK;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !rc; i++) rc = trie_seal(tries[i], e);
    return rc;
}

static bool has_room(int n, int max, const char *what, err *e)
{
    return n < max || (err_set(e, ERR_LIMIT, "more than %d %s", max, what), false);
}

decode_step *tokenizer_add_decoder(tokenizer *t, decode_kind kind, err *e)
{
    decode_step *st = has_room(t->dec.n, DECODE_STEPS_MAX, "decoders", e) ? &t->dec.step[t->dec.n++] : NULL;
    if (st) *st = (decode_step){.kind = kind};
    return st;
}

norm_step *tokenizer_add_normalizer(tokenizer *t, norm_kind kind, err *e)
{
    norm_step *st = has_room(t->norm.n, NORM_STEPS_MAX, "normalizers", e) ? &t->norm.step[t->norm.n++] : NULL;
    if (st) *st = (norm_step){.kind = kind};
    return st;
}

pretok_step *tokenizer_add_pretokenizer(tokenizer *t, pretok_kind kind, err *e)
{
    pretok_step *st = has_room(t->pre.n, PRETOK_STEPS_MAX, "pre-tokenizers", e) ? &t->pre.step[t->pre.n++] : NULL;
    if (st) *st = (pretok_step){.kind = kind};
    return st;
}

int tokenizer_add_split(tokenizer *t, const char *pattern, regex_flavour from, split_behaviour behaviour, bool invert,
                        err *e)
{
    pretok_step *st = tokenizer_add_pretokenizer(t, PRETOK_REGEX, e);
    if (!st) return ERR_LIMIT;
    st->behaviour = behaviour;
    st->invert = invert;
    return regex_compile(&st->pattern, span_str(pattern), from, e);
}

span tokenizer_keep(tokenizer *t, span s)
{
    char *copy = arena_strn(&t->mem, (const char *)s.p, s.n);
    t->short_of_memory = t->short_of_memory || !copy;
    return span_of(copy, copy ? s.n : 0);
}

int tokenizer_show_as(tokenizer *t, int32_t id, span text, err *e)
{
    if (!t->shown && !(t->shown = mem_zero(t->voc.size, sizeof *t->shown))) return err_memory(e, "the tokenizer");
    t->shown[id] = text;
    return OK;
}

int tokenizer_add_special(tokenizer *t, int32_t id, err *e)
{
    if (!vocab_has(&t->voc, id) || !t->voc.piece[id].n) return OK;
    t->voc.flag[id] |= PIECE_SPECIAL | PIECE_ADDED;
    return added_put(&t->raw, (added_token){.text = t->voc.piece[id], .id = id, .special = true}, e);
}

int tokenizer_set_pattern(tokenizer *t, const pattern_row *row, err *e)
{
    int rc = OK;
    if (row->nfc) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_FORM, e);
        if (!n) return ERR_LIMIT;
        n->form = UC_NFC;
    }
    for (int i = 0; i < PATTERN_STEPS_MAX && row->step[i] && !rc; i++)
        rc = tokenizer_add_split(t, row->step[i], REGEX_ONIGURUMA, SPLIT_ISOLATED, false, e);
    t->byte_level = true;
    t->bp.whole_first = row->whole_first;
    if (!rc && !tokenizer_add_pretokenizer(t, PRETOK_BYTES, e)) rc = ERR_LIMIT;
    if (!rc && !tokenizer_add_decoder(t, DECODE_BYTE_LEVEL, e)) rc = ERR_LIMIT;
    return rc;
}

int tokenizer_set_bert(tokenizer *t, bool lower, bool accents, bool chinese, err *e)
{
    int rc = tokenizer_add_normalizer(t, NORM_BERT_CLEAN, e) ? OK : ERR_LIMIT;
    if (!rc && chinese && !tokenizer_add_normalizer(t, NORM_BERT_CHINESE, e)) rc = ERR_LIMIT;
    if (!rc && accents) {
        norm_step *n = tokenizer_add_normalizer(t, NORM_FORM, e);
        if (n) n->form = UC_NFD;
        if (!n || !tokenizer_add_normalizer(t, NORM_BERT_ACCENTS, e)) rc = ERR_LIMIT;
    }
    if (!rc && lower && !tokenizer_add_normalizer(t, NORM_LOWER, e)) rc = ERR_LIMIT;
    pretok_step *space = rc ? NULL : tokenizer_add_pretokenizer(t, PRETOK_CHARS, e);
    if (space) *space = (pretok_step){.kind = PRETOK_CHARS, .is = uc_is_space, .behaviour = SPLIT_REMOVED};
    pretok_step *sign = space ? tokenizer_add_pretokenizer(t, PRETOK_CHARS, e) : NULL;
    if (sign) *sign = (pretok_step){.kind = PRETOK_CHARS, .is = uc_bert_punctuation, .behaviour = SPLIT_ISOLATED};
    decode_step *d = sign ? tokenizer_add_decoder(t, DECODE_WORDPIECE, e) : NULL;
    if (!d) return rc ? rc : ERR_LIMIT;
    d->text = span_str("##");
    d->cleanup = true;
    t->kind = "wordpiece";
    t->model = MODEL_WORDPIECE;
    t->wp_prefix = span_str("##");
    t->wp.longest_word = 100;
    return OK;
}

void tokenizer_frame(tokenizer *t, int32_t bos, int32_t eos)
{
    post_template one = {.n = 0}, two = {.n = 0};
    for (int k = 0; k < 2; k++) {
        if (bos >= 0) two.item[two.n++] = (post_item){bos, k};
        two.item[two.n++] = (post_item){k ? POST_B : POST_A, k};
        if (eos >= 0) two.item[two.n++] = (post_item){eos, k};
        if (k == 0) one = two;
    }
    t->single = one;
    t->pair = two;
}
