/* Makes the nth allocation of the program fail, and counts what was not freed. It replaces malloc()
 * and its kin, so it is included by the one file of a test program; in the archive of helpers it
 * would be linked into every test. */
#ifndef KVSHELF_TESTS_SUPPORT_FAIL_ALLOCATION_H
#define KVSHELF_TESTS_SUPPORT_FAIL_ALLOCATION_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 0 /* the sanitizers bring their own allocator */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_FAIL_ALLOCATIONS 0
#endif
#endif
#ifndef CAN_FAIL_ALLOCATIONS
#define CAN_FAIL_ALLOCATIONS 1
#endif

#if CAN_FAIL_ALLOCATIONS
static _Atomic uint64_t fail_allocation; /* the nth from now; 0: none */
static _Atomic int64_t blocks;           /* allocated and not freed */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

/* From now on; 0: none. */
static void fail_allocation_arm(uint64_t nth)
{
    atomic_store(&fail_allocation, nth);
}

static bool fail_allocation_fired(void)
{
    return atomic_load(&fail_allocation) == 0;
}

static int64_t fail_allocation_blocks(void)
{
    return atomic_load(&blocks);
}

static bool fails(void)
{
    uint64_t left = atomic_load(&fail_allocation);
    while (left > 0)
        if (atomic_compare_exchange_weak(&fail_allocation, &left, left - 1)) {
            if (left == 1)
                errno = ENOMEM;
            return left == 1;
        }
    return false;
}

static void *counted(void *block)
{
    if (block != NULL)
        atomic_fetch_add(&blocks, 1);
    return block;
}

/* Visible, so that the C library uses them too. */
#pragma GCC visibility push(default)
void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    void *moved = __libc_realloc(block, size);
    return block == NULL ? counted(moved) : moved;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
    void *block = aligned_alloc(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *ret_block = block;
    return 0;
}

void free(void *block)
{
    if (block != NULL)
        atomic_fetch_sub(&blocks, 1);
    __libc_free(block);
}
#pragma GCC visibility pop
#endif

#endif
