/* tk_unicode_table.h - where the libraries' tables are not those of utf8proc and PCRE2; a row of zeros ends each. */
#pragma once
#include <stdint.h>

typedef struct uc_range {
    uint32_t from, to;
} uc_range;
typedef struct uc_category_range {
    uint32_t from, to;
    const char *category; /* "Lo" */
} uc_category_range;
typedef struct uc_shift_range {
    uint32_t from, to;
    int32_t value;
} uc_shift_range;

extern const uc_category_range uc_newer[];
extern const uc_range uc_newer_han[], uc_newer_numeric[], uc_unnormalized[];
extern const uc_range uc_not_bert_punctuation[], uc_only_bert_punctuation[], uc_not_bert_nonspacing[],
    uc_only_bert_nonspacing[];
extern const uc_range uc_not_bert_control[], uc_not_mark[], uc_only_mark[];
extern const uc_shift_range uc_newer_lower[], uc_script[];
