#!/bin/sh
# What `make install PREFIX=` lays down is enough for a stranger: a small C program finds the library with
# pkg-config, compiles with the strictest flags of an older standard, stores a page and reads it back; the
# installed program runs; the header is good C++.
#
#   test_install.sh SOURCE_DIRECTORY BUILD_DIRECTORY
#
# CC and CFLAGS are those of the build, since a library with a sanitizer needs a program with it.
set -eu
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/log" || {
    cat "$work/log"
    exit 1
}
pkgconfig_directory=$(dirname "$(find "$prefix" -name kvshelf.pc)")
library_directory=$(dirname "$pkgconfig_directory")
for file in bin/kvshelf include/kvshelf/kvshelf.h include/kvshelf/errors.def; do
    [ -f "$prefix/$file" ] || {
        echo "FAILED: $file was not installed"
        exit 1
    }
done
extra=$(cd "$prefix/include" && find . -type f ! -name kvshelf.h ! -name errors.def)
if [ -n "$extra" ]; then
    echo "FAILED: headers that are not public were installed: $extra"
    exit 1
fi

cat >"$work/program.c" <<'EOF'
#include <kvshelf/kvshelf.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static unsigned char page[4096] = "a page", back[4096];
    const char *key = "a key of any form";
    const void *in = page;
    void *out = back;
    bool stored = false, loaded = false;
    struct kvs_store *store;
    struct kvs_store_options options;
    struct kvs_error error;

    kvs_store_options_init(&options);
    options.bytes_per_page = sizeof page;
    options.file_size = 64 * sizeof page;
    options.file_path_prefix = argc > 1 ? argv[1] : "";
    if (kvs_store_open(&options, &store, &error) != KVS_OK) {
        printf("open: %s\n", error.message);
        return 1;
    }
    kvs_store_batch_set(store, KVS_POOL_KV, 1, &key, &in, &stored);
    kvs_store_batch_get(store, KVS_POOL_KV, 1, &key, &out, &loaded);
    kvs_store_close(store);
    printf("%s\n", kvs_version());
    return stored && loaded && memcmp(page, back, sizeof page) == 0 ? 0 : 2;
}
EOF
export PKG_CONFIG_PATH="$pkgconfig_directory"
eval "set -- $(pkg-config --cflags --libs kvshelf)"
# shellcheck disable=SC2086 # CFLAGS is a list of flags
"${CC:-cc}" ${CFLAGS:-} -std=c99 -pedantic -Wall -Wextra -Werror "$work/program.c" -o "$work/program" "$@"
version=$(LD_LIBRARY_PATH="$library_directory" "$work/program" "$work/pages/hicache") || {
    echo "FAILED: the program ended with $?: $version"
    exit 1
}
described=$(pkg-config --modversion kvshelf)
if [ "$version" != "$described" ]; then
    echo "FAILED: the library says it is $version, its pkg-config file says $described"
    exit 1
fi
case $("$prefix/bin/kvshelf" --version) in
*"$version"*) ;;
*)
    echo "FAILED: the installed program says: $("$prefix/bin/kvshelf" --version), not $version"
    exit 1
    ;;
esac

if command -v c++ >/dev/null 2>&1; then
    printf '#include <kvshelf/kvshelf.h>\nint main() { return kvs_version() == nullptr; }\n' >"$work/program.cc"
    eval "set -- $(pkg-config --cflags kvshelf)"
    c++ -std=c++17 -pedantic -Wall -Wextra -Werror -fsyntax-only "$@" "$work/program.cc"
fi
echo "ok: a program found, compiled with and used the installed library $version"
