/* derive.c - see derive.h: chooses between a family that fits and a spec of its own. */
#include "models/derive/derive.h"

#include "base/mem.h"
#include "models/arch.h"
#include "models/compile/wrapped.h"
#include "models/derive/derive_fit.h"
#include "models/derive/derive_write.h"
#include "models/spec/spec_load.h"

#include <stdlib.h>
#include <string.h>

enum { CLOSE_MAX = 6 };

static void write_unknown(const char *arch, buf *out)
{
    buf_str(out, "# no built-in spec covers the architecture ");
    derive_plain(arch, 80, out);
}

/* `unread`: keys that no line reads. Without this line a model that has one which other specs read is refused. */
static void write_start(const ckpt *c, const char *base, buf *unread, buf *out)
{
    char *full = strcmp(ckpt_path(c), "builtin") == 0 ? NULL : realpath(ckpt_path(c), NULL);
    buf_printf(out, "[model]\nbase = %s\npath = %s\n", base, full ? full : ckpt_path(c));
    if (unread->n)
        buf_printf(
            out, "# guessed: that these keys of the configuration, which no line reads, change nothing\nunread = %s\n",
            buf_cstr(unread));
    free(full);
}

static int find_unread(ckpt *c, const char *base, buf *keys, err *e)
{
    spec *s;
    json *text = NULL;
    int rc = spec_load_builtin(&s, base, e);
    if (rc) return rc;
    if (!ckpt_keys_have_arch(c)) {
        rc = wrapped_config(&text, s, ckpt_config(c), e);
        derive_unread(s, text ? text : ckpt_config(c), keys);
    }
    json_free(text);
    spec_free(s);
    return rc;
}

static bool same_program(const family_fit *a, const family_fit *b) { return !memcmp(a->hash, b->hash, sizeof a->hash); }

/* Families that fit beside it: those that compute the same, or (not `same`) other things. Returns their number. */
static int write_rivals(const family_fit *fits, size_t n, bool same, const char *title, buf *out)
{
    int count = 0;
    for (size_t i = 1; i < n && fits[i].builds; i++)
        if (same_program(&fits[i], &fits[0]) == same && count++ < CLOSE_MAX)
            buf_printf(out, "%s%s", count > 1 ? ", " : title, fits[i].name);
    if (count) buf_str(out, count > CLOSE_MAX ? ", ...\n" : "\n");
    return count;
}

static int from_family(ckpt *c, const char *arch, const family_fit *fits, size_t n, buf *out, err *e)
{
    const family_fit *f = fits, *rival = f + 1;
    while (rival < fits + n && rival->builds && same_program(rival, f)) rival++;
    bool alone = rival == fits + n || !rival->builds;
    write_unknown(arch, out);
    buf_printf(out,
               "\n# %s: base = %s: its lines name all %u tensors, every shape is right, and it reads %d keys of the "
               "configuration\n",
               alone || rival->norms_agree < f->norms_agree || rival->read < f->read ? "inferred" : "guessed", f->name,
               ckpt_count(c), f->read);
    if (!alone && rival->norms_agree < f->norms_agree)
        buf_printf(out, "# inferred from values: weights of norms are %s\n",
                   derive_norms_are_offset(c) ? "around 0: 1 is added to them" : "all above 0");
    write_rivals(fits, n, true, "# the same computation by: ", out);
    if (write_rivals(fits, n, false, "# these fit as well and compute something else: ", out))
        buf_str(out, "# compare logits with a reference before believing it (inferflow eval logits)\n");
    buf unread = {0};
    int rc = find_unread(c, f->name, &unread, e);
    write_start(c, f->name, &unread, out);
    buf_free(&unread);
    return rc;
}

static int does_not_load(const char *why, err *e)
{
    return err_set(e, ERR_SPEC, "the derived spec does not load yet: %s", why);
}

static int from_parts(ckpt *c, const char *arch, const parts *found, const family_fit *fits, size_t n, buf *out, err *e)
{
    buf text = {0}, unread = {0}, whole = {0};
    char why[400];
    write_unknown(arch, out);
    buf_str(out, ", and none fits its tensors\n");
    if (n && fits[0].known)
        buf_printf(out, "# nearest by names: %s, which knows %u of %zu kinds of tensors; it does not fit: %s\n",
                   fits[0].name, fits[0].known, found->n, fits[0].why);
    err own = {0};
    int rc = derive_from_parts(c, found, &text, &own);
    bool family = rc && rc != ERR_MEMORY && n && fits[0].known;
    if (family) { /* an encoder beside a decoder, say: the nearest family is a better start than nothing */
        buf_printf(out, "# %s\n# what follows does NOT load yet: copy what differs from that family below\n", own.msg);
        write_start(c, fits[0].name, &unread, out);
        rc = does_not_load(own.msg, e);
    } else if (rc) {
        err_set(e, rc, "%s", own.msg);
    } else {
        write_start(c, "llama", &unread, &whole);
        buf_add(&whole, text.p, text.n);
        if (derive_builds(c, buf_span(&whole), false, &unread, why, sizeof why))
            buf_str(
                out,
                "# what follows loads; compare logits with a reference before believing it (inferflow eval logits)\n");
        else {
            buf_printf(out, "# what follows does NOT load yet: %s\n", why);
            rc = does_not_load(why, e);
        }
        write_start(c, "llama", &unread, out);
        buf_add(out, text.p, text.n);
    }
    buf_free(&text);
    buf_free(&unread);
    buf_free(&whole);
    return rc;
}

/* The model has a built-in family, which need not take this one: a shape or a key may be wrong. */
static int from_its_own(ckpt *c, const char *base, buf *out, err *e)
{
    buf text = {0}, unread = {0}, none = {0};
    char why[400];
    write_start(c, base, &none, &text);
    const bool loads = derive_builds(c, buf_span(&text), true, &unread, why, sizeof why);
    if (loads) buf_printf(out, "# %s is a built-in family: the model runs without this file\n", base);
    else buf_printf(out, "# %s is its built-in family; what follows does NOT load yet: %s\n", base, why);
    if (unread.n) buf_printf(out, "# keys of the configuration that it does not read: %s\n", buf_cstr(&unread));
    buf_add(out, text.p, text.n);
    buf_free(&text);
    buf_free(&unread);
    return loads ? OK : does_not_load(why, e);
}

int spec_derive(ckpt *c, buf *out, err *e)
{
    char base[64];
    err unknown = {0};
    if (arch_find(c, NULL, base, sizeof base, &unknown) == OK) {
        int rc = from_its_own(c, base, out, e);
        return rc ? rc : out->bad ? err_memory(e, NULL) : OK;
    }
    if (unknown.code != ERR_NOT_FOUND) return err_copy(e, &unknown);
    family_fit *fits = NULL;
    size_t n = 0;
    parts p;
    const char *arch = ckpt_config(c) ? arch_name(c, NULL) : "(there is no config.json)";
    int rc = parts_find(&p, c, e);
    if (!rc) rc = derive_fits(c, &p, &fits, &n, e);
    if (!rc)
        rc = n && fits[0].builds ? from_family(c, arch, fits, n, out, e) : from_parts(c, arch, &p, fits, n, out, e);
    mem_free(fits);
    parts_free(&p);
    return rc ? rc : out->bad ? err_memory(e, NULL) : OK;
}
