/* Fuzzes what the remote client reads out of answers. The first byte chooses the reader and how
 * many keys were asked; the rest is the answer, which ends at the end of an allocation. What was
 * taken must be as the reader promises it: pages from -1 on, reasons of the list. */
#include "metadata/remote_wire.h"

#include <stdlib.h>

enum { KEYS_MAX = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const struct metadata_confirm confirms[KEYS_MAX] = {{{"a", 1}, 1, 7, 1},
                                                           {{"b", 1}, 2, 8, 2}};
static const struct metadata_release releases[1] = {{{"c", 1}, 3, 9}};

static void check(bool good)
{
    if (!good)
        abort();
}

static void read_answer(unsigned reader, const struct buffer *answer, size_t n)
{
    char fault[WIRE_FAULT_MAX] = "", detail[KVS_ERROR_MESSAGE_MAX];
    struct catalog_reserved reserved[KEYS_MAX];
    struct catalog_found found[KEYS_MAX];
    enum catalog_rejection reasons[KEYS_MAX] = {0};
    bool exists[KEYS_MAX], native, good = true;
    switch (reader) {
    case 0:
        good = wire_read_reserved(answer, n, reserved, &native, fault);
        for (size_t i = 0; good && i < n; i++)
            check(reserved[i].page >= -1);
        break;
    case 1:
        good = wire_read_found(answer, n, found, &native, fault);
        for (size_t i = 0; good && i < n; i++)
            check(found[i].page >= -1);
        break;
    case 2:
        good = wire_read_exists(answer, n, exists, fault);
        break;
    default:
        good = wire_read_rejected(answer, confirms, n, releases, 1, reasons, fault);
        for (size_t i = 0; i < n; i++)
            check(reasons[i] < CATALOG_REJECTIONS);
        wire_read_detail(answer, detail);
        check(memchr(detail, '\0', sizeof(detail)) != NULL);
        break;
    }
    check(good || fault[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    char *copy = malloc(length > 1 ? length - 1 : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes + 1, length - 1);
    const struct buffer answer = {.data = copy, .length = length - 1};
    /* Confirms without a text in the list above are none. */
    unsigned reader = bytes[0] & 3;
    size_t n = (bytes[0] >> 2) % (reader == 3 ? 3 : KEYS_MAX);
    read_answer(reader, &answer, n);
    free(copy);
    return 0;
}
