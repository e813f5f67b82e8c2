/* t_hub_pull.c - `inferflow pull` from a hub on loopback with the faults that hubs have (tests/hub/hub_server.py), and
 * huggingface_hub on the same cache, where a Python of this machine has it (HUB_PYTHON, or python3). */
#include "tests/command.h"

#include <sys/stat.h>

static FILE *server; /* ends when this is closed */
static int port;
static char folder[200]; /* of the log and the caches */

static int start_server(void **state)
{
    (void)state;
    char line[2000], ready[400];
    snprintf(folder, sizeof folder, "%s", temp_path("hub-pull"));
    snprintf(ready, sizeof ready, "%s/port", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(line, sizeof line, "exec python3 tests/hub/hub_server.py specs tests/vectors %s/log >%s", folder, ready);
    server = popen(line, "w");
    buf text = {0};
    for (int i = 0; i < 400 && server && !port; i++, usleep(50000)) {
        text.n = 0;
        if (file_read(&text, ready, 100, NULL) == OK && text.n && text.p[text.n - 1] == '\n')
            port = atoi(buf_cstr(&text));
    }
    buf_free(&text);
    return port ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    char line[400];
    pclose(server);
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

/* A shell line in a folder of its own. H: the hub; C, R: the cache and org/tiny in it; L: the log, emptied as by fresh.
 * sent: the bytes of the log; have NAME: the files of the snapshots of models--NAME in one line; pull: ends after
 * 100 s. */
static int in_folder(const char *shell, buf *errors)
{
    char line[8000];
    snprintf(line, sizeof line,
             "rm -rf row && mkdir row && cd row && L=../log && : >$L; H=http://127.0.0.1:%d; "
             "export HF_ENDPOINT=$H HF_HOME=$PWD/hf HF_HUB_CACHE= HF_TOKEN= HF_HUB_OFFLINE= no_proxy=127.0.0.1; "
             "C=$PWD/hf/hub; R=$C/models--org--tiny; "
             "fresh() { sleep 0.3; : >$L; }; pull() { timeout -s KILL 100 $P pull \"$@\" >spec; }; "
             "sent() { python3 -c \"import json; print(sum(json.loads(l)['sent'] for l in open('$L')))\"; }; "
             "have() { (cd $C/models--$1/snapshots/* && find -L . -type f | sort | tr '\\n' ' '); }; %s",
             port, shell);
    return command_shell(folder, line, errors);
}

typedef struct row {
    const char *shell, *says; /* what standard error says after status 1; NULL: status 0 */
} row;

static void run_rows(const row *rows, size_t n)
{
    buf errors = {0};
    for (size_t i = 0; i < n; i++) {
        const int rc = in_folder(rows[i].shell, &errors);
        if (rc != (rows[i].says ? 1 : 0) || (rows[i].says && !strstr(buf_cstr(&errors), rows[i].says)))
            fail_msg("%s: status %d\n%s", rows[i].shell, rc, buf_cstr(&errors));
    }
    buf_free(&errors);
}
#define RUN(rows) run_rows(rows, sizeof rows / sizeof *rows)

#define TINY    "'./config.json ./model.safetensors '"
#define NOTHING "[ -z \"$(find . -path '*/snapshots/*' -o -path '*/refs/*')\" ]"

static void takes_what_loads(void **state)
{
    (void)state;
    static const row rows[] = {
        {"pull org/tiny && [ \"$(have org--tiny)\" = " TINY
         " ] && grep -q 'path = .*/snapshots/' spec && $P run -m org/tiny "
         "--output ids --ids 1 -n 1 >/dev/null",
         NULL},
        {"pull org/tiny && cmp $R/snapshots/*/model.safetensors $V/models/llama/model.safetensors && "
         "[ \"$(readlink $R/snapshots/*/config.json | cut -c1-12)\" = ../../blobs/ ] && "
         "[ $(wc -c <$R/refs/main) = 40 ] && [ -d $R/snapshots/$(cat $R/refs/main) ] && "
         "[ $(ls $R/blobs | wc -l) = 2 ] && "
         "[ $(basename $(readlink $R/snapshots/*/model.safetensors)) = $(cat $R/snapshots/*/model.safetensors "
         "| sha256sum | cut -d' ' -f1) ] && [ -e $C/.locks/models--org--tiny/$(ls $R/blobs | awk 'length == 64').lock "
         "]",
         NULL},
        {"pull org/shards && [ \"$(have org--shards)\" = './config.json ./model-00001-of-00002.safetensors "
         "./model-00002-of-00002.safetensors ./model.safetensors.index.json ' ]",
         NULL},
        {"pull org/many && [ \"$(have org--many)\" = './x-Q4_K_M.gguf ' ] && grep -q x-Q4_K_M spec", NULL},
        {"pull org/many:q2_k && [ \"$(have org--many)\" = './sub/x-Q2_K.gguf ' ] && "
         "[ $(readlink $C/models--org--many/snapshots/*/sub/x-Q2_K.gguf | cut -c1-15) = ../../../blobs/ ]",
         NULL},
        {"pull org/many:x-Q8_0.gguf && [ \"$(have org--many)\" = './x-Q8_0.gguf ' ]", NULL},
        {"pull org/tiny@v1.0 && [ \"$(ls $R/refs)\" = v1.0 ] && pull org/tiny@refs/pr/1 && [ -f $R/refs/refs/pr/1 ] && "
         "K=$(cat $R/refs/v1.0) && rm -r hf && pull org/tiny@$K && [ ! -e $R/refs ] && $P spec show -m org/tiny@$K "
         ">/dev/null",
         NULL},
        {"pull tree/tiny && [ \"$(have tree--tiny)\" = " TINY " ]", NULL},
        {"pull org/tiny && chmod -R a-w hf && pull org/tiny; X=$?; chmod -R u+w hf; exit $X", NULL},
        {"pull renamed/tiny && [ \"$(have renamed--tiny)\" = " TINY " ]", NULL},
        {"for o in weak bare direct no-ranges; do pull $o/tiny && [ \"$(have $o--tiny)\" = " TINY " ] && "
         "[ -z \"$(find hf -name '*incomplete')\" ] || exit 3; done",
         NULL},
        {"pull org/large && pull no-ranges/large && cmp $C/models--org--large/blobs/*[0-9a-f] "
         "$C/models--org--large/snapshots/*/config.json; cmp $C/models--org--large/snapshots/*/model.safetensors "
         "$C/models--no-ranges--large/snapshots/*/model.safetensors",
         NULL},
        {"HF_ENDPOINT=http://127.0.0.1:1 pull org/tiny --endpoint $H/ && HF_HUB_CACHE=$PWD/other pull org/tiny && "
         "[ -d other/models--org--tiny/blobs ]",
         NULL},
        {"pull org/tiny && fresh && pull org/tiny && [ $(sent) -lt 2000 ] && ! grep -q '\"GET\".*resolve' $L", NULL},
        {"pull org/tiny && HF_HUB_OFFLINE=1 pull org/tiny && grep -q arch spec", NULL},
        {"pull org/changes && A=$(cat $C/models--org--changes/refs/main) && curl -s $H/count && pull org/changes && "
         "B=$(cat $C/models--org--changes/refs/main) && [ $A != $B ] && cd $C/models--org--changes && "
         "[ -e snapshots/$A/model.safetensors ] && [ -e snapshots/$B/model.safetensors ] && "
         "[ $(ls blobs | wc -l) = 3 ] && ! cmp -s snapshots/$A/model.safetensors snapshots/$B/model.safetensors",
         NULL},
        {"mkdir -p $R/.no_exist/x $R/blobs && touch $R/.no_exist/x/y $R/blobs/z.1234abcd.incomplete && pull org/tiny "
         "&& "
         "[ -e $R/.no_exist/x/y ] && [ -e $R/blobs/z.1234abcd.incomplete ]",
         NULL},
    };
    RUN(rows);
}

static void waits_and_tries_again(void **state)
{
    (void)state;
    static const row rows[] = {
        {"pull limited/tiny && pull retry-after/tiny && pull retry-date/tiny && pull busy/tiny", NULL},
        {"pull limited-long/tiny", "says to wait for 4000 seconds"},
        {"pull break/large && [ $(sent) -lt 25800000 ] && cmp $C/models--break--large/blobs/$(ls "
         "$C/models--break--large/blobs | awk 'length == 64') $C/models--break--large/snapshots/*/model.safetensors",
         NULL},
        /* Killed ten times, it takes each byte about once. */
        {"i=0; while [ $i -lt 10 ]; do timeout -s KILL 0.$((2 + i % 3)) $P pull slow/large --connections 4 >/dev/null; "
         "i=$((i + 1)); done; [ -z \"$(find hf -path '*snapshots/*')\" ] && pull slow/large && sent && "
         "[ $(sent) -lt $((25166000 * 102 / 100)) ] && $P spec show -m slow/large >/dev/null",
         NULL},
        /* Two at once: one waits, and each byte is sent once. */
        {"pull slow/large & sleep 0.3; timeout -s KILL 100 $P pull slow/large >two && wait && [ $(sent) -lt 25900000 ] "
         "&& cmp "
         "spec two",
         NULL},
    };
    RUN(rows);
}

static void refuses(void **state)
{
    (void)state;
    static const row rows[] = {
        {"pull gated/tiny", "ask for access at http://127.0.0.1"},
        {"pull closed/tiny", "a token may open it (HF_TOKEN)"},
        {"pull absent/tiny", "the hub has no such model: Repository not found"},
        {"pull org/nothing", "the hub has no such model"},
        {"pull org/tiny@v9", "but not this revision"},
        {"pull org/tiny:Q8_0", "has no file Q8_0"},
        {"HF_HUB_OFFLINE=1 pull org/tiny", "HF_HUB_OFFLINE is set"},
        {"pull elsewhere/tiny; X=$?; " NOTHING " && exit $X", "only http and https are followed"},
        {"pull elsewhere-later/tiny; X=$?; " NOTHING " && exit $X", "only http and https are followed"},
        {"pull loops/tiny", "redirects more than"},
        {"pull wrong-size/tiny; X=$?; " NOTHING " && exit $X", "and said"},
        {"pull wrong-hash/tiny; X=$?; " NOTHING " && [ -z \"$(find hf -name '*incomplete')\" ] && exit $X",
         "has the SHA-256"},
        {"pull endless/tiny; X=$?; " NOTHING " && exit $X", "more bytes than it said"},
        {"pull endless-whole/tiny; X=$?; " NOTHING " && exit $X", "more bytes than it said"},
        {"pull other-range/tiny; X=$?; " NOTHING " && exit $X", "bytes, and said"},
        {"pull renews/tiny; X=$?; " NOTHING " && exit $X", "has changed since"},
        {"pull other-commit/tiny; X=$?; " NOTHING " && exit $X", "of commit 0000"},
        {"pull odd-etag/tiny; X=$?; " NOTHING " && exit $X", "does not say its ETag"},
        {"pull odd-commit/tiny; X=$?; " NOTHING " && exit $X", "names no commit (sha)"},
        {"pull tree-away/tiny", "its list goes on at another host"},
        {"pull torn-list/tiny", "byte"},
        {"pull long-list/tiny", "list of files is longer"},
        {"pull climbs/tiny; X=$?; " NOTHING " && exit $X", "no file in its folder"},
        {"pull roots/tiny; X=$?; " NOTHING " && exit $X", "no file in its folder"},
        {"pull org/leads-out; X=$?; " NOTHING " && exit $X", "is not the name of a file in the same folder"},
        {"HF_ENDPOINT=file://$PWD pull org/tiny", "only http and https"},
        {"HF_ENDPOINT=ftp://127.0.0.1 pull org/tiny", "only http and https"},
        {"(ulimit -f 8; pull org/large)", "File too large"},
        {"touch hf; pull org/tiny", "Not a directory"},
        {"mkdir -p $R/snapshots; touch $R/blobs; pull org/tiny", "models--org--tiny/blobs"},
    };
    RUN(rows);
    buf errors = {0};
    assert_int_equal(in_folder("$P pull gpt2", &errors), 2);
    assert_int_equal(in_folder("$P pull", &errors), 2);
    buf_free(&errors);
}

/* On a terminal (tty LINE) it asks, and shows how far it is. */
static void asks_on_a_terminal(void **state)
{
    (void)state;
#define TTY                                                                                                            \
    "tty() { python3 -c \"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))\" "        \
    "\"$@\"; }; "
    static const row rows[] = {
        {TTY "echo y | tty $P spec show -m org/tiny >out && grep -q 'Download it? .y/N.' out && [ \"$(have "
             "org--tiny)\" = " TINY " ] && $P spec show -m org/tiny >/dev/null",
         NULL},
        {TTY "echo n | tty $P spec show -m org/tiny >out; X=$?; tail -1 out >&2; " NOTHING " && exit $X",
         "`inferflow pull org/tiny` downloads it"},
        {"$P spec show -m org/tiny --yes >/dev/null && $P spec show -m org/tiny >/dev/null", NULL},
        {"$P run --yes -m org/tiny --output ids --ids 1 -n 1 --strategy greedy >/dev/null", NULL},
        {"$P spec show -m absent/tiny --yes", "the hub has no such model"},
        {"echo y | $P spec show -m org/tiny", "`inferflow pull org/tiny` downloads it"},
        {TTY "tty $P pull slow/many </dev/null >out && tr '\\r' '\\n' <out | grep -q 'slow/many .*[0-9]%, .* MB/s, "
             ".* left'",
         NULL},
        {"pull slow/many 2>out && [ ! -s out ]", NULL},
    };
    RUN(rows);
}

/* What a token opens, and who sees it. */
static void keeps_tokens(void **state)
{
    (void)state;
#define SEEN "! grep -q hf_good spec && ! grep '\"port\": false' $L | grep -q Bearer && grep -q 'Bearer hf_good' $L"
    static const row rows[] = {
        {"HF_TOKEN=hf_good pull closed/tiny && " SEEN, NULL},
        {"mkdir hf && echo hf_good >hf/token && pull closed/tiny && " SEEN, NULL},
        {"echo hf_good >t && HF_TOKEN_PATH=$PWD/t pull closed/tiny && " SEEN, NULL},
        {"HF_TOKEN=hf_bad pull closed/tiny 2>&1 | grep -q hf_bad; HF_TOKEN=hf_bad pull closed/tiny",
         "the token does not open it"},
        {"HF_TOKEN=hf_good pull org/large && " SEEN, NULL},
    };
    RUN(rows);
}

/* Half a minute to two: only where time does not count (HUB_TESTS=all). */
static void gives_up(void **state)
{
    (void)state;
    static const row rows[] = {
        {"timeout 60 $P pull silent/tiny", "does not go on"},
        {"timeout 60 $P pull trickles/tiny", "does not go on"},
        {"timeout 60 $P pull broken/tiny", "the hub answers 500"},
        {"timeout 60 $P pull drops/tiny", "does not go on"},
        {"timeout 120 $P pull crumbles/large", "does not go on"},
        {"timeout 60 $P pull org/tiny --endpoint http://127.0.0.1:1", "does not go on"},
    };
    const char *all = getenv("HUB_TESTS");
    if (!all || strcmp(all, "all") != 0) skip_msg("giving up takes minutes: HUB_TESTS=all");
    else RUN(rows);
}

static const char *peer(void)
{
    static char line[400];
    const char *python = getenv("HUB_PYTHON") ? getenv("HUB_PYTHON") : "python3";
    snprintf(line, sizeof line, "%s -c 'import huggingface_hub' 2>/dev/null", python);
    return system(line) == 0 ? python : NULL;
}

static void shares_with_python(void **state)
{
    (void)state;
    if (!peer()) {
        skip_msg("huggingface_hub is not here (HUB_PYTHON names a Python that has it)");
        return;
    }
    char head[600];
    snprintf(head, sizeof head,
             "export HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_PROGRESS_BARS=1 HF_XET_HIGH_PERFORMANCE=0; "
             "unset HF_HUB_CACHE HF_TOKEN HF_HUB_OFFLINE; "
             "py() { timeout 100 %s -c \"import huggingface_hub as h; $1\"; }; ",
             peer());
    static const char *const lines[] = {
        /* What Python brought is taken, and the other way round: no byte of a file is sent twice. */
        "py \"h.snapshot_download('org/tiny')\" && fresh && pull org/tiny && ! grep -q "
        "'\"GET\".*\\(resolve\\|false\\)' $L",
        "pull org/tiny && fresh && py \"print(open(h.hf_hub_download('org/tiny', 'model.safetensors'), "
        "'rb').read(9))\" && "
        "! grep -q '\"GET\".*\\(resolve\\|false\\)' $L",
        "pull org/shards && HF_HUB_OFFLINE=1 py \"h.hf_hub_download('org/shards', 'config.json')\"",
        "py \"h.snapshot_download('org/many', allow_patterns='*Q8_0*')\" && $P spec show -m org/many:q8_0 >/dev/null",
        "pull org/tiny && py \"c = h.scan_cache_dir(); assert not c.warnings, c.warnings; print(c.size_on_disk)\"",
        /* Both at once. */
        "(py \"h.hf_hub_download('slow/large', 'model.safetensors')\" & pull slow/large && wait) && [ $(sent) -lt "
        "25900000 ]",
    };
    buf errors = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[3000];
        snprintf(line, sizeof line, "%s{ %s; } >out 2>&1 || { cat out >&2; exit 1; }", head, lines[i]);
        if (in_folder(line, &errors)) fail_msg("%s\n%s", lines[i], buf_cstr(&errors));
    }
    buf_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_on_a_terminal),    cmocka_unit_test(takes_what_loads),
        cmocka_unit_test(waits_and_tries_again), cmocka_unit_test(refuses),
        cmocka_unit_test(keeps_tokens),          cmocka_unit_test(gives_up),
        cmocka_unit_test(shares_with_python),
    };
    if (system("python3 -c 'import ctypes; ctypes.CDLL(\"libcurl.so.4\")' 2>/dev/null") != 0 &&
        system("python3 -c 'import ctypes; ctypes.CDLL(\"libcurl-gnutls.so.4\")' 2>/dev/null") != 0) {
        skip_msg("libcurl is not here");
        return 0;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
