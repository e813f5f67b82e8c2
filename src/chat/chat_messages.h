/* chat_messages.h - conversations in the form that a template takes: parts joined, roles that it knows, arguments and
 * content of the type that it wants. What it would leave out goes where it does not. */
#pragma once
#include "base/err.h"
#include "base/json.h"

/* What a template can do. */
typedef struct chat_caps {
    bool system;            /* takes a system message */
    bool developer;         /* knows the role developer */
    bool tools;             /* shows `tools` */
    bool calls;             /* shows the calls of an assistant's message, */
    bool object_arguments;  /* ... whose arguments are to be objects, not text */
    bool null_content;      /* ... and whose content may be null, */
    bool only_null_content; /* ... or must be: beside any text no call is shown */
    bool results;           /* shows messages of the role tool */
    bool parts;             /* wants content as a list of parts */
    bool empty_tools;       /* without tools wants an empty list, not null */
    bool short_ids;         /* wants ids of calls of 9 letters and digits */
} chat_caps;

/* A new array with the messages as `caps` says; tools (NULL: none) are told in a system message where the template does
 * not show them. NULL: out of memory. */
json *chat_messages_put_right(const json *messages, const json *tools, const chat_caps *caps);
/* The same with all system messages as one at the front, for templates that want it there. */
json *chat_messages_system_first(const json *messages);
/* Adds a message to an array; NULL: out of memory. */
json *chat_message_add(json *list, const char *role, const char *content);
