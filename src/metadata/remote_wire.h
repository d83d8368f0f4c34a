/* The protocol as the client speaks it: bodies of questions, and what is read out of answers. Pure.
 *
 * Every question states namespace, bytes_per_page and fingerprint, and asks for generations and
 * checksums; a server of the original protocol ignores what it does not know and leaves them out
 * of its answers, which is how it is recognised. */
#ifndef KVSHELF_METADATA_REMOTE_WIRE_H
#define KVSHELF_METADATA_REMOTE_WIRE_H

#include "base/buffer.h"
#include "metadata/metadata.h"

enum {
    WIRE_FAULT_MAX = 192,      /* a fault in words, bytes */
    WIRE_KEY_MAX = 72,         /* what stands for a key that cannot travel, bytes */
    WIRE_ANSWER_MIN = 1 << 16, /* room for any answer without lists, bytes */
    WIRE_ANSWER_EACH = 128,    /* and for each key, bytes */
    WIRE_REJECTED_EACH = 128,  /* and for each confirm or release, beside its key six times */
};

/* ---- Questions: lack of memory shows in out->failed */

enum wire_keys { WIRE_EXISTS, WIRE_GET, WIRE_RESERVE, WIRE_DELETE };

/* `verifying`: pages without a checksum are absent, and checksums are answered. `owner` is of
 * reserve. */
void wire_write_keys(struct buffer *out, enum wire_keys kind, const struct metadata_scope *scope,
                     const struct metadata_text keys[], size_t n, bool verifying, uint64_t owner);
void wire_write_initialize(struct buffer *out, const struct metadata_scope *scope,
                           uint64_t num_pages);
/* Entries of generation 0 are written in the original's form, which has none. */
void wire_write_confirm(struct buffer *out, const struct metadata_scope *scope,
                        const struct metadata_confirm confirms[], size_t n_confirm,
                        const struct metadata_release releases[], size_t n_release);
void wire_write_report(struct buffer *out, const struct metadata_scope *scope,
                       const struct metadata_release pages[], size_t n);
void wire_write_clear(struct buffer *out, const struct metadata_scope *scope);

/* The key as it is sent. Keys that are no UTF-8 or too long are sent as "sha256:" and the digest of
 * their bytes, and so are those that begin like that, so that no two keys become one. */
struct metadata_text wire_key(struct metadata_text key, char digest[WIRE_KEY_MAX]);

/* How many of the first n keys one question may hold: bounded in number and bytes, and even unless
 * it is all, so that the halves of a pair stay together. At least 1 when n is. */
size_t wire_part(const struct metadata_text keys[], size_t n);

/* ---- Answers: false, and the fault in words, when they are not what the protocol says. Outputs
 * are then undefined. *ret_native: generations or checksums were answered. */

bool wire_read_reserved(const struct buffer *answer, size_t n, struct catalog_reserved ret[],
                        bool *ret_native, char fault[WIRE_FAULT_MAX]);
bool wire_read_found(const struct buffer *answer, size_t n, struct catalog_found ret[],
                     bool *ret_native, char fault[WIRE_FAULT_MAX]);
bool wire_read_exists(const struct buffer *answer, size_t n, bool ret[],
                      char fault[WIRE_FAULT_MAX]);
/* The confirms that were rejected, by the lists that were sent. */
bool wire_read_rejected(const struct buffer *answer, const struct metadata_confirm confirms[],
                        size_t n_confirm, const struct metadata_release releases[],
                        size_t n_release, enum catalog_rejection ret_reasons[],
                        char fault[WIRE_FAULT_MAX]);
/* The `detail` of a failure, cut and made one line; "" when there is none. */
void wire_read_detail(const struct buffer *answer, char detail[KVS_ERROR_MESSAGE_MAX]);

#endif
