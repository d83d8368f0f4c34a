/* What a log says without quoting the catalogue, and the entry it is about: lines of other programs
 * (SGLang's client of a metadata server prints what Python's requests raises) and warnings of
 * kvshelf's own. For `kvshelf explain`. */
#ifndef KVSHELF_BASE_PHRASES_H
#define KVSHELF_BASE_PHRASES_H

#include "kvshelf/kvshelf.h"

#include <stddef.h>

struct phrase {
    const char *text; /* a template, as the messages of the catalogue are */
    enum kvs_status status;
};

/* All of them. Static storage. */
const struct phrase *phrase_table(size_t *ret_count);

#endif
