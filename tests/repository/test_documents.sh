#!/bin/sh
# The documents are true where a machine can see it: every relative link names a file that is there,
# every configuration key has its row, and the unit for systemd uses options that exist. (What messages
# refer to is tested with the error catalogue.)
#
#   test_documents.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -eu
cd "$1"
failures=0

# broken_links FILE: prints the link targets in FILE that lead nowhere.
broken_links() {
    grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' | while read -r target; do
        case $target in
        '' | http://* | https://*) ;;
        *) [ -e "$(dirname "$1")/$target" ] || echo "$1: $target" ;;
        esac
    done
}

for document in *.md docs/*.md; do
    broken=$(broken_links "$document")
    if [ -n "$broken" ]; then
        echo "FAILED: links that lead nowhere: $broken"
        failures=$((failures + 1))
    fi
done

# Every key of the configuration file has its row.
keys=$(sed -n '/^static const struct config_key keys/,/^};/p' src/store/config.c |
    sed -n 's/^ *[A-Z_]*KEY(\([a-z_0-9]*\)[,)].*/\1/p')
if [ "$(echo "$keys" | wc -l)" -lt 15 ]; then
    echo "FAILED: found only these keys in src/store/config.c, so this test no longer reads it rightly: $keys"
    failures=$((failures + 1))
fi
for key in $keys; do
    if ! grep -q "^| .$key. |" docs/configuration.md; then
        echo "FAILED: docs/configuration.md has no row for $key"
        failures=$((failures + 1))
    fi
done

# The unit for systemd starts the program with options that it has.
options=$(sed -n 's/^ExecStart=//p' docs/kvshelf.service | grep -o ' --[a-z-]*')
help=$("$2/kvshelf" serve --help)
for option in ${options:-none}; do
    if ! echo "$help" | grep -q -- "^ *$option "; then
        echo "FAILED: docs/kvshelf.service uses $option, which kvshelf serve does not have"
        failures=$((failures + 1))
    fi
done

# The session in docs/protocol.md is what a new server answers (generations apart, which follow the clock).
session=$(mktemp -d)
sed -n '/^### A session/,/^### Reasons/p' docs/protocol.md | sed -n '/^```console/,/^```$/p' | grep -v '^```' >"$session/said"
if [ "$(grep -c '^\$ curl ' "$session/said")" -lt 5 ]; then
    echo "FAILED: found no session in docs/protocol.md"
    failures=$((failures + 1))
elif command -v curl >/dev/null; then
    : >"$session/log"
    "$2/kvshelf" serve --port 0 2>>"$session/log" &
    server=$!
    trap 'kill $server 2>/dev/null; rm -rf "$session"' EXIT
    port=
    while [ -z "$port" ] && kill -0 $server 2>/dev/null; do
        port=$(sed -n 's/.* listens on .*:\([0-9]*\) with .*/\1/p' "$session/log")
        sleep 0.02
    done
    grep '^\$ ' "$session/said" | sed 's/^\$ //' | while read -r command; do
        echo "\$ $command"
        (unset http_proxy; eval "$(echo "$command" | sed "s/^curl/curl -s/; s/:18000/:$port/")")
        echo
    done | sed '/^$/d' >"$session/heard"
    kill $server
    wait $server || true
    for each in said heard; do
        sed 's/"generations":\[[0-9,]*\]/"generations":[]/' "$session/$each" >"$session/$each.plain"
    done
    if ! diff "$session/said.plain" "$session/heard.plain"; then
        echo "FAILED: docs/protocol.md shows another session (<) than was heard (>)"
        failures=$((failures + 1))
    fi
else
    echo "The session in docs/protocol.md was not played: there is no curl."
fi

# The links part can fail.
work=$(mktemp -d)
trap 'rm -rf "$work" "$session"' EXIT
printf '[a](https://example.org) [b](absent.md#part) [c](.)\n' >"$work/x.md"
if [ "$(broken_links "$work/x.md")" != "$work/x.md: absent.md" ]; then
    echo "FAILED: a link that leads nowhere was not found"
    failures=$((failures + 1))
fi
[ "$failures" -eq 0 ] || exit 1
echo "ok"
