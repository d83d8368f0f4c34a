#!/bin/sh
# The demonstration, tiny: with a trace and with one it makes up, ending as it should; and what it says
# when it cannot.
#
#   tests/repository/test_demo.sh SOURCE BUILD
set -eu
source=$1
program=$2/kvshelf
[ -x "$program" ] || exit 77
place=$(mktemp -d "$PWD/demo_test_XXXXXX")
trap 'rm -rf "$place"' EXIT

fail() {
    echo "test_demo: $1" >&2
    cat "$place/out" >&2
    exit 1
}
demo() {
    "$source/scripts/demo" --program "$program" --directory "$place/demo" --page-bytes 4096 "$@" >"$place/out" 2>&1
}
says() { grep -q -- "$1" "$place/out" || fail "it does not say '$1'"; }

"$source/scripts/make-trace" 40 7 >"$place/trace.jsonl"
[ "$(wc -l <"$place/trace.jsonl")" -eq 40 ] || fail "make-trace did not make 40 requests"
demo --requests 30 --pages 300 --trace "$place/trace.jsonl" || fail "it failed"
says "the first 30 requests"
says "pages: cold"
says "pages of an earlier run: warm"
says "^Shown: "
says "^Next: "
[ "$(grep -c "^  wrong bytes  *0 bytes" "$place/out")" -eq 3 ] || fail "not three times 0 wrong bytes"
[ "$(tail -n 2 "$place/out" | grep -c '^Shown\|^Next')" -eq 2 ] || fail "it does not end in two lines"

demo --requests 20 --pages 200 --trace "$place/none" || fail "it failed without a trace"
says "GENERATED"

# The same seed makes the same trace; other seeds make others.
"$source/scripts/make-trace" 40 7 | cmp -s - "$place/trace.jsonl" || fail "make-trace is not repeatable"
! "$source/scripts/make-trace" 40 8 | cmp -s - "$place/trace.jsonl" || fail "make-trace ignores its seed"
"$program" replay "$place/trace.jsonl" --no-io >"$place/out" 2>&1 || fail "a made-up trace cannot be replayed"

! demo --requests none || fail "it took a word for a number"
says "whole number"
! demo --requests || fail "it took an option without a value"
! demo --color 1 || fail "it took an unknown option"
! "$source/scripts/demo" --program "$place/none" >"$place/out" 2>&1 || fail "it ran without a program"
says "make demo"
