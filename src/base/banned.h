/* Functions that kvshelf never uses, made into compile errors. The build puts this file in front of
 * every source of the project (-include); no source includes it by name.
 *
 * The headers that declare them come first: a poisoned name may not appear afterwards, not even in
 * a declaration. Variable-length arrays are refused by -Wvla. */
#ifndef KVSHELF_BASE_BANNED_H
#define KVSHELF_BASE_BANNED_H

#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some of them are macros in the fortified headers. */
#undef strcpy
#undef strcat
#undef sprintf
#undef vsprintf
#undef gets
#undef stpcpy
#undef alloca

/* No bound on what they write. */
#pragma GCC poison strcpy strcat sprintf vsprintf gets stpcpy
/* Hidden state shared by all threads. */
#pragma GCC poison strtok
/* No way to tell a number from rubbish, no overflow: strtoll and friends say both. */
#pragma GCC poison atoi atol atoll atof
/* No answer when the stack is too small. */
#pragma GCC poison alloca

#endif
