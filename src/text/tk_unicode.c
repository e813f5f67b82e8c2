/* tk_unicode.c - see tk_unicode.h. The only file that includes utf8proc (Unicode 15).
 *
 * Normalization goes in segments that end before a character that can start one (combining class 0, no interaction with
 * what is before it), so ASCII runs are copied and a long text needs no buffer of code points. */
#include "text/tk_unicode.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tk_unicode_table.h"

#include <string.h>
#include <utf8proc.h>

bool uc_is_space(uint32_t c)
{
    if (c < 128) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Tables are short and asked for rare characters only: a walk is enough. They ascend. */
static bool table_has(const uc_range *t, uint32_t c)
{
    for (; t->to && t->from <= c; t++)
        if (c <= t->to) return true;
    return false;
}

static int32_t value_of(const uc_shift_range *t, uint32_t c)
{
    for (; t->to && t->from <= c; t++)
        if (c <= t->to) return t->value;
    return 0;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool uc_is_numeric(uint32_t c)
{
    if (c < 128) return c >= '0' && c <= '9';
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
           table_has(uc_newer_numeric, c);
}

bool uc_is_mark(uint32_t c)
{
    if (c < 0x300) return false;
    utf8proc_category_t k = category(c);
    bool mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
    return mark ? !table_has(uc_not_mark, c) : table_has(uc_only_mark, c);
}

bool uc_is_word(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    case UTF8PROC_CATEGORY_CN: /* newer than utf8proc's tables */
        for (const uc_category_range *r = uc_newer; r->to && r->from <= c; r++)
            if (c <= r->to)
                return strchr("LM", r->category[0]) || !strcmp(r->category, "Nd") || !strcmp(r->category, "Pc");
        return false;
    default: /* Join_Control; Other_Alphabetic that are symbols */
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    }
}

bool uc_bert_punctuation(uint32_t c)
{
    if (c < 128) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    utf8proc_category_t k = category(c);
    bool p = k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
    return p ? !table_has(uc_not_bert_punctuation, c) : table_has(uc_only_bert_punctuation, c);
}

bool uc_bert_nonspacing(uint32_t c)
{
    if (c < 0x300) return false;
    return category(c) == UTF8PROC_CATEGORY_MN ? !table_has(uc_not_bert_nonspacing, c)
                                               : table_has(uc_only_bert_nonspacing, c);
}

bool uc_bert_control(uint32_t c)
{
    if (c < 128) return (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    utf8proc_category_t k = category(c);
    if (k == UTF8PROC_CATEGORY_CF) return !table_has(uc_not_bert_control, c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CO;
}

int uc_lower(uint32_t c, uint32_t out[2])
{
    if (c < 128) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (c == 0x130) { /* the one character whose full lower case is two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c) + (uint32_t)value_of(uc_newer_lower, c);
    return 1;
}

uint32_t uc_upper(uint32_t c)
{
    if (c < 128) return c >= 'a' && c <= 'z' ? c - 32 : c;
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

bool uc_is_letter(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool uc_is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool uc_is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

/* A place where a segment may begin: nothing before this character combines with it or is reordered past it. */
static bool starts_segment(uint32_t c)
{
    if (c < 0x300) return true;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->combining_class != 0) return false;
    if (p->boundclass == UTF8PROC_BOUNDCLASS_V || p->boundclass == UTF8PROC_BOUNDCLASS_T) return false; /* Hangul */
    utf8proc_category_t k = p->category;
    if (k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME) return false;
    /* a compatibility form whose decomposition begins with a mark (U+FF9E, U+FF9F) */
    return c != 0xff9e && c != 0xff9f;
}

static bool normalize_segment(utf8proc_option_t options, span s, buf *out)
{
    utf8proc_int32_t small[256], *cp = small;
    utf8proc_ssize_t n = utf8proc_decompose(s.p, (utf8proc_ssize_t)s.n, small, 256, options);
    if (n > 256) {
        cp = mem_array((size_t)n + 1, sizeof *cp);
        if (!cp) return false;
        n = utf8proc_decompose(s.p, (utf8proc_ssize_t)s.n, cp, n, options);
    }
    if (n > 0 && (options & UTF8PROC_COMPOSE)) n = utf8proc_normalize_utf32(cp, n, options);
    bool ok = n >= 0;
    for (utf8proc_ssize_t i = 0; i < n && ok; i++) {
        uint8_t text[4];
        ok = buf_add(out, text, utf8_encode((uint32_t)cp[i], text));
    }
    if (cp != small) mem_free(cp);
    return ok;
}

bool uc_normalize(uc_form form, span s, buf *out)
{
    static const int options[] = {[UC_NFC] = UTF8PROC_COMPOSE | UTF8PROC_STABLE,
                                  [UC_NFD] = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE,
                                  [UC_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE,
                                  [UC_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE};
    for (size_t i = 0; i < s.n;) {
        size_t plain = i;
        while (plain < s.n && s.p[plain] < 128) plain++;
        /* the last ASCII character may combine with what follows it */
        size_t keep = plain < s.n && plain > i ? plain - 1 : plain;
        if (!buf_add(out, s.p + i, keep - i)) return false;
        i = keep;
        size_t end = i, len;
        while (end < s.n) {
            uint32_t c = utf8_decode(s.p + end, s.n - end, &len);
            if (c >= 0x300 && table_has(uc_unnormalized, c)) break;
            if (end > i && starts_segment(c)) break;
            end += len;
        }
        if (end == i && end < s.n) { /* it stays, and nothing combines with it */
            if (!buf_add(out, s.p + i, len)) return false;
            end += len;
            i = end;
            continue;
        }
        if (end > i && !normalize_segment((utf8proc_option_t)options[form], span_of(s.p + i, end - i), out))
            return false;
        i = end;
    }
    return true;
}

int uc_script_of(uint32_t c) { return value_of(uc_script, c); }

size_t uc_grapheme(span s)
{
    size_t len, at;
    uint32_t before = utf8_decode(s.p, s.n, &at);
    utf8proc_int32_t state = 0;
    while (at < s.n) {
        uint32_t c = utf8_decode(s.p + at, s.n - at, &len);
        if (before < 0x300 && c < 0x300 && before != '\r') break;
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state)) break;
        before = c;
        at += len;
    }
    return at;
}
