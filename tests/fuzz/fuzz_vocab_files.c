/* fuzz_vocab_files.c - vocabularies in bare files. The first byte chooses the kind; 0xff ends the first of two. */
#include "fuzz_tokenizer.h"

#include "text/load_llama2c.h"
#include "text/load_spm_folder.h"
#include "text/load_tiktoken.h"
#include "text/load_vocab_files.h"

enum { KINDS = 7 };

static int load(tokenizer *t, int kind, span a, span b, err *e)
{
    tokenizer_config side = {0};
    json *root = NULL;
    int rc = OK;
    switch (kind % KINDS) {
    case 0: tiktoken_probe(a); return load_tiktoken(t, a, "fuzz", "cl100k", e);
    case 1: llama2c_probe(a); return load_llama2c(t, a, "fuzz", e);
    case 2:
        vocab_txt_probe(a);
        (void)json_parse(&side.config, b, "config", NULL);
        rc = load_vocab_txt(t, a, "fuzz", &side, e);
        break;
    case 5: /* the class first, then the model */
        (void)json_parse(&side.config, a, "config", NULL);
        rc = load_spm_model(t, b, "fuzz", &side, e);
        break;
    default: /* 3: merges; 4: Marian; 6: M2M100 */
        if (kind % KINDS == 6)
            (void)json_parse(&side.config, span_str("{\"tokenizer_class\":\"M2M100Tokenizer\"}"), "config", NULL);
        rc = json_parse(&root, a, "fuzz", e);
        if (!rc)
            rc = kind % KINDS == 3 ? load_byte_bpe(t, root, b, "fuzz", NULL, &side, e)
                                   : load_numbered_spm(t, root, b, "fuzz", &side, e);
        json_free(root);
    }
    json_free(side.config);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    const uint8_t *end = memchr(data + 1, 0xff, n - 1);
    size_t first = end ? (size_t)(end - data - 1) : n - 1;
    span a = span_of(data + 1, data[0] % KINDS < 2 ? n - 1 : first),
         b = end ? span_of(end + 1, n - first - 2) : span_of(data, 0);
    err e = {0};
    tokenizer *t = tokenizer_new();
    use_tokenizer(t, load(t, data[0], a, b, &e), &e);
    tokenizer_close(t);
    return 0;
}
