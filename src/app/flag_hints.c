/* flag_hints.c - see flag_hints.h. The flags are those of llama.cpp, by its `--help`, and of vLLM. */
#include "app/flag_hints.h"

#include "base/param.h"

#include <stddef.h>
#include <string.h>

static const char
    gpus[] = "GPUs are named by --devices: cuda:0, or 'cuda:0;cpu' with layers on both",
    converses[] = "run converses on a terminal where the model has a chat template; --chat on or off decides",
    always[] = "there is nothing to switch; leave it out",
    hub[] = "`inferflow pull ORG/NAME[:TYPE]` downloads a model for --model ORG/NAME[:TYPE]; HF_TOKEN is used";

static const flag_hint hints[] = {
    {"-ngld|-mg|--main-gpu|-sm|--split-mode|-ts|--tensor-split", NULL, gpus},
    {"--n-gpu-layers", "gpu-layers", NULL},
    {"--gpu-memory-utilization", NULL, gpus},
    {"--tensor-parallel-size|-tp", NULL, "--devices 'cpu:1&cpu:1' divides every layer over two devices"},
    {"--pipeline-parallel-size|-pp", NULL, "--devices 'cpu:1;cpu:1' gives each of two devices some of the layers"},
    {"--data-parallel-size|-dp", NULL, "one server runs all requests in common steps; start several for more"},
    {"--lora|--lora-scaled|--lora-base|--enable-lora|--lora-modules|--adapter", NULL,
     "adapters are not read: merge them into the weights first"},
    {"--mmproj|--image|--audio", NULL, "models of text alone run here"},
    {"--enable-prefix-caching|--enable-chunked-prefill", NULL, always},
    {"--speculative-config|--speculative-model|-md|--model-draft", "draft", NULL},
    {"-mu|--model-url", NULL, hub},
    {"--swap-space|--cpu-offload-gb|--enforce-eager|--trust-remote-code", NULL, always},
    {"-cnv|--conversation|-no-cnv|--no-conversation|-i|--interactive|-if|--interactive-first", NULL, converses},
    {"-sys|--system-prompt", "system", NULL},
    {"--jinja|-fa|--flash-attn|--mmap|--no-mmap|--mlock|-cb|--cont-batching|--no-warmup", NULL, always},
    {"-hf|-hfr|--hf-repo|--hf-file|--hf-token|--download-dir", NULL, hub},
    {"-r|--reverse-prompt", "stop", NULL},
    {"-s", "seed", NULL},
    {"--n-predict|--predict|--max-new-tokens", "max-tokens", NULL},
    {"--ctx-size|--max-model-len", "ctx", NULL},
    {"-b|-ub|--batch-size|--ubatch-size|--max-num-batched-tokens", "chunk", NULL},
    {"-np|--parallel|--max-num-seqs", "max-batch", NULL},
    {"-ctk|-ctv|--cache-type-k|--cache-type-v|--kv-cache-dtype", "kv", NULL},
    {"-tb|--threads-batch", "threads", NULL},
    {"-dev|--device", "devices", NULL},
    {"--dtype", "weights", NULL},
    {"--served-model-name", "alias", NULL},
    {"--api-key", "api-key-file", NULL},
    {"--ssl-cert-file|--ssl-certfile", "tls-cert", NULL},
    {"--ssl-key-file|--ssl-keyfile", "tls-key", NULL},
};

const flag_hint *flag_hint_find(const char *flag)
{
    const span name = span_of(flag, strcspn(flag, "="));
    for (size_t i = 0; name.n && i < sizeof hints / sizeof *hints; i++)
        if (param_words_have(hints[i].flags, name)) return &hints[i];
    return NULL;
}
