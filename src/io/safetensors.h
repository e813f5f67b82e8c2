/* safetensors.h - the element types of safetensors files, for reader and writer. */
#pragma once
/* X(name in the file, dtype) */
#define SAFETENSORS_TYPES(X)                                                                                           \
    X("F64", F64)                                                                                                      \
    X("F32", F32)                                                                                                      \
    X("F16", F16)                                                                                                      \
    X("BF16", BF16)                                                                                                    \
    X("F8_E4M3", F8_E4M3)                                                                                              \
    X("F8_E5M2", F8_E5M2)                                                                                              \
    X("I64", I64)                                                                                                      \
    X("I32", I32)                                                                                                      \
    X("I16", I16)                                                                                                      \
    X("I8", I8)                                                                                                        \
    X("U64", U64)                                                                                                      \
    X("U32", U32)                                                                                                      \
    X("U16", U16)                                                                                                      \
    X("U8", U8)                                                                                                        \
    X("BOOL", BOOL)
