#!/usr/bin/env python3
"""The remote client (the program, real) over https: kvshelf serve (real) behind a TLS front (a stand-in for the
proxy that one would use), with a certificate that is trusted, one that is not, and one of another name.

usage: tls.py PROGRAM
"""
import contextlib, json, os, re, shutil, socket, ssl, subprocess, sys, tempfile, threading, urllib.request

PAGE = bytes(i * 13 % 256 for i in range(4096))


def make_certificate(directory, name, host):
    key, certificate = (os.path.join(directory, f"{name}.{end}") for end in ("key", "pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}",
                    "-addext", f"subjectAltName=DNS:{host}", "-keyout", key, "-out", certificate],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return key, certificate


@contextlib.contextmanager
def server(program):
    process = subprocess.Popen([program, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", line)
            if found:
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield int(found.group(1))
                break
    finally:
        process.kill()
        process.wait()


def copy(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for s in (source, sink):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)


def serve_front(listener, context, port):
    while True:
        try:
            outside = context.wrap_socket(listener.accept()[0], server_side=True)
        except ssl.SSLError:
            continue  # a client that does not trust the certificate
        except OSError:
            return
        inside = socket.create_connection(("127.0.0.1", port))
        for ends in ((outside, inside), (inside, outside)):
            threading.Thread(target=copy, args=ends, daemon=True).start()


def front(key, certificate, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_front, args=(listener, context, port), daemon=True).start()
    return f"https://localhost:{listener.getsockname()[1]}"


def run(program, directory, url, trusted, command, data=None):
    config = os.path.join(directory, "config.json")
    with open(config, "w") as f:
        json.dump({"file_path_prefix": os.path.join(directory, "pages"), "file_size": 1 << 20, "numjobs": 1,
                   "entries": 1, "client_timeout": 10, "metadata_server_url": url}, f)
    environment = {k: v for k, v in os.environ.items() if k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE")}
    if trusted:
        environment["SSL_CERT_FILE"] = trusted
    return subprocess.run([program, command, *([] if command == "doctor" else ["key"]), "--config", config,
                           "--bytes-per-page", "4096"], input=data, capture_output=True, env=environment, timeout=60)


def main():
    program = sys.argv[1]
    if shutil.which("openssl") is None:
        return 77
    with tempfile.TemporaryDirectory() as directory, server(program) as port:
        key, certificate = make_certificate(directory, "good", "localhost")
        url = front(key, certificate, port)
        other_key, other_certificate = make_certificate(directory, "other", "elsewhere.example")
        other_url = front(other_key, other_certificate, port)

        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/0/initialize",
                                                      data=b'{"num_pages":256}')).close()
        done = run(program, directory, url, certificate, "set", PAGE)
        assert done.returncode == 0 and b"stored" in done.stdout, done
        done = run(program, directory, url, certificate, "get")
        assert done.returncode == 0 and done.stdout == PAGE, done
        done = run(program, directory, url, certificate, "doctor")
        assert b"ok       server" in done.stdout and b"ok       latency" in done.stdout, done
        for untrusted in ((url, None), (url, other_certificate), (other_url, other_certificate)):
            done = run(program, directory, *untrusted, "doctor")
            assert done.returncode == 1 and b"cannot be reached: SSL" in done.stdout, done
    return 0


if __name__ == "__main__":
    sys.exit(main())
