/* tk_regex.c - see tk_regex.h. The only file that includes PCRE2.
 *
 * A pattern is compiled twice: anchored (most patterns match wherever the last match ended, and an anchored match
 * starts without searching: about twice as fast), and not anchored for the gaps. */
#include "text/tk_regex.h"

#include "base/mem.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct regex {
    pcre2_code *here, *search;
    bool jit; /* both are compiled to machine code */
};

struct regex_work {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum { JIT_STACK_MIN = 32 << 10, JIT_STACK_MAX = 4 << 20, STEPS_MAX = 20000000, DEPTH_MAX = 100000 };

static int compile_one(pcre2_code **out, span pattern, uint32_t options, bool *jit, err *e)
{
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile(pattern.p, pattern.n, PCRE2_UTF | options, &code, &at, NULL);
    if (!*out) {
        PCRE2_UCHAR text[120];
        pcre2_get_error_message(code, text, sizeof text);
        return err_set(e, ERR_FORMAT, "pattern \"%.*s\": %s at byte %zu", (int)(pattern.n < 200 ? pattern.n : 200),
                       (const char *)pattern.p, (const char *)text, (size_t)at);
    }
    *jit = *jit && pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE) == 0;
    return OK;
}

static int compile_pattern(regex **out, span pattern, uint32_t options, err *e)
{
    regex *r = mem_zero(1, sizeof *r);
    *out = NULL;
    if (!r) return err_memory(e, "a pattern");
    r->jit = true;
    int rc = compile_one(&r->here, pattern, options | PCRE2_ANCHORED, &r->jit, e);
    if (!rc) rc = compile_one(&r->search, pattern, options, &r->jit, e);
    if (rc) regex_free(r);
    else *out = r;
    return rc;
}

int regex_compile(regex **out, span pattern, regex_flavour from, err *e)
{
    buf translated = {0};
    *out = NULL;
    int rc = regex_translate(pattern, from, &translated, e);
    if (!rc) rc = compile_pattern(out, buf_span(&translated), PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, e);
    buf_free(&translated);
    return rc;
}

int regex_compile_literal(regex **out, span text, err *e) { return compile_pattern(out, text, PCRE2_LITERAL, e); }

void regex_free(regex *r)
{
    if (!r) return;
    pcre2_code_free(r->here);
    pcre2_code_free(r->search);
    mem_free(r);
}

int regex_work_open(regex_work **out, err *e)
{
    regex_work *w = mem_zero(1, sizeof *w);
    *out = w;
    if (w) {
        w->match = pcre2_match_data_create(16, NULL);
        w->context = pcre2_match_context_create(NULL);
        w->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    }
    if (!w || !w->match || !w->context || !w->stack) {
        regex_work_free(w);
        *out = NULL;
        return err_memory(e, "matching patterns");
    }
    pcre2_jit_stack_assign(w->context, NULL, w->stack);
    pcre2_set_match_limit(w->context, STEPS_MAX);
    pcre2_set_depth_limit(w->context, DEPTH_MAX);
    return OK;
}

void regex_work_free(regex_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    mem_free(w);
}

static int match(const regex_walk *m, const pcre2_code *code)
{
    const regex_work *w = m->w;
    if (m->r->jit) return pcre2_jit_match(code, m->text.p, m->text.n, m->at, PCRE2_NO_UTF_CHECK, w->match, w->context);
    return pcre2_match(code, m->text.p, m->text.n, m->at, PCRE2_NO_UTF_CHECK, w->match, w->context);
}

int regex_next(regex_walk *m, size_t *start, size_t *end, err *e)
{
    while (m->at <= m->text.n && m->text.n) {
        int rc = match(m, m->r->here);
        if (rc == PCRE2_ERROR_NOMATCH && m->at < m->text.n) rc = match(m, m->r->search);
        if (rc == PCRE2_ERROR_NOMATCH) return 0;
        if (rc < 0)
            return err_set(e, rc == PCRE2_ERROR_NOMEMORY ? ERR_MEMORY : ERR_LIMIT,
                           "a pattern of the tokenizer needs too many steps for this text (PCRE2 error %d)", rc);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->w->match);
        if (at[1] < at[0]) return err_set(e, ERR_FORMAT, "a pattern of the tokenizer matches backwards (\\K)");
        if (at[0] == at[1] && at[1] == m->last) { /* no second empty match at the same place */
            size_t len = 1;
            if (m->at < m->text.n) utf8_decode(m->text.p + m->at, m->text.n - m->at, &len);
            m->at += len;
            continue;
        }
        *start = at[0];
        *end = at[1];
        m->at = m->last = at[1];
        return 1;
    }
    return 0;
}
