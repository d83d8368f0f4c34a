#!/usr/bin/env python3
"""A crowd that asks for much, and one that asks for little: who is served first.

usage: turns.py PROGRAM

The server is stopped (SIGSTOP) while the requests are sent, so that it finds them all at once and in this order:
those of the crowd, which delete 600 keys each, then one that asks which of the keys are still there. What it is
told is how many of the crowd were served before it. Needs nothing but Python's standard library.
"""
import http.client
import json
import os
import signal
import sys

sys.dont_write_bytecode = True
import protocol  # noqa: E402

CROWD, FILLER, ROUNDS = 8, 600, 50


def ask(connection, call, **members):
    connection.request("POST", f"/0/{call}", json.dumps(members))


def answered(connection):
    answer = connection.getresponse()
    content = answer.read()
    if answer.status not in (200, 204):
        raise AssertionError(f"status {answer.status}: {content[:200]}")
    return json.loads(content) if content else None


def store(connection, keys):
    ask(connection, "reserve_and_allocate_page_indices", keys=[[key, ""] for key in keys])
    pages = [page for _, page in answered(connection)["indices"]]
    ask(connection, "confirm_write", written_keys_to_confirm=list(zip(keys, pages)), pages_to_release=[])
    answered(connection)


def delete_much(connection, key):
    ask(connection, "delete_keys", keys=[key, *(f"{i:064x}" for i in range(1000, 1000 + FILLER))])


def served_before(process, crowd, one):
    """How many of the crowd are served before the one that comes last."""
    keys = [f"{i:064x}" for i in range(len(crowd))]
    store(one, keys)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    for key, connection in zip(keys, crowd):
        delete_much(connection, key)
    ask(one, "exists", keys=keys)
    os.kill(process.pid, signal.SIGCONT)
    there = answered(one)["exists"].count(True)
    for connection in crowd:
        answered(connection)
    return len(crowd) - there


def main():
    with protocol.serving_process(sys.argv[1], [*protocol.AT_ONCE, "--threads", "1"]) as (process, port):
        *crowd, one = (http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(CROWD + 1))
        ask(one, "initialize", num_pages=64)
        answered(one)
        for connection in crowd:
            delete_much(connection, "")
            answered(connection)
        # A machine that is busy elsewhere can make any request a long one; it does not do so every time.
        best = CROWD
        for _ in range(ROUNDS):
            best = min(best, served_before(process, crowd, one))
            if best <= 2:
                break
    print(f"served before the one: {best} of {CROWD}")
    return 0 if best <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
