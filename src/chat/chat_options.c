/* chat_options.c - see chat_options.h. */
#include "chat/chat_options.h"

#include "base/file.h"

enum { TEMPLATE_BYTES_MAX = 4 << 20 };

#define ROW(field, kind, ...) PARAM_ROW(chat_options, field, kind, __VA_ARGS__)

const param chat_param_rows[] = {
    ROW(chat_template, PARAM_TEXT, .words = "FILE", .path = PATH_FILE,
        .doc = "chat template in Jinja (default: the model's own)"),
    ROW(chat_format, PARAM_TEXT, .rare = true, .words = "NAME",
        .doc = "function calling: how the model writes calls: hermes, llama3, mistral, … (default: as its template "
               "shows)"),
};
const size_t chat_param_count = sizeof chat_param_rows / sizeof *chat_param_rows;

int chat_options_open(chat_template **out, const chat_options *o, const tokenizer *t, err *e)
{
    const char *own = t ? tokenizer_chat_template(t) : NULL;
    buf text = {0};
    *out = NULL;
    if (o->chat_format && !call_format_find(o->chat_format)) {
        for (const call_format *f = call_formats; f->name; f++) buf_printf(&text, " %s", f->name);
        int rc = err_set(e, ERR_USAGE, "--chat-format: '%s' is none of%s", o->chat_format, buf_cstr(&text));
        buf_free(&text);
        return rc;
    }
    if (!o->chat_template && !own)
        return err_set(e, ERR_NOT_FOUND, "this model has no chat template; --chat-template FILE gives one");
    int rc = o->chat_template ? file_read_text(&text, o->chat_template, TEMPLATE_BYTES_MAX, e) : OK;
    if (!rc) rc = chat_template_open(out, o->chat_template ? buf_span(&text) : span_str(own), o->chat_format, t, e);
    if (rc) err_wrap(e, "%s", o->chat_template ? o->chat_template : "chat");
    buf_free(&text);
    return rc;
}
