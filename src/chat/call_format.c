/* call_format.c - the formats of call_format.h: a new one is a row. Sources: the chat templates of the models. */
#include "chat/call_format.h"

#include <string.h>

/* Rows are tried in this order; more telling ones come first. */
const call_format call_formats[] = {
    {.name = "harmony",
     .in_template = {"<|channel|>", "<|message|>"},
     .body = CALL_CHANNELS,
     .special = "<|channel|> <|message|> <|start|> <|end|> <|constrain|> <|call|>",
     .writing = {.before = "<|channel|>commentary to=functions.@ <|constrain|>json<|message|>",
                 .between = "<|call|><|start|>assistant",
                 .trigger = "<|channel|>commentary to=functions."}},
    {.name = "seed-oss",
     .in_template = {"<seed:tool_call>", "<parameter="},
     .body = CALL_TAGS,
     .open = "<seed:tool_call>",
     .close = "</seed:tool_call>",
     .special = "<seed:tool_call> </seed:tool_call>",
     .writing = {.before = "<seed:tool_call>\n<function=@>\n",
                 .after = "</function>\n</seed:tool_call>",
                 .between = "\n",
                 .trigger = "<seed:tool_call>",
                 .key = "<parameter=",
                 .value = ">",
                 .end = "</parameter>\n"}},
    {.name = "qwen3-coder",
     .in_template = {"<function=", "<parameter="},
     .body = CALL_TAGS,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .special = "<tool_call> </tool_call>",
     .writing = {.before = "<tool_call>\n<function=@>\n",
                 .after = "</function>\n</tool_call>",
                 .between = "\n",
                 .trigger = "<tool_call>",
                 .key = "<parameter=",
                 .value = ">\n",
                 .end = "\n</parameter>\n"}},
    {.name = "glm-4.7",
     .in_template = {"</arg_key><arg_value>"},
     .body = CALL_PAIRS,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .special = "<tool_call> </tool_call> <arg_key> </arg_key> <arg_value> </arg_value>",
     .writing = {.before = "<tool_call>@",
                 .after = "</tool_call>",
                 .trigger = "<tool_call>",
                 .key = "<arg_key>",
                 .value = "</arg_key><arg_value>",
                 .end = "</arg_value>"}},
    {.name = "glm",
     .in_template = {"<arg_key>"},
     .body = CALL_PAIRS,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .special = "<tool_call> </tool_call> <arg_key> </arg_key> <arg_value> </arg_value>",
     .writing = {.before = "<tool_call>@\n",
                 .after = "</tool_call>",
                 .between = "\n",
                 .trigger = "<tool_call>",
                 .key = "<arg_key>",
                 .value = "</arg_key>\n<arg_value>",
                 .end = "</arg_value>\n"}},
    {.name = "kimi",
     .in_template = {"<|tool_call_argument_begin|>"},
     .body = CALL_NAMED,
     .open = "<|tool_call_begin|>",
     .close = "<|tool_call_end|>",
     .separator = "<|tool_call_argument_begin|>",
     .drop = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
     .special = "<|tool_call_begin|> <|tool_call_end|> <|tool_call_argument_begin|> <|tool_calls_section_begin|> "
                "<|tool_calls_section_end|>",
     .writing = {.open = "<|tool_calls_section_begin|>",
                 .before = "<|tool_call_begin|>functions.@:0<|tool_call_argument_begin|>",
                 .after = "<|tool_call_end|>",
                 .close = "<|tool_calls_section_end|>",
                 .trigger = "<|tool_calls_section_begin|>"}},
    {.name = "deepseek-old",
     .in_template = {"<｜tool▁call▁begin｜>", "```json"},
     .body = CALL_NAMED,
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .separator = "<｜tool▁sep｜>",
     .drop = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .special = "<｜tool▁call▁begin｜> <｜tool▁call▁end｜> <｜tool▁sep｜> <｜tool▁calls▁begin｜> <｜tool▁calls▁end｜>",
     .writing = {.open = "<｜tool▁calls▁begin｜>",
                 .before = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>@\n```json\n",
                 .after = "\n```<｜tool▁call▁end｜>",
                 .between = "\n",
                 .close = "<｜tool▁calls▁end｜>",
                 .trigger = "<｜tool▁calls▁begin｜>"}},
    {.name = "deepseek",
     .in_template = {"<｜tool▁call▁begin｜>"},
     .body = CALL_NAMED,
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .separator = "<｜tool▁sep｜>",
     .drop = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .special = "<｜tool▁call▁begin｜> <｜tool▁call▁end｜> <｜tool▁sep｜> <｜tool▁calls▁begin｜> <｜tool▁calls▁end｜>",
     .writing = {.open = "<｜tool▁calls▁begin｜>",
                 .before = "<｜tool▁call▁begin｜>@<｜tool▁sep｜>",
                 .after = "<｜tool▁call▁end｜>",
                 .close = "<｜tool▁calls▁end｜>",
                 .trigger = "<｜tool▁calls▁begin｜>"}},
    {.name = "mistral",
     .in_template = {"[TOOL_CALLS]", "[ARGS]"},
     .body = CALL_NAMED,
     .open = "[TOOL_CALLS]",
     .separator = "[ARGS]",
     .special = "[TOOL_CALLS] [ARGS] [CALL_ID] [THINK] [/THINK]",
     .writing = {.before = "[TOOL_CALLS]@[ARGS]", .trigger = "[TOOL_CALLS]"}},
    {.name = "mistral-old",
     .in_template = {"[TOOL_CALLS]"},
     .body = CALL_LIST,
     .open = "[TOOL_CALLS]",
     .special = "[TOOL_CALLS]",
     .writing = {.open = "[TOOL_CALLS][",
                 .before = "{\"name\": \"@\", \"arguments\": ",
                 .after = "}",
                 .between = ", ",
                 .close = "]",
                 .trigger = "[TOOL_CALLS]"}},
    {.name = "command-r7b",
     .in_template = {"<|START_ACTION|>"},
     .body = CALL_LIST,
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .drop = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .special = "<|START_ACTION|> <|END_ACTION|> <|START_RESPONSE|> <|END_RESPONSE|> <|START_THINKING|> "
                "<|END_THINKING|> <|START_TEXT|> <|END_TEXT|>",
     .writing = {.open = "<|START_ACTION|>[\n    ",
                 .before = "{\"tool_call_id\": \"0\", \"tool_name\": \"@\", \"parameters\": ",
                 .after = "}",
                 .between = ",\n    ",
                 .close = "\n]<|END_ACTION|>",
                 .trigger = "<|START_ACTION|>"}},
    {.name = "command-r",
     .in_template = {"Action:", "```json"},
     .body = CALL_LIST,
     .open = "Action: ```json",
     .close = "```",
     .writing = {.open = "Action: ```json\n[\n    ",
                 .before = "{\"tool_name\": \"@\", \"parameters\": ",
                 .after = "}",
                 .between = ",\n    ",
                 .close = "\n]```",
                 .trigger = "Action: ```json"}},
    {.name = "granite",
     .in_template = {"<|tool_call|>"},
     .body = CALL_LIST,
     .open = "<|tool_call|>",
     .special = "<|tool_call|>",
     .writing = {.open = "<|tool_call|>[",
                 .before = "{\"name\": \"@\", \"arguments\": ",
                 .after = "}",
                 .between = ", ",
                 .close = "]",
                 .trigger = "<|tool_call|>"}},
    {.name = "llama3",
     .in_template = {"<|start_header_id|>", "\"parameters\": "},
     .body = CALL_OBJECT,
     .open = "<|python_tag|>",
     .bare = true,
     .special = "<|python_tag|>",
     .writing =
         {.before = "{\"name\": \"@\", \"parameters\": ", .after = "}", .between = "; ", .trigger = "{\"name\": \""}},
    {.name = "hermes",
     .in_template = {"<tool_call>"},
     .body = CALL_OBJECT,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .special = "<tool_call> </tool_call>",
     .writing = {.before = "<tool_call>\n{\"name\": \"@\", \"arguments\": ",
                 .after = "}\n</tool_call>",
                 .between = "\n",
                 .trigger = "<tool_call>"}},
    {NULL},
};

static const reasoning_marks reasonings[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<seed:think>", "</seed:think>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {NULL, NULL},
};

static bool has_part(span text, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, part, n) == 0) return true;
    return false;
}

const call_format *call_format_of_template(span template)
{
    for (const call_format *f = call_formats; f->name; f++)
        if (has_part(template, f->in_template[0]) && (!f->in_template[1] || has_part(template, f->in_template[1])))
            return f;
    return NULL;
}

const call_format *call_format_find(const char *name)
{
    for (const call_format *f = call_formats; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

const reasoning_marks *reasoning_of_template(span template)
{
    for (const reasoning_marks *m = reasonings; m->open; m++)
        if (has_part(template, m->close)) return m;
    return NULL;
}
