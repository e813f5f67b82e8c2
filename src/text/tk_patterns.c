/* tk_patterns.c - see tk_patterns.h. */
#include "text/tk_patterns.h"

#include <string.h>

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES_END  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD        "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define NO_HAN(set) "[" set "&&[^\\p{Han}]]"
#define CASED_BUT_HAN(end)                                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?" NO_HAN(UPPER) "*" NO_HAN(LOWER) "+" end "|[^\\r\\n\\p{L}\\p{N}]?" NO_HAN(                 \
        UPPER) "+" NO_HAN(LOWER) "*" end
#define SYMBOLS_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"

#define GPT2            "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3          CONTRACTION WORD "|\\p{N}{1,3}" SYMBOLS SPACES_END
#define QWEN2           CONTRACTION WORD "|\\p{N}" SYMBOLS SPACES_END
#define GPT4O           CASED(CONTRACTION "?") "|\\p{N}{1,3}" SYMBOLS_SLASH SPACES_END
#define TEKKEN          CASED("") "|\\p{N}" SYMBOLS_SLASH SPACES_END
#define BLOOM           " ?[^(\\s|.,!?…。，、।۔،)]+"
#define CJK_DEEP        "[一-龥ࠀ-一가-퟿]+"
#define KANA            "[一-龥぀-ゟ゠-ヿ]+"
#define ASCII_SIGN_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define DEEPSEEK3       ASCII_SIGN_WORD "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
/* Letters of the Latin, Greek, Cyrillic and like scripts, as DeepSeek LLM lists them. */
#define LATIN_AND_LIKE                                                                                                 \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"                    \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"     \
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"         \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                  \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"                  \
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"          \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"         \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"          \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"                    \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"          \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                   \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                  \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"            \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

const pattern_row pattern_rows[] = {
    {"gpt2", {GPT2}, false},
    {"gpt-2", {GPT2}, false},
    {"r50k_base", {GPT2}, true},
    {"p50k_base", {GPT2}, true},
    {"cl100k", {LLAMA3}, true},
    {"cl100k_base", {LLAMA3}, true},
    {"o200k", {GPT4O}, true},
    {"o200k_base", {GPT4O}, true},
    {"gpt-4o", {GPT4O}, false},
    {"llama4", {GPT4O}, false},
    {"kanana2", {GPT4O}, false},
    {"talkie", {GPT4O}, false},
    {"minimax-m2", {GPT4O}, false},
    {"llama3", {LLAMA3}, true, .adds_bos = true},
    {"llama-v3", {LLAMA3}, true, .adds_bos = true},
    {"llama-bpe", {LLAMA3}, true, .adds_bos = true},
    {"falcon3", {LLAMA3}, true, .adds_bos = true},
    {"falcon-h1", {LLAMA3}, true, .adds_bos = true},
    {"pixtral", {LLAMA3}, true, .adds_bos = true},
    {"midm-2.0", {LLAMA3}, true, .adds_bos = true},
    {"lfm2", {LLAMA3}, true, .adds_bos = true},
    {"jina-v5-nano", {LLAMA3}, true, .adds_bos = true},
    {"dbrx", {LLAMA3}, false},
    {"smaug-bpe", {LLAMA3}, false},
    {"glm4", {LLAMA3}, false},
    {"chatglm-bpe", {LLAMA3}, false},
    {"jais-2",
     {CONTRACTION WORD "|\\p{N}{1,3}" SYMBOLS
                       "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|"
                       "\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"},
     false},
    {"qwen2", {QWEN2}, false, .nfc = true},
    {"deepseek-r1-qwen", {QWEN2}, false},
    {"kormo", {QWEN2}, false},
    {"f2llmv2", {QWEN2}, false},
    {"megrez", {QWEN2}, false},
    {"stablelm2", {QWEN2}, false},
    {"hunyuan", {QWEN2}, false},
    {"solar-open", {QWEN2}, false},
    {"grok-2", {QWEN2}, false},
    {"qwen35",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES_END},
     false,
     .nfc = true},
    {"laguna", {"[^\\n]+|[\\n]+", QWEN2}, false},
    {"ufakzeka", {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" SYMBOLS SPACES_END}, false},
    {"seed-coder", {CONTRACTION WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES_END}, false},
    {"bailingmoe", {"'(?i:[sdmt]|ll|ve|re)" WORD "|\\p{N}" SYMBOLS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}, false},
    {"bailingmoe2", {"'(?i:[sdmt]|ll|ve|re)" WORD "|\\p{N}" SYMBOLS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}, false},
    {"llada-moe", {"'(?i:[sdmt]|ll|ve|re)" WORD "|\\p{N}" SYMBOLS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}, false},
    {"minicpm5", {"\\p{N}{1,3}", CONTRACTION WORD "|\\p{N}+" SYMBOLS SPACES_END}, true},
    {"exaone-moe",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                  "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
     false},
    {"tekken", {TEKKEN}, true, .adds_bos = true},
    {"tiny_aya", {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}, false},
    {"cohere2moe", {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}, false},
    {"granite-embed-multi-97m", {GPT4O}, true},
    {"youtu",
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" KANA,
      CASED(CONTRACTION "?") "|\\p{N}" SYMBOLS_SLASH SPACES_END},
     true},
    {"kimi-k2", {"[\\p{Han}]+|" CASED_BUT_HAN(CONTRACTION "?") "|\\p{N}{1,3}" SYMBOLS SPACES_END}, true},
    {"deepseek-llm",
     {"[\\r\\n]", "\\s?[" LATIN_AND_LIKE "]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CJK_DEEP, "\\p{N}+"},
     false},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_DEEP, "\\p{N}"}, false},
    {"deepseek-v3", {"\\p{N}{1,3}", KANA, DEEPSEEK3 SPACES_END}, false},
    {"hunyuan-dense", {"\\p{N}{1,3}", KANA, DEEPSEEK3 SPACES_END}, false},
    {"joyai-llm", {"\\p{N}{1,3}", KANA, DEEPSEEK3 SPACES_END}, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false},
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false},
    {"starcoder", {"\\p{N}", GPT2}, false},
    {"refact", {"\\p{N}", GPT2}, false},
    {"command-r", {"\\p{N}", GPT2}, false},
    {"smollm", {"\\p{N}", GPT2}, false},
    {"codeshell", {"\\p{N}", GPT2}, false},
    {"exaone", {"\\p{N}", GPT2}, false},
    {"minerva-7b", {"\\p{N}", GPT2}, false},
    {"mellum2", {"\\p{N}", GPT2}, false},
    {"mpt", {GPT2}, false},
    {"olmo", {GPT2}, false},
    {"jais", {GPT2}, false},
    {"trillion", {GPT2}, false},
    {"granite-docling", {GPT2}, false},
    {"phi-2", {GPT2}, false},
    {"exaone4", {GPT2}, false},
    {"gigachat", {GPT2}, false},
    {"a.x-4.0", {GPT2}, false},
    {"mellum", {GPT2}, false},
    {"modern-bert", {GPT2}, false},
    {"jina-es", {GPT2}, false},
    {"jina-de", {GPT2}, false},
    {"jina-v1-en", {GPT2}, false, .adds_sep = true},
    {"jina-v2-es", {GPT2}, false},
    {"jina-v2-de", {GPT2}, false},
    {"jina-v2-code", {GPT2}, false, .adds_sep = true},
    {"roberta-bpe", {GPT2}, false, .adds_sep = true},
    {"bloom", {BLOOM}, false},
    {"poro-chat", {BLOOM}, false},
    {"gpt3-finnish", {BLOOM}, false},
    {"viking", {BLOOM, "\\p{N}"}, false},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false},
    {"chameleon",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     false,
     .adds_bos = true},
    {NULL, {NULL}, false},
};

const char *const pattern_gpt2 = GPT2;

const pattern_row *pattern_find(const char *name)
{
    for (const pattern_row *r = pattern_rows; r->name; r++)
        if (strcmp(r->name, name) == 0) return r;
    return NULL;
}

const char *const pattern_names[] = {
    "gpt-2",       "llama-bpe", "qwen2",        "gpt-4o",         "tekken",       "deepseek-v3", "falcon", "starcoder",
    "command-r",   "bloom",     "deepseek-llm", "deepseek-coder", "mpt",          "olmo",        "smollm", "refact",
    "stablelm2",   "dbrx",      "poro-chat",    "codeshell",      "gpt3-finnish", "viking",      "jais",   "minerva-7b",
    "roberta-bpe", "phi-2",     "exaone",       "exaone4",        "default",      NULL};
