/* load_class.c - see load_class.h. Rows: classes of transformers and the models they were written for. */
#include "text/load_class.h"

#include "text/load_hf_steps.h"

#include <string.h>

/* clang-format off */
#define MBART_25                                                                                                       \
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP " \
    "nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN "
static const char mbart_50[] = MBART_25
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE "
    "ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";
static const char m2m100[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl "
    "ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
static const char nllb[] =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn";
/* clang-format on */

#define BERT_ROLES                                                                                                     \
    .role = {[TOKEN_UNK] = "[UNK]",                                                                                    \
             [TOKEN_PAD] = "[PAD]",                                                                                    \
             [TOKEN_SEP] = "[SEP]",                                                                                    \
             [TOKEN_CLS] = "[CLS]",                                                                                    \
             [TOKEN_MASK] = "[MASK]"}
#define FAIRSEQ_ROLES(unk)                                                                                             \
    .role = {[TOKEN_BOS] = "<s>",  [TOKEN_EOS] = "</s>", [TOKEN_UNK] = unk,      [TOKEN_PAD] = "<pad>",                \
             [TOKEN_SEP] = "</s>", [TOKEN_CLS] = "<s>",  [TOKEN_MASK] = "<mask>"}
#define BERT_FRAME    .one = "cls $A sep", .two = "cls $A sep $B:1 sep:1"
#define ROBERTA_FRAME .one = "cls $A sep", .two = "cls $A sep sep $B sep"
#define GPT2(names, pattern_name)                                                                                      \
    {                                                                                                                  \
        names, NULL, BARE_BYTE_BPE, pattern_name, .role = { [TOKEN_EOS] = "<|endoftext|>" }                            \
    }
#define MARIAN(names, models)                                                                                          \
    {                                                                                                                  \
        names, models, BARE_SPM_NUMBERED, .one = "$A eos", .two = "$A $B eos", .role = {                               \
            [TOKEN_EOS] = "</s>",                                                                                      \
            [TOKEN_UNK] = "<unk>",                                                                                     \
            [TOKEN_PAD] = "<pad>"                                                                                      \
        }                                                                                                              \
    }

const tokenizer_class class_rows[] = {
    GPT2("", "gpt2"),
    GPT2("GPT2Tokenizer CodeGenTokenizer GPTNeoXTokenizer", "gpt2"),
    GPT2("Qwen2Tokenizer", "qwen2"),
    {"RobertaTokenizer BartTokenizer LongformerTokenizer LEDTokenizer", "roberta bart longformer led", BARE_BYTE_BPE,
     "gpt2", ROBERTA_FRAME, FAIRSEQ_ROLES("<unk>")},
    {"DebertaTokenizer", "deberta", BARE_BYTE_BPE, "gpt2", ROBERTA_FRAME, BERT_ROLES},

    {"", NULL, BARE_WORDPIECE, BERT_FRAME, BERT_ROLES},
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer SqueezeBertTokenizer ConvBertTokenizer "
     "LayoutLMTokenizer LxmertTokenizer RetriBertTokenizer DPRQuestionEncoderTokenizer DPRContextEncoderTokenizer "
     "DPRReaderTokenizer PreTrainedTokenizer TokenizersBackend",
     NULL, BARE_WORDPIECE, BERT_FRAME, BERT_ROLES},
    {"MPNetTokenizer", "mpnet", BARE_WORDPIECE, ROBERTA_FRAME, FAIRSEQ_ROLES("[UNK]")},

    {"", NULL, BARE_SPM},
    {"LlamaTokenizer CodeLlamaTokenizer GemmaTokenizer TokenizersBackend", NULL, BARE_SPM, .one = "bos $A",
     .two = "bos $A bos:1 $B:1"},
    {"PreTrainedTokenizer", NULL, BARE_SPM},
    {"T5Tokenizer MT5Tokenizer", "t5 mt5 umt5", BARE_SPM, .one = "$A eos", .two = "$A eos $B eos",
     .order = IDS_SENTINELS},
    {"PegasusTokenizer", "pegasus", BARE_SPM, .one = "$A eos", .two = "$A $B eos",
     .role = {[TOKEN_EOS] = "</s>", [TOKEN_UNK] = "<unk>", [TOKEN_PAD] = "<pad>", [TOKEN_MASK] = "<mask_2>"},
     .order = IDS_PEGASUS},
    {"AlbertTokenizer", "albert", BARE_SPM, BERT_FRAME,
     .role = {[TOKEN_UNK] = "<unk>",
              [TOKEN_PAD] = "<pad>",
              [TOKEN_SEP] = "[SEP]",
              [TOKEN_CLS] = "[CLS]",
              [TOKEN_MASK] = "[MASK]"},
     .bert_text = true},
    {"DebertaV2Tokenizer", "deberta-v2", BARE_SPM, BERT_FRAME, BERT_ROLES},
    {"XLMRobertaTokenizer", "xlm-roberta xlm-roberta-xl xmod", BARE_SPM, ROBERTA_FRAME, FAIRSEQ_ROLES("<unk>"),
     .order = IDS_FAIRSEQ},
    {"MBartTokenizer", NULL, BARE_SPM, .one = "$A eos lang", .two = "$A $B eos lang", FAIRSEQ_ROLES("<unk>"),
     .order = IDS_FAIRSEQ, .languages = MBART_25, .source = "en_XX"},
    {"MBart50Tokenizer", NULL, BARE_SPM, .one = "lang $A eos", .two = "lang $A $B eos", FAIRSEQ_ROLES("<unk>"),
     .order = IDS_FAIRSEQ, .languages = mbart_50, .source = "en_XX"},
    {"NllbTokenizer", NULL, BARE_SPM, .one = "lang $A eos", .two = "lang $A $B eos", FAIRSEQ_ROLES("<unk>"),
     .order = IDS_FAIRSEQ, .languages = nllb, .source = "eng_Latn"},

    MARIAN("", NULL),
    MARIAN("MarianTokenizer", "marian"),
    {"M2M100Tokenizer", "m2m_100", BARE_SPM_NUMBERED, .one = "lang $A eos", .two = "lang $A $B eos",
     .role = {[TOKEN_BOS] = "<s>",
              [TOKEN_EOS] = "</s>",
              [TOKEN_UNK] = "<unk>",
              [TOKEN_PAD] = "<pad>",
              [TOKEN_SEP] = "</s>"},
     .languages = m2m100, .source = "en"},
    {NULL, NULL, BARE_SPM},
};

static bool list_has(const char *list, span word)
{
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, " ");
        if (n == word.n && memcmp(p, word.p, n) == 0) return true;
        p += n;
        while (*p == ' ') p++;
    }
    return false;
}

const tokenizer_class *class_find(const tokenizer_config *s, bare_files files)
{
    const tokenizer_class *unnamed = NULL;
    span name = tokenizer_config_class(s), model = span_str(json_str(json_get(s->model, "model_type"), ""));
    for (const tokenizer_class *c = class_rows; c->names; c++) {
        if (c->files != files) continue;
        if (name.n ? list_has(c->names, name) : list_has(c->models, model)) return c;
        if (!name.n && !*c->names) unnamed = c;
    }
    return unnamed;
}

int class_unknown(const char *path, const tokenizer_config *s, err *e)
{
    span name = tokenizer_config_class(s);
    return err_set(e, ERR_FORMAT, "%s: tokenizer_class %.*s is not supported without a tokenizer.json", path,
                   (int)(name.n < 60 ? name.n : 60), (const char *)name.p);
}

int class_add_tokens(tokenizer *t, const tokenizer_class *c, err *e)
{
    int rc = OK;
    for (int r = 0; r < TOKEN_ROLE_COUNT && !rc; r++) {
        if (!c->role[r]) continue;
        hf_added a = {.text = span_str(c->role[r]), .special = true, .lstrip = strcmp(c->role[r], "<mask>") == 0};
        int32_t id = tokenizer_id(t, c->role[r]);
        if (id < 0 && r == TOKEN_MASK && c->files == BARE_SPM) id = (int32_t)t->voc.size;
        if (id < 0) continue;
        if (!vocab_has(&t->voc, id) || !(t->voc.flag[id] & PIECE_ADDED)) rc = hf_add_token(t, &a, id, e);
        t->role[r] = id;
    }
    return rc;
}

/* ---- frames ---- */

/* The id of a word of a frame; -1: no such token. */
static int32_t frame_token(const tokenizer *t, span word)
{
    static const struct {
        const char *word;
        token_role role;
    } words[] = {{"bos", TOKEN_BOS}, {"eos", TOKEN_EOS}, {"cls", TOKEN_CLS}, {"sep", TOKEN_SEP}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(word, words[i].word)) return t->role[words[i].role];
    return span_is(word, "lang") ? t->language : -1;
}

static bool read_frame(const tokenizer *t, const char *text, post_template *out)
{
    out->n = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " "), word = strcspn(p, " :");
        span w = span_of(p, word);
        int32_t id = span_is(w, "$A") ? POST_A : span_is(w, "$B") ? POST_B : frame_token(t, w);
        if (id == -1 && !span_is(w, "$A")) return false;
        out->item[out->n++] = (post_item){id, word < n};
        p += n;
        while (*p == ' ') p++;
    }
    return true;
}

void frame_set(tokenizer *t, const char *one, const char *two)
{
    post_template single, pair;
    if (!read_frame(t, one, &single) || !read_frame(t, two, &pair)) return;
    t->single = single;
    t->pair = pair;
}

static void find_language(tokenizer *t, const tokenizer_class *c, const tokenizer_config *s)
{
    const char *code = json_str(json_get(s->config, "src_lang"), NULL);
    int32_t id = code ? tokenizer_language(t, code) : -1;
    t->language = id >= 0 ? id : tokenizer_language(t, c->source);
}

void class_frame(tokenizer *t, const tokenizer_class *c, const tokenizer_config *s)
{
    if (c->languages) find_language(t, c, s);
    bool old_nllb = c->languages == nllb && json_bool(json_get(s->config, "legacy_behaviour"), false);
    if (old_nllb) frame_set(t, "$A eos lang", "$A $B eos lang");
    else if (c->one) frame_set(t, c->one, c->two);
}

void class_frame_languages(tokenizer *t, const tokenizer_config *s)
{
    const tokenizer_class *c = tokenizer_config_class(s).n ? class_find(s, BARE_SPM) : NULL;
    if (c && c->languages) class_frame(t, c, s);
}
