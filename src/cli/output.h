/* What commands print: results on stdout, everything else on stderr. */
#ifndef KVSHELF_CLI_OUTPUT_H
#define KVSHELF_CLI_OUTPUT_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* `kvshelf: <sentence>` and `  see: kvshelf explain KVS-201`; with `json` an object with the
 * members error (code, symbol, message, retry, remedies). One place for all. */
void output_error(FILE *out, bool json, const struct kvs_error *error);

/* Writes the content of a buffer and a line end to `out` and flushes it. Errors: KVS_ERR_OUTPUT,
 * KVS_ERR_NO_MEMORY (the buffer had failed). */
enum kvs_status output_buffer(FILE *out, struct buffer *buffer, struct kvs_error *error);

/* Flushes `out` and says whether all that was printed arrived. Errors: KVS_ERR_OUTPUT. */
enum kvs_status output_flush(FILE *out, struct kvs_error *error);

/* Prints `text` wrapped at 78 columns, every line indented; line ends in the text are kept. */
void output_wrapped(FILE *out, unsigned indent, const char *text);

/* The same as an item of a list: a dash before the first line. */
void output_item(FILE *out, unsigned indent, const char *text);

/* A progress bar: redrawn in place on a terminal, a line every few seconds elsewhere, nothing with
 * --json or for work that ends at once. Calls are cheap; call after each step. Not thread-safe. */
struct progress {
    FILE *out;
    const char *what, *unit; /* "replaying", "requests" */
    uint64_t total, last_ns, started_ns;
    uint64_t bytes; /* moved so far, set by the caller: their rate is shown; 0: none are */
    int columns; /* of the terminal; 0: not known. A narrow one gets no bar, and no line that wraps
                  */
    bool terminal, quiet, drawn;
};
void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total,
                    bool quiet);
void progress_update(struct progress *progress, uint64_t done);
void progress_end(struct progress *progress); /* clears the bar */

/* Where lines of the library go in commands: `kvshelf: warning: ...` on stderr, from level `arg` (a
 * pointer to an enum kvs_log_level) on; NULL: warnings and errors. */
void output_log(void *arg, enum kvs_log_level level, const char *line);

#endif
