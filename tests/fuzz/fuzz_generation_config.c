/* fuzz_generation_config.c - generation_config.json of a model: what it sets is in the range of its option, and
 * forbidden sequences have the form of query.bad. */
#include "app/generation_config.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool kept)
{
    if (!kept) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json *file;
    sample_params sample = {0}, again;
    token_list bans = {0};
    log_set_level("error");
    if (json_parse(&file, span_of(data, n), "generation_config.json", &(err){0})) return 0;
    param_defaults(sample_param_rows, sample_param_count, &sample);
    generation_config_read(file, "generation_config.json", &sample, &bans);
    again = sample;
    for (int i = 0; i < sample_param_count; i++) {
        const param *p = &sample_param_rows[i];
        const char *at = (const char *)&sample + p->offset;
        if (p->type != PARAM_INT && p->type != PARAM_FLOAT) continue;
        const double v = p->type == PARAM_INT ? (double)*(const int64_t *)at : *(const double *)at;
        promise(param_set_number(p, &again, v, "again", &(err){0}) == OK);
    }
    size_t i = 0;
    for (; i < bans.n; i += 1 + (size_t)bans.id[i]) promise(bans.id[i] > 0);
    promise(i == bans.n);
    token_list_free(&bans);
    json_free(file);
    return 0;
}
