/* format_list.h - checkpoint formats, one line each: X(name) is `const ckpt_reader format_<name>` of fmt_<name>.c. */
#pragma once
#define FORMAT_LIST(X)                                                                                                 \
    X(safetensors)                                                                                                     \
    X(gguf)                                                                                                            \
    X(pickle)                                                                                                          \
    X(llama2c)
