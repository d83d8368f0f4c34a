"""kvshelf serve beside SGLang's metadata server, Redis and a bare HTTP responder.

usage: run.py [--rounds N] [--pages N] [--quick] [--save FILE]

Each server runs alone on the first core, the load (bench_load) on the last; in each round every server
takes its turn at every case, and the medians over the rounds are compared. SGLang's server is the released
package (build/sglang-venv), with uvloop, httptools and orjson, once with and once without its access log.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TOP, "build", "release")
VENV = os.path.join(TOP, "build", "sglang-venv", "bin", "python")
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = str(CORES[0]), str(CORES[-1])


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One of the servers, running; `name` is its column."""

    def __init__(self, name, command, http=True, cores=SERVER_CORE):
        self.name, self.http = name, http
        self.port = free_port()
        command = [c.replace("{port}", str(self.port)) for c in command]
        self.started = time.monotonic()
        self.process = subprocess.Popen(["taskset", "-c", cores, *command],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"{name} ended with status {self.process.returncode}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            time.sleep(0.005)

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    def load(self, **settings):
        command = ["taskset", "-c", LOAD_CORE, os.path.join(BUILD, "bench_load"), "--port", str(self.port)]
        if not self.http and self.name == "redis":
            command.append("--resp")
        for name, value in settings.items():
            command += [f"--{name}", str(value)]
        before = self.cpu_us()
        outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        outcome["server_us"] = (self.cpu_us() - before) / outcome["requests"]
        return outcome

    def cpu_us(self):
        """What its threads have had of the processor, in user and kernel mode."""
        tasks = f"/proc/{self.process.pid}/task"
        used = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as f:
                used += int(f.read().split()[0])
        return used / 1000

    def memory_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) * 1024

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_servers(work):
    """Every peer that can be had here; says which are not."""
    # No lease and no rest, as the original has none: pages go round as fast as it hands them out. In
    # memory, as the others are; kept, as none of the others can be.
    kvshelf = [os.path.join(BUILD, "kvshelf"), "serve", "--port", "{port}", "--threads", "1",
               "--lease", "0", "--quarantine", "0"]
    yield Server("kvshelf", kvshelf)
    yield Server("kvshelf, kept", [*kvshelf, "--data-dir", os.path.join(work, "kvshelf")])
    if os.path.exists(VENV):
        script = os.path.join(TOP, "tests", "sglang", "original_server.py")
        yield Server("python", [VENV, script, "--port", "{port}"])
        yield Server("python, no log", [VENV, script, "--port", "{port}", "--no-access-log"])
    else:
        say("SGLang's server is not compared: scripts/sglang-venv has not been run")
    if shutil.which("redis-server"):
        yield Server("redis", ["redis-server", "--port", "{port}", "--save", "", "--appendonly", "no"], False)
    else:
        say("Redis is not compared: redis-server is not installed")


def bare_server(work, keys):
    """Answers every request with a body as long as that of a get of so many keys."""
    path = os.path.join(work, f"answer-{keys}")
    with open(path, "w") as f:
        json.dump({"indices": [524288] * keys}, f, separators=(",", ":"))
    return Server("bare", [os.path.join(BUILD, "bench_bare"), "{port}", path])


def fill(server, pages):
    if server.http:
        server.post("/0/initialize", {"num_pages": pages})
    server.load(op="fill", keys=128, connections=16, pages=pages, requests=pages // 128)
    return pages // 128 * 128


class Results:
    def __init__(self):
        self.rows = {}  # (op, keys, connections) -> name -> list of outcomes

    def add(self, case, name, outcome):
        self.rows.setdefault(case, {}).setdefault(name, []).append(outcome)

    def median(self, case, name, what="per_s"):
        outcomes = self.rows.get(case, {}).get(name)
        return statistics.median(o[what] for o in outcomes) if outcomes else None

    def ratio(self, case, name, other, what="per_s"):
        """The median of the ratios of the rounds: the machine's own speed changes between rounds."""
        ours, theirs = self.rows[case].get(name), self.rows[case].get(other)
        if not theirs:
            return None
        return statistics.median(a[what] / b[what] for a, b in zip(ours, theirs))


def measure_lookups(servers, results, args, filled):
    requests = {1: 100000, 16: 60000, 128: 30000, 256: 16000}
    for keys in (1, 16, 128, 256):
        bare = bare_server(args.work, keys)
        bare.pause()
        for connections in (16, 1):
            for op in ("get", "exists"):
                for server in servers + ([bare] if op == "get" else []):
                    n = requests[keys] // (1 if connections == 16 else 3)
                    if server.name.startswith("python"):
                        n //= 12
                    if args.quick:
                        n //= 8
                    server.go_on()
                    outcome = server.load(op=op, keys=keys, connections=connections, pages=filled,
                                          requests=max(n, 200))
                    server.pause()
                    results.add((op, keys, connections), server.name, outcome)
        bare.stop()


def measure_cycles(servers, results, args, filled, round_number):
    cycles = 300 if args.quick else 2000
    for number, server in enumerate(servers):
        n = cycles if server.name.startswith("python") else 3 * cycles
        rank = 1 + round_number
        server.go_on()
        if server.http:
            server.post(f"/{rank}/initialize", {"num_pages": max(args.pages, 128 * n)})
        results.add(("cycle, free", 128, 16), server.name,
                    server.load(op="cycle", keys=128, connections=16, rank=rank, requests=n,
                                first=10**10 + round_number * 10**8))
        if server.http:
            server.post(f"/{rank}/clear", {})
            results.add(("cycle, evicting", 128, 16), server.name,
                        server.load(op="cycle", keys=128, connections=16, requests=n,
                                    first=2 * 10**10 + round_number * 10**8))
            # The keys that the lookups ask for have been evicted: back with them.
            server.post("/0/clear", {})
            fill_again(server, filled)
        server.pause()


def fill_again(server, filled):
    server.load(op="fill", keys=128, connections=16, pages=filled, requests=filled // 128)


def print_table(results):
    names = ["kvshelf", "kvshelf, kept", "python", "python, no log", "redis", "bare"]
    print(f"\n{'requests/s (p99 us)':34}" + "".join(f"{n:>22}" for n in names))
    for case in results.rows:
        op, keys, connections = case
        line = f"{op + ', ' + str(keys) + ' keys, ' + str(connections) + ' conn.':34}"
        for name in names:
            rate, p99 = results.median(case, name), results.median(case, name, "p99_us")
            line += f"{'-' if rate is None else f'{rate:,.0f} ({p99:,.0f})':>22}"
        print(line)
    print(f"\n{'kvshelf as a multiple of':34}" + "".join(f"{n:>22}" for n in names[1:]))
    for case in results.rows:
        op, keys, connections = case
        line = f"{op + ', ' + str(keys) + ' keys, ' + str(connections) + ' conn.':34}"
        for name in names[1:]:
            ratio = results.ratio(case, names[0], name)
            line += f"{'-' if ratio is None else f'{ratio:.2f}':>22}"
        print(line)


def print_cpu(results):
    """The load may be what bounds the rates of the fast ones; it is not in these."""
    names = ["kvshelf", "python, no log", "redis", "bare"]
    print(f"\n{'processor time, us a request':34}" + "".join(f"{n:>22}" for n in names) + f"{'bare / kvshelf':>22}")
    for case in results.rows:
        op, keys, connections = case
        line = f"{op + ', ' + str(keys) + ' keys, ' + str(connections) + ' conn.':34}"
        for name in names:
            used = results.median(case, name, "server_us")
            line += f"{'-' if used is None else f'{used:,.1f}':>22}"
        ratio = results.ratio(case, "kvshelf", "bare", "server_us")
        print(line + f"{'-' if ratio is None else f'{1 / ratio:.2f}':>22}")


def measure_stalls(work, pages):
    """The worst get of 128 keys while another connection reserves and releases 128 pages and, in the kept
    server, the image of what was just filled and of what changes is written once a second. With pauses, so
    that neither core is overloaded, and without, where both are busy all the time. The writer of images may use
    the other core. What is the machine's own doing shows in two ways: the server in memory has no such writer, and
    the load, which never sleeps where it does not pause, knows when its own core was taken away."""
    outcomes = {}
    for name, flags in (("kept", ["--data-dir", os.path.join(work, "stalls")]), ("in memory", [])):
        server = Server(name, [os.path.join(BUILD, "kvshelf"), "serve", "--port", "{port}", "--threads", "1",
                               "--lease", "0", "--quarantine", "0", *flags], cores=f"{SERVER_CORE},{LOAD_CORE}")
        filled = fill(server, pages)
        server.post("/1/initialize", {"num_pages": pages})
        for pause_us, manner in ((200, "pauses of 0.2 ms"), (0, "without a pause")):
            outcomes[f"{name}, {manner}"] = [
                server.load(op="stall", keys=128, connections=4, pages=filled, requests=100000,
                            first=(4 + i) * 10**10, **{"pause-us": pause_us}) for i in range(5)]
        server.stop()
    return outcomes


def measure_restart(work, pages):
    """Memory a key and the time from start to ready with that many keys kept."""
    command = [os.path.join(BUILD, "kvshelf"), "serve", "--port", "{port}", "--threads", "1", "--data-dir",
               os.path.join(work, "restart")]
    server = Server("kvshelf", command)
    empty = server.memory_bytes()
    fill(server, pages)
    used = server.memory_bytes()
    server.stop()
    started = time.monotonic()
    server = Server("kvshelf", command)
    while True:
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(f"http://127.0.0.1:{server.port}/ready", timeout=5).status == 200:
                break
        time.sleep(0.002)
    seconds = time.monotonic() - started
    server.stop()
    return {"bytes_per_key": (used - empty) / pages, "restart_seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=1 << 20)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests: to try it out")
    parser.add_argument("--save", help="write every outcome to this file, as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as args.work, contextlib.ExitStack() as stack:
        servers, results = [], Results()
        for server in start_servers(args.work):
            stack.callback(server.stop)
            servers.append(server)
            say(f"filling {server.name} with {args.pages:,} keys")
            filled = fill(server, args.pages)
            server.pause()
        for number in range(args.rounds):
            say(f"round {number + 1} of {args.rounds}")
            measure_lookups(servers, results, args, filled)
            measure_cycles(servers, results, args, filled, number)
        print_table(results)
        print_cpu(results)
        stalls = measure_stalls(args.work, args.pages)
        print("\nget of 128 keys while another connection reserves and releases 128 pages, five rounds:")
        for name, rounds in stalls.items():
            print(f"  {name}: p50 {statistics.median(r['p50_us'] for r in rounds):.0f} us, p99 "
                  f"{statistics.median(r['p99_us'] for r in rounds):.0f} us, worst of each round "
                  + ", ".join(f"{r['worst_us'] / 1000:.1f}" for r in rounds) + " ms")
            if any(r["stood_still"] for r in rounds):
                print(f"    without the {', '.join(str(r['stood_still']) for r in rounds)} gets during which the load stood "
                      "still: " + ", ".join(f"{r['worst_running_us'] / 1000:.1f}" for r in rounds) + " ms")
        restart = measure_restart(args.work, args.pages)
        print(f"memory {restart['bytes_per_key']:.1f} B a key; restart with {args.pages:,} keys in "
              f"{restart['restart_seconds']:.2f} s (SGLang's server: 242 B, 4.5 s, see docs/benchmarks.md)")
        if args.save:
            rows = [{"case": list(case), "server": name, "outcomes": outcomes}
                    for case, by_name in results.rows.items() for name, outcomes in by_name.items()]
            with open(args.save, "w") as f:
                json.dump({"rows": rows, "stalls": stalls, "restart": restart}, f, indent=1)


if __name__ == "__main__":
    main()
