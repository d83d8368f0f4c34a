"""A client of hammer.py: SGLang's storage class over its plain-file client and host pool, all as released,
reads in one thread and writes in another until standard input is closed and it has loaded as much as it
should; then it prints what it did, as JSON. It prints its counts for each line on standard input.

A page's bytes follow from the number of its key, as in tests/support/page_load.c. Loaded counts the pages of
a call from the first on to the first that is missing: those are what an engine uses.
"""
import argparse
import itertools
import json
import logging
import os
import random
import sys
import threading
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sglang"))
import engine  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402


COUNTS = ("asked", "loaded", "wrong", "stored", "raised")


def mix(x):
    mask = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & mask
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb & mask
    return x ^ (x >> 31)


def key(number):
    return f"{mix(number):016x}{number:048x}"


class Client:
    def __init__(self, args):
        self.args = args
        self.told_to_stop = threading.Event()
        for name in COUNTS:
            setattr(self, name, 0)
        self.pool = engine.mla_pool(2 * args.batch, page_bytes=args.page_bytes)
        self.rows = self.pool.kv_buffer.view(torch.uint8).numpy().reshape(2 * args.batch, -1).view(numpy.uint64)
        self.places = numpy.arange(0, args.page_bytes, 8, dtype=numpy.uint64) * numpy.uint64(
            0xd1342543de82ef95) + numpy.uint64(1)
        config = f"{args.prefix}.{args.seed}.json"
        engine.write_config(config, args.prefix, args.url, args.pages, args.page_bytes)
        self.storage = engine.open_storage(config, self.pool, is_mla=True)

    def goes_on(self):
        return self.loaded < self.args.at_least or not self.told_to_stop.is_set()

    def words(self, number):
        return numpy.uint64(number * 0x9e3779b97f4a7c15 % (1 << 64)) ^ self.places

    def choose(self, chance, first, keys, most):
        n = chance.randint(1, most)
        return range(start := first + chance.randrange(keys - n + 1), start + n)

    def read(self):
        chance = random.Random(self.args.seed)
        while self.goes_on():
            numbers = self.choose(chance, 0, self.args.keys, self.args.batch)
            self.asked += len(numbers)
            try:
                numbers = numbers[:self.storage.batch_exists([key(i) for i in numbers])]
                if not numbers:
                    continue
                results = self.storage.batch_get_v1([key(i) for i in numbers],
                                                    engine.indices(self.pool, range(len(numbers))))
            except RuntimeError:
                self.raised += 1
                continue
            run = len(list(itertools.takewhile(bool, results)))
            self.loaded += run
            self.wrong += sum(not numpy.array_equal(self.rows[page], self.words(i))
                              for page, i in enumerate(numbers[:run]))

    def write(self):
        chance, batch = random.Random(-self.args.seed), self.args.batch
        while self.goes_on():
            numbers = self.choose(chance, self.args.write_first, self.args.write_keys, self.args.write_batch)
            for page, i in enumerate(numbers):
                self.rows[batch + page] = self.words(i)
            try:
                self.stored += sum(self.storage.batch_set_v1(
                    [key(i) for i in numbers], engine.indices(self.pool, range(batch, batch + len(numbers)))))
            except RuntimeError:
                self.raised += 1

    def run(self):
        threads = [threading.Thread(target=self.read), threading.Thread(target=self.write)]
        for thread in threads:
            thread.start()
        for _ in sys.stdin:
            print(f"  SGLang's client {self.args.seed}: {self.loaded} loaded, {self.wrong} wrong", file=sys.stderr)
        self.told_to_stop.set()
        for thread in threads:
            thread.join()
        print(json.dumps({name: getattr(self, name) for name in COUNTS}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--prefix", required=True)
    for name in ("pages", "page-bytes", "keys", "batch", "write-batch", "write-first", "write-keys", "seed",
                 "at-least"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # of torch, about a buffer that is only read
    Client(args).run()


if __name__ == "__main__":
    main()
