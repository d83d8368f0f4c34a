/* A growable run of bytes: what answers, pages of text and unescaped strings are built in.
 *
 * `struct buffer b = {0};` is an empty buffer. Lack of memory is remembered in `failed`: appends
 * after it do nothing, so that a long run of appends is checked once, at its end. Not thread-safe.
 */
#ifndef KVSHELF_BASE_BUFFER_H
#define KVSHELF_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buffer {
    char *data;
    size_t length, capacity; /* bytes */
    bool failed;             /* memory ran out; what is there is cut */
};

/* Makes room for `extra` more bytes; false (and failed) when memory runs out. Moves `data`. */
bool buffer_reserve(struct buffer *buffer, size_t extra);

void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_append_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void buffer_append_char(struct buffer *buffer, char c)
{
    if (buffer->length < buffer->capacity || buffer_reserve(buffer, 1))
        buffer->data[buffer->length++] = c;
}

/* The content as a NUL-terminated text (the NUL is not counted in `length`), valid until the next
 * append; "" when memory ran out. */
const char *buffer_text(struct buffer *buffer);

/* Empties the buffer, keeps its memory and forgets a failure. */
void buffer_clear(struct buffer *buffer);

/* Appends all that can be read from `fd`, at most `limit` bytes. Returns 0, or an errno: that of
 * read(), EFBIG when there is more than `limit`, ENOMEM. */
int buffer_read_fd(struct buffer *buffer, int fd, size_t limit);

/* Frees the memory; the buffer is empty and may be used again. */
void buffer_done(struct buffer *buffer);

#endif
