/* Sealing a slot and telling a whole one from a torn one. Which changes are made is decided by the
 * catalog. */
#include "catalog/slot.h"

#include "base/checksum.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "slots are little-endian");

/* The page number salts the CRC: a slot that a fault has put at another page's place is not intact
 * there. */
static uint32_t slot_crc(const struct slot *slot, uint32_t page, uint32_t low_seal)
{
    uint8_t bytes[KEY_DIGEST_BYTES + 8 + 8 + 4];
    size_t length = 0;
    memcpy(bytes, slot->digest, KEY_DIGEST_BYTES);
    length += KEY_DIGEST_BYTES;
    memcpy(bytes + length, &slot->generation, 8);
    length += 8;

    enum slot_state state = (enum slot_state)((low_seal >> 16) & 0xff);
    if (state == SLOT_COMMITTED && ((low_seal >> 24) & SLOT_HAS_CHECKSUM) != 0) {
        memcpy(bytes + length, &slot->value, 8);
        length += 8;
    }
    memcpy(bytes + length, &low_seal, 4);
    length += 4;
    return checksum_crc32c(page, bytes, length);
}

void slot_copy(struct slot *ret_slot, const struct slot *slot)
{
    typedef uint64_t __attribute__((may_alias)) word;
    const word *from = (const word *)(const void *)slot;
    word *to = (word *)(void *)ret_slot;
    for (unsigned i = 0; i < sizeof(*slot) / sizeof(word); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void slot_seal(struct slot *slot, uint32_t page, uint16_t suffix, enum slot_state state,
               uint8_t flags)
{
    uint32_t low = (uint32_t)suffix | (uint32_t)state << 16 | (uint32_t)flags << 24;
    uint64_t seal = (uint64_t)slot_crc(slot, page, low) << 32 | low;
    /* Last and at once: the compiler must not move another field's store behind it. */
    __atomic_store_n(&slot->seal, seal, __ATOMIC_RELEASE);
}

bool slot_intact(const struct slot *slot, uint32_t page)
{
    if ((uint32_t)(slot->seal >> 32) == slot_crc(slot, page, (uint32_t)slot->seal))
        return true;
    static const struct slot never_used;
    return memcmp(slot, &never_used, sizeof(never_used)) == 0;
}
