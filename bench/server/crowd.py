"""What clients that behave badly cost the others: gets of 128 keys through kvshelf serve, alone and beside a crowd.

usage: crowd.py [--rounds N] [--quick] [--save FILE]

The server has the first core; the last one has the load (bench_load: four connections that pause for 1 ms between
requests, so that the server is not overloaded) and, at the lowest priority there is, the crowd. In each round the
gets run alone and beside every crowd; ratios are to the round's own run alone.
"""
import argparse
import json
import multiprocessing
import os
import resource
import socket
import statistics
import tempfile
import time

import run

PAGES = 1 << 18
SETTINGS = {"op": "get", "keys": 128, "connections": 4, "pages": PAGES, "pause-us": 1000}
MEBIBYTE = 1 << 20


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 10)


def idle(port, ready):
    crowd = [connect(port) for _ in range(10_000)]
    ready.set()
    time.sleep(3600)


def slow_heads(port, ready):
    """A byte of a head every 50 ms: the server's own limit on heads ends them, so they begin again."""
    head = b"POST /0/exists HTTP/1.1\r\nHost: x\r\nX-Filler: " + b"y" * 400
    crowd = [[connect(port), 0] for _ in range(100)]
    ready.set()
    while True:
        for client in crowd:
            try:
                client[0].send(head[client[1] % len(head):][:1])
                client[1] += 1
            except OSError:
                client[:] = [connect(port), 0]
        time.sleep(0.05)


def never_reading(port, ready):
    """Requests for long answers until the server takes no more, and not one answer is read."""
    body = json.dumps({"keys": [f"{i:064x}" for i in range(1024)]}).encode()
    request = b"POST /0/get_page_indices HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    crowd = [connect(port) for _ in range(50)]
    for client in crowd:
        client.setblocking(False)
    rest = [b""] * len(crowd)
    until = time.monotonic() + 2  # the first burst is work like any other's
    while True:
        for i, client in enumerate(crowd):
            try:
                rest[i] = rest[i] or request
                rest[i] = rest[i][client.send(rest[i]):]
            except BlockingIOError:
                pass
            except OSError:
                crowd[i], rest[i] = connect(port), b""
                crowd[i].setblocking(False)
        if time.monotonic() > until:
            ready.set()
        time.sleep(0.01)


def long_bodies(port, ready, pause):
    """Valid requests of nearly 64 MiB, the most that the server takes: 16,384 keys of nearly 4,096 bytes."""
    filler = "a" * (4096 - 24)
    body = json.dumps({"keys": [f"{i:016x}{filler}" for i in range(16384)]}).encode()
    head = b"POST /0/exists HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    ready.set()
    while True:
        client = connect(port)
        try:
            client.sendall(head)
            client.sendall(body)
            client.recv(65536)
        except OSError:
            pass
        client.close()
        time.sleep(pause)


CROWDS = {
    "10,000 idle connections": (idle, ()),
    "100 slow heads": (slow_heads, ()),
    "50 that never read": (never_reading, ()),
    "a body of 64 MiB every second": (long_bodies, (1.0,)),
    "bodies of 64 MiB without a pause": (long_bodies, (0.0,)),
}


def be_crowd(crowd, port, ready, arguments):
    os.sched_setaffinity(0, {int(run.LOAD_CORE)})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    crowd(port, ready, *arguments)


def measure_beside(server, name, requests):
    crowd, arguments = CROWDS[name]
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=be_crowd, args=(crowd, server.port, ready, arguments), daemon=True)
    process.start()
    try:
        if not ready.wait(60) or not process.is_alive():
            raise RuntimeError(f"the crowd '{name}' did not come about")
        outcome = server.load(**SETTINGS, requests=requests)
        outcome["server_memory_bytes"] = server.memory_bytes()
    finally:
        process.kill()
        process.join()
    wait_until_gone(server)
    return outcome


def wait_until_gone(server):
    """The server ends what the crowd has left before anybody is measured alone again."""
    for _ in range(600):
        if len(os.listdir(f"/proc/{server.process.pid}/fd")) < 64:
            return
        time.sleep(0.1)
    raise RuntimeError("connections whose clients are gone were still open after 60 s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests: to try it out")
    parser.add_argument("--save", help="write every outcome to this file, as JSON")
    args = parser.parse_args()
    requests = 1000 if args.quick else 10_000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    outcomes = {"alone": [], **{name: [] for name in CROWDS}}
    with tempfile.TemporaryDirectory() as work:
        server = run.Server("kvshelf", [os.path.join(run.BUILD, "kvshelf"), "serve", "--port", "{port}", "--threads",
                                        "1", "--max-connections", "20000", "--data-dir", work])
        try:
            run.fill(server, PAGES)
            for number in range(args.rounds):
                run.say(f"round {number + 1} of {args.rounds}")
                outcomes["alone"].append(server.load(**SETTINGS, requests=requests))
                outcomes["alone"][-1]["server_memory_bytes"] = server.memory_bytes()
                for name in CROWDS:
                    outcomes[name].append(measure_beside(server, name, requests))
        finally:
            server.stop()
    print(f"{'gets of 128 keys by 4 connections':36}{'p50 us':>10}{'p99 us':>10}{'worst ms':>10}"
          f"{'p99 of alone':>14}{'server MiB':>12}")
    for name, rows in outcomes.items():
        def median(what):
            return statistics.median(row[what] for row in rows)
        ratio = statistics.median(row["p99_us"] / alone["p99_us"] for row, alone in zip(rows, outcomes["alone"]))
        print(f"{name:36}{median('p50_us'):10.0f}{median('p99_us'):10.0f}{median('worst_us') / 1000:10.1f}"
              f"{ratio:14.2f}{median('server_memory_bytes') / MEBIBYTE:12.0f}")
    print("The goal is that p99 stays within 2 of alone.")
    if args.save:
        with open(args.save, "w") as f:
            json.dump(outcomes, f, indent=1)


if __name__ == "__main__":
    main()
