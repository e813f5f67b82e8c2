/* t_hub_cache.c - models of the hub by name: what is a name, which files of a repository load, what a cache has. */
#include "tests/command.h"

#include "base/folder.h"
#include "base/mem.h"
#include "hub/hub_cache.h"
#include "hub/hub_choose.h"

#include <sys/stat.h>

static void reads_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"gpt2",     "a/b/c",  "/b",    "a/",     "a/..",       "../b",     "./b",
                                      "a/b--c",   "a/b..c", "-a/b",  "a/b-",   "a/b:",       "a/b@",     "a/b:../x",
                                      "a/b@../x", "a/b:x/", "a b/c", "a/b\n",  "a/b:x//y",   "a/b@m\\n", "",
                                      "a/b:/etc", "a//b",   "a/.b",  "a/b:x@", "a/b@x/../y", "models/x/"};
    hub_name n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_name_read(&n, bad[i])) fail_msg("\"%s\" is taken for a name", bad[i]);
    assert_true(hub_name_read(&n, "org/Name_1.5-x"));
    assert_string_equal(n.repo, "org/Name_1.5-x");
    assert_string_equal(n.pick, "");
    assert_string_equal(n.revision, "main");
    assert_true(hub_name_read(&n, "org/name:q4_k_m@refs/pr/7"));
    assert_string_equal(n.repo, "org/name");
    assert_string_equal(n.pick, "q4_k_m");
    assert_string_equal(n.revision, "refs/pr/7");
    assert_true(hub_name_read(&n, "org/name@v1:0"));
    assert_string_equal(n.revision, "v1:0");
    assert_true(hub_name_is_plain("W.x-1_a"));
    assert_false(hub_name_is_plain(".x") || hub_name_is_plain("a/b") || hub_name_is_plain(""));
    assert_true(hub_name_stays("a/..b/c"));
}

enum { NAMES_MAX = 24 };

/* "a b c" as names; what is chosen of them with `pick`, in one line: "MODEL|FILE FILE", "-" for no model. */
static const char *chosen(const char *list, const char *pick, err *e)
{
    static char line[2000];
    char text[2000], *names[NAMES_MAX];
    size_t n = 0;
    hub_choice c;
    snprintf(text, sizeof text, "%s", list);
    for (char *s = strtok(text, " "); s && n < NAMES_MAX; s = strtok(NULL, " ")) names[n++] = s;
    *e = (err){0};
    line[0] = 0;
    if (hub_choose(&c, names, n, pick, "org/name", e) == OK) {
        int at = snprintf(line, sizeof line, "%s|", c.model ? c.model : "-");
        for (size_t i = 0; i < c.n; i++)
            at += snprintf(line + at, sizeof line - (size_t)at, "%s%s", i ? " " : "", c.name[i]);
    }
    hub_choice_free(&c);
    return line;
}

static const struct {
    const char *files, *pick, *chosen; /* "": ERR_NOT_FOUND */
} choices[] = {
    {"README.md config.json model.safetensors onnx/model.onnx pytorch_model.bin tokenizer.json tf_model.h5", "",
     "-|config.json tokenizer.json model.safetensors"},
    {"config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json "
     "consolidated.safetensors",
     "", "-|config.json model.safetensors.index.json"},
    {"config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors", "",
     "-|config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors"},
    {"config.json pytorch_model.bin training_args.bin original/consolidated.00.pth", "",
     "-|config.json pytorch_model.bin"},
    {"config.json modules.json 1_Pooling/config.json 2_Dense/model.safetensors model.safetensors openvino/config.json",
     "", "-|1_Pooling/config.json 2_Dense/model.safetensors config.json modules.json model.safetensors"},
    {"x-Q8_0.gguf x-Q4_K_M.gguf x-Q4_0.gguf mmproj-F16.gguf README.md", "", "x-Q4_K_M.gguf|x-Q4_K_M.gguf"},
    {"x-Q8_0.gguf x-IQ2_M.gguf x.q4_0.gguf", "", "x.q4_0.gguf|x.q4_0.gguf"},
    {"b-Q8_0.gguf a-F16.gguf a-mmproj.gguf imatrix_unsloth.gguf", "", "a-F16.gguf|a-F16.gguf"},
    {"x-Q8_0.gguf x-Q4_K_M.gguf", "q8_0", "x-Q8_0.gguf|x-Q8_0.gguf"},
    {"x-Q4_K_M.gguf x-Q4_K.gguf", "Q4_K", "x-Q4_K.gguf|x-Q4_K.gguf"},
    {"x-Q4_K_M.gguf", "Q4_K", ""},
    {"x-Q4_K_M.gguf", "Q8_0", ""},
    {"x-F16.gguf mmproj-BF16.gguf", "BF16", ""},
    {"config.json model.safetensors x-Q4_K_M.gguf", "", "-|config.json model.safetensors"},
    {"config.json model.safetensors x-Q4_K_M.gguf", "Q4_K_M", "x-Q4_K_M.gguf|x-Q4_K_M.gguf"},
    {"BF16/x-00002-of-00002.gguf BF16/x-00001-of-00002.gguf Q8_0/x-00001-of-00001.gguf", "bf16",
     "BF16/x-00001-of-00002.gguf|BF16/x-00001-of-00002.gguf BF16/x-00002-of-00002.gguf"},
    {"x-Q6_K-00001-of-00003.gguf x-Q6_K-00003-of-00003.gguf", "Q6_K", ""},
    {"x-Q6_K-00001-of-00002.gguf x-Q6_K-00002-of-00002.gguf", "x-Q6_K-00001-of-00002.gguf",
     "x-Q6_K-00001-of-00002.gguf|x-Q6_K-00001-of-00002.gguf x-Q6_K-00002-of-00002.gguf"},
    {"config.json a.safetensors b.safetensors tokenizer.json", "b.safetensors",
     "b.safetensors|config.json tokenizer.json b.safetensors"},
    {"README.md config.json tokenizer.json", "", ""},
    {"stories15M.bin stories42M.bin tokenizer.bin", "", ""},
    {"stories15M.bin stories42M.bin tokenizer.bin", "stories15M.bin", "stories15M.bin|tokenizer.bin stories15M.bin"},
    {"a.pt training_args.bin", "", "-|a.pt"},
    {"mmproj-F16.gguf", "", ""},
};

static void chooses_what_loads(void **state)
{
    (void)state;
    err e;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const char *line = chosen(choices[i].files, choices[i].pick, &e);
        assert_string_equal(line, choices[i].chosen);
        if (!*line) assert_int_equal(e.code, ERR_NOT_FOUND);
    }
}

static void reads_names_of_snapshots(void **state)
{
    (void)state;
    char name[40];
    assert_true(folder_hub_name("/c/models--org--na-me/snapshots/12ab", name, sizeof name));
    assert_string_equal(name, "org/na-me");
    assert_true(folder_hub_name("models--org--name/", name, sizeof name));
    assert_string_equal(name, "org/name");
    assert_false(folder_hub_name("/c/models--org--name/snapshots/12ab/x.gguf", name, sizeof name));
    assert_false(folder_hub_name("/c/models--org", name, sizeof name));
    assert_false(folder_hub_name("/c/my-models--org--name", name, sizeof name));
}

/* A shell line in a folder with a cache as Python leaves it: R is the repository's folder, `model` a small one. */
static int in_cache(const char *shell, buf *errors)
{
    char dir[200], line[4000];
    snprintf(dir, sizeof dir, "%s", temp_path("hub-cache"));
    assert_int_equal(mkdir(dir, 0755), 0);
    snprintf(
        line, sizeof line,
        "export HF_HOME=$PWD/hf HF_HUB_CACHE= HF_TOKEN=; R=$PWD/hf/hub/models--org--tiny; S=$R/snapshots/c0ffee; "
        "mkdir -p $R/blobs $R/refs $S && printf c0ffee >$R/refs/main && for f in config.json model.safetensors; do "
        "cp $V/models/llama/$f $R/blobs/$f-blob && ln -s ../../blobs/$f-blob $S/$f; done; %s",
        shell);
    const int rc = command_shell(dir, line, errors);
    snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
    return rc;
}

static const struct {
    const char *shell, *says; /* what standard error says after status 1; NULL: status 0 */
} runs[] = {
    {"$P run -m org/tiny --output ids --ids 1,2,3 -n 3 >/dev/null", NULL},
    {"$P run -m org/tiny@main --output ids --ids 1,2,3 -n 3 >/dev/null", NULL},
    {"$P run -m org/tiny@c0ffee --output ids --ids 1,2,3 -n 3 >/dev/null", NULL},
    {"$P run org/tiny --output ids --ids 1,2,3 -n 3 >/dev/null", NULL},
    {"$P run -m org/tiny --draft org/tiny --output ids --ids 1,2,3 -n 3 >/dev/null", NULL},
    {"HF_HUB_CACHE=$HF_HOME/hub HF_HOME=/nowhere $P run -m org/tiny --output ids --ids 1,2 -n 1 >/dev/null", NULL},
    {"HF_HOME='~/hf' HOME=$PWD $P run -m org/tiny --output ids --ids 1,2 -n 1 >/dev/null", NULL},
    {"mkdir .cache; mv hf .cache/huggingface; HF_HOME= XDG_CACHE_HOME= HOME=$PWD $P run -m org/tiny --output ids --ids "
     "1 -n 1 "
     ">/dev/null",
     NULL},
    {"$P spec show -m org/tiny >a.ini && grep -q 'path = .*/snapshots/c0ffee' a.ini && $P run --spec a.ini --output "
     "ids --ids "
     "1,2,3 -n 3 "
     ">/dev/null",
     NULL},
    {"cp $S/model.safetensors $S/b.safetensors && $P run -m org/tiny:b.safetensors --output ids --ids 1 -n 1 "
     ">/dev/null",
     NULL},
    {"mkdir -p org/tiny && cp $V/models/llama/*.* org/tiny && rm -r hf && $P run -m org/tiny --output ids --ids 1 -n 1 "
     ">/dev/null",
     NULL},
    {"$P export -m org/tiny -o q.gguf >/dev/null && "
     "mv q.gguf $R/blobs/ffff && ln -s ../../blobs/ffff $S/tiny-F32.gguf && $P run -m org/tiny:f32 --output ids --ids "
     "1 -n 1 "
     ">/dev/null && $P spec show -m org/tiny:F32 | grep -q 'path = .*/tiny-F32.gguf'",
     NULL},
    {"$P run -m org/other --output ids --ids 1",
     "error: org/other: no such folder or file; `inferflow pull org/other` downloads it"},
    {"$P run -m org/tiny@dev --output ids --ids 1", "`inferflow pull org/tiny@dev` downloads it"},
    {"$P run -m org/tiny:Q8_0 --output ids --ids 1", "has no file Q8_0"},
    {"rm $R/blobs/model.safetensors-blob; $P run -m org/tiny --output ids --ids 1",
     "`inferflow pull org/tiny` downloads it"},
    {"printf '{\"weight_map\":{\"a\":\"w-1.safetensors\"}}' >$S/model.safetensors.index.json; $P run -m org/tiny "
     "--output ids --ids 1",
     "`inferflow pull org/tiny` downloads it"},
    {"printf ../../refs >$R/refs/main; $P run -m org/tiny --output ids --ids 1", "not in the cache"},
    {"HF_HOME= XDG_CACHE_HOME= HOME= $P run -m org/tiny --output ids --ids 1", "where is the hub's cache?"},
};

static void runs_from_the_cache(void **state)
{
    (void)state;
    buf errors = {0};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const int rc = in_cache(runs[i].shell, &errors);
        if (rc != (runs[i].says ? 1 : 0) || (runs[i].says && !strstr(buf_cstr(&errors), runs[i].says)))
            fail_msg("%s: status %d\n%s", runs[i].shell, rc, buf_cstr(&errors));
    }
    buf_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names),
        cmocka_unit_test(chooses_what_loads),
        cmocka_unit_test(reads_names_of_snapshots),
        cmocka_unit_test(runs_from_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
