/* tokenizer_equal.c - see tokenizer_equal.h. */
#include "text/tokenizer_equal.h"

#include "text/tokenizer_state.h"

#include <string.h>

/* Texts whose cutting tells pre-tokenizers apart. */
static const char *const samples[] = {"",
                                      " ",
                                      "Hello world",
                                      "Hello, y'all! How are you 's 'LL'D?",
                                      " I've  been   here\n\n\nand\tthere \r\n ",
                                      "1 12 123 1234 12345 3.14159 1,000,000",
                                      "\u00dcberraschung na\u00efve caf\u00e9 e\u0301",
                                      "你好，世界。日本語テスト",
                                      "한국어 Привет مرحبا",
                                      "😀👨\u200d👩\u200d👧 ok",
                                      "for(int i=0;i<10;++i){ x[i] += 'c'; } // !!??",
                                      "CamelCaseWORDSmixedUP lower UPPER iPhone",
                                      "tab\there  two",
                                      "   leading and trailing   ",
                                      "a_b-c/d\\e@f#g$h%i^j&k*l(m)n",
                                      "DON'T can'T we'Ve\xe2\x80\x99s",
                                      "x\n\n y\n  z\n",
                                      "\xc2\xa0nbsp\xe3\x80\x80wide",
                                      "10%5\xc2\xb2\xe2\x85\xa7 \xd9\xa1\xd9\xa2\xd9\xa3"};

static bool same_ids(const tokenizer *a, const tokenizer *b, span text, int flags)
{
    token_list x = {0}, y = {0};
    buf p = {0}, q = {0};
    bool same = tokenizer_encode(a, text, flags, &x, NULL) == OK && tokenizer_encode(b, text, flags, &y, NULL) == OK &&
                x.n == y.n && (x.n == 0 || memcmp(x.id, y.id, x.n * sizeof *x.id) == 0);
    if (same && (flags & TOKENIZE_SPECIAL)) /* whole texts print alike; llama2.c's pieces do not without their BOS */
        same = tokenizer_decode(a, x.id, x.n, DETOKENIZE_SKIP_SPECIAL, &p, NULL) == OK &&
               tokenizer_decode(b, y.id, y.n, DETOKENIZE_SKIP_SPECIAL, &q, NULL) == OK &&
               span_eq(buf_span(&p), buf_span(&q));
    token_list_free(&x);
    token_list_free(&y);
    buf_free(&p);
    buf_free(&q);
    return same;
}

bool tokenizer_equal(const tokenizer *a, const tokenizer *b, bool added)
{
    bool same = true;
    buf text = {0};
    for (size_t i = 0; i < sizeof samples / sizeof *samples && same; i++)
        same = same_ids(a, b, span_str(samples[i]), TOKENIZE_SPECIAL) &&
               same_ids(a, b, span_str(samples[i]), TOKENIZE_PARSE);
    for (uint32_t id = 0; added && id < a->voc.size && same; id++) {
        if (!vocab_has(&a->voc, id) || !(a->voc.flag[id] & (PIECE_ADDED | PIECE_USER))) continue;
        if ((int32_t)id == a->role[TOKEN_UNK]) continue; /* its text in a text means nothing */
        span s = a->voc.piece[id];
        text.n = 0;
        buf_printf(&text, "one %.*s two%.*sthree", (int)s.n, (const char *)s.p, (int)s.n, (const char *)s.p);
        same = !text.bad && same_ids(a, b, buf_span(&text), TOKENIZE_PARSE) && same_ids(a, b, buf_span(&text), 0);
    }
    buf_free(&text);
    return same;
}
