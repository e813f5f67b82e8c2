/* lease_msg.c - see lease_msg.h. All numbers are little-endian; texts and lists have their length in front. */
#include "net/lease_msg.h"

#include "net/msg.h"
#include "tensor/dtype.h"

#include <string.h>

enum { COUNT_MAX = 1 << 28 };

static void write_text(buf *out, span t)
{
    buf_uint(out, t.n, 4);
    buf_add(out, t.p, t.n);
}

static span read_text(cursor *c)
{
    const uint32_t n = cursor_u32(c);
    if (n > LEASE_TEXT_MAX) c->bad = true;
    const span t = cursor_take(c, n);
    if (t.n && memchr(t.p, 0, t.n)) c->bad = true;
    return t;
}

/* A count from 0 to `most`. */
static int32_t read_count(cursor *c, uint32_t most)
{
    const uint32_t n = cursor_u32(c);
    if (n > most) c->bad = true;
    return c->bad ? 0 : (int32_t)n;
}

static int check_end(const cursor *c, const char *what, err *e)
{
    return c->bad || cursor_left(c) ? err_set(e, ERR_FORMAT, "its %s is malformed", what) : OK;
}

/* Choices of a plan, in the order of a LEASE. */
static const char *const switches[] = {"act_f32", "exact", "experts", "ends"}, *const words[] = {"reduce", "collective",
                                                                                                 "wire"};
enum { SWITCHES = sizeof switches / sizeof *switches, WORDS = sizeof words / sizeof *words };

bool lease_ask_write(buf *out, const lease_ask *a, int protocol)
{
    const int32_t numbers[] = {a->rank, a->ranks, a->ctx};
    buf_add(out, a->identity, sizeof a->identity);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) buf_uint(out, (uint32_t)numbers[i], 4);
    plan_choice_write(out, &a->choices, "in_flight");
    buf_uint(out, (uint32_t)a->sequences, 4);
    plan_choice_write(out, &a->choices, "codec_group");
    for (int i = 0; i < AXIS_COUNT; i++) buf_uint(out, (uint32_t)a->max_rows[i], 4);
    for (size_t i = 0; i < SWITCHES; i++) plan_choice_write(out, &a->choices, switches[i]);
    write_text(out, a->devices);
    write_text(out, a->weights);
    for (size_t i = 0; i < WORDS; i++) plan_choice_write(out, &a->choices, words[i]);
    write_text(out, a->model_spec);
    if (protocol >= PROTOCOL_LISTS) {
        buf_add(out, a->list, SHA256_BYTES);
        buf_uint(out, a->list_bytes, 4);
    } else {
        write_text(out, a->flat);
    }
    buf_add(out, a->token, (size_t)a->ranks * LEASE_TOKEN);
    if (protocol < PROTOCOL_SHARED) return !out->bad;
    lease_types_write(out, a->k_type, a->v_type);
    for (int r = 0; r < a->ranks; r++) {
        buf_byte(out, a->meets[r]);
        if (a->meets[r] || r == a->rank) write_text(out, a->node[r]);
    }
    return !out->bad;
}

static dtype read_type(cursor *c)
{
    const span name = read_text(c);
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT && !c->bad; t++)
        if (span_is(name, dtype_info[t].name)) return (dtype)t;
    c->bad = true;
    return DTYPE_F32;
}

int lease_ask_read(lease_ask *a, span payload, int protocol, err *e)
{
    cursor c = cursor_of(payload);
    err unknown = {0};
    *a = (lease_ask){0};
    span hash = cursor_take(&c, SHA256_BYTES);
    if (hash.n == SHA256_BYTES) memcpy(a->identity, hash.p, SHA256_BYTES);
    a->rank = read_count(&c, LINK_RANKS_MAX - 1);
    a->ranks = read_count(&c, LINK_RANKS_MAX);
    a->ctx = read_count(&c, 1 << 24);
    plan_choice_read(&a->choices, "in_flight", &c, &unknown);
    a->sequences = read_count(&c, 1 << 16);
    plan_choice_read(&a->choices, "codec_group", &c, &unknown);
    for (int i = 0; i < AXIS_COUNT; i++) a->max_rows[i] = read_count(&c, COUNT_MAX);
    for (size_t i = 0; i < SWITCHES; i++) plan_choice_read(&a->choices, switches[i], &c, &unknown);
    a->devices = read_text(&c);
    a->weights = read_text(&c);
    for (size_t i = 0; i < WORDS; i++) plan_choice_read(&a->choices, words[i], &c, &unknown);
    a->model_spec = read_text(&c);
    if (protocol >= PROTOCOL_LISTS) {
        hash = cursor_take(&c, SHA256_BYTES);
        if (hash.n == SHA256_BYTES) memcpy(a->list, hash.p, SHA256_BYTES);
        a->list_bytes = (uint32_t)read_count(&c, LIST_BYTES_MAX);
    } else {
        a->flat = cursor_take(&c, cursor_u32(&c));
    }
    span tokens = cursor_take(&c, (uint64_t)a->ranks * LEASE_TOKEN);
    if (!c.bad) memcpy(a->token, tokens.p, tokens.n);
    if (protocol >= PROTOCOL_SHARED) {
        a->k_type = read_type(&c);
        a->v_type = read_type(&c);
        for (int r = 0; r < a->ranks && !c.bad; r++) {
            const uint8_t meets = cursor_u8(&c);
            a->meets[r] = meets;
            if (meets || r == a->rank) a->node[r] = read_text(&c);
            if (meets > (r != a->rank) || a->node[r].n >= TCP_NAME_MAX) c.bad = true;
        }
    }
    if (a->rank >= a->ranks || !a->ctx || !a->choices.in_flight || !a->sequences || !a->devices.n || !a->model_spec.n)
        c.bad = true;
    const int rc = check_end(&c, "request for a lease", e);
    return rc ? rc : err_copy(e, &unknown);
}

bool lease_types_write(buf *out, dtype k_type, dtype v_type)
{
    write_text(out, span_str(dtype_info[k_type].name));
    write_text(out, span_str(dtype_info[v_type].name));
    return !out->bad;
}

int lease_types_read(dtype *k_type, dtype *v_type, span payload, err *e)
{
    cursor c = cursor_of(payload);
    *k_type = read_type(&c);
    *v_type = read_type(&c);
    return check_end(&c, "question about memory", e);
}

bool lease_memory_write(buf *out, const lease_memory *m)
{
    for (int g = 0; g < GROUP_MAX; g++) buf_uint(out, m->page[g], 8);
    buf_uint(out, m->slot, 8);
    return buf_uint(out, m->left, 8);
}

int lease_memory_read(lease_memory *m, span payload, err *e)
{
    cursor c = cursor_of(payload);
    for (int g = 0; g < GROUP_MAX; g++) m->page[g] = cursor_u64(&c);
    m->slot = cursor_u64(&c);
    m->left = cursor_u64(&c);
    return check_end(&c, "answer about memory", e);
}

bool lease_cache_write(buf *out, const cache_options *k)
{
    for (int g = 0; g < GROUP_MAX; g++) buf_uint(out, (uint32_t)k->n_page[g], 4);
    buf_uint(out, (uint32_t)k->n_slot, 4);
    lease_types_write(out, k->k_type, k->v_type);
    return k->slot_rows ? buf_byte(out, (uint8_t)k->slot_rows) : !out->bad;
}

int lease_cache_read(cache_options *k, span payload, err *e)
{
    cursor c = cursor_of(payload);
    *k = (cache_options){.n_slot = 0};
    for (int g = 0; g < GROUP_MAX; g++) k->n_page[g] = read_count(&c, COUNT_MAX);
    k->n_slot = read_count(&c, COUNT_MAX);
    k->k_type = read_type(&c);
    k->v_type = read_type(&c);
    if (cursor_left(&c)) {
        k->slot_rows = (int)cursor_uint(&c, 1);
        c.bad = c.bad || k->slot_rows < 1 || k->slot_rows > SLOT_ROWS_MAX;
    }
    return check_end(&c, "request for pages", e);
}

bool lease_join_write(buf *out, const lease_join *j)
{
    buf_uint(out, (uint32_t)j->from, 4);
    return buf_add(out, j->token, LEASE_TOKEN);
}

int lease_join_read(lease_join *j, span payload, err *e)
{
    cursor c = cursor_of(payload);
    j->from = read_count(&c, LINK_RANKS_MAX - 1);
    const span token = cursor_take(&c, LEASE_TOKEN);
    if (!c.bad) memcpy(j->token, token.p, LEASE_TOKEN);
    return check_end(&c, "request to join", e);
}

bool lease_hashed_write(buf *out, int64_t at) { return buf_uint(out, (uint64_t)at, 8); }

int64_t lease_hashed_read(span *more)
{
    cursor c = cursor_of(*more);
    const uint64_t at = cursor_u64(&c);
    *more = cursor_take(&c, cursor_left(&c));
    return c.bad || at > INT64_MAX ? 0 : (int64_t)at;
}

bool lease_seconds_write(buf *out, double seconds) { return buf_uint(out, (uint64_t)(seconds * 1e9), 8); }

double lease_seconds_read(span more)
{
    cursor c = cursor_of(more);
    const double seconds = 1e-9 * (double)cursor_u64(&c);
    return c.bad ? 0 : seconds;
}

enum { FAULT_BYTES = 13, FAULTS_MOST = 1024 };

bool lease_faults_write(buf *out, const row_fault *f, int32_t n)
{
    for (int32_t k = 0, written = 0; f && k < n && written < FAULTS_MOST; k++) {
        if (f[k].how == ROW_GOOD) continue;
        buf_uint(out, (uint32_t)k, 4);
        buf_uint(out, f[k].how, 1);
        buf_uint(out, f[k].op, 4);
        buf_uint(out, (uint32_t)f[k].row, 4);
        written++;
    }
    return !out->bad;
}

bool lease_faults_read(span more, size_t i, int32_t *k, row_fault *out)
{
    cursor c = cursor_of(more);
    cursor_take(&c, 8 + i * FAULT_BYTES);
    *k = (int32_t)cursor_u32(&c);
    out->how = cursor_u8(&c);
    out->op = cursor_u32(&c);
    out->row = (int32_t)cursor_u32(&c);
    return !c.bad;
}

bool lease_answer_write(buf *out, uint32_t protocol, const err *why, span more)
{
    buf_uint(out, (uint32_t)why->code, 4);
    if (why->code) buf_str(out, why->msg);
    else buf_add(out, more.p, more.n);
    if (why->code && *why->who && protocol >= PROTOCOL_NAMES) {
        buf_byte(out, 0);
        buf_str(out, why->who);
    }
    return !out->bad;
}

/* A text of somebody else's, printable. */
static void take_text(span s, char *to, size_t room)
{
    for (size_t i = 0; i < s.n && i + 1 < room; i++) {
        to[i] = (char)(s.p[i] < 32 || s.p[i] == 127 ? '?' : s.p[i]);
        to[i + 1] = 0;
    }
}

int lease_answer_read(span *more, span payload, err *e)
{
    cursor c = cursor_of(payload);
    const int32_t rc = (int32_t)cursor_u32(&c);
    char text[ERR_MSG_MAX] = "failed", who[ERR_WHO_MAX / 2] = "";
    *more = cursor_take(&c, cursor_left(&c));
    if (c.bad || rc > 0) return err_set(e, ERR_FORMAT, "its answer is malformed");
    if (!rc) return OK;
    const uint8_t *nul = more->n ? memchr(more->p, 0, more->n) : NULL;
    const size_t n = nul ? (size_t)(nul - more->p) : more->n;
    take_text(span_of(more->p, n), text, sizeof text);
    if (nul) take_text(span_of(nul + 1, more->n - n - 1), who, sizeof who);
    err_set(e, rc, "%s", text);
    if (*who) err_also(e, who);
    return rc;
}
