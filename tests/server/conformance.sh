#!/usr/bin/env bash
# Plays further scenario files against kvshelf serve, each with the flags it asks for, both at once.
# They lie beside the repository where it is developed; elsewhere this test is skipped (77), and says so:
# the project's own cases are in protocol.py, which is a test of its own and needs nothing but python3.
#
#   conformance.sh SOURCE-DIRECTORY BINARY-DIRECTORY
set -u
conformance=$1/../shared/conformance
program=$2/kvshelf
if ! { [ -f "$conformance/run.py" ] && [ -x "$program" ] && command -v python3 >/dev/null; }; then
    echo "skipped: it plays scenario files from ../shared/conformance, beside the repository, and they are not there" \
        "(or python3 is not). Nothing has to be done: server/protocol plays the cases of the repository itself."
    exit 77
fi
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

play() {
    local name=$1 port="" flags server
    mapfile -t flags < <(python3 -c 'import json, sys
for flag in json.load(open(sys.argv[1]))["server_flags"]: print(flag)' "$conformance/$name.json")
    "$program" serve --port 0 "${flags[@]}" 2>"$work/$name.log" &
    server=$!
    for _ in $(seq 200); do
        port=$(sed -n 's/.*listens on http:..127\.0\.0\.1:\([0-9]*\) .*/\1/p' "$work/$name.log")
        [ -n "$port" ] && break
        sleep 0.05
    done
    python3 "$conformance/run.py" --url "http://127.0.0.1:$port" "$conformance/$name.json"
    local result=$?
    kill "$server" && wait "$server" || { echo "$name: the server did not stop with 0"; result=1; }
    return $result
}

play original & original=$!
play promises & promises=$!
wait "$original"; first=$?
wait "$promises"; second=$?
[ $first -eq 0 ] && [ $second -eq 0 ]
