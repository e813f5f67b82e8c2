/* fuzz_conversation.c - a chat template, and after a byte 0xff a saved conversation: what the template can do is
 * found by trying it, and a conversation whose messages have role and content is put into its form. */
#include "chat/chat_template.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool kept)
{
    if (!kept) abort();
}

static bool has_texts(const json *messages)
{
    bool good = json_type(messages) == JSON_ARRAY;
    for (const json *m = good ? json_first(messages) : NULL; m; m = json_next(m))
        good = good && json_str(json_get(m, "role"), NULL) && json_str(json_get(m, "content"), NULL);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0xff, n) : NULL;
    const span source = span_of(data, end ? (size_t)(end - data) : n);
    chat_template *t;
    json *saved = NULL;
    err e = {0};
    if (chat_template_open(&t, source, NULL, NULL, &e)) {
        promise(!t && e.msg[0]);
        return 0;
    }
    if (end && json_parse(&saved, span_of(end + 1, n - source.n - 1), "saved", &e)) saved = NULL;
    if (has_texts(json_get(saved, "messages")))
        for (int final = 0; final < 2; final++) {
            const chat_input in = {.messages = json_get(saved, "messages"),
                                   .tools = json_get(saved, "tools"),
                                   .add_generation_prompt = true,
                                   .continue_final = final};
            jinja_output out = {0};
            e = (err){0};
            const int rc = chat_template_apply(t, &in, &out, &e);
            promise(rc ? e.msg[0] != 0 : out.text.n == out.user.n);
            promise(rc || final || utf8_is_valid(buf_span(&out.text)));
            if (!rc) chat_template_thinks(t, buf_span(&out.text));
            jinja_output_free(&out);
        }
    json_free(saved);
    chat_template_close(t);
    return 0;
}
