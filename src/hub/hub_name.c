/* hub_name.c - see hub_name.h. The rules for ORG and NAME are those of the hub. */
#include "hub/hub_name.h"

#include "base/span.h"

enum { PLAIN_MAX = 128, REPO_MAX = 96 };

static bool is_word_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

static bool is_plain(span s)
{
    bool plain = s.n && s.n <= PLAIN_MAX && s.p[0] != '.';
    for (size_t i = 0; i < s.n && plain; i++) plain = is_word_byte(s.p[i]);
    return plain;
}

bool hub_name_is_plain(const char *name) { return is_plain(span_str(name)); }

bool hub_name_stays(const char *path)
{
    for (const char *part = path;; part++) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || n > 255 || (n <= 2 && strncmp(part, "..", n) == 0)) return false;
        for (size_t i = 0; i < n; i++)
            if ((uint8_t)part[i] < 32 || part[i] == 127 || part[i] == '\\') return false;
        part += n;
        if (!*part) return part - path < 1024;
    }
}

/* Of ORG or NAME: no dot or dash at an end, and neither doubled. */
static bool is_repo_part(span s)
{
    bool well = is_plain(s) && s.n <= REPO_MAX;
    for (size_t i = 0; i < s.n && well; i++) {
        const bool mark = s.p[i] == '.' || s.p[i] == '-';
        if (mark) well = i > 0 && i + 1 < s.n && s.p[i + 1] != s.p[i];
    }
    return well;
}

/* Copies n bytes as a text; false: there are none, or too many. */
static bool copy_text(char *to, size_t cap, const char *from, size_t n)
{
    if (!n || n >= cap) return false;
    memcpy(to, from, n);
    to[n] = 0;
    return true;
}

bool hub_name_read(hub_name *out, const char *text)
{
    *out = (hub_name){.revision = "main"};
    const size_t n_repo = strcspn(text, ":@");
    const char *slash = memchr(text, '/', n_repo), *rest = text + n_repo;
    if (!slash || !copy_text(out->repo, sizeof out->repo, text, n_repo)) return false;
    const size_t n_org = (size_t)(slash - text);
    if (!is_repo_part(span_of(text, n_org)) || !is_repo_part(span_of(slash + 1, n_repo - n_org - 1))) return false;
    if (*rest == ':') {
        const size_t n = strcspn(++rest, "@");
        if (!copy_text(out->pick, sizeof out->pick, rest, n) || !hub_name_stays(out->pick)) return false;
        rest += n;
    }
    if (*rest == '@')
        return copy_text(out->revision, sizeof out->revision, rest + 1, strlen(rest + 1)) &&
               hub_name_stays(out->revision);
    return true;
}
