/* Paths, namespaces and fingerprints: the original's with one shard of each kind, and different for
 * everything whose bytes differ. */
#include "store/identity.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kvs_store_options options_of(uint32_t tp, uint32_t pp, uint32_t cp, uint32_t dp)
{
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.tp_rank = tp;
    options.tp_size = 8;
    options.pp_rank = pp;
    options.pp_size = 2;
    options.cp_rank = cp;
    options.cp_size = 2;
    options.dp_rank = dp;
    options.dp_size = 2;
    return options;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t pp_size, cp_size, dp_size;
        bool share, mla;
        const char *pool, *path, *ns;
    } cases[] = {
        {1, 1, 1, false, false, NULL, "/data/hicache.5.bin", "kv"},
        {1, 1, 1, false, true, NULL, "/data/hicache.0.bin", "kv"},
        {1, 1, 1, false, false, "mamba", "/data/hicache.5.bin.mamba", "mamba"},
        {1, 1, 1, false, true, "mamba", "/data/hicache.5.bin.mamba", "mamba"},
        {2, 1, 1, false, false, NULL, "/data/hicache.pp1of2.5.bin", "kv@pp1of2"},
        {2, 1, 1, false, true, NULL, "/data/hicache.pp1of2.0.bin", "kv@pp1of2"},
        {1, 2, 1, false, false, NULL, "/data/hicache.cp1of2.5.bin", "kv@cp1of2"},
        {1, 1, 2, false, false, NULL, "/data/hicache.dp1of2.5.bin", "kv@dp1of2"},
        {1, 1, 2, true, false, NULL, "/data/hicache.5.bin", "kv"},
        {2, 2, 2, false, false, "swa", "/data/hicache.pp1of2.cp1of2.dp1of2.5.bin.swa",
         "swa@pp1of2.cp1of2.dp1of2"},
        {2, 2, 2, true, false, NULL, "/data/hicache.pp1of2.cp1of2.5.bin", "kv@pp1of2.cp1of2"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct kvs_store_options options = options_of(5, 1, 1, 1);
        options.pp_size = cases[c].pp_size;
        options.cp_size = cases[c].cp_size;
        options.dp_size = cases[c].dp_size;
        options.share_across_dp = cases[c].share;
        options.is_mla_model = cases[c].mla;
        bool replicated = identity_replicated(&options, cases[c].pool == NULL, false);
        struct buffer path = {0}, ns = {0};
        identity_path(&options, identity_rank(&options, replicated), cases[c].pool, &path);
        identity_namespace(&options, cases[c].pool, &ns);
        assert_string_equal(buffer_text(&path), cases[c].path);
        assert_string_equal(buffer_text(&ns), cases[c].ns);
        buffer_clear(&path); /* the same from what a catalog knows of itself */
        identity_path_of("/data/hicache", identity_rank(&options, replicated), cases[c].ns, &path);
        assert_string_equal(buffer_text(&path), cases[c].path);
        buffer_done(&path);
        buffer_done(&ns);
    }
}

/* Every shard of a model that is split in every way has a path and a (rank, namespace) of its own.
 */
static void test_no_two_shards_meet(void **state)
{
    (void)state;
    enum { SHARDS = 8 * 2 * 2 * 2 * 2 };
    static char seen[SHARDS][2][256];
    size_t n = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct kvs_store_options options = options_of(i % 8, i / 8 % 2, i / 16 % 2, i / 32 % 2);
        const char *pool = i / 64 == 0 ? NULL : "mamba";
        struct buffer path = {0}, ns = {0};
        identity_path(&options, options.tp_rank, pool, &path);
        buffer_append_format(&ns, "%u:", options.tp_rank);
        identity_namespace(&options, pool, &ns);
        snprintf(seen[n][0], 256, "%s", buffer_text(&path));
        snprintf(seen[n][1], 256, "%s", buffer_text(&ns));
        for (size_t j = 0; j < n; j++)
            for (int k = 0; k < 2; k++)
                assert_string_not_equal(seen[j][k], seen[n][k]);
        n++;
        buffer_done(&path);
        buffer_done(&ns);
    }
}

static void test_fingerprints(void **state)
{
    (void)state;
    struct kvs_store_options base;
    kvs_store_options_init(&base);
    struct buffer text = {0};
    identity_fingerprint(&base, false, 4096, &text);
    assert_string_equal(buffer_text(&text), ""); /* nothing stated: matches anything */

    base.model = "m";
    base.revision = "r";
    base.dtype = "bfloat16";
    base.layout = "page_first";
    static char seen[9][256];
    for (size_t i = 0; i < 9; i++) {
        struct kvs_store_options o = base;
        bool pairs = i == 1;
        uint64_t bytes = i == 2 ? 8192 : 4096;
        if (i == 3)
            o.model = "m2";
        if (i == 4)
            o.revision = "r2";
        if (i == 5)
            o.dtype = "float8_e4m3fn"; /* a bf16 run, then an fp8 run */
        if (i == 6)
            o.layout = "page_first_direct"; /* as long, and permuted */
        if (i == 7) {
            o.model = "m;revision=r"; /* a name that looks like members */
            o.revision = NULL;
        }
        if (i == 8)
            o.page_size = 64;
        buffer_clear(&text);
        identity_fingerprint(&o, pairs, bytes, &text);
        snprintf(seen[i], sizeof(seen[0]), "%s", buffer_text(&text));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(seen[i], seen[j]);
    }
    assert_string_equal(seen[0], "model=m;revision=r;dtype=bfloat16;layout=page_first;pairs=0;"
                                 "bytes_per_page=4096");
    buffer_done(&text);
}

/* A command knows what the configuration states; an engine states more. */
static void test_what_is_known_in_part(void **state)
{
    (void)state;
    static const struct {
        const char *model, *dtype, *fingerprint, *stated; /* NULL: they agree */
    } cases[] = {
        {"m", NULL, "", NULL},
        {NULL, NULL, "model=m;dtype=bf16;pairs=1;bytes_per_page=4096", NULL},
        {"m", NULL, "model=m;dtype=bf16;pairs=1;bytes_per_page=4096", NULL},
        {"m", "bf16", "model=m;dtype=bf16;page_size=64;pairs=1;bytes_per_page=4096", NULL},
        {"m", "bf16", "model=m", NULL},
        {"m", "bf16", "supermodel=n;", NULL},
        {"a;b", NULL, "model=a%3bb;", NULL},
        {"m", "bf16", "words of another client", NULL},
        {"m", NULL, "model=n;dtype=bf16;", "model=m"},
        {"m", NULL, "model=mm;", "model=m"},
        {"mm", NULL, "model=m", "model=mm"},
        {"m", "fp8", "model=m;dtype=bf16;pairs=1;bytes_per_page=4096", "model=m;dtype=fp8"},
        {"m", "fp8", "model=m;dtype=;", "model=m;dtype=fp8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvs_store_options options = options_of(0, 0, 0, 0);
        struct buffer stated = {0};
        options.model = cases[i].model;
        options.dtype = cases[i].dtype;
        bool agrees =
            identity_agrees(&options, cases[i].fingerprint, strlen(cases[i].fingerprint), &stated);
        assert_int_equal(agrees, cases[i].stated == NULL);
        assert_string_equal(buffer_text(&stated), agrees ? "" : cases[i].stated);
        buffer_done(&stated);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_no_two_shards_meet),
        cmocka_unit_test(test_fingerprints),
        cmocka_unit_test(test_what_is_known_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
