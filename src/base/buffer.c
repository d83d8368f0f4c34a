/* A growable run of bytes. */
#include "base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_BYTES = 256, READ_BYTES = 64 << 10 };

bool buffer_reserve(struct buffer *buffer, size_t extra)
{
    if (buffer->failed)
        return false;
    if (extra <= buffer->capacity - buffer->length)
        return true;
    size_t capacity = buffer->capacity < FIRST_BYTES ? FIRST_BYTES : buffer->capacity;
    while (capacity - buffer->length < extra && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *data = capacity - buffer->length < extra ? NULL : realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->failed = true;
        buffer->capacity = buffer->length; /* so that buffer_append_char() finds no room either */
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (length == 0 || !buffer_reserve(buffer, length))
        return;
    memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
}

void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_append_format(struct buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    /* Room for the NUL that vsnprintf insists on; it is not counted. */
    if (length < 0)
        buffer->failed = true;
    else if (buffer_reserve(buffer, (size_t)length + 1)) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

const char *buffer_text(struct buffer *buffer)
{
    if (!buffer_reserve(buffer, 1))
        return "";
    buffer->data[buffer->length] = '\0';
    return buffer->data;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
}

int buffer_read_fd(struct buffer *buffer, int fd, size_t limit)
{
    size_t total = 0;
    for (;;) {
        if (!buffer_reserve(buffer, READ_BYTES))
            return ENOMEM;
        ssize_t got = read(fd, buffer->data + buffer->length, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            return 0;
        if ((size_t)got > limit - total)
            return EFBIG;
        total += (size_t)got;
        buffer->length += (size_t)got;
    }
}

void buffer_done(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
