#!/usr/bin/env python3
"""Plays the protocol against kvshelf serve, over HTTP as its clients do, and compares every answer.

usage: protocol.py PROGRAM

Two servers: one whose pages may be given away at once, as SGLang's own does it, and one whose leases and rests
are longer than the test, so that what must wait for them has to wait whatever the machine's speed. Each case has
a rank of its own. Needs nothing but Python's standard library.
"""
import contextlib
import http.client
import json
import re
import subprocess
import sys

AT_ONCE = ["--lease", "0", "--quarantine", "0", "--reserve-ttl", "60"]
PATIENT = ["--lease", "600", "--quarantine", "600", "--reserve-ttl", "600"]
CASES = []


def case(flags):
    return lambda function: CASES.append((flags, function)) or function


class Rank:
    """One rank on a server: its requests, and what is expected of their answers."""

    def __init__(self, port, number):
        self.connection, self.number = http.client.HTTPConnection("127.0.0.1", port, timeout=30), number

    def send(self, method, path, body=None):
        self.connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def post(self, call, want=204, **members):
        return self.post_text(call, json.dumps(members), want)

    def post_text(self, call, text, want):
        status, content = self.send("POST", f"/{self.number}/{call}", text)
        expect(want, status, f"status of {call} {text[:100]}: {content[:200]}")
        return json.loads(content) if content else None

    def begin(self, pages):
        self.post("initialize", num_pages=pages)

    def reserve(self, *keys):
        pairs = [[key, ""] if isinstance(key, str) else key for key in keys]
        return self.post("reserve_and_allocate_page_indices", 200, keys=pairs)["indices"]

    def confirm(self, *pairs, release=(), rejected=()):
        """Expects these keys to be rejected, and these releases (as None), in this order."""
        answer = self.post("confirm_write", 200 if rejected else 204, pages_to_release=list(release),
                           written_keys_to_confirm=[list(p) for p in pairs])
        expect(list(rejected), [r.get("key") for r in answer["rejected"]] if answer else [], "rejected")

    def store(self, *keys):
        """The pages, new, that these keys are on now."""
        answer = self.reserve(*keys)
        expect([False] * len(keys), [known for known, _ in answer], f"reserving {keys}")
        pages = [page for _, page in answer]
        self.confirm(*zip(keys, pages))
        return pages

    def exists(self, *keys):
        return self.post("exists", 200, keys=list(keys))["exists"]

    def pages(self, *keys):
        return self.post("get_page_indices", 200, keys=list(keys))["indices"]

    def account(self):
        _, content = self.send("GET", "/api/status")
        mine, = [n for n in json.loads(content)["namespaces"] if n["rank"] == self.number]
        pages = {what: mine["pages"][what] for what in ("free", "reserved", "committed", "retired")}
        expect(mine["num_pages"], sum(pages.values()), "the pages of the rank add up")
        return pages


def expect(want, got, what):
    if want != got:
        raise AssertionError(f"{what}: wanted {want!r}, got {got!r}")


@case(AT_ONCE)
def a_key_is_there_from_its_confirm_to_its_delete(rank):
    rank.begin(4)
    expect([False], rank.exists("a"), "before")
    (known, page), = rank.reserve("a")
    expect((False, [None]), (known, rank.pages("a")), "reserved only")
    rank.confirm(["a", page])
    expect(([True], [page]), (rank.exists("a"), rank.pages("a")), "confirmed")
    expect([[True, page]], rank.reserve("a"), "reserved again")
    rank.post("delete_keys", keys=["a", "never there"])
    expect([False], rank.exists("a"), "deleted")
    expect(4, rank.account()["free"], "free pages")


@case(AT_ONCE)
def the_least_recently_used_key_gives_its_page(rank):
    rank.begin(3)
    pages = [rank.store(key)[0] for key in ("a", "b", "c")]
    expect(pages[:1], rank.pages("a"), "a is used")
    expect(pages[1:2], rank.store("d"), "d takes the page of b")
    expect([True, False, True, True], rank.exists("a", "b", "c", "d"), "who is left")


@case(AT_ONCE)
def a_batch_beyond_the_capacity_fails_by_key(rank):
    rank.begin(2)
    answer = rank.reserve("a", "b", "c")
    expect(2, len({page for _, page in answer[:2]}), "pages of the first two")
    expect([False, -1], answer[2], "the third")
    rank.confirm(["a", answer[0][1]], release=[answer[1][1]])
    expect({"free": 1, "reserved": 0, "committed": 1, "retired": 0}, rank.account(), "account")


@case(AT_ONCE)
def a_key_that_is_being_written_is_not_written_twice(rank):
    rank.begin(4)
    (_, page), = rank.reserve("a")
    expect([[True, page]], rank.reserve("a"), "a second writer has nothing to write")
    expect([False], rank.exists("a"), "until the first has")
    rank.confirm(["a", page])
    rank.confirm(["a", page])
    expect({"free": 3, "reserved": 0, "committed": 1, "retired": 0}, rank.account(), "account")


@case(AT_ONCE)
def a_confirm_or_release_that_is_wrong_changes_nothing(rank):
    rank.begin(4)
    a, b = rank.store("a", "b")
    rank.confirm(["x", 3], ["a", b], ["y", 99], ["z", -1], release=[a, b, 99, -1],
                 rejected=["x", "a", "y", "z", None, None, None, None])
    expect([a, b, None], rank.pages("a", "b", "x"), "pages")
    expect({"free": 2, "reserved": 0, "committed": 2, "retired": 0}, rank.account(), "account")


@case(AT_ONCE)
def clear_forgets_all_and_what_was_being_written(rank):
    rank.begin(4)
    rank.store("a", "b")
    (_, page), = rank.reserve("c")
    rank.post("clear")
    rank.confirm(["c", page], rejected=["c"])
    expect([False, False, False], rank.exists("a", "b", "c"), "keys")
    expect(0, rank.account()["committed"], "committed pages")


@case(AT_ONCE)
def namespaces_of_a_rank_are_separate(rank):
    rank.begin(4)
    rank.store("a")
    rank.post("initialize", num_pages=2, namespace="mamba")
    answer = rank.post("exists", 200, keys=["a"], namespace="mamba")
    expect([False], answer["exists"], "in the other namespace")
    answer = rank.post("exists", 200, keys=["a"], namespace="kv")
    expect([True], answer["exists"], "in the default one, named")


@case(AT_ONCE)
def initialize_is_idempotent_and_keeps_what_is_there(rank):
    rank.begin(4)
    rank.store("a")
    rank.begin(4)
    expect([True], rank.exists("a"), "after a second initialize")
    rank.post("initialize", 409, num_pages=5)
    for bad in ("0", "-1", '"4"', "1.5", "null", "true", "[4]", "9223372036854775808"):
        rank.post_text("initialize", f'{{"num_pages": {bad}}}', 400)


@case(AT_ONCE)
def what_was_not_initialized_is_404(rank):
    for call, members in (("exists", {"keys": ["a"]}), ("get_page_indices", {"keys": ["a"]}), ("clear", {}),
                          ("delete_keys", {"keys": ["a"]}), ("confirm_write", {}),
                          ("reserve_and_allocate_page_indices", {"keys": [["a", ""]]})):
        answer = rank.post(call, 404, **members)
        expect(True, "initialize" in answer["detail"], f"{call} says what to do: {answer}")
    expect(404, rank.send("GET", "/none")[0], "an unknown path")
    expect(405, rank.send("GET", f"/{rank.number}/exists")[0], "a wrong method")


@case(AT_ONCE)
def a_body_that_is_wrong_is_refused_and_takes_nothing(rank):
    rank.begin(4)
    for text in ("", "x", "{", "[]", "null", "{}", '{"keys": null}', '{"keys": "a"}', '{"keys": [1]}',
                 '{"keys": ["a"]} x', '{"keys": ["a"],}', '{"keys": ["\\ud800"]}', '{"keys": [NaN]}',
                 "[" * 5000):
        rank.post_text("exists", text, 400)
    for keys in ('["a"]', '[["a"]]', '[["a", "", ""]]', '[[1, ""]]', '[["a", ""], 7]'):
        rank.post_text("reserve_and_allocate_page_indices", f'{{"keys": {keys}}}', 400)
    for page in ('"0"', "null", "0.5", "[0]", "18446744073709551616"):
        rank.post_text("confirm_write", f'{{"written_keys_to_confirm": [["a", {page}]]}}', 400)
    expect(4, rank.account()["free"], "free pages")


@case(AT_ONCE)
def keys_may_be_any_text(rank):
    rank.begin(8)
    keys = ["", " ", "\"\\/\b\n", "\u00e4\u20ac\U0001f600", "a" * 4096, "ab" * 32 + "-k", "ab" * 32 + "-v"]
    pages = rank.store(*keys)
    expect(pages, rank.pages(*keys), "pages")
    expect(len(keys), len(set(pages)), "different pages")


@case(AT_ONCE)
def a_large_batch_is_answered_whole(rank):
    count = 16384
    rank.begin(count)
    keys = [f"{i:064x}" for i in range(count)]
    expect(count, len(set(rank.store(*keys))), "different pages")
    expect([True] * count, rank.exists(*keys), "keys")


@case(PATIENT)
def a_page_under_lease_is_given_to_nobody(rank):
    rank.begin(1)
    page, = rank.store("a")
    expect([page], rank.pages("a"), "a reader has looked")
    expect([[False, -1]], rank.reserve("b"), "another key")
    expect([page], rank.pages("a"), "still there")


@case(PATIENT)
def a_deleted_page_rests(rank):
    rank.begin(1)
    page, = rank.store("a")
    rank.pages("a")
    rank.post("delete_keys", keys=["a"])
    expect([False], rank.exists("a"), "deleted")
    expect([[False, -1]], rank.reserve("b"), "another key")
    expect(1, rank.account()["retired"], "resting pages")


@case(PATIENT)
def a_cleared_page_rests(rank):
    rank.begin(1)
    rank.store("a")
    rank.pages("a")
    rank.post("clear")
    expect([[False, -1]], rank.reserve("a"), "the same key")


@contextlib.contextmanager
def serving_process(program, flags):
    """The process and its port."""
    process = subprocess.Popen([program, "serve", "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"listens on http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise SystemExit(f"the server did not start: {said}")
        yield process, int(found.group(1))
        process.terminate()
        expect(0, process.wait(60), "exit status of the server")
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def serving(program, flags):
    with serving_process(program, flags) as (_, port):
        yield port


def main():
    failed = 0
    with serving(sys.argv[1], AT_ONCE) as at_once, serving(sys.argv[1], PATIENT) as patient:
        for number, (flags, function) in enumerate(CASES):
            try:
                function(Rank(at_once if flags is AT_ONCE else patient, number))
            except (AssertionError, KeyError, TypeError, ValueError, OSError, http.client.HTTPException) as e:
                failed += 1
                print(f"DIFFERS {function.__name__}: {type(e).__name__}: {e}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
