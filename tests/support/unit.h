/* cmocka with what it needs before it, in one include that sorting cannot break. */
#ifndef KVSHELF_TESTS_SUPPORT_UNIT_H
#define KVSHELF_TESTS_SUPPORT_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
