/* The behaviour of the server, scenario by scenario: what is asked, when, and what must be
 * answered.
 *
 * In an expected answer `#a` stands for a number that is noted the first time and must be the same
 * afterwards; in a request it is replaced by what was noted. `~` before an expectation: the answer
 * contains it. Numbers noted under lower-case names must differ from each other. */
#include "server/asker.h"

#include <ctype.h>

#define A         "a000000000000000000000000000000000000000000000000000000000000001"
#define TAIL      "000000000000000000000000000000000000000000000000000000000000001"
#define B         "b000000000000000000000000000000000000000000000000000000000000002"
#define C         "c000000000000000000000000000000000000000000000000000000000000003"
#define D         "d000000000000000000000000000000000000000000000000000000000000004"
#define Q(key)    "\"" key "\""
#define PAIR(key) "[" Q(key) ",\"\"]"

#define INITIALIZE "/7/initialize"
#define RESERVE    "/7/reserve_and_allocate_page_indices"
#define CONFIRM    "/7/confirm_write"
#define GET        "/7/get_page_indices"
#define EXISTS     "/7/exists"
#define DELETE     "/7/delete_keys"
#define CLEAR      "/7/clear"
#define REPORT     "/7/report_mismatch"
#define STATUS     "/api/status" /* asked with GET */

enum { STEPS_MAX = 16 };

struct step {
    uint64_t wait_ms; /* before it */
    const char *path, *body;
    int status;
    const char *expected; /* NULL: any */
};

struct scenario {
    const char *name;
    struct step steps[STEPS_MAX];
};

static const struct scenario scenarios[] = {
    {"initialize is idempotent and skips what it does not know",
     {{0, INITIALIZE, "{\"num_pages\":4}", 204, ""},
      {0, INITIALIZE, "{\"num_pages\":4,\"namespace\":\"kv\",\"x\":[{\"y\":1e9}]}", 204, ""},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[false]}"}}},
    {"empty lists are fine",
     {{0, INITIALIZE, "{\"num_pages\":4}", 204, ""},
      {0, EXISTS, "{\"keys\":[]}", 200, "{\"exists\":[]}"},
      {0, GET, "{\"keys\":[]}", 200, "{\"indices\":[]}"},
      {0, GET, "{\"keys\":[],\"checksums\":true}", 200,
       "{\"indices\":[],\"checksums\":[],\"generations\":[]}"},
      {0, RESERVE, "{\"keys\":[]}", 200, "{\"indices\":[]}"},
      {0, CONFIRM, "{}", 204, ""},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[],\"pages_to_release\":[]}", 204, ""},
      {0, DELETE, "{\"keys\":[]}", 204, ""},
      {0, CLEAR, "{\"keys\":null}", 204, ""}}},
    {"a page goes through its life",
     {{0, INITIALIZE, "{\"num_pages\":2}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[true,#a]]}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[false]}"},
      {0, GET, "{\"keys\":[" Q(A) "]}", 200, "{\"indices\":[null]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {0, GET, "{\"keys\":[" Q(B) "," Q(A) "]}", 200, "{\"indices\":[null,#a]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[true,#a]]}"},
      {0, DELETE, "{\"keys\":[" Q(A) "," Q(B) "]}", 204, ""},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[false]}"},
      {0, STATUS, NULL, 200,
       "~\"pages\":{\"free\":1,\"reserved\":0,\"committed\":0,\"retired\":1}"},
      {2500, STATUS, NULL, 200,
       "~\"pages\":{\"free\":2,\"reserved\":0,\"committed\":0,\"retired\":0}"}}},
    {"namespaces and ranks are apart, kv is the default",
     {{0, INITIALIZE, "{\"num_pages\":2}", 204, ""},
      {0, INITIALIZE, "{\"num_pages\":2,\"namespace\":\"mamba\"}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"namespace\":\"kv\"}", 200,
       "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {0, EXISTS, "{\"keys\":[" Q(A) "],\"namespace\":\"mamba\"}", 200, "{\"exists\":[false]}"},
      {0, EXISTS, "{\"namespace\":\"kv\",\"keys\":[" Q(A) "]}", 200, "{\"exists\":[true]}"},
      {0, "/007/exists", "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[true]}"},
      {0, "/8/exists", "{\"keys\":[" Q(A) "]}", 404,
       "{\"detail\":\"Rank 8 namespace 'kv' not initialized. Please call /8/initialize first.\"}"},
      {0, "/8/confirm_write", "{\"namespace\":\"\\u00e9\\\"'\\\\\"}", 404,
       "{\"detail\":\"Rank 8 namespace '\xc3\xa9\\\"'\\\\' not initialized. Please call "
       "/8/initialize first.\"}"}}},
    {"a key is the same however it is written",
     {{0, INITIALIZE, "{\"num_pages\":4}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) ",[" Q(A "-k") " , null]," PAIR(A "-v") "]}", 200,
       "{\"indices\":[[false,#a],[false,#b],[false,#c]]}"},
      {0, CONFIRM,
       "{\"written_keys_to_confirm\":[[\"\\u0061" TAIL "\",#a],[ " Q(A "-k") " ,#b],[\"" A
                                                                             "\\u002dv\",#c]]}",
       204, ""},
      {0, GET, "{\"keys\":[" Q(A) " , \"\\u0061" TAIL "\",\"" A "-\\u006b\"," Q(A "-v") "]}", 200,
       "{\"indices\":[#a,#a,#b,#c]}"},
      /* Not quite the usual form: other keys. */
      {0, EXISTS,
       "{\"keys\":[" Q(A "-") "," Q(A "-x") "," Q(A "k") ",\"A" TAIL "\",\"" TAIL "\",\"" A
                                                         "\\\"\"]}",
       200, "{\"exists\":[false,false,false,false,false,false]}"},
      {0, EXISTS, "{\"keys\":[" Q(A), 400, NULL},
      {0, EXISTS, "{\"keys\":[\"" A, 400, NULL},
      {0, EXISTS, "{\"keys\":[\"" A "-", 400, NULL}}},
    {"entries with spaces and odd ends are read as those without",
     {{0, INITIALIZE, "{\"num_pages\": 8}", 204, ""},
      {0, RESERVE,
       "{\"keys\": [[" Q(A) ", " Q(B) "], [" Q(B) ",\"\\u0061\"],[" Q(C) ", \"\"], [" Q(
           A "-k") " ,\"\"]]}",
       200, "{\"indices\":[[false,#a],[false,#b],[false,#c],[false,#d]]}"},
      {0, CONFIRM,
       "{\"written_keys_to_confirm\": [[" Q(A) ", #a], [" Q(B) ",#b ],[" Q(C) ",  #c], [" Q(
           A "-k") ",#d]]}",
       204, ""},
      {0, GET, "{\"keys\": [" Q(A) ", " Q(B) " ," Q(C) ",\n" Q(A "-k") ", " Q(A "-x") "]}", 200,
       "{\"indices\":[#a,#b,#c,#d,null]}"},
      {0, GET, "{\"keys\": [" Q(A) ", ]}", 400, NULL},
      {0, GET, "{\"keys\": [" Q(A) ",, " Q(B) "]}", 400, NULL},
      {0, GET, "{\"keys\": [" Q(A) " " Q(B) "]}", 400, NULL},
      {0, GET, "{\"keys\": [" Q(A) ", 7]}", 400, NULL},
      {0, GET, "{\"keys\": [" Q(A) ",", 400, NULL},
      {0, RESERVE, "{\"keys\": [[" Q(A) ", \"x\", 1]]}", 400, NULL},
      {0, RESERVE, "{\"keys\": [[" Q(A) ", 1]]}", 400, NULL},
      {0, RESERVE, "{\"keys\": [[" Q(A) "]]}", 400, NULL},
      {0, RESERVE, "{\"keys\": [[" Q(A) ", \"\t\"]]}", 400, NULL},
      {0, RESERVE, "{\"keys\": [[" Q(A) ", \"\xff\"]]}", 400, NULL}}},
    {"pages, generations and checksums of a confirm are read to the letter",
     {{0, INITIALIZE, "{\"num_pages\":8}", 204, ""},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",01]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1.0]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1e0]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",9223372036854775808]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1,-2]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1,2,\"123\"]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1,2,\"0123456789abcdeg\"]]}", 400,
       NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1,2,\"0123456789abcdef\",3]]}", 400,
       NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1,2,\"0123456789abcdef\"", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",1", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) "]]}", 400, NULL},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",9223372036854775807]]}", 200,
       "~no such page"},
      {0, CONFIRM,
       "{\"written_keys_to_confirm\":[[" Q(A) ",-1],[" Q(B) ", 0, 18446744073709551615],[" Q(
           C) ", 5, 1, \"0123456789ABCDEF\"]]}",
       200, "~no such page"}}},
    {"the last of two members of a name counts",
     {{0, INITIALIZE, "{\"num_pages\":99,\"num_pages\":3}", 204, ""},
      {0, EXISTS, "{\"keys\":[\"a\"],\"keys\":[\"x\",\"y\"]}", 200, "{\"exists\":[false,false]}"},
      {0, STATUS, NULL, 200, "~\"num_pages\":3"}}},
    {"a batch beyond the capacity is answered key by key",
     {{0, INITIALIZE, "{\"num_pages\":2}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "," PAIR(B) "," PAIR(C) "," PAIR(A) "]}", 200,
       "{\"indices\":[[false,#a],[false,#b],[false,-1],[true,#a]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]],\"pages_to_release\":[#b]}", 204,
       ""},
      {0, GET, "{\"keys\":[" Q(A) "]}", 200, "{\"indices\":[#a]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(C) "],\"generations\":true}", 200,
       "{\"indices\":[[false,-1]],\"generations\":[null]}"},
      {2500, RESERVE, "{\"keys\":[" PAIR(C) "]}", 200, "{\"indices\":[[false,#b]]}"}}},
    {"a page under lease is not given away",
     {{0, INITIALIZE, "{\"num_pages\":1}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {2500, GET, "{\"keys\":[" Q(A) "]}", 200, "{\"indices\":[#a]}"},
      {1900, RESERVE, "{\"keys\":[" PAIR(B) "]}", 200, "{\"indices\":[[false,-1]]}"},
      {200, RESERVE, "{\"keys\":[" PAIR(B) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "," Q(B) "]}", 200, "{\"exists\":[false,false]}"}}},
    {"a reservation that nobody confirms comes back, its confirm does not",
     {{0, INITIALIZE, "{\"num_pages\":1}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {5900, RESERVE, "{\"keys\":[" PAIR(B) "]}", 200, "{\"indices\":[[false,-1]]}"},
      {200, RESERVE, "{\"keys\":[" PAIR(B) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 200,
       "{\"rejected\":[{\"key\":" Q(A) ",\"page_index\":#a,\"reason\":\"reserved for another "
                                       "key\"}]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(B) ",#a]]}", 204, ""}}},
    {"entries that cannot be are rejected one by one",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, RESERVE, "{\"keys\":[[\"odd \\u0022 key\",null]]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM,
       "{\"written_keys_to_confirm\":[[\"odd \\u0022 key\",#a],[" Q(B) ",999],[" Q(
           C) ",-7]],"
              "\"pages_to_release\":[#a]}",
       200,
       "{\"rejected\":[{\"key\":" Q(B) ",\"page_index\":999,\"reason\":\"no such "
                                       "page\"},{\"key\":" Q(
                                           C) ",\"page_index\":-7,\"reason\":\"no such "
                                              "page\"},{\"key\":null,\"page_index\":#a,"
                                              "\"reason\":\"holds a confirmed key\"}]}"},
      {0, EXISTS, "{\"keys\":[\"odd \\\" key\"," Q(B) "]}", 200, "{\"exists\":[true,false]}"}}},
    {"clear forgets keys and reservations",
     {{0, INITIALIZE, "{\"num_pages\":4}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "," PAIR(B) "]}", 200,
       "{\"indices\":[[false,#a],[false,#b]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {0, CLEAR, "{}", 204, ""},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(B) ",#b]]}", 200, "~\"not reserved\""},
      {0, EXISTS, "{\"keys\":[" Q(A) "," Q(B) "]}", 200, "{\"exists\":[false,false]}"},
      {0, STATUS, NULL, 200, "~\"reserved\":0,\"committed\":0"}}},
    {"a deleted reservation does not come back",
     {{0, INITIALIZE, "{\"num_pages\":2}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, DELETE, "{\"keys\":[" Q(A) "]}", 204, ""},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 200, "~\"not reserved\""},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[false]}"}}},
    {"the head of a prefix outlives its tail",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "," PAIR(B) "," PAIR(C) "]}", 200,
       "{\"indices\":[[false,#a],[false,#b],[false,#c]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a],[" Q(B) ",#b],[" Q(C) ",#c]]}", 204,
       ""},
      {2500, RESERVE, "{\"keys\":[" PAIR(D) "]}", 200, "{\"indices\":[[false,#c]]}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "," Q(B) "," Q(C) "]}", 200,
       "{\"exists\":[true,true,false]}"}}},
    {"K and V come and go together",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, RESERVE,
       "{\"keys\":[" PAIR(A "-k") "," PAIR(A "-v") "," PAIR(B "-k") "," PAIR(B "-v") "]}", 200,
       "{\"indices\":[[false,#a],[false,#b],[false,-1],[false,-1]]}"}}},
    {"generations, checksums and owners travel",
     {{0, INITIALIZE, "{\"num_pages\":2,\"bytes_per_page\":4096,\"fingerprint\":\"m1\"}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true,\"owner\":\"call-1\"}", 200,
       "{\"indices\":[[false,#a]],\"generations\":[#G]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true,\"owner\":\"call-1\"}", 200,
       "{\"indices\":[[false,#a]],\"generations\":[#G]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true,\"owner\":77}", 200,
       "{\"indices\":[[true,#a]],\"generations\":[#G]}"},
      {0, CONFIRM,
       "{\"written_keys_to_confirm\":[[" Q(
           A) ",#a,#G,\"00fedcba98765432\"]],\"fingerprint\":\"m1\"}",
       204, ""},
      {0, GET, "{\"keys\":[" Q(A) "," Q(B) "],\"checksums\":true,\"bytes_per_page\":4096}", 200,
       "{\"indices\":[#a,null],\"checksums\":[\"00fedcba98765432\",null],\"generations\":[#G,null]"
       "}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "],\"checksums\":true}", 200, "{\"exists\":[true]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a,1]]}", 200,
       "~\"another generation\""},
      {0, GET, "{\"keys\":[" Q(A) "],\"bytes_per_page\":8192}", 409, "~4096"},
      {0, GET, "{\"keys\":[" Q(A) "],\"fingerprint\":\"m2\"}", 409, "~m1"},
      {0, EXISTS, "{\"keys\":[" Q(A) "],\"bytes_per_page\":null,\"fingerprint\":null}", 200,
       "{\"exists\":[true]}"}}},
    {"a page without a checksum is absent to who verifies, and replaced",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a]]}", 204, ""},
      {0, EXISTS, "{\"keys\":[" Q(A) "],\"checksums\":true}", 200, "{\"exists\":[false]}"},
      {0, GET, "{\"keys\":[" Q(A) "],\"checksums\":true}", 200,
       "{\"indices\":[null],\"checksums\":[null],\"generations\":[null]}"},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true}", 200,
       "{\"indices\":[[false,#b]],\"generations\":[#G]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#b,#G,\"00000000000000ff\"]]}", 204,
       ""},
      {0, GET, "{\"keys\":[" Q(A) "]}", 200, "{\"indices\":[#b]}"}}},
    {"a release names its life, so that a repeat hurts nobody",
     {{0, INITIALIZE, "{\"num_pages\":1}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true}", 200,
       "{\"indices\":[[false,#a]],\"generations\":[#G]}"},
      {0, CONFIRM, "{\"pages_to_release\":[[" Q(A) ",#a,#G]]}", 204, ""},
      {2500, RESERVE, "{\"keys\":[" PAIR(B) "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, CONFIRM, "{\"pages_to_release\":[[" Q(A) ",#a,#G]]}", 200,
       "~{\"rejected\":[{\"key\":" Q(A)},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(B) ",#a]]}", 204, ""}}},
    {"a mismatch retires the page it names and no other",
     {{0, INITIALIZE, "{\"num_pages\":2}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A) "],\"generations\":true}", 200,
       "{\"indices\":[[false,#a]],\"generations\":[#G]}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A) ",#a,#G,\"00000000000000ff\"]]}", 204,
       ""},
      {0, REPORT, "{\"pages\":[[" Q(A) ",#a,1],[" Q(B) ",#a,#G],[" Q(A) ",77,#G]]}", 200,
       "{\"retired\":0,\"ignored\":3}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[true]}"},
      {0, REPORT, "{\"pages\":[[" Q(A) ",#a,#G]]}", 200, "{\"retired\":1,\"ignored\":0}"},
      {0, EXISTS, "{\"keys\":[" Q(A) "]}", 200, "{\"exists\":[false]}"}}},
    {"another geometry is refused in use, and resets what is idle",
     {{0, INITIALIZE, "{\"num_pages\":8}", 204, ""},
      {0, EXISTS, "{\"keys\":[]}", 200, "{\"exists\":[]}"},
      {2000, INITIALIZE, "{\"num_pages\":9}", 409, "~9"},
      {500, INITIALIZE, "{\"num_pages\":9}", 409, "~8"},
      {600, INITIALIZE, "{\"num_pages\":9}", 204, ""},
      {0, STATUS, NULL, 200, "~\"num_pages\":9"}}},
    {"keys are listed page by page, dead ones are not",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, RESERVE, "{\"keys\":[" PAIR(A "-k") "]}", 200, "{\"indices\":[[false,#a]]}"},
      {0, "/7/list_keys", "{}", 200, "{\"keys\":[],\"next\":null}"},
      {0, CONFIRM, "{\"written_keys_to_confirm\":[[" Q(A "-k") ",#a]]}", 204, ""},
      {0, "/7/list_keys", "{}", 200, "{\"keys\":[[" Q(A "-k") ",#a,#G,null]],\"next\":null}"},
      {0, "/7/list_keys", "{\"start\":3}", 200, "{\"keys\":[],\"next\":null}"},
      {0, "/7/list_keys", "{\"start\":18446744073709551615}", 200, "{\"keys\":[],\"next\":null}"},
      {0, "/7/list_keys", "{\"limit\":1}", 200, "~{\"keys\":[[" Q(A "-k")},
      {0, CLEAR, "{}", 204, ""},
      {0, "/7/list_keys", "{}", 200, "{\"keys\":[],\"next\":null}"}}},
    {"a dropped namespace is gone",
     {{0, INITIALIZE, "{\"num_pages\":3}", 204, ""},
      {0, "/7/drop", "{}", 204, ""},
      {0, EXISTS, "{\"keys\":[]}", 404, "~not initialized"},
      {0, "/7/drop", "{}", 404, "~not initialized"},
      {0, INITIALIZE, "{\"num_pages\":5}", 204, ""}}},
};

/* ---- The language of the scenarios -----------------------------------------------------------*/

struct notes {
    char values[128][24]; /* by name; "" is not noted */
};

static void substitute(const struct notes *notes, const char *text, char *out, size_t capacity)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        const char *piece = text;
        size_t length = 1;
        if (text[0] == '#' && isalpha((unsigned char)text[1])) {
            piece = notes->values[(unsigned char)*++text];
            length = strlen(piece);
            assert_true(length > 0);
        }
        assert_true(n + length < capacity);
        memcpy(out + n, piece, length);
        n += length;
    }
    out[n] = '\0';
}

static void note(struct notes *notes, char name, const char *number, size_t length)
{
    char *value = notes->values[(unsigned char)name];
    assert_true(length > 0 && length < sizeof(notes->values[0]));
    memcpy(value, number, length);
    value[length] = '\0';
    for (char other = 'a'; islower((unsigned char)name) && other <= 'z'; other++)
        if (other != name && strcmp(notes->values[(unsigned char)other], value) == 0)
            fail_msg("pages %c and %c are both %s", name, other, value);
}

/* Whether `got` begins with what is expected; notes numbers on the way. */
static bool matches(struct notes *notes, const char *expected, const char *got,
                    const char **ret_end)
{
    for (; *expected != '\0'; expected++) {
        if (expected[0] != '#' || !isalpha((unsigned char)expected[1])) {
            if (*got++ != *expected)
                return false;
            continue;
        }
        char name = *++expected;
        size_t length = strspn(got, "0123456789");
        const char *known = notes->values[(unsigned char)name];
        if (known[0] == '\0')
            note(notes, name, got, length);
        else if (strlen(known) != length || memcmp(known, got, length) != 0)
            return false;
        got += length;
    }
    *ret_end = got;
    return true;
}

static bool is_as_expected(struct notes *notes, const char *expected, const char *got)
{
    const char *end;
    if (expected == NULL)
        return true;
    if (*expected != '~')
        return matches(notes, expected, got, &end) && *end == '\0';
    char part[512];
    substitute(notes, expected + 1, part, sizeof(part));
    return strstr(got, part) != NULL;
}

static void play(const struct scenario *scenario)
{
    struct asker asker;
    struct notes notes = {0};
    asker_begin(&asker, 0, 0);
    for (size_t i = 0; i < STEPS_MAX && scenario->steps[i].path != NULL; i++) {
        const struct step *step = &scenario->steps[i];
        asker_now_ms += step->wait_ms;
        char body[4096] = "";
        if (step->body != NULL)
            substitute(&notes, step->body, body, sizeof(body));
        int status = step->body == NULL ? asker_get(&asker, step->path)
                                        : asker_post(&asker, step->path, body);
        if (status != step->status || !is_as_expected(&notes, step->expected, asker_body(&asker)))
            fail_msg("%s, step %zu, %s %s:\n got %d %s\n not %d %s", scenario->name, i + 1,
                     step->path, body, status, asker_body(&asker), step->status,
                     step->expected == NULL ? "(any)" : step->expected);
    }
    asker_end(&asker);
}

static void scenarios_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        play(&scenarios[i]);
}

/* ---- Malformed requests ----------------------------------------------------------------------*/

static const struct {
    const char *path, *body, *says;
    int status;
} malformed[] = {
    {EXISTS, "", "not valid JSON", 400},
    {EXISTS, "hello", "not valid JSON", 400},
    {EXISTS, "null", "not valid JSON", 400},
    {EXISTS, "[]", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"]", "byte", 400},
    {EXISTS, "{\"keys\":[\"a\"", "keys", 400},
    {EXISTS, "{\"keys\":[\"a\"]}x", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"]}{}", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\",]}", "keys", 400},
    {EXISTS, "{\"keys\":[\"a\"],}", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"x\":NaN}", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"x\":01}", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"x\":1e400}", "not valid JSON", 400},
    {EXISTS, "\xef\xbb\xbf{\"keys\":[\"a\"]}", "not valid JSON", 400},
    {EXISTS, "{'keys':['a']}", "not valid JSON", 400},
    {EXISTS, "{\"keys\":[\"a\"]/*x*/}", "not valid JSON", 400},
    {EXISTS, "{}", "'keys'", 400},
    {EXISTS, "{\"Keys\":[]}", "'keys'", 400},
    {EXISTS, "{\"keys\":null}", "'keys'", 400},
    {EXISTS, "{\"keys\":\"abc\"}", "a list of strings", 400},
    {EXISTS, "{\"keys\":{\"a\":1}}", "a list of strings", 400},
    {EXISTS, "{\"keys\":[1]}", "a list of strings", 400},
    {EXISTS, "{\"keys\":[null]}", "a list of strings", 400},
    {EXISTS, "{\"keys\":[[\"a\"]]}", "a list of strings", 400},
    {EXISTS, "{\"keys\":[\"\xff\"]}", "UTF-8", 400},
    {EXISTS, "{\"keys\":[\"\\ud800\"]}", "surrogate", 400},
    {EXISTS, "{\"keys\":[\"\x01\"]}", "control character", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"checksums\":1}", "'checksums'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"namespace\":7}", "'namespace'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"namespace\":null}", "'namespace'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"namespace\":\"\"}", "'namespace'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"namespace\":\"a\\u0000b\"}", "'namespace'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"bytes_per_page\":-1}", "'bytes_per_page'", 400},
    {EXISTS, "{\"keys\":[\"a\"],\"fingerprint\":[]}", "'fingerprint'", 400},
    {DELETE, "{}", "'keys'", 400},
    {DELETE, "{\"keys\":[\"kept\",[\"a\"]]}", "'keys'", 400},
    {GET, "{}", "'keys'", 400},
    {CLEAR, "", "not valid JSON", 400},
    {CLEAR, "[]", "not valid JSON", 400},
    {RESERVE, "{}", "'keys'", 400},
    {RESERVE, "{\"keys\":[\"ab\"]}", "[key, prefix]", 400},
    {RESERVE, "{\"keys\":[[\"a\"]]}", "too short", 400},
    {RESERVE, "{\"keys\":[[]]}", "too short", 400},
    {RESERVE, "{\"keys\":[[\"a\",\"\",\"\"]]}", "too long", 400},
    {RESERVE, "{\"keys\":[[5,\"\"]]}", "[key, prefix]", 400},
    {RESERVE, "{\"keys\":[[\"a\",5]]}", "[key, prefix]", 400},
    {RESERVE, "{\"keys\":[[\"n1\",\"\"],[\"n2\",\"\"],\"bad\"]}", "[key, prefix]", 400},
    {RESERVE, "{\"keys\":[[\"n1\",\"\"]],\"generations\":\"yes\"}", "'generations'", 400},
    {RESERVE, "{\"keys\":[[\"n1\",\"\"]],\"owner\":-1}", "'owner'", 400},
    {RESERVE, "{\"keys\":[[\"n1\",\"\"]],\"owner\":1.5}", "'owner'", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":null}", "'written_keys_to_confirm'", 400},
    {CONFIRM, "{\"pages_to_release\":null}", "'pages_to_release'", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\"]]}", "too short", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",\"0\"]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",null]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",2.5]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",[1]]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",18446744073709551616]]}", "whole numbers",
     400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1e0]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1,-1]]}", "whole numbers", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1,1,\"ff\"]]}", "16 hex digits", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1,1,\"00000000000000fg\"]]}",
     "16 hex digits", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1,1,\"00000000000000000\"]]}",
     "16 hex digits", 400},
    {CONFIRM, "{\"written_keys_to_confirm\":[[\"kept\",1,1,\"00000000000000ff\",1]]}", "too long",
     400},
    {CONFIRM, "{\"pages_to_release\":[\"1\"]}", "'pages_to_release'", 400},
    {CONFIRM, "{\"pages_to_release\":[[\"kept\",1]]}", "too short", 400},
    {CONFIRM, "{\"pages_to_release\":[1,2,{}]}", "'pages_to_release'", 400},
    {REPORT, "{}", "'pages'", 400},
    {REPORT, "{\"pages\":[1]}", "'pages'", 400},
    {"/9/initialize", "{}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":0}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":-5}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":\"10\"}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":1.5}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":10.0}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":null}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":true}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":[1]}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":1073741825}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":9223372036854775808}", "'num_pages'", 400},
    {"/9/initialize", "{\"num_pages\":18446744073709551617}", "'num_pages'", 400},
    {"/abc/exists", "{\"keys\":[]}", "Rank 'abc'", 422},
    {"/1.5/exists", "{\"keys\":[]}", "Rank '1.5'", 422},
    {"/-/exists", "{\"keys\":[]}", "Rank '-'", 422},
    {"/-1/exists", "{\"keys\":[]}", "Rank '-1'", 422},
    {"/+1/exists", "{\"keys\":[]}", "Rank '+1'", 422},
    {"/0x1/exists", "{\"keys\":[]}", "Rank '0x1'", 422},
    {"/1e3/exists", "{\"keys\":[]}", "Rank '1e3'", 422},
    {"/4294967296/exists", "{\"keys\":[]}", "4294967295", 422},
    {"/99999999999999999999999/exists", "{\"keys\":[]}", "4294967295", 422},
    {"//exists", "{\"keys\":[]}", "Not Found", 404},
};

/* Nothing changes: the figures of all catalogs are the same before and after. */
static void malformed_requests_are_refused_whole(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(asker_post(&asker, INITIALIZE, "{\"num_pages\":4}"), 204);
    assert_int_equal(asker_post(&asker, RESERVE, "{\"keys\":[[\"kept\",\"\"],[\"r\",\"\"]]}"), 200);
    char before[4096];
    assert_int_equal(asker_get(&asker, STATUS), 200);
    snprintf(before, sizeof(before), "%s", strstr(asker_body(&asker), "\"namespaces\""));
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        int status = asker_post(&asker, malformed[i].path, malformed[i].body);
        if (status != malformed[i].status || !asker_says(&asker, malformed[i].says) ||
            strncmp(asker_body(&asker), "{\"detail\":\"", 11) != 0)
            fail_msg("%s %s: got %d %s, not %d with %s", malformed[i].path, malformed[i].body,
                     status, asker_body(&asker), malformed[i].status, malformed[i].says);
        assert_int_equal(asker_get(&asker, STATUS), 200);
        assert_string_equal(strstr(asker_body(&asker), "\"namespaces\""), before);
    }
    asker_end(&asker);
}

/* ---- Limits ----------------------------------------------------------------------------------*/

static int ask_repeated(struct asker *asker, const char *path, const char *before, const char *each,
                        size_t n, const char *after)
{
    struct buffer body = {0};
    buffer_append_text(&body, before);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buffer_append_char(&body, ',');
        buffer_append_text(&body, each);
    }
    buffer_append_text(&body, after);
    assert_false(body.failed);
    int status = asker_ask_bytes(asker, METHOD_POST, path, body.data, body.length);
    buffer_done(&body);
    return status;
}

static void limits_hold(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(asker_post(&asker, INITIALIZE, "{\"num_pages\":4}"), 204);
    /* 65,536 keys are answered, one more is not. */
    assert_int_equal(ask_repeated(&asker, EXISTS, "{\"keys\":[", "\"x\"", 65536, "]}"), 200);
    assert_int_equal(asker.answer.length, strlen("{\"exists\":[]}") + 65536 * 6 - 1);
    assert_int_equal(ask_repeated(&asker, EXISTS, "{\"keys\":[", "\"x\"", 65537, "]}"), 400);
    assert_true(asker_says(&asker, "65,536 keys"));
    assert_int_equal(ask_repeated(&asker, RESERVE, "{\"keys\":[", "[\"x\",\"\"]", 65537, "]}"),
                     400);
    assert_int_equal(
        ask_repeated(&asker, CONFIRM, "{\"written_keys_to_confirm\":[", "[\"x\",1]", 65536, "]}"),
        200);
    assert_int_equal(ask_repeated(&asker, CONFIRM, "{\"pages_to_release\":[", "1", 65537, "]}"),
                     400);
    assert_true(asker_says(&asker, "65,536 pages"));
    /* A key of 4,096 bytes, and of one more. */
    char key[4100], body[4200];
    for (int extra = 0; extra < 2; extra++) {
        memset(key, 'k', sizeof(key));
        key[4096 + extra] = '\0';
        snprintf(body, sizeof(body), "{\"keys\":[\"%s\"]}", key);
        assert_int_equal(asker_post(&asker, EXISTS, body), extra == 0 ? 200 : 400);
    }
    assert_true(asker_says(&asker, "4,096 bytes of a key"));
    /* 127 arrays within the object are 128 deep. */
    for (int depth = 127; depth <= 128; depth++) {
        struct buffer deep = {0};
        buffer_append_text(&deep, "{\"keys\":[],\"x\":");
        for (int i = 0; i < depth; i++)
            buffer_append_char(&deep, '[');
        for (int i = 0; i < depth; i++)
            buffer_append_char(&deep, ']');
        buffer_append_char(&deep, '}');
        assert_int_equal(asker_ask_bytes(&asker, METHOD_POST, EXISTS, deep.data, deep.length),
                         depth == 127 ? 200 : 400);
        buffer_done(&deep);
    }
    /* A namespace of 80 bytes, and of one more. */
    for (int extra = 0; extra < 2; extra++) {
        memset(key, 'n', sizeof(key));
        key[80 + extra] = '\0';
        snprintf(body, sizeof(body), "{\"num_pages\":1,\"namespace\":\"%s\"}", key);
        assert_int_equal(asker_post(&asker, INITIALIZE, body), extra == 0 ? 204 : 400);
    }
    asker_end(&asker);
}

static void namespaces_and_pages_are_limited(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 100, 2);
    assert_int_equal(asker_post(&asker, "/1/initialize", "{\"num_pages\":60}"), 204);
    assert_int_equal(asker_post(&asker, "/2/initialize", "{\"num_pages\":41}"), 400);
    assert_true(asker_says(&asker, "100"));
    assert_int_equal(asker_post(&asker, "/2/initialize", "{\"num_pages\":40}"), 204);
    assert_int_equal(asker_post(&asker, "/3/initialize", "{\"num_pages\":1}"), 400);
    assert_int_equal(asker_post(&asker, "/2/initialize", "{\"num_pages\":40}"), 204);
    asker_end(&asker);
}

static void reports_are_bounded_for_each_connection(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(asker_post(&asker, INITIALIZE, "{\"num_pages\":200}"), 204);
    struct buffer keys = {0}, pages = {0}, confirms = {0};
    buffer_append_text(&keys, "{\"generations\":true,\"keys\":[");
    for (int i = 0; i < 100; i++)
        buffer_append_format(&keys, "%s[\"k%d\",\"\"]", i > 0 ? "," : "", i);
    buffer_append_text(&keys, "]}");
    assert_int_equal(asker_post(&asker, RESERVE, buffer_text(&keys)), 200);
    const struct catalog_reserved *reserved = asker.worker->reserved;
    buffer_append_text(&confirms, "{\"written_keys_to_confirm\":[");
    buffer_append_text(&pages, "{\"pages\":[");
    for (int i = 0; i < 100; i++) {
        const char *comma = i > 0 ? "," : "";
        unsigned long long generation = reserved[i].generation;
        buffer_append_format(&confirms, "%s[\"k%d\",%d,%llu,\"0000000000000001\"]", comma, i,
                             (int)reserved[i].page, generation);
        buffer_append_format(&pages, "%s[\"k%d\",%d,%llu]", comma, i, (int)reserved[i].page,
                             generation);
    }
    buffer_append_text(&confirms, "]}");
    buffer_append_text(&pages, "]}");
    assert_int_equal(asker_post(&asker, CONFIRM, buffer_text(&confirms)), 204);
    assert_int_equal(asker_post(&asker, REPORT, buffer_text(&pages)), 200);
    assert_string_equal(asker_body(&asker), "{\"retired\":64,\"ignored\":36}");
    assert_int_equal(asker_post(&asker, REPORT, buffer_text(&pages)), 200);
    assert_string_equal(asker_body(&asker), "{\"retired\":0,\"ignored\":100}");
    /* Another connection has a budget of its own; this one regains 8 a second. */
    asker.peer = (struct request_peer){0};
    assert_int_equal(asker_post(&asker, REPORT, buffer_text(&pages)), 200);
    assert_string_equal(asker_body(&asker), "{\"retired\":0,\"ignored\":100}");
    buffer_done(&keys);
    buffer_done(&pages);
    buffer_done(&confirms);
    asker_end(&asker);
}

static void reports_regain_with_time(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(asker_post(&asker, INITIALIZE, "{\"num_pages\":2}"), 204);
    assert_int_equal(ask_repeated(&asker, REPORT, "{\"pages\":[", "[\"x\",0,1]", 64, "]}"), 200);
    assert_int_equal(asker.peer.reports_used, 64);
    asker_now_ms += 1000;
    assert_int_equal(ask_repeated(&asker, REPORT, "{\"pages\":[", "[\"x\",0,1]", 64, "]}"), 200);
    assert_int_equal(asker.peer.reports_used, 64);
    asker_now_ms += 3600000;
    assert_int_equal(ask_repeated(&asker, REPORT, "{\"pages\":[", "[\"x\",0,1]", 1, "]}"), 200);
    assert_int_equal(asker.peer.reports_used, 1);
    asker_end(&asker);
}

/* ---- Paths, methods, pages -------------------------------------------------------------------*/

static void methods_are_those_of_the_path(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(asker_get(&asker, "/1/exists"), 405);
    assert_string_equal(asker.answer.extra, "allow: POST\r\n");
    assert_string_equal(asker_body(&asker), "{\"detail\":\"Method Not Allowed\"}");
    assert_int_equal(asker_ask_bytes(&asker, METHOD_OTHER, "/abc/exists", "", 0), 405);
    assert_int_equal(asker_ask_bytes(&asker, METHOD_HEAD, "/1/exists", "", 0), 405);
    assert_int_equal(asker_post(&asker, "/metrics", "{}"), 405);
    assert_string_equal(asker.answer.extra, "allow: GET, HEAD\r\n");
    assert_int_equal(asker_post(&asker, "/1/nope", "{}"), 404);
    assert_string_equal(asker_body(&asker), "{\"detail\":\"Not Found\"}");
    assert_int_equal(asker_get(&asker, "/1/nope"), 404);
    assert_int_equal(asker_ask_bytes(&asker, METHOD_HEAD, "/health", "", 0), 200);
    asker_end(&asker);
}

static void pages_show_the_figures(void **state)
{
    (void)state;
    static const char *const in_metrics[] = {
        "kvshelf_hits_total{rank=\"7\",namespace=\"k\\\"v\"} 1\n",
        "kvshelf_misses_total{rank=\"7\",namespace=\"k\\\"v\"} 1\n",
        "kvshelf_pages{rank=\"7\",namespace=\"k\\\"v\",state=\"committed\"} 1\n",
        "kvshelf_pages{rank=\"7\",namespace=\"k\\\"v\",state=\"free\"} 3\n",
        "kvshelf_rejections_total{rank=\"7\",namespace=\"k\\\"v\",reason=\"no such page\"} 1\n",
        "kvshelf_no_page_total{rank=\"7\",namespace=\"k\\\"v\",reason=\"leased\"} 0\n",
        "kvshelf_request_keys_total{endpoint=\"get_page_indices\"} 2\n",
        /* There before the first of them, so that increase() sees it. */
        "kvshelf_requests_total{endpoint=\"initialize\",status=\"4xx\"} 0\n",
        "kvshelf_requests_total{endpoint=\"exists\",status=\"2xx\"} 0\n",
        "kvshelf_requests_total{endpoint=\"exists\",status=\"5xx\"} 0\n",
        "kvshelf_requests_total{endpoint=\"metrics\",status=\"4xx\"} 0\n",
        "kvshelf_requests_total{endpoint=\"unknown\",status=\"4xx\"} 0\n",
        "# TYPE kvshelf_request_duration_seconds histogram\n",
        "kvshelf_ready 1\n",
    };
    struct asker asker;
    asker_begin(&asker, 0, 0);
    const char *ns = "\"namespace\":\"k\\\"v\"";
    char body[512];
    snprintf(body, sizeof(body), "{\"num_pages\":4,%s}", ns);
    assert_int_equal(asker_post(&asker, INITIALIZE, body), 204);
    snprintf(body, sizeof(body), "{\"keys\":[[\"a\",\"\"]],%s}", ns);
    assert_int_equal(asker_post(&asker, RESERVE, body), 200);
    snprintf(body, sizeof(body), "{\"written_keys_to_confirm\":[[\"a\",%d],[\"b\",9]],%s}",
             (int)asker.worker->reserved[0].page, ns);
    assert_int_equal(asker_post(&asker, CONFIRM, body), 200);
    snprintf(body, sizeof(body), "{\"keys\":[\"a\",\"b\"],%s}", ns);
    assert_int_equal(asker_post(&asker, GET, body), 200);

    assert_int_equal(asker_get(&asker, "/metrics"), 200);
    assert_string_equal(asker.answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
    for (size_t i = 0; i < sizeof(in_metrics) / sizeof(in_metrics[0]); i++)
        if (!asker_says(&asker, in_metrics[i]))
            fail_msg("%s is not in\n%s", in_metrics[i], asker_body(&asker));
    assert_false(asker_says(&asker, "{endpoint=\"unknown\",status=\"2xx\"}"));
    assert_int_equal(asker_get(&asker, STATUS), 200);
    assert_true(asker_says(&asker, "\"no_page\":{\"leased\":0,"));
    assert_true(asker_says(&asker, "\"rank\":7,\"namespace\":\"k\\\"v\",\"num_pages\":4"));
    assert_int_equal(asker_get(&asker, "/?x"), 200);
    assert_string_equal(asker.answer.content_type, "text/html; charset=utf-8");
    assert_true(asker_says(&asker, "50.0 %"));
    asker_end(&asker);
}

static void before_the_catalogs_are_loaded_only_health_is_good(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    atomic_store(&asker.service.registry, NULL);
    assert_int_equal(asker_get(&asker, "/health"), 200);
    assert_int_equal(asker_get(&asker, "/ready"), 503);
    assert_int_equal(asker_get(&asker, "/metrics"), 200);
    assert_true(asker_says(&asker, "kvshelf_ready 0\n"));
    assert_int_equal(asker_post(&asker, EXISTS, "{\"keys\":[]}"), 503);
    const struct http_request health = {.target = asker_text("/health")};
    const struct http_request exists = {.target = asker_text(EXISTS)};
    assert_false(request_must_wait(&asker.service, &health));
    assert_true(request_must_wait(&asker.service, &exists));
    atomic_store(&asker.service.registry, asker.registry);
    assert_false(request_must_wait(&asker.service, &exists));
    assert_int_equal(asker_get(&asker, "/ready"), 200);
    asker_end(&asker);
}

/* ---- Who may ask -----------------------------------------------------------------------------*/

static int ask_as(struct asker *asker, const char *target, const char *authorization,
                  const char *origin, const char *host)
{
    const struct http_request request = {
        .method = METHOD_GET,
        .target = asker_text(target),
        .authorization = asker_text(authorization),
        .origin = asker_text(origin),
        .host = asker_text(host),
    };
    request_answer(&asker->service, asker->worker, &asker->peer, &request, asker_now_ms,
                   &asker->answer);
    struct answer early;
    bool refused = request_is_refused(&asker->service, asker->worker, &asker->peer, &request,
                                      asker_now_ms, &early);
    assert_int_equal(refused, asker->answer.status == 401 || asker->answer.status == 403);
    return asker->answer.status;
}

static void a_token_is_asked_for_everywhere_but_for_probes(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    snprintf(asker.service.auth.token, sizeof(asker.service.auth.token), "s3cret");
    asker.service.auth.length = 6;
    assert_int_equal(ask_as(&asker, "/metrics", NULL, NULL, NULL), 401);
    assert_non_null(strstr(asker.answer.extra, "www-authenticate: "));
    assert_int_equal(ask_as(&asker, "/metrics", "Bearer wrong", NULL, NULL), 401);
    assert_int_equal(ask_as(&asker, "/metrics", "Bearer s3cret", NULL, NULL), 200);
    assert_int_equal(ask_as(&asker, "/nope", NULL, NULL, NULL), 401);
    assert_int_equal(ask_as(&asker, "/health", NULL, NULL, NULL), 200);
    assert_int_equal(ask_as(&asker, "/ready", NULL, NULL, NULL), 200);
    assert_false(asker_says(&asker, "s3cret"));
    asker_end(&asker);
}

struct lines {
    size_t count;
    char last[512];
};

static void keep_line(void *arg, enum kvs_log_level level, const char *line)
{
    struct lines *lines = arg;
    (void)level;
    lines->count++;
    snprintf(lines->last, sizeof(lines->last), "%s", line);
}

static void who_is_refused_is_logged_and_counted(void **state)
{
    (void)state;
    struct lines lines = {0};
    struct asker asker;
    asker_begin(&asker, 0, 0);
    asker.service.log = (struct logger){keep_line, &lines};
    snprintf(asker.service.auth.token, sizeof(asker.service.auth.token), "s3cret");
    asker.service.auth.length = 6;
    snprintf(asker.peer.address, sizeof(asker.peer.address), "10.0.0.7");
    assert_int_equal(asker_post(&asker, EXISTS, "{}"), 401);
    assert_string_equal(lines.last,
                        "A request (/7/exists) from 10.0.0.7 was refused: Authentication "
                        "required: the request carries no token");
    assert_int_equal(asker_post(&asker, "/x/exists", "{}"), 401);
    assert_non_null(strstr(lines.last, "A request (/?/exists) from"));
    /* Asked twice: whole, and by its head. */
    assert_int_equal(ask_as(&asker, "/metrics", "Bearer gu3ss", NULL, NULL), 401);
    assert_int_equal(lines.count, 4);
    assert_string_equal(lines.last,
                        "A request (/metrics) from 10.0.0.7 was refused: Authentication "
                        "required: the token of the request is not the server's");
    assert_int_equal(ask_as(&asker, "/metrics", "Bearer s3cret", NULL, NULL), 200);
    assert_int_equal(lines.count, 4);
    asker.service.auth.length = 0;
    assert_int_equal(asker_get(&asker, "/metrics"), 200);
    assert_true(asker_says(&asker, "kvshelf_unauthorized_total{reason=\"no token\"} 2\n"));
    assert_true(asker_says(&asker, "kvshelf_unauthorized_total{reason=\"wrong token\"} 2\n"));
    asker_end(&asker);
}

/* All ranks of an engine start at once. */
static void each_rank_whose_initialize_is_refused_is_logged(void **state)
{
    (void)state;
    struct lines lines = {0};
    struct asker asker;
    char path[32], says[64];
    asker_begin(&asker, 0, 0);
    asker.service.log = (struct logger){keep_line, &lines};
    for (size_t rank = 0; rank < 8; rank++) {
        snprintf(path, sizeof(path), "/%zu/initialize", rank);
        snprintf(says, sizeof(says), "An initialize was refused: Rank %zu ", rank);
        assert_int_equal(asker_post(&asker, path, "{\"num_pages\":8}"), 204);
        assert_int_equal(asker_post(&asker, path, "{\"num_pages\":9}"), 409);
        assert_int_equal(lines.count, rank + 1);
        assert_memory_equal(lines.last, says, strlen(says));
    }
    asker_end(&asker);
}

static void pages_of_other_origins_are_refused(void **state)
{
    (void)state;
    struct asker asker;
    asker_begin(&asker, 0, 0);
    assert_int_equal(ask_as(&asker, "/", NULL, "http://example.org", "127.0.0.1:18000"), 403);
    assert_true(asker_says(&asker, "http://example.org"));
    assert_int_equal(ask_as(&asker, "/health", NULL, "null", "127.0.0.1:18000"), 403);
    assert_int_equal(ask_as(&asker, "/", NULL, "http://127.0.0.1:18000", "127.0.0.1:18000"), 200);
    assert_int_equal(ask_as(&asker, "/", NULL, NULL, "anything"), 200);
    asker_end(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenarios_hold),
        cmocka_unit_test(malformed_requests_are_refused_whole),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(namespaces_and_pages_are_limited),
        cmocka_unit_test(reports_are_bounded_for_each_connection),
        cmocka_unit_test(reports_regain_with_time),
        cmocka_unit_test(methods_are_those_of_the_path),
        cmocka_unit_test(pages_show_the_figures),
        cmocka_unit_test(before_the_catalogs_are_loaded_only_health_is_good),
        cmocka_unit_test(a_token_is_asked_for_everywhere_but_for_probes),
        cmocka_unit_test(who_is_refused_is_logged_and_counted),
        cmocka_unit_test(each_rank_whose_initialize_is_refused_is_logged),
        cmocka_unit_test(pages_of_other_origins_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
