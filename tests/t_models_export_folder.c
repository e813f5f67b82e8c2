/* t_models_export_folder.c - the folder that `export` writes: its contents before and after, and that an export that
 * fails loses nothing. */
#include "tests/command.h"

#include <dirent.h>
#include <sys/stat.h>

static const char llama[] = "tests/vectors/models/llama";
static buf out, errors;

static char *in_folder(const char *dir, const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(in_folder(dir, name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static bool holds(const char *dir, const char *name) { return file_exists(in_folder(dir, name)); }

static void expect_text(const char *dir, const char *name, const char *text)
{
    buf have = {0};
    err e = {0};
    assert_ok(file_read(&have, in_folder(dir, name), 1 << 20, &e), &e);
    assert_string_equal(buf_cstr(&have), text);
    buf_free(&have);
}

static void copy(const char *from, const char *to, const char *name)
{
    buf have = {0};
    err e = {0};
    assert_ok(file_read(&have, in_folder(from, name), 1 << 20, &e), &e);
    FILE *f = fopen(in_folder(to, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(have.p, 1, have.n, f), have.n);
    fclose(f);
    buf_free(&have);
}

static int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) n += strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) unlink(in_folder(dir, f->d_name));
    if (d) closedir(d);
    rmdir(dir);
}

static int export_to(const char *model, const char *dir, const char *more)
{
    char args[2000];
    snprintf(args, sizeof args, "export --model %s -o %s %s", model, dir, more);
    return command_run(NULL, args, &out, &errors);
}

static bool complains(const char *part) { return strstr(buf_cstr(&errors), part) != NULL; }

/* Files of an earlier export are replaced or removed; files that are no part of a model stay. */
static void an_export_is_replaced(void **unused)
{
    (void)unused;
    const char *dir = temp_path("folder-again");
    assert_int_equal(export_to(llama, dir, ""), 0);
    assert_int_equal(files_in(dir), 2);
    put(dir, "tokenizer.json", "of the earlier one");
    put(dir, "README.md", "mine");
    assert_int_equal(export_to("tests/vectors/models/qwen2", dir, ""), 0);
    assert_false(holds(dir, "tokenizer.json"));
    expect_text(dir, "README.md", "mine");
    assert_int_equal(files_in(dir), 3);
    remove_folder(dir);
}

/* The files of another model are neither overwritten nor left where they would be read instead. */
static void another_model_is_left_alone(void **unused)
{
    (void)unused;
    static const char *const names[] = {"model-00001-of-00002.safetensors",
                                        "model.safetensors.index.json",
                                        "model.safetensors",
                                        "pytorch_model.bin",
                                        "config.json",
                                        "tokenizer.json"};
    char dir[256]; /* running the command takes names from temp_path too */
    snprintf(dir, sizeof dir, "%s", temp_path("folder-taken"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mkdir(dir, 0700);
        put(dir, names[i], "theirs");
        assert_int_equal(export_to(llama, dir, ""), 2);
        assert_true(complains(names[i]));
        assert_int_equal(files_in(dir), 1);
        expect_text(dir, names[i], "theirs");
        remove_folder(dir);
    }
    assert_int_equal(export_to(llama, dir, ""), 0);
    put(dir, names[0], "theirs"); /* beside an earlier export */
    assert_int_equal(export_to(llama, dir, ""), 2);
    expect_text(dir, names[0], "theirs");
    remove_folder(dir);
}

/* A model that config.json cannot say: the earlier export is still there, and no folder is made for nothing. */
static void a_failed_export_changes_nothing(void **unused)
{
    (void)unused;
    char dir[256];
    snprintf(dir, sizeof dir, "%s", temp_path("folder-failed"));
    const char *ini = temp_path("folder-failed.ini");
    char more[700];
    FILE *f = fopen(ini, "w");
    assert_non_null(f);
    fputs("[model]\nbase = llama\n[network]\nblock = x = x + attn(norm.a(x)) * 2; x = x + ffn(norm.b(x))\n", f);
    fclose(f);
    snprintf(more, sizeof more, "--spec %s", ini);
    assert_int_equal(export_to(llama, dir, more), 1);
    assert_true(complains("would not be the same model"));
    assert_false(file_exists(dir));
    assert_int_equal(export_to("tests/vectors/models/qwen2", dir, ""), 0);
    buf before = {0};
    err e = {0};
    assert_ok(file_read(&before, in_folder(dir, "config.json"), 1 << 20, &e), &e);
    assert_int_equal(export_to(llama, dir, more), 1);
    expect_text(dir, "config.json", buf_cstr(&before));
    assert_int_equal(files_in(dir), 2);
    buf_free(&before);
    static const char *const outputs[] = {"export", "quantize --bits 8"};
    char args[1500];
    for (int i = 0; i < 2; i++) { /* a GGUF file as well */
        put(dir, "model.gguf", "earlier");
        snprintf(args, sizeof args, "%s --model %s -o %s %s", outputs[i], llama, in_folder(dir, "model.gguf"), more);
        assert_int_equal(command_run(NULL, args, &out, &errors), 1);
        expect_text(dir, "model.gguf", "earlier");
        assert_int_equal(files_in(dir), 3);
    }
    remove_folder(dir);
    unlink(ini);
}

/* Python that config.json names goes along; without it, it is said that it is missing. */
static void code_goes_along(void **unused)
{
    (void)unused;
    const char *dir = temp_path("folder-code"), *from = temp_path("folder-code-from"), *gguf = temp_path("code.gguf");
    static const char chatglm[] = "tests/vectors/models/chatglm";
    mkdir(from, 0700);
    copy(chatglm, from, "model.safetensors");
    buf config = {0};
    err e = {0};
    assert_ok(file_read(&config, in_folder(chatglm, "config.json"), 1 << 20, &e), &e);
    const char *list = "\"auto_map\": {\"AutoModel\": \"modeling_chatglm.ChatGLMModel\"}",
               *old = strstr(buf_cstr(&config), "\"auto_map\": {}");
    assert_non_null(old);
    char text[4000];
    snprintf(text, sizeof text, "%.*s%s%s", (int)(old - buf_cstr(&config)), buf_cstr(&config), list,
             old + strlen("\"auto_map\": {}"));
    put(from, "config.json", text);
    put(from, "modeling_chatglm.py", "class ChatGLMModel: pass\n");
    buf_free(&config);
    assert_int_equal(export_to(from, dir, ""), 0);
    expect_text(dir, "modeling_chatglm.py", "class ChatGLMModel: pass\n");
    assert_false(complains("auto_map"));
    assert_int_equal(export_to(from, gguf, ""), 0);
    assert_int_equal(export_to(gguf, dir, ""), 0);
    assert_true(complains("ChatGLMModel") && complains("auto_map"));
    remove_folder(dir);
    remove_folder(from);
    unlink(gguf);
}

/* Blocks of GGUF become four times as large in a folder: a message says so, unless a type was asked for. */
static void blocks_become_floats(void **unused)
{
    (void)unused;
    const char *dir = temp_path("folder-floats");
    assert_int_equal(export_to("specs/builtin.gguf", dir, ""), 0);
    assert_true(complains("written as f32"));
    assert_int_equal(export_to("specs/builtin.gguf", dir, "--weights bf16"), 0);
    assert_false(complains("written as f32"));
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_export_is_replaced),
                                       cmocka_unit_test(another_model_is_left_alone),
                                       cmocka_unit_test(a_failed_export_changes_nothing),
                                       cmocka_unit_test(code_goes_along), cmocka_unit_test(blocks_become_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
