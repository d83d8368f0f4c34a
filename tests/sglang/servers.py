"""Start and stop metadata servers for the tests: kvshelf's and SGLang's own."""
import contextlib
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
KVSHELF = os.environ.get("KVSHELF", os.path.join(TOP, "build", "kvshelf"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_listening(process, port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise RuntimeError("the server does not listen")


@contextlib.contextmanager
def running(command, port):
    """A started server's base URL; ended when the block is left."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_listening(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kvshelf_server(*flags):
    port = free_port()
    return running([KVSHELF, "serve", "--port", str(port), *flags], port)


def original_server():
    port = free_port()
    return running([sys.executable, os.path.join(HERE, "original_server.py"), "--port", str(port),
                    "--no-access-log"], port)


class Kvshelf:
    """kvshelf serve on a port of its own, to be stopped, killed and started again."""

    def __init__(self, *flags):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [KVSHELF, "serve", "--port", str(self.port), *flags]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until_listening(self.process, self.port)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()  # which leaves nothing on /dev/shm
