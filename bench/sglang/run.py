"""What an engine waits for when it looks up a prefix: batch_exists and batch_get of 128 pages, through
kvshelf's store with its remote client and through SGLang's own class with its own clients.

usage: run.py [--rounds N] [--save FILE]

Both use one kvshelf serve and one page file on disk (in TMPDIR), each with pages of its own, read from the
page cache. They take turns; a turn is some lookups, of which the first is not counted, and its median is
compared with that of the other's turn in the same round. kvshelf verifies each page's checksum; SGLang's class
cannot. Pages are of an MLA model: one key each.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "sglang"))
import servers  # noqa: E402

BUILD = os.path.join(TOP, "build", "release")
VENV = os.path.join(TOP, "build", "sglang-venv", "bin", "python")
PAGES = 128
LOOKUPS = {65536: 41, 2097152: 11}  # bytes of a page -> lookups of a turn
NAMES = ("kvshelf", "sglang")


class Store:
    def __init__(self, command, url, prefix, page_bytes):
        arguments = [url, prefix, str(4 * PAGES * page_bytes), str(page_bytes), str(PAGES)]
        self.process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.answer("ready")

    def answer(self, expected=None):
        line = self.process.stdout.readline().strip()
        if not line or (expected and line != expected):
            raise RuntimeError(f"{self.process.args[0]} ended; its message is above")
        return line

    def turn(self, lookups):
        """Medians in microseconds: of exists, of get, of both."""
        self.process.stdin.write(f"{lookups}\n")
        self.process.stdin.flush()
        times = [int(ns) / 1000 for ns in self.answer().split()]
        pairs = list(zip(times[::2], times[1::2]))[1:]
        return {"exists_us": statistics.median(e for e, _ in pairs), "get_us": statistics.median(g for _, g in pairs),
                "both_us": statistics.median(e + g for e, g in pairs)}

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def measure(page_bytes, rounds):
    """name -> its turns."""
    turns = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory() as work, servers.kvshelf_server("--log-level", "error") as url:
        prefix = os.path.join(work, "pages")
        stores = {"kvshelf": Store([os.path.join(BUILD, "bench_store")], url, prefix, page_bytes),
                  "sglang": Store([VENV, os.path.join(TOP, "bench", "sglang", "sglang_store.py")], url, prefix,
                                  page_bytes)}
        for store in stores.values():
            store.turn(LOOKUPS[page_bytes])  # warms up
        for _ in range(rounds):
            for name, store in stores.items():
                turns[name].append(store.turn(LOOKUPS[page_bytes]))
        for store in stores.values():
            store.end()
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--save", help="write every turn to this file, as JSON")
    args = parser.parse_args()
    results = []
    print(f"{PAGES} pages, medians of {args.rounds} rounds, in milliseconds")
    print(f"{'':26}{'exists':>10}{'get':>10}{'both':>10}{'GB/s':>8}")
    for page_bytes in LOOKUPS:
        turns = measure(page_bytes, args.rounds)
        for name, label in zip(NAMES, ("kvshelf's store", "SGLang's class")):
            exists, get, both = (statistics.median(t[what] for t in turns[name])
                                 for what in ("exists_us", "get_us", "both_us"))
            print(f"{page_bytes // 1024:>5} KiB  {label:16} {exists / 1000:>10.2f}{get / 1000:>10.2f}"
                  f"{both / 1000:>10.2f}{PAGES * page_bytes / both / 1000:>8.1f}")
        ratio = statistics.median(theirs["both_us"] / ours["both_us"] for ours, theirs in zip(*turns.values()))
        print(f"           kvshelf is {ratio:.1f} times as fast (median of the rounds' ratios)")
        results.append({"page_bytes": page_bytes, "pages": PAGES, "turns": turns, "ratio": ratio})
    if args.save:
        with open(args.save, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
