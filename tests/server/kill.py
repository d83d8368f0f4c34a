#!/usr/bin/env python3
"""Kills kvshelf serve (SIGKILL) under a load of all operations, starts it again, and checks what it answered before.

usage: kill.py PROGRAM [ROUNDS] [SEED]

Rank 0 is large enough that nothing is evicted: each thread has keys of its own there and remembers what it was told. A
confirm that was answered must be there after the kill, on its page, with its checksum; a delete that was answered must
have happened; of what was on its way either may be true. Rank 1 is cleared now and then. Rank 2 is so small that
everything evicts everything: there, as everywhere, no page may have two keys and the accounts must add up.
"""
import atexit, http.client, json, random, re, subprocess, sys, tempfile, threading, time

THREADS, PAGES, TINY_PAGES = 4, 1 << 18, 16
KNOWN_MAX = PAGES // 4  # then rank 0 is cleared, so that a round never fills it
FLAGS = ["--port", "0", "--threads", "2", "--reserve-ttl", "0.2", "--quarantine", "0.2", "--lease", "0.6"]


class Server:
    def __init__(self, program, directory):
        self.process = subprocess.Popen([program, "serve", "--data-dir", directory, *FLAGS],
                                        stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        for line in self.process.stderr:
            found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise SystemExit("the server did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        check(self.process.wait() == 0, "the server did not stop with 0")


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(self, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request("GET" if body is None else "POST", path, text)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{path} {str(body)[:200]}: {answer.status} {content}")
        return json.loads(content) if content else {}


class Worker(threading.Thread):
    """One client. `known` maps a key to (page, checksum), or to None when it was deleted; keys of a request that was not
    answered are in `unknown`."""

    def __init__(self, number, seed):
        super().__init__()
        self.number, self.random = number, random.Random(seed)
        self.known, self.unknown, self.cleared_known, self.made = {}, set(), {}, 0
        self.port, self.failure = 0, None

    def key(self, number):
        return f"{self.number:02x}{number:062x}"

    def write(self, client, rank, keys):
        pages = client.ask(f"/{rank}/reserve_and_allocate_page_indices",
                           {"keys": [[k, ""] for k in keys], "generations": True})
        entries = [[k, page, generation, f"{self.random.getrandbits(64):016x}"]
                   for k, (present, page), generation in zip(keys, pages["indices"], pages["generations"])
                   if not present and page >= 0]
        released = [e[:3] for e in entries if self.random.random() < 0.1]
        confirmed = [e for e in entries if e[:3] not in released]
        answer = client.ask(f"/{rank}/confirm_write",
                            {"written_keys_to_confirm": confirmed, "pages_to_release": released})
        rejected = {r["key"] for r in answer.get("rejected", [])}
        return {e[0]: (e[1], e[3]) for e in confirmed if e[0] not in rejected}

    def step(self, client):
        choice = self.random.random()
        if choice < 0.5:
            keys = [self.key(self.made + i) for i in range(self.random.randint(1, 8))]
            self.made += len(keys)
            self.unknown.update(keys)
            written = self.write(client, 0, keys)
            self.unknown.difference_update(written)
            self.known.update(written)
        elif choice < 0.6 and self.known:
            keys = self.random.sample(sorted(self.known), min(len(self.known), 3))
            self.unknown.update(keys)
            client.ask("/0/delete_keys", {"keys": keys})
            self.unknown.difference_update(keys)
            self.known.update((k, None) for k in keys)
        elif choice < 0.8:
            self.write(client, 2, [self.key(self.random.randrange(40)) for _ in range(4)])
        elif choice < 0.9:
            client.ask("/0/get_page_indices", {"keys": [self.key(self.random.randrange(self.made + 1))]})
        elif self.number == 0:
            if self.random.random() < 0.2:
                self.cleared_known = None
                client.ask("/1/clear", {})
                self.cleared_known = {}
            else:
                before, self.cleared_known = self.cleared_known, None
                written = self.write(client, 1, [self.key(self.random.getrandbits(60))])
                self.cleared_known = {**before, **written} if before is not None else None

    def run(self):
        client = Client(self.port)
        try:
            while True:
                self.step(client)
        except (OSError, http.client.HTTPException):
            pass  # the server is dead
        except SystemExit as refused:
            self.failure = refused


def check(condition, *what):
    if not condition:
        raise SystemExit(" ".join(str(w) for w in what))


def check_keys(client, rank, known):
    every, at_once = sorted(known), 8192
    for keys in (every[i:i + at_once] for i in range(0, len(every), at_once)):
        found = client.ask(f"/{rank}/get_page_indices", {"keys": keys, "checksums": True})
        for key, page, checksum in zip(keys, found["indices"], found["checksums"]):
            want = known[key] or (None, None)
            check((page, checksum) == want, f"rank {rank}, {key}: it was answered {want}, now {(page, checksum)}")


def check_pages(client):
    for space in client.ask("/api/status")["namespaces"]:
        pages, rank = space["pages"], space["rank"]
        check(sum(pages.values()) == space["num_pages"], "pages do not add up:", space)
        owners, start = {}, 0
        while start is not None:
            listed = client.ask(f"/{rank}/list_keys", {"start": start})
            for key, page, _, _ in listed["keys"]:
                check(page not in owners, f"rank {rank}, page {page} has {key} and {owners.get(page)}")
                owners[page] = key
            start = listed["next"]
        check(len(set(owners.values())) == len(owners), f"rank {rank}: a key has two pages")
        check(len(owners) == pages["committed"], f"rank {rank}: {len(owners)} keys listed, {pages}")


def confirmed(workers):
    return sum(v is not None for w in workers for v in w.known.values())


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 20261130
    print(f"{rounds} rounds, seed {seed}", flush=True)
    workers = [Worker(n, seed + n) for n in range(THREADS)]
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds + 1):
            server = Server(program, directory)
            client = Client(server.port)
            for rank, pages in ((0, PAGES), (1, 1000), (2, TINY_PAGES)):
                client.ask(f"/{rank}/initialize", {"num_pages": pages})
            for worker in workers:
                check_keys(client, 0, {k: v for k, v in worker.known.items() if k not in worker.unknown})
            if workers[0].cleared_known is not None:
                check_keys(client, 1, workers[0].cleared_known)
            check_pages(client)
            if sum(len(w.known) for w in workers) > KNOWN_MAX:
                client.ask("/0/clear", {})
                for worker in workers:
                    worker.known, worker.unknown = {}, set()
            if number % 20 == 0:
                print(f"{number} kills, {confirmed(workers)} confirmed keys", flush=True)
            again = []
            for old in workers:
                worker = Worker(old.number, old.random.random())
                worker.known, worker.unknown, worker.made = old.known, old.unknown, old.made
                # What was on its way when the server died is known again only when rank 1 is cleared.
                worker.cleared_known, worker.port = old.cleared_known, server.port
                again.append(worker)
                worker.start()
            workers = again
            time.sleep(0.7 + 0.5 * workers[0].random.random())
            server.kill()
            for worker in workers:
                worker.join()
                check(worker.failure is None, worker.failure)
        Server(program, directory).stop()  # which leaves nothing on /dev/shm
    print(f"{rounds} kills survived, what was answered was there each time")


main()
