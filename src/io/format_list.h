/* format_list.h - every checkpoint format, one line each: X(name) stands for `const ckpt_reader format_<name>` in fmt_<name>.c. */
#ifndef IO_FORMAT_LIST_H
#define IO_FORMAT_LIST_H

#define FORMAT_LIST(X)                                                                                                 \
    X(safetensors)                                                                                                     \
    X(gguf)                                                                                                            \
    X(pickle)                                                                                                          \
    X(llama2c)

#endif
