/* Header copies of a kept image; see image_header.h. */
#include "catalog/image_header.h"

#include "base/checksum.h"
#include "base/text.h"
#include "catalog/catalog.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "images are little-endian");

static const char image_magic[8] = {'k', 'v', 's', 'h', 'e', 'l', 'f', 'C'};

static uint32_t header_crc(const struct image_header *header)
{
    return checksum_crc32c(0, header, offsetof(struct image_header, crc));
}

void image_header_seal(struct image_header *header)
{
    memcpy(header->magic, image_magic, sizeof(image_magic));
    header->version = IMAGE_VERSION;
    header->slot_bytes = sizeof(struct slot);
    header->crc = header_crc(header);
}

/* A header with a right CRC was written by us: this catches what a mistake of ours or a crafted
 * file would make us trust. */
static bool header_makes_sense(const struct image_header *header)
{
    return header->slot_bytes == sizeof(struct slot) && header->num_pages >= 1 &&
           header->num_pages <= CATALOG_PAGES_MAX && header->ns_length <= IMAGE_NS_MAX &&
           header->ns[header->ns_length] == 0 && strlen(header->ns) == header->ns_length &&
           header->fingerprint_length <= IMAGE_FINGERPRINT_MAX &&
           header->fingerprint[header->fingerprint_length] == 0 &&
           strlen(header->fingerprint) == header->fingerprint_length && header->clean <= 1 &&
           header->recency_count <= header->num_pages &&
           header->unsettled_origin <= CATALOG_POWER_LOST;
}

/* What one copy says; IMAGE_GOOD leaves the size of the file to the caller. */
static enum image_verdict look_at_copy(const void *bytes, size_t length,
                                       struct image_header *header)
{
    memset(header, 0, sizeof(*header));
    memcpy(header, bytes, length < sizeof(*header) ? length : sizeof(*header));
    if (memcmp(header->magic, image_magic, sizeof(image_magic)) != 0)
        return IMAGE_FOREIGN;
    if (length < sizeof(*header))
        return IMAGE_TRUNCATED;
    if (header->version != IMAGE_VERSION)
        return IMAGE_OTHER_VERSION;
    if (header->crc != header_crc(header) || !header_makes_sense(header))
        return IMAGE_DAMAGED;
    return IMAGE_GOOD;
}

enum image_verdict image_header_find(const void *bytes, size_t length, uint64_t file_bytes,
                                     struct image_finding *ret_finding)
{
    struct image_finding finding = {.needed_bytes = IMAGE_SLOTS_OFFSET};
    bool seen[IMAGE_TRUNCATED + 1] = {false};
    for (unsigned copy = 0; copy < IMAGE_COPIES; copy++) {
        size_t at = (size_t)copy * IMAGE_BLOCK_BYTES;
        struct image_header header;
        enum image_verdict verdict = look_at_copy((const char *)bytes + (at < length ? at : 0),
                                                  at < length ? length - at : 0, &header);
        if (verdict == IMAGE_OTHER_VERSION)
            finding.version = header.version;
        if (verdict == IMAGE_GOOD &&
            (!seen[IMAGE_GOOD] || header.sequence > finding.header.sequence)) {
            finding.header = header;
            finding.copy = copy;
        }
        seen[verdict] = true;
    }

    enum image_verdict verdict = IMAGE_FOREIGN;
    if (seen[IMAGE_GOOD]) {
        const struct image_header *header = &finding.header;
        finding.needed_bytes = image_base_bytes(header->num_pages);
        finding.needed_bytes += header->clean != 0 ? header->recency_count * sizeof(uint32_t) : 0;
        verdict = file_bytes < finding.needed_bytes ? IMAGE_TRUNCATED : IMAGE_GOOD;
    } else if (seen[IMAGE_OTHER_VERSION]) {
        verdict = IMAGE_OTHER_VERSION;
    } else if (seen[IMAGE_DAMAGED]) {
        verdict = file_bytes < IMAGE_SLOTS_OFFSET ? IMAGE_TRUNCATED : IMAGE_DAMAGED;
    } else if (seen[IMAGE_TRUNCATED] || file_bytes == 0) {
        verdict = IMAGE_TRUNCATED;
    }
    *ret_finding = finding;
    return verdict;
}

bool image_file_name(uint32_t rank, const char *ns, char ret_name[IMAGE_NAME_BYTES])
{
    enum { ENCODED_MAX = 200 };
    struct buffer encoded = {0};
    text_percent_encode(&encoded, ns, strlen(ns));
    const char *text = buffer_text(&encoded);
    if (encoded.length <= ENCODED_MAX)
        snprintf(ret_name, IMAGE_NAME_BYTES, "%u.%s.kvc", rank, text);
    else
        snprintf(ret_name, IMAGE_NAME_BYTES, "%u.%.180s~%016llx.kvc", rank, text,
                 (unsigned long long)checksum_page(ns, strlen(ns)));
    bool made = !encoded.failed;
    buffer_done(&encoded);
    return made;
}
