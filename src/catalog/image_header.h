/* The header of a kept image: its layout, and telling a good copy from a bad one. Pure: bytes in,
 * verdict out. The layout is described in docs/format.md. */
#ifndef KVSHELF_CATALOG_IMAGE_HEADER_H
#define KVSHELF_CATALOG_IMAGE_HEADER_H

#include "catalog/slot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IMAGE_VERSION = 1,
    IMAGE_BLOCK_BYTES = 4096, /* of a header copy, and of the live block */
    IMAGE_COPIES = 2,
    IMAGE_ID_BYTES = 16,
    IMAGE_BOOT_ID_BYTES = 16,
    IMAGE_NS_MAX = 255,           /* bytes of a namespace's name */
    IMAGE_FINGERPRINT_MAX = 2047, /* bytes */

    /* Where things are in an image: two header copies, the live block, the slots. */
    IMAGE_LIVE_OFFSET = IMAGE_COPIES * IMAGE_BLOCK_BYTES,
    IMAGE_SLOTS_OFFSET = IMAGE_LIVE_OFFSET + IMAGE_BLOCK_BYTES,
};

struct image_header {
    char magic[8];
    uint32_t version;
    uint32_t clean; /* 1: closed by a clean stop, the slots are the whole truth */
    uint8_t id[IMAGE_ID_BYTES];
    uint8_t boot_id[IMAGE_BOOT_ID_BYTES]; /* of the run that wrote this */
    uint64_t sequence;                    /* the copy with the higher one counts */
    uint64_t run;                         /* counts openings; 0: never opened */
    uint64_t token;                       /* random, of this run: a live array must hold the same */
    uint64_t num_pages;
    uint64_t bytes_per_page; /* 0: not stated yet */
    struct catalog_state state;
    uint64_t unsettled_until_ms; /* CLOCK_BOOTTIME: until then `unsettled_origin` still applies */
    uint64_t written_us;         /* CLOCK_REALTIME, for people */
    uint64_t recency_count;      /* after a clean stop: page numbers behind the slots */
    uint32_t recency_crc;        /* CRC-32C over them */
    uint32_t rank;
    uint32_t ns_length, fingerprint_length;
    uint32_t unsettled_origin; /* enum catalog_origin */
    uint32_t slot_bytes;
    char ns[IMAGE_NS_MAX + 1];
    char fingerprint[IMAGE_FINGERPRINT_MAX + 1];
    uint8_t unused[1620];
    uint32_t crc; /* CRC-32C over everything before */
};
_Static_assert(sizeof(struct image_header) == IMAGE_BLOCK_BYTES, "a header copy is one block");
_Static_assert(offsetof(struct image_header, state) == 88 &&
                   offsetof(struct image_header, ns) == 168 &&
                   offsetof(struct image_header, crc) == IMAGE_BLOCK_BYTES - 4,
               "the layout is the file format");

/* Fills magic, version and CRC: the last thing before a copy is written. */
void image_header_seal(struct image_header *header);

enum image_verdict {
    IMAGE_GOOD,
    IMAGE_FOREIGN,       /* not an image at all */
    IMAGE_OTHER_VERSION, /* of another version of the format */
    IMAGE_DAMAGED,       /* an image whose header copies are both bad */
    IMAGE_TRUNCATED,     /* shorter than its header says, or than a header */
};
struct image_finding {
    struct image_header header; /* GOOD: the newest good copy */
    unsigned copy;              /* GOOD: its number */
    uint32_t version;           /* OTHER_VERSION: that version */
    uint64_t needed_bytes;      /* TRUNCATED: the least size of the file */
};
/* Looks at the first `length` bytes of a file of `file_bytes`; they hold both copies when the file
 * is that long. */
enum image_verdict image_header_find(const void *bytes, size_t length, uint64_t file_bytes,
                                     struct image_finding *ret_finding);

/* Bytes of an image without a recency order. */
static inline uint64_t image_base_bytes(uint64_t num_pages)
{
    return IMAGE_SLOTS_OFFSET + num_pages * sizeof(struct slot);
}

enum { IMAGE_NAME_BYTES = 256 };
/* The file name of (rank, namespace): `<rank>.<percent-encoded namespace>.kvc`. A name too long for
 * a file keeps its beginning, then `~` and a checksum of the whole. False on lack of memory. */
bool image_file_name(uint32_t rank, const char *ns, char ret_name[IMAGE_NAME_BYTES]);

#endif
