/* Which endpoint a path names. */
#include "server/route.h"
#include "support/unit.h"

static const struct {
    const char *target;
    enum endpoint endpoint;
    bool bad_rank;
    uint32_t rank;
} cases[] = {
    {"/0/exists", ENDPOINT_EXISTS, false, 0},
    {"/007/exists", ENDPOINT_EXISTS, false, 7},
    {"/4294967295/clear", ENDPOINT_CLEAR, false, UINT32_MAX},
    {"/1/reserve_and_allocate_page_indices", ENDPOINT_RESERVE, false, 1},
    {"/1/get_page_indices?x=/2/exists", ENDPOINT_GET, false, 1},
    {"/%31/%65xists", ENDPOINT_EXISTS, false, 1},
    {"/0%2Fexists", ENDPOINT_EXISTS, false, 0},
    {"http://h:1/3/exists", ENDPOINT_EXISTS, false, 3},
    {"HTTPS://h/3/exists?q", ENDPOINT_EXISTS, false, 3},
    {"http://h", ENDPOINT_ROOT, false, 0},
    {"/", ENDPOINT_ROOT, false, 0},
    {"/?x", ENDPOINT_ROOT, false, 0},
    {"/health", ENDPOINT_HEALTH, false, 0},
    {"/ready", ENDPOINT_READY, false, 0},
    {"/metrics", ENDPOINT_METRICS, false, 0},
    {"/api/status", ENDPOINT_STATUS, false, 0},
    {"/abc/exists", ENDPOINT_EXISTS, true, 0},
    {"/-1/exists", ENDPOINT_EXISTS, true, 0},
    {"/+1/exists", ENDPOINT_EXISTS, true, 0},
    {"/%201/exists", ENDPOINT_EXISTS, true, 0},
    {"/1_0/exists", ENDPOINT_EXISTS, true, 0},
    {"/4294967296/exists", ENDPOINT_EXISTS, true, 0},
    {"/%00/exists", ENDPOINT_EXISTS, true, 0},
    {"//exists", ENDPOINT_NONE, false, 0},
    {"//0/exists", ENDPOINT_NONE, false, 0},
    {"/0/exists/", ENDPOINT_NONE, false, 0},
    {"/0/0/exists", ENDPOINT_NONE, false, 0},
    {"/0/EXISTS", ENDPOINT_NONE, false, 0},
    {"/0/exist", ENDPOINT_NONE, false, 0},
    {"/exists", ENDPOINT_NONE, false, 0},
    {"/0/%6", ENDPOINT_NONE, false, 0},
    {"/0/%zzxists", ENDPOINT_NONE, false, 0},
    {"0/exists", ENDPOINT_NONE, false, 0},
    {"*", ENDPOINT_NONE, false, 0},
    {"", ENDPOINT_NONE, false, 0},
};

static void paths_name_endpoints(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *target = cases[i].target;
        struct route route = route_find((struct http_text){target, strlen(target)});
        if (route.endpoint != cases[i].endpoint || route.bad_rank != cases[i].bad_rank ||
            (!route.bad_rank && route.rank != cases[i].rank))
            fail_msg("%s: endpoint %d, rank %u%s", target, (int)route.endpoint, route.rank,
                     route.bad_rank ? " (bad)" : "");
    }
}

static void long_encoded_paths_are_unknown(void **state)
{
    (void)state;
    char target[2000];
    memset(target, 'a', sizeof(target));
    memcpy(target, "/0/%65", 6);
    assert_int_equal(route_find((struct http_text){target, sizeof(target)}).endpoint,
                     ENDPOINT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_name_endpoints),
        cmocka_unit_test(long_encoded_paths_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
