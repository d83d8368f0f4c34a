/* What keeps the pages of one shard of one model apart from all others: the rank, the namespace,
 * the path of the page file, and the fingerprint. One place derives all four.
 *
 *   path        {prefix}.{rank}.bin, {prefix}.pp1of2.{rank}.bin; pools: {that}.{pool}
 *   namespace   kv, kv@pp1of2; pools: mamba, mamba@pp1of2
 *   rank        the tensor-parallel rank; 0 for pages that are the same on every rank
 *
 * Shards by pipeline (pp), context (cp) and data (dp, unless shared on purpose) are named where
 * there is more than one, so that with one each both stay the original's. */
#ifndef KVSHELF_STORE_IDENTITY_H
#define KVSHELF_STORE_IDENTITY_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"

enum { IDENTITY_POOL_NAME_MAX = 100 }; /* bytes */

/* Whether the pages of a pool are the same on every tensor-parallel rank. Only an MLA model has
 * such pools; its KV pool is one, others say so themselves. */
bool identity_replicated(const struct kvs_store_options *options, bool is_kv, bool pool_replicated);

uint32_t identity_rank(const struct kvs_store_options *options, bool replicated);

/* "pp1of2", "pp1of2.cp0of4", "" with one shard. */
void identity_shard(const struct kvs_store_options *options, struct buffer *out);

/* `pool` is NULL for the KV pool. Bytes of a pool's name that have no place in a file name are
 * written as % and two hexadecimal digits (base/text.h). */
void identity_path(const struct kvs_store_options *options, uint32_t rank, const char *pool,
                   struct buffer *out);
/* The same from a namespace, for who has nothing but a catalog: the path of the file that the pages
 * of (rank, namespace) are in. */
void identity_path_of(const char *prefix, uint32_t rank, const char *ns, struct buffer *out);
void identity_namespace(const struct kvs_store_options *options, const char *pool,
                        struct buffer *out);

/* What must be equal for bytes to be understood: "model=...;revision=...;dtype=...;layout=...;
 * page_size=64;pairs=0;bytes_per_page=...". What is not stated is left out; "" when nothing is (the
 * geometry is checked by itself). */
void identity_fingerprint(const struct kvs_store_options *options, bool pairs,
                          uint64_t bytes_per_page, struct buffer *out);

/* For who knows but a part of it, as the commands do: whether model, revision, dtype and layout are
 * those of a fingerprint, as far as both state them. If not, what the options state is appended to
 * `out`. */
bool identity_agrees(const struct kvs_store_options *options, const char *fingerprint,
                     size_t length, struct buffer *out);

#endif
