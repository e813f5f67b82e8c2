/* api_chat.c - POST /v1/chat/completions of the OpenAI API, and POST /apply-template. */
#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/chat_request.h"
#include "serve/reply_form.h"

static void handle_apply_template(server *s, exchange *x)
{
    request r = {.chat.generation_prompt = true};
    jinja_output text = {0};
    token_list ids = {0};
    r.body = body_read(s, x, &r);
    if (r.body && chat_prompt_make(s, x, &r, &text, &ids)) {
        x->status = 200;
        x->content_type = "application/json";
        buf_str(&x->out, "{\"prompt\":");
        json_quote(&x->out, buf_span(&text.text));
        buf_str(&x->out, ",\"tokens\":[");
        for (size_t i = 0; i < ids.n; i++) buf_printf(&x->out, "%s%d", i ? "," : "", ids.id[i]);
        buf_str(&x->out, "]}");
    }
    jinja_output_free(&text);
    token_list_free(&ids);
    request_free(&r);
}

const route route_chat = {.method = "POST",
                          .path = "/v1/chat/completions",
                          .needs_engine = true,
                          .fields = chat_fields,
                          .reply = &chat_form,
                          .handle = completion_handle};
const route route_apply_template = {.method = "POST",
                                    .path = "/apply-template",
                                    .needs_engine = true,
                                    .fields = chat_template_fields,
                                    .handle = handle_apply_template};
