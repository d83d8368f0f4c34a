"""Clients of both kinds on one page file, with one index between them, and a third of the pages that their keys
would need: pages change hands while they are read, all the time.

usage: hammer.py --client PROGRAM [--reads N] [--sglang PYTHON [--seconds S]] [--seed S] [--save FILE]

Native clients are processes with kvshelf's store. Original clients are stand-ins in C that do what SGLang's
backend does (tests/support/original_client.h) and, with --sglang, a process that runs SGLang's own classes
as released (sglang_client.py); both believe what they read. Every byte of every page that a client thinks it
has loaded is compared. A native client must never be wrong: it ends with 1 if one was. An original client has
nothing but time to rely on, the lease; how often it is wrong is counted, not judged.

Without --reads: the first run, short. With it:
  1. native clients load and verify N pages over kvshelf serve, with original clients beside them that nothing
     protects (--lease 0 --quarantine 0);
  2. the same, N / 10, with the server's defaults: pages that original clients look at are leased, so fewer
     change hands;
  3. with --sglang, the original clients alone for S seconds over SGLang's own server, as released. Each writer
     has keys of its own there: that server loses a page for good whenever two write the same key. S is 180
     for ten million pages or more, less for less, 10 at least.
How many pages an original client gets wrong in a million depends on how fast pages change hands, which is
what `stored` tells.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SGLANG = os.path.join(os.path.dirname(HERE), "sglang")
sys.path.insert(0, SGLANG)
import servers  # noqa: E402

PAGES, PAGE_BYTES, KEYS, BATCH = 24, 16384, 72, 12
# SGLang's server answers 500 when everything is reserved, and loses pages by it: its writers ask for less.
ORIGINAL_WRITE_BATCH = 6
NATIVES, ORIGINALS = 2, 2
SUITE_READS, SUITE_READS_ORIGINAL = 20000, 200
ALONE_SECONDS_MIN, ALONE_SECONDS_MAX, ALONE_READS_MAX = 10, 180, 10_000_000
PROGRESS_SECONDS = 5


class Client:
    def __init__(self, kind, command, url, prefix, seed, at_least, write_first=0, write_keys=KEYS):
        self.kind = kind
        settings = {"url": url, "prefix": prefix, "pages": PAGES, "page-bytes": PAGE_BYTES, "keys": KEYS,
                    "batch": BATCH, "write-batch": ORIGINAL_WRITE_BATCH, "write-first": write_first,
                    "write-keys": write_keys, "seed": seed, "at-least": at_least}
        flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        # A session of its own, so that Ctrl-C reaches this program alone, which ends the others.
        self.process = subprocess.Popen([*command, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True)

    def ask(self):
        """Has an original client print its counts so far."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: end() says how
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def end(self):
        """What it did; it is told to stop, which a native client needs not be."""
        out, _ = self.process.communicate()
        if self.process.returncode != 0:
            raise RuntimeError(f"a client ({self.kind}) ended with status {self.process.returncode}")
        return self.kind, json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def originals(args):
    """Kind and command of each original client."""
    found = [("original, C", [args.client, "original"])] * ORIGINALS
    if args.sglang:
        found.append(("original, SGLang", [args.sglang, os.path.join(HERE, "sglang_client.py")]))
    return found


def wait(clients, seconds):
    begin = time.monotonic()
    while (left := begin + seconds - time.monotonic()) > 0:
        time.sleep(min(left, PROGRESS_SECONDS))
        print(f"  {time.monotonic() - begin:.0f} of {seconds} s", flush=True)
        for client in clients:
            client.ask()


def hammer(args, url, natives, reads, seconds, own_keys):
    commands = originals(args)
    share = KEYS // len(commands)
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        prefix, clients = os.path.join(work, "pages"), []

        def start(*arguments, **named):
            clients.append(Client(*arguments, **named))
            stack.callback(clients[-1].kill)

        for i in range(natives):
            start("native", [args.client, "native"], url, prefix, args.seed + i, reads // natives)
        for i, (kind, command) in enumerate(commands):
            keys = {"write_first": i * share, "write_keys": share} if own_keys else {}
            start(kind, command, url, prefix, args.seed + 10 + i, SUITE_READS_ORIGINAL, **keys)
        if natives == 0:
            wait(clients, seconds)
        return [client.end() for client in clients]  # native ones first: they end by themselves


def report(name, outcomes, seconds):
    print(f"{name}: {seconds:.0f} s, {PAGES} pages of {PAGE_BYTES} bytes for {KEYS} keys")
    for kind in dict.fromkeys(kind for kind, _ in outcomes):
        rows = [counts for k, counts in outcomes if k == kind]
        total = {what: sum(row[what] for row in rows) for what in rows[0]}
        rate = total["wrong"] * 1e6 / total["loaded"] if total["loaded"] else 0
        print(f"  {len(rows)} x {kind + ':':18} {total['loaded']:>11,} pages loaded and compared, "
              f"{total['wrong']:,} wrong ({rate:,.0f} in a million), {total['stored']:,} stored, "
              f"{total['raised']:,} calls raised", end="")
        if kind == "native":
            print(f"; misses: {total['replaced']:,} given away while read, {total['mismatch']:,} with other "
                  f"bytes, {total['errors']:,} errors", end="")
        print()
    sys.stdout.flush()
    return {"run": name, "seconds": seconds, "outcomes": outcomes}


def run(args, name, server, **settings):
    with server as url:
        begin = time.monotonic()
        outcomes = hammer(args, url, **settings)
        return report(name, outcomes, time.monotonic() - begin)


def over_kvshelf(args, name, reads, *flags):
    return run(args, name, servers.kvshelf_server("--log-level", "error", *flags), natives=NATIVES, reads=reads,
               seconds=0, own_keys=False)


def alone_seconds(reads):
    share = ALONE_SECONDS_MAX * reads // ALONE_READS_MAX
    return max(ALONE_SECONDS_MIN, min(share, ALONE_SECONDS_MAX))


def over_sglang(args):
    port = servers.free_port()
    command = [args.sglang, os.path.join(SGLANG, "original_server.py"), "--port", str(port), "--no-access-log"]
    return run(args, "SGLang's server, original clients alone", servers.running(command, port), natives=0,
               reads=0, seconds=args.seconds or alone_seconds(args.reads), own_keys=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", required=True, help="hammer_client, as built")
    parser.add_argument("--reads", type=int)
    parser.add_argument("--sglang", help="a Python with SGLang and torch: build/sglang-venv/bin/python")
    parser.add_argument("--seconds", type=int, help="how long the third run is, instead of by --reads")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--save", help="write the counts to this file, as JSON")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    runs = [over_kvshelf(args, "kvshelf serve, both kinds, no lease and no rest", args.reads or SUITE_READS,
                         "--lease", "0", "--quarantine", "0")]
    if args.reads:
        runs.append(over_kvshelf(args, "kvshelf serve, both kinds, its defaults", args.reads // 10))
    if args.reads and args.sglang:
        runs.append(over_sglang(args))
    if args.save:
        with open(args.save, "w") as f:
            json.dump({"seed": args.seed, "runs": runs}, f, indent=1)
    wrong = sum(counts["wrong"] for each in runs for kind, counts in each["outcomes"] if kind == "native")
    if wrong:
        print(f"WRONG: native clients loaded {wrong} pages with other bytes than were stored")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("hammer: stopped before its end; the runs that were finished are above", file=sys.stderr)
        sys.exit(130)
