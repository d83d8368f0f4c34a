#!/bin/sh
# libkvshelf.so exports the functions that kvshelf.h declares, each of them and nothing else, and names
# itself by its major version.
#
#   test_exports.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -eu
export LC_ALL=C
source=$1
library=$2/libkvshelf.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -v '^#' "$source/include/kvshelf/kvshelf.h" | tr '\n' ' ' | grep -o 'KVS_API [^;(]*(' |
    sed 's/.*[ *]\(kvs_[a-z0-9_]*\)($/\1/' | sort >"$work/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
if [ "$(wc -l <"$work/declared")" -lt 10 ]; then
    echo "FAILED: found only these declarations in kvshelf.h, so this test no longer reads it rightly:"
    cat "$work/declared"
    exit 1
fi
if ! diff -u "$work/declared" "$work/exported"; then
    echo "FAILED: - is declared in kvshelf.h and not exported, + is exported and not declared"
    exit 1
fi

major=$(sed -n 's/^#define KVS_VERSION_MAJOR *\([0-9]*\)$/\1/p' "$source/include/kvshelf/kvshelf.h")
soname=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
if [ "$soname" != "libkvshelf.so.$major" ]; then
    echo "FAILED: the library calls itself '$soname', not libkvshelf.so.$major"
    exit 1
fi
echo "ok: $(wc -l <"$work/exported") functions exported by $soname"
