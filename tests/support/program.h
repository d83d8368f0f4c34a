/* Runs the program, kvshelf, as a user would. It lies in the working directory of the tests. */
#ifndef KVSHELF_TESTS_SUPPORT_PROGRAM_H
#define KVSHELF_TESTS_SUPPORT_PROGRAM_H

#include "base/buffer.h"

struct program_result {
    int exit_code; /* -1: ended by a signal */
    struct buffer out, err;
};

/* `arguments` ends with NULL and does not hold the program's name. Standard input is empty. Waits
 * for the end; ends the test when the program cannot be run. */
struct program_result program_run(const char *const arguments[]);
/* The same with standard output going to `path`. */
struct program_result program_run_to(const char *path, const char *const arguments[]);
void program_done(struct program_result *result);

#define PROGRAM(...) program_run((const char *const[]){__VA_ARGS__, NULL})

#endif
