/* t_app_executable.c - the executable from outside: run and its outputs on the reference model; a terminal, serve and
 * its signals on the built-in one. */
#define _GNU_SOURCE
#include "tests/command.h"

#include "base/clock.h"
#include "base/json.h"
#include "core/arithmetic.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* " --model … --tokenizer …" of the reference model, or NULL: skip. */
static const char *model_flags(void)
{
    static char flags[3000];
    const char *model = shared_path("models/stories260K/stories260K.bin"),
               *tok = shared_path("models/stories260K/tok512.bin");
    if (!model || !tok) {
        skip_msg("the shared test data is absent");
        return NULL;
    }
    snprintf(flags, sizeof flags, " --model %s --tokenizer %s ", model, tok);
    return flags;
}

static buf out, errors;

/* Runs "inferflow …" in a shell; its exit status. */
__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
    char args[8192];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    return command_run(NULL, args, &out, &errors);
}

static bool says(const buf *b, const char *part)
{
    return memmem(b->p ? b->p : (uint8_t *)"", b->n, part, strlen(part)) != NULL;
}

static void run_prints_the_reference_tokens(void **state)
{
    (void)state;
    const char *m = model_flags();
    if (!m) return;
    buf expected = {0};
    err e = {0};
    assert_ok(file_read(&expected, shared_path("models/stories260K/expected_greedy_200.txt"), 1 << 20, &e), &e);
    assert_int_equal(run("run %s -p '' -n 200 --temp 0", m), 0);
    assert_int_equal(out.n, expected.n);
    assert_memory_equal(out.p, expected.p, out.n);
    buf_free(&expected);
    assert_int_equal(run("run %s -p 'Once upon a time' -n 8 --temp 0 --echo", m), 0);
    assert_string_equal(buf_cstr(&out), "Once upon a time, there was a little girl");
    assert_int_equal(run("run %s -p 'Once upon a time' -n 8 --temp 0 --echo --stop ' a l'", m), 0);
    assert_string_equal(buf_cstr(&out), "Once upon a time, there was"); /* the prompt is not searched */
    assert_int_equal(run("run %s -p 'Once upon a time' -n 8 --temp 0 --stop 'girls'", m), 0);
    assert_string_equal(buf_cstr(&out), ", there was a little girl");
    assert_int_equal(run("run %s --ids 1,403 -n 4 --temp 0 --output ids", m), 0);
    assert_string_equal(buf_cstr(&out), "[407,261,378,432]\n");
    assert_int_equal(run("run --model %s --ids '[1, 403]' -n 4 --temp 0 --output ids", /* no tokenizer is needed */
                         shared_path("models/stories260K/stories260K.bin")),
                     0);
    assert_string_equal(buf_cstr(&out), "[407,261,378,432]\n");
    assert_int_equal(run("run --model %s --ids 1,403 -n 4", shared_path("models/stories260K/stories260K.bin")), 2);
    assert_int_equal(run("run %s --ids 1,403 -n 0 --output ids", m), 0);
    assert_string_equal(buf_cstr(&out), "[]\n");
    assert_int_equal(run("run %s -p Once -n 5 --temp 0 --output json", m), 0);
    json *j;
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    assert_int_equal(json_count(json_get(j, "ids")), 5);
    assert_string_equal(json_str(json_get(j, "text"), ""), " upon a time, there");
    assert_string_equal(json_str(json_get(j, "finish_reason"), ""), "length");
    json_free(j);
    buf first = {0};
    assert_int_equal(run("run %s -p Once -n 30 --seed 5", m), 0);
    buf_add(&first, out.p, out.n);
    assert_int_equal(run("run %s -p Once -n 30 --seed 5 --threads 1 --chunk 1", m), 0);
    assert_true(span_eq(buf_span(&first), buf_span(&out))); /* same seed, same text */
    assert_int_equal(run("run %s -p Once -n 30 --seed 6", m), 0);
    assert_false(span_eq(buf_span(&first), buf_span(&out)));
    buf_free(&first);
}

static void failures_say_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(run("run --model /nonexistent/model -p x"), 1);
    assert_memory_equal(errors.p, "inferflow: error: ", 18);
    assert_true(says(&errors, "/nonexistent/model"));
    assert_int_equal(memchr(errors.p, '\n', errors.n) == errors.p + errors.n - 1, 1); /* one line */
    assert_int_equal(out.n, 0);
    assert_int_equal(run("run -p a --ids 1"), 2);
    assert_int_equal(run("run --temp x"), 2);
    assert_int_equal(run("serve --port 99999"), 2);
    assert_int_equal(run("serve --model /nonexistent/model --port 0"), 1);
    assert_true(says(&errors, "inferflow: error: /nonexistent/model"));
    assert_int_equal(run("run --ids 1,5000 --output ids"), 2);
    assert_true(says(&errors, "5000"));
    assert_int_equal(run("run --ids @/nonexistent"), 1);
    assert_int_equal(run("serve --port 0 --api-key-file /nonexistent"), 1);
    assert_int_equal(run("serve --port 0 --tls-cert /nonexistent"), 2);
    assert_int_equal(run("serve --port 0 --host nonsense.invalid"), 2);
}

/* A context that cannot fit is refused at once, with its bytes. */
static void a_context_has_to_fit(void **state)
{
    (void)state;
    double began = clock_now();
    assert_int_equal(run("run -c 16000000 -p a -n 1"), 1);
    assert_true(clock_now() - began < 2 * test_slowness());
    assert_true(says(&errors, "--ctx 16000000: a cache for that many tokens takes "));
    assert_true(says(&errors, " bytes, of which "));
}

static void flags_without_effect_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"eval logits --ids 1 --layer 1 -o x.npy", "--layer means nothing to eval logits"},
        {"eval hidden --ids 1 --stride 1 -o x.npy", "--stride means nothing to eval hidden"},
        {"eval perplexity --ids 1 -o x.npy", "-o means nothing to eval perplexity"},
        {"run --exact maybe -p a", "--exact: 'maybe' is not one of on|off"},
        {"run --kv q5 -p a", "--kv: 'q5' is not one of f32|f16|i16|q8|q4"},
        {"serve --port 0 --cors-origin foo", "--cors-origin foo: an origin is http://HOST"},
        {"serve --port 0 --cors-origin 'https://a.example, http://b/'", "--cors-origin http://b/: an origin is"},
        {"run --pre llama3 -p a -n 1", "--pre llama3: builtin says itself how it splits a text"},
        {"run --tokenizer tests/vectors/tokenizers/random0.json --pre llama3 -p a -n 1", "--pre llama3: tests/vectors"},
        {"tokenize --pre llama3 -p a", "--pre llama3: builtin says"},
        {"tokenize --devices nonsense -p a", "unknown flag --devices"},
        {"tokenize --language fr -p a", "--language fr: this tokenizer has no token for it"},
        {"tokenize --max-ids 1 --tokenizer tests/vectors/tokenizers/vocab.txt -p a",
         "special tokens around the text alone are 2"},
        {"tokenize --pair b --jsonl", "--jsonl takes pairs as lines"},
        {"detokenize --threads 2 --ids 1", "unknown flag --threads"},
        {"export --devices nonsense -o x", "unknown flag --devices"},
        {"spec show --chunk 7", "unknown flag --chunk"},
        {"bench read -p 4", "--prompt means nothing to bench read"},
        {"bench read --model x", "--model means nothing to bench read"},
        {"bench --codec int4", "--codec means nothing to bench without \"allreduce\""},
        {"bench allreduce -p 4", "--prompt means nothing to bench allreduce"},
        {"bench allreduce", "--devices auto: bench allreduce takes one group of several devices"},
        {"bench allreduce --devices 'cpu;cpu'", "--devices cpu;cpu: bench allreduce takes one group"},
        {"bench allreduce --devices 'cpu&cpu' --codec int5", "--codec int5: there are f32, f16, int8"},
        {"bench allreduce --devices 'cpu&cpu' --algorithm tree", "--algorithm tree: there are ring"},
        {"bench allreduce --devices 'cpu&cpu' --bytes 1M,1", "--bytes 1: expected 2 to 4G"},
        {"run --in-flight 0", "--in-flight: 0 is out of range: 1 to 64"},
        {"serve --step-sequences 0", "--step-sequences: 0 is out of range: 1 to 4096"},
        {"run --chunk 0", "--chunk: 0 is out of range: 1 to 65536"},
        {"run --threads 0", "--threads: 0 is out of range: 1 to 1024"},
        {"serve --max-batch 0", "--max-batch: 0 is out of range: 1 to 4096"},
        {"bench allreduce --devices 'cpu&cpu' --bytes 99999999999999999999", "--bytes 99999999999999999999: expected"},
        {"bench allreduce --devices 'cpu&cpu' --bytes 5G", "--bytes 5G: expected"},
        {"bench allreduce --devices 'cpu&cpu' --bytes 1M,", "--bytes : expected"},
        {"bench allreduce --devices 'cpu&cpu' --codec-group 16", "--codec-group"},
        {"export -o x.bin", "-o x.bin: a file is written for the ending .gguf only"},
        {"export -o x.safetensors", "-o x.safetensors: a file is written for the ending .gguf only"},
        {"detokenize <README.md", "standard input: \"# inferflow"},
        {"serve --port 0 --alias ''", "--alias: the name is empty"},
        {"run -ngld 99 -p a",
         "unknown flag -ngld (GPUs are named by --devices: cuda:0, or 'cuda:0;cpu' with layers on both)"},
        {"serve --n-gpu-layers 99", "unknown flag --n-gpu-layers; did you mean --gpu-layers?"},
        {"run -cnv", "unknown flag -cnv (run converses on a terminal"},
        {"run -i", "unknown flag -i (run converses on a terminal"},
        {"run -sys cat", "unknown flag -sys; did you mean --system?"},
        {"run -fa -p a", "unknown flag -fa (there is nothing to switch"},
        {"run -s 1", "unknown flag -s; did you mean --seed?"},
        {"run --reverse-prompt x", "unknown flag --reverse-prompt; did you mean --stop?"},
        {"run --n-predict 5", "unknown flag --n-predict; did you mean --max-tokens?"},
        {"run --ctx-size=5", "unknown flag --ctx-size; did you mean --ctx?"},
        {"serve -np 4", "unknown flag -np; did you mean --max-batch?"},
        {"run -nonsense", "unknown flag -nonsense"},
        {"run -n5x", "-n: '5x' is not a whole number"},
        {"run --slotz 5", "unknown flag --slotz; did you mean --slots?"},
        {"plan --dump --json", "give one of --dump and --json"},
        {"info --threads 2", "--threads means nothing to info without --hash"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(run("%s", bad[i][0]), 2);
        if (!says(&errors, bad[i][1])) fail_msg("'%s' says: %.*s", bad[i][0], (int)errors.n, (char *)errors.p);
    }
}

/* What downloads leave on a disk: pointers of Git LFS in place of files, and the cache of the hub. */
static void downloads_are_recognised(void **state)
{
    (void)state;
    static const char *const bad[] = {"$P run -p a --model lfs", "$P run -p a --model lfs/model.safetensors",
                                      "$P run -p a --model model.gguf", "$P tokenize -p a --model tok",
                                      "$P tokenize -p a --tokenizer model.gguf"};
    static const char eval[] = "$P eval logits --ids 1,2 --model";
    char dir[256], line[600];
    snprintf(dir, sizeof dir, "%s", temp_path("cli-download"));
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(
        command_shell(dir,
                      "cp -r $V/models/llama tok && cp -r $V/models/llama lfs && "
                      "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 9\\n' "
                      ">model.gguf && cp model.gguf lfs/model.safetensors && cp model.gguf tok/tokenizer.json",
                      &errors),
        0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(command_shell(dir, bad[i], &errors), 1);
        if (!says(&errors, ": a Git LFS pointer, not the file itself")) fail_msg("%s: %s", bad[i], buf_cstr(&errors));
    }
    snprintf(line, sizeof line,
             "H=models--a--b; S=$H/snapshots; mkdir -p $H/refs $H/blobs $S/ff && cp -r $V/models/llama $S/0123 && "
             "printf 0123 >$H/refs/main && %s $H -o a.npy && %s $V/models/llama -o b.npy && cmp a.npy b.npy && "
             "rm a.npy $H/refs/main && touch -d 2001-01-01 $S/ff && %s $H/ -o a.npy && cmp a.npy b.npy && "
             "{ %s $H -o $S/0123/config.json; test $? = 2; }",
             eval, eval, eval, eval);
    assert_int_equal(command_shell(dir, line, &errors), 0);
    assert_int_equal(command_shell(dir, "rm -r $PWD", &errors), 0);
}

static json *printed(void)
{
    json *j = NULL;
    err e = {0};
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    return j;
}

static void numbers_come_as_json(void **state)
{
    (void)state;
    assert_int_equal(run("run --json -p Once -n 3"), 0);
    json *j = printed();
    assert_int_equal(json_count(json_get(j, "ids")), 3);
    json_free(j);
    assert_int_equal(run("plan --json --devices 'cpu:1;cpu:1'"), 0);
    j = printed();
    const json *ranks = json_get(j, "ranks"), *last = json_at(ranks, 1);
    assert_int_equal(json_count(ranks), 2);
    assert_int_equal(json_int(json_at(json_get(last, "layers"), 0), -1), 3);
    assert_int_equal(json_int(json_at(json_get(last, "layers"), 1), -1), 6);
    assert_true(json_int(json_get(last, "weight_bytes"), 0) > 1000);
    assert_string_equal(json_str(json_get(json_at(json_get(j, "edges"), 0), "kind"), ""), "move");
    assert_true(json_num(json_path(j, "predicted.decode_tokens_per_s"), 0) > 0);
    assert_true(json_num(json_path(j, "predicted.ttft_s"), 0) > 0 &&
                json_int(json_path(j, "predicted.prompt"), 0) == 512);
    assert_true(json_num(json_get(last, "tokens_per_s"), 0) > 0 && json_count(json_get(j, "links")) == 0);
    json_free(j);
}

/* `info --model`: what spec derive's message promises. */
static void info_lists_a_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(run("info --model tests/vectors/models/llama"), 0);
    assert_true(says(&out, "config model_type          llama\n"));
    assert_int_equal(strncmp(buf_cstr(&out), "model                      LlamaForCausalLM, 2 layers, ", 52), 0);
    assert_true(says(&out, " MiB: f16 "));
    assert_true(says(&out, " tokens, of a vocabulary of "));
    assert_true(says(&out, "model.layers.0.self_attn.q_proj.weight                   f16 "));
    assert_true(says(&out, " tensors, "));
    assert_int_equal(run("info --model tests/vectors/models/llama --json"), 0);
    json *j = printed();
    const json *t = json_first(json_path(j, "model.tensors"));
    assert_true(json_str(json_get(t, "name"), NULL) && json_str(json_get(t, "type"), NULL));
    assert_int_equal(json_int(json_get(t, "bytes"), 0),
                     2 * json_int(json_at(json_get(t, "shape"), 0), 0) * json_int(json_at(json_get(t, "shape"), 1), 1));
    assert_true(json_int(json_path(j, "memory.available_bytes"), 0) > 0);
    json_free(j);
    assert_int_equal(run("info --json --model builtin"), 0);
    j = printed();
    assert_string_equal(json_str(json_get(json_path(j, "model.metadata"), "general.architecture"), ""), "llama");
    assert_int_equal(json_int(json_get(j, "arithmetic"), 0), ARITHMETIC);
    assert_null(json_path(j, "model.identity"));
    json_free(j);
}

/* `info --hash`: the identity that `plan --dump` begins with; digests; a model that no spec fits. */
static void info_hashes_a_model(void **state)
{
    (void)state;
    char dir[256], identity[80], line[200];
    snprintf(dir, sizeof dir, "%s", temp_path("cli-hash"));
    assert_int_equal(mkdir(dir, 0700), 0);
    setenv("XDG_CACHE_HOME", dir, 1);
    assert_int_equal(run("info --hash --threads 2 --json"), 0);
    json *j = printed();
    snprintf(identity, sizeof identity, "%s", json_str(json_path(j, "model.identity"), ""));
    const char *held = json_str(json_path(j, "model.contents"), "");
    assert_int_equal(strlen(identity), 64);
    assert_int_equal(strlen(held), 64);
    for (const json *t = json_first(json_path(j, "model.tensors")); t; t = json_next(t))
        assert_int_equal(strlen(json_str(json_get(t, "sha256"), "")), 64);
    assert_int_equal(run("plan --dump"), 0);
    snprintf(line, sizeof line, "program %.16s: ", identity);
    assert_true(says(&out, line));
    assert_int_equal(run("info --hash"), 0);
    snprintf(line, sizeof line, "\nidentity                   %s\ncontents                   %s\n", identity, held);
    assert_true(says(&out, line));
    json_free(j);
    assert_int_equal(command_shell(dir,
                                   "cp -r $V/models/llama ours && sed -i 's/LlamaFor/OursFor/; s/\"llama\"/\"ours\"/' "
                                   "ours/config.json && $P info --hash --model ours >said && rm -r ours && "
                                   "grep -q '^identity                   none$' said && "
                                   "grep -q '^contents  .*[0-9a-f]$' said && "
                                   "grep -q '^lm_head.weight .* bytes sha256 [0-9a-f]*$' said",
                                   &errors),
                     0);
    assert_true(says(&errors, "no identity: "));
    assert_int_equal(run("info --hash --spec /nonexistent.ini"), 1);
    assert_int_equal(command_shell(dir,
                                   "$P info --hash --model $V/models/llama >a && ls inferflow/*.sums >b && "
                                   "$P info --hash --model $V/models/llama | cmp - a",
                                   &errors),
                     0);
    assert_int_equal(command_shell(dir, "rm -r $PWD", &errors), 0);
    unsetenv("XDG_CACHE_HOME");
}

/* Where no container has a word for an architecture, none is recommended; and what is missing is named. */
static void advice_helps(void **state)
{
    (void)state;
    const char *model = shared_path("models/stories260K/stories260K.bin");
    if (!model) skip_msg("the shared test data is absent");
    if (model) assert_int_equal(run("run -m %s -p a", model), 2);
    if (model) assert_true(says(&errors, "give --tokenizer PATH (beside it lies tok512."));
    static const char *const lines[][2] = {
        {"$P run --ids 1 --output ids --model ours", "`inferflow spec derive --model PATH` starts one"},
        {"$P export --model ours --spec ours.ini -o folder", "(`inferflow quantize`)"},
        {"$P export --model ours --spec ours.ini -o out.gguf", "(`inferflow quantize`)"},
        {"$P run -p a nosuch", "nosuch: no such folder or file"},
        {"$P fill-mask -p '[MASK]'", "it takes a masked language model, such as BERT"},
        {"$P serve --port 0 --spec $PWD/serve.ini", "/serve.keys: No such file"}, /* paths start from the spec */
    };
    char dir[256];
    snprintf(dir, sizeof dir, "%s", temp_path("cli-advice"));
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(command_shell(dir,
                                   "$P spec show --model $V/models/llama | grep -v '^arch' >ours.ini && "
                                   "cp -r $V/models/llama ours && sed -i 's/LlamaFor/OursFor/; s/\"llama\"/\"ours\"/' "
                                   "ours/config.json && printf '[serve]\\napi_key_file = serve.keys\\n' >>serve.ini",
                                   &errors),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_in_range(command_shell(dir, lines[i][0], &errors), 1, 2);
        if (!says(&errors, lines[i][1]) || says(&errors, "instead")) fail_msg("%s: %s", lines[i][0], buf_cstr(&errors));
    }
    assert_int_equal(command_shell(dir, "rm -r $PWD", &errors), 0);
}

static bool holds(const buf *file, const char *text) { return memmem(file->p, file->n, text, strlen(text)) != NULL; }

/* What llama.cpp insists on: a file without a tokenizer says so, and a rope that nothing scales is "none". */
static void gguf_for_other_readers(void **state)
{
    (void)state;
    char path[512];
    buf file = {0};
    err e = {0};
    snprintf(path, sizeof path, "%s.gguf", temp_path("cli-export"));
    assert_int_equal(run("export --model tests/vectors/models/llama -o %s", path), 0);
    assert_ok(file_read(&file, path, 1 << 20, &e), &e);
    assert_true(holds(&file, "tokenizer.ggml.model\x08"));
    assert_false(holds(&file, "default"));
    buf_free(&file);
    unlink(path);
}

/* Where a command runs must not matter: neither a FIFO in place of a model nor a file named like a built-in spec. */
static void surroundings_do_not_matter(void **state)
{
    (void)state;
    char program[4096], dir[512];
    if (!realpath(command_binary(), program)) fail_msg("no %s", command_binary());
    snprintf(dir, sizeof dir, "%s", temp_path("cli-folder"));
    assert_int_equal(mkdir(dir, 0700), 0);
    char line[12000];
    snprintf(line, sizeof line, "cd %s && mkfifo pipe && ! timeout 100 %s run --model pipe -p a 2>errors", dir,
             program);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "grep -q 'pipe: not a regular file' %s/errors", dir);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "cd %s && mkdir llama && %s spec show | grep -q '^arch = .*llama'", dir, program);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "cd %s && %s eval logits --ids 1,2 -o o.npy --json | grep -q '\"tokens\":2,\"width\"'",
             dir, program);
    assert_int_equal(system(line), 0);
    /* devices, pipes and links are written to, not replaced */
    snprintf(line, sizeof line,
             "cd %s && ln -s o.npy link && %s eval logits --ids 1 -o link && test -L link && cmp -s link o.npy && "
             "(timeout 100 cat pipe >copy & timeout 100 %s eval logits --ids 1 -o pipe && wait) && test -p pipe && cmp "
             "copy o.npy",
             dir, program, program);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "cd %s && rm -r pipe llama errors o.npy link copy && rmdir %s", dir, dir);
    assert_int_equal(system(line), 0);
}

/* Starts a child with its standard streams at `fd`; its process id. */
static pid_t start(int fd, bool terminal, const char *args)
{
    char line[4096];
    snprintf(line, sizeof line, "exec %s %s", command_binary(), args);
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no server behind */
    setsid();
    if (terminal) ioctl(fd, TIOCSCTTY, 0);
    if (terminal) dup2(fd, 0);
    dup2(fd, 1);
    if (terminal) dup2(fd, 2);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
}

/* What has to come, comes; only a test that fails waits this long. */
static const double PATIENCE = 100;

/* Reads until `until` was seen; `out` holds it all. */
static bool read_within(int fd, const char *until, double seconds)
{
    out.n = 0;
    for (double end = clock_now() + seconds; clock_now() < end;) {
        struct pollfd p = {fd, POLLIN, 0};
        char part[4096];
        if (poll(&p, 1, 50) <= 0) continue;
        ssize_t n = read(fd, part, sizeof part);
        if (n <= 0) return false;
        buf_add(&out, part, (size_t)n);
        if (says(&out, until)) return true;
    }
    return false;
}

static bool read_until(int fd, const char *until) { return read_within(fd, until, PATIENCE); }

/* Exit status of a child that should end within `seconds` on a machine of its own; -1: it did not. */
static int wait_exit(pid_t pid, double seconds)
{
    int rc = 0;
    double began = clock_now(), slowness = test_slowness();
    bool ended = false;
    while (!(ended = waitpid(pid, &rc, WNOHANG) == pid) && clock_now() < began + PATIENCE) usleep(2000);
    double took = clock_now() - began, now = test_slowness();
    if (now > slowness) slowness = now;
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &rc, 0);
    }
    if (took < seconds * slowness) return WIFEXITED(rc) ? WEXITSTATUS(rc) : -2;
    printf("the end took %.1f s, %.1f s are allowed on a machine %.1f times slower\n", took, seconds, slowness);
    return -1;
}

static void put(int fd, const char *s)
{
    ssize_t n = write(fd, s, strlen(s));
    assert_int_equal(n, strlen(s));
}

static void run_on_a_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) {
        skip_msg("no pseudo-terminals here");
        return;
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    pid_t pid = start(slave, true, "run -n -1 --ignore-eos");
    close(slave);
    assert_true(read_until(master, "> "));
    for (int i = 0; i < 2; i++) {
        put(master, "It was\n");
        assert_true(read_until(master, "It was\r\n"));
        assert_true(read_until(master, " ")); /* words come */
        usleep(100000);
        put(master, "\003"); /* Ctrl-C ends the continuation, not the program */
        assert_true(read_until(master, "> "));
    }
#ifdef HAVE_EDIT
    usleep(200000);
    put(master, "nonsense\003"); /* a line that is dropped */
    assert_true(read_until(master, "^C"));
    put(master, "\n");
    assert_true(read_until(master, "> "));
#endif
    int status = -1; /* Ctrl-D ends the program; one that comes while the terminal changes its mode is an odd letter */
    for (double end = clock_now() + PATIENCE; clock_now() < end && waitpid(pid, &status, WNOHANG) != pid; status = -1) {
        read_within(master, "nothing", 0.1);
        if (write(master, "\004", 1) == 1 && !read_within(master, "nothing", 0.3) && write(master, "\n", 1) < 0) break;
    }
    if (status == -1) status = wait_exit(pid, 1);
    assert_int_equal(status, 0);
    close(master);
}

typedef struct child {
    pid_t pid;
    int fd, port;
} child;

static child serve(const char *flags)
{
    char args[3500];
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    snprintf(args, sizeof args, "serve --port 0 --log-level error %s", flags);
    child c = {start(pipes[1], false, args), pipes[0], 0};
    close(pipes[1]);
    assert_true(read_until(c.fd, "\n"));
    const char *at = strstr(buf_cstr(&out), "http://127.0.0.1:");
    assert_non_null(at);
    c.port = atoi(at + 17);
    assert_true(c.port > 0);
    return c;
}

/* A connection to the server; -1 when it takes none. */
static int connect_to(const child *c)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)c->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static int ask(const child *c, const char *method, const char *path, const char *body)
{
    int fd = connect_to(c);
    if (fd < 0) return -1;
    char text[4096];
    snprintf(text, sizeof text,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", method, path,
             strlen(body), body);
    put(fd, text);
    return fd;
}

static bool wait_ready(const child *c)
{
    for (double end = clock_now() + PATIENCE; clock_now() < end; usleep(10000)) {
        int fd = ask(c, "GET", "/health", "");
        bool ready = fd >= 0 && read_until(fd, "{\"status\":\"ok\"}");
        if (fd >= 0) close(fd);
        if (ready) return true;
    }
    return false;
}

/* Until the server takes no connections. */
static void wait_refusal(const child *c)
{
    int fd;
    for (double end = clock_now() + PATIENCE; clock_now() < end && (fd = connect_to(c)) >= 0; usleep(1000)) close(fd);
}

static void serve_answers_and_ends(void **state)
{
    (void)state;
    child c = serve("");
    assert_true(wait_ready(&c));
    char same[512];
    assert_int_equal(run("run -p 'Once upon a time' -n 8 --temp 0"), 0); /* both doors lead to the same text */
    snprintf(same, sizeof same, "\"text\":\"%.*s\"", (int)out.n, out.p);
    int fd = ask(&c, "POST", "/v1/completions", "{\"prompt\":\"Once upon a time\",\"max_tokens\":8,\"temperature\":0}");
    assert_true(read_until(fd, same));
    close(fd);
    /* many at once give what one alone gives */
    enum { MANY = 12 };
    char alone[4096];
    int fds[MANY];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < (round ? MANY : 1); i++) {
            if (round == 0) {
                fd = ask(&c, "POST", "/v1/completions",
                         "{\"prompt\":\"One day\",\"max_tokens\":20,\"seed\":9,\"logprobs\":1}");
                assert_true(read_until(fd, "cached_tokens"));
                const char *at = strstr(buf_cstr(&out), "\"choices\"");
                snprintf(alone, sizeof alone, "%.*s", (int)strcspn(at, "]"), at);
                close(fd);
            } else {
                fds[i] = ask(&c, "POST", "/v1/completions",
                             "{\"prompt\":\"One day\",\"max_tokens\":20,\"seed\":9,\"logprobs\":1}");
            }
        }
    for (int i = 0; i < MANY; i++) {
        assert_true(read_until(fds[i], "cached_tokens"));
        assert_non_null(strstr(buf_cstr(&out), alone));
        close(fds[i]);
    }
    kill(c.pid, SIGTERM);
    assert_int_equal(wait_exit(c.pid, 2), 0);
    close(c.fd);
}

/* A folder of pages: after a restart, or a kill, the prompt is there, and the text is the same. */
static void pages_outlive_a_restart(void **state)
{
    (void)state;
    enum { PROMPT = 1000, WHOLE = (PROMPT - 1) / 64 };
    char flags[400], look[400], body[2 * PROMPT + 100], first[2000] = "";
    const char *dir = temp_path("pages");
    int n = snprintf(body, sizeof body, "{\"max_tokens\":20,\"seed\":4,\"prompt\":[");
    for (int i = 0; i < PROMPT; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "%s%d", i ? "," : "", 3 + i * i % 7);
    snprintf(body + n, sizeof body - (size_t)n, "]}");
    snprintf(flags, sizeof flags, "--cache-dir %s --cache-bytes 64M", dir);
    snprintf(look, sizeof look, "test $(ls %s/*.page 2>/dev/null | wc -l) -ge %d", dir, WHOLE);
    for (int turn = 0; turn < 3; turn++) {
        child c = serve(flags);
        assert_true(wait_ready(&c));
        int fd = ask(&c, "POST", "/v1/completions", body);
        assert_true(read_until(fd, "}}}"));
        const char *at = strstr(buf_cstr(&out), "\"choices\""), *cached = strstr(at, "cached_tokens\":");
        const int found = atoi(cached + strlen("cached_tokens\":"));
        close(fd);
        if (!turn) snprintf(first, sizeof first, "%.*s", (int)strcspn(at, "]"), at);
        assert_int_equal(strncmp(at, first, strlen(first)), 0);
        assert_int_equal(found, turn ? WHOLE * 64 : 0);
        bool written = false; /* while the server is idle */
        for (double end = clock_now() + PATIENCE; !written && clock_now() < end; usleep(9000)) written = !system(look);
        assert_true(written);
        kill(c.pid, turn ? SIGTERM : SIGKILL);
        assert_int_equal(wait_exit(c.pid, 2), turn ? 0 : -2);
        close(c.fd);
    }
    snprintf(flags, sizeof flags, "rm -r %s", dir);
    assert_int_equal(system(flags), 0);
}

/* The status of GET /v1/models with a key. */
static int status_with(const child *c, const char *key)
{
    char head[200];
    int fd = connect_to(c), status = 0;
    snprintf(head, sizeof head, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", key);
    put(fd, head);
    if (read_until(fd, "\r\n\r\n")) status = atoi(buf_cstr(&out) + strlen("HTTP/1.1 "));
    close(fd);
    return status;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void hang_up_reads_keys_again(void **state)
{
    (void)state;
    char flags[400];
    const char *path = temp_path("keys");
    write_text(path, "first\n");
    snprintf(flags, sizeof flags, "--api-key-file %s", path);
    child c = serve(flags);
    assert_true(wait_ready(&c));
    assert_int_equal(status_with(&c, "first"), 200);
    assert_int_equal(status_with(&c, "second"), 401);
    write_text(path, "second\n");
    assert_int_equal(status_with(&c, "second"), 401);
    kill(c.pid, SIGHUP);
    for (double end = clock_now() + PATIENCE; clock_now() < end && status_with(&c, "second") != 200; usleep(10000)) {}
    assert_int_equal(status_with(&c, "second"), 200);
    assert_int_equal(status_with(&c, "first"), 401);
    write_text(path, "# none\n"); /* a mistake changes nothing */
    kill(c.pid, SIGHUP);
    usleep(200000);
    assert_int_equal(status_with(&c, "second"), 200);
    unlink(path);
    kill(c.pid, SIGTERM);
    assert_int_equal(wait_exit(c.pid, 3), 0);
    close(c.fd);
}

static void streams_outlive_the_first_signal(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"Once\",\"max_tokens\":150,\"ignore_eos\":true,\"stream\":true,\"n\":4}";
    for (int round = 0; round < 2; round++) {
        child c = serve("");
        assert_true(wait_ready(&c));
        int fd = ask(&c, "POST", "/v1/completions", body);
        assert_true(read_until(fd, "data: {"));
        kill(c.pid, SIGTERM);
        if (round == 0) { /* the stream comes to its end, then the server to its own */
            assert_true(read_until(fd, "data: [DONE]"));
            assert_int_equal(wait_exit(c.pid, 3), 0);
        } else {              /* a second signal ends at once (thread sanitizer sleeps a second on its own) */
            wait_refusal(&c); /* it has taken the first: pending signals of a kind are one */
            kill(c.pid, SIGTERM);
            assert_int_equal(wait_exit(c.pid, 2.5), 0);
        }
        close(fd);
        close(c.fd);
    }
    child half = serve(""); /* a body that never ends is no stream */
    assert_true(wait_ready(&half));
    int fd = connect_to(&half);
    put(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"pro");
    usleep(200000);
    kill(half.pid, SIGTERM);
    assert_int_equal(wait_exit(half.pid, 3), 0);
    close(fd);
    close(half.fd);
    child c = serve(""); /* and time is limited */
    kill(c.pid, SIGTERM);
    assert_int_equal(wait_exit(c.pid, 3), 0);
    close(c.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_prints_the_reference_tokens),
        cmocka_unit_test(failures_say_what_to_do),
        cmocka_unit_test(a_context_has_to_fit),
        cmocka_unit_test(flags_without_effect_are_refused),
        cmocka_unit_test(gguf_for_other_readers),
        cmocka_unit_test(downloads_are_recognised),
        cmocka_unit_test(numbers_come_as_json),
        cmocka_unit_test(info_lists_a_checkpoint),
        cmocka_unit_test(info_hashes_a_model),
        cmocka_unit_test(advice_helps),
        cmocka_unit_test(surroundings_do_not_matter),
        cmocka_unit_test(run_on_a_terminal),
        cmocka_unit_test(serve_answers_and_ends),
        cmocka_unit_test(pages_outlive_a_restart),
        cmocka_unit_test(hang_up_reads_keys_again),
        cmocka_unit_test(streams_outlive_the_first_signal),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&out);
    buf_free(&errors);
    return rc;
}
