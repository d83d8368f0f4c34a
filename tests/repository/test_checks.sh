#!/bin/sh
# The repository's checks can fail: each is given a small tree with the fault it looks for, and the
# same tree without it.
#
#   test_checks.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -eu
source=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# A tree that is right.
fresh_tree() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/include/kvshelf" "$tree/src/base" "$tree/src/catalog" "$tree/src/metadata" \
        "$tree/src/pagefile" "$tree/src/store" "$tree/src/server" "$tree/src/cli"
    echo '#include <stdint.h>' >"$tree/include/kvshelf/kvshelf.h"
    for floor in base catalog metadata pagefile store server cli; do
        echo '#include "kvshelf/kvshelf.h"' >"$tree/src/$floor/$floor.h"
    done
    printf '#include "base/base.h"\n#include "catalog/catalog.h"\n' >"$tree/src/store/a.c"
    cp "$source/.clang-format" "$tree/"
}

# expect pass|fail WHAT COMMAND...
expect() {
    expected=$1
    what=$2
    shift 2
    if "$@" >"$tree.log" 2>&1; then got=pass; else got=fail; fi
    if [ "$got" != "$expected" ]; then
        echo "FAILED: $what: expected to $expected, and it did not:"
        cat "$tree.log"
        failures=$((failures + 1))
    else
        echo "ok: $what"
    fi
    rm -f "$tree.log"
}

layers() { # FILE LINE WHAT
    fresh_tree
    echo "$2" >>"$tree/$1"
    expect fail "layers: $3" "$source/scripts/check-layers" "$tree"
}
fresh_tree
expect pass "layers: a tree that is right" "$source/scripts/check-layers" "$tree"
layers src/base/base.h '#include "catalog/catalog.h"' "a higher floor"
layers src/metadata/metadata.h '#include "pagefile/pagefile.h"' "a neighbour on the same floor"
layers src/server/server.h '  #  include "store/store.h"' "store from server"
layers src/store/a.c '#include "cli/cli.h"' "the command line from below"
layers src/store/a.c '#include "base.h"' "no folder"
layers src/store/a.c '#include "../base/base.h"' "climbing"
layers src/store/a.c '#include "base/absent.h"' "a file that is not there"
layers src/store/a.c '#include "kvshelf/absent.h"' "a public header that is not there"
layers src/store/a.c '#include <base/base.h>' "angle brackets"
layers src/store/a.c '#include "attic/old.h"' "an unknown floor"
layers include/kvshelf/kvshelf.h '#include "base/base.h"' "an internal header in the public one"
fresh_tree
mkdir "$tree/src/attic" && echo 'int x;' >"$tree/src/attic/x.c"
expect fail "layers: a folder without a floor" "$source/scripts/check-layers" "$tree"
fresh_tree
mkdir "$tree/include/other" && echo 'int x;' >"$tree/include/other/x.h"
expect fail "layers: a public header elsewhere" "$source/scripts/check-layers" "$tree"

if PATH=/usr/bin:$PATH command -v clang-format-14 >/dev/null 2>&1; then
    fresh_tree
    printf 'int f(void)\n{\n    return 0;\n}\n' >"$tree/src/base/f.c"
    expect pass "format: a tree that is right" "$source/scripts/check-format" "$tree"
    printf 'int f(void) {\n  return 0; }\n' >"$tree/src/base/f.c"
    expect fail "format: a brace and an indent elsewhere" "$source/scripts/check-format" "$tree"
    "$source/scripts/check-format" --fix "$tree"
    expect pass "format: mended by --fix" "$source/scripts/check-format" "$tree"
else
    echo "not run: format, since clang-format-14 is not installed"
fi

# Compiles a function with this statement in it.
compile() { # STATEMENT
    cat >"$tree/banned.c" <<EOF
void f(char *a, char *b);
void f(char *a, char *b)
{
    (void)a;
    (void)b;
    $1;
}
EOF
    "${CC:-cc}" -D_GNU_SOURCE -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Werror -include "$source/src/base/banned.h" -fsyntax-only "$tree/banned.c"
}
# For this reason and no other.
refused() { ! compile "$1" 2>&1 | grep -q 'attempt to use \(a \)\?poisoned'; }
fresh_tree
expect pass "banned: a function that is allowed" compile 'memcpy(a, b, 1)'
for call in 'strcpy(a, b)' 'strcat(a, b)' 'sprintf(a, "%s", b)' 'strtok(a, b)' 'atoi(a)' 'gets(a)' \
    'alloca(1)'; do
    expect fail "banned: $call" refused "$call"
done

[ "$failures" -eq 0 ] || exit 1
