"""kvshelf's store and its remote client (real: the program) over SGLang's released metadata server (real),
and both kinds of clients over kvshelf serve (real).
"""
import json
import os
import subprocess

import isolated
import pytest
import servers

isolated.install()
from sglang.srt.mem_cache.storage.hf3fs.mini_3fs_metadata_server import (  # noqa: E402
    Hf3fsGlobalMetadataClient,
)

PAGE_BYTES, PAGES = 4096, 16


class Shelf:
    """Runs kvshelf over a configuration."""

    def __init__(self, directory, url, **more):
        self.prefix = os.path.join(directory, "pages")
        self.config = os.path.join(directory, f"config{len(os.listdir(directory))}.json")
        self.page_bytes = PAGE_BYTES
        with open(self.config, "w") as f:
            json.dump({"file_path_prefix": self.prefix, "file_size": PAGE_BYTES * PAGES, "numjobs": 1,
                       "entries": 2, "metadata_server_url": url, **more}, f)

    def run(self, command, *arguments, data=None):
        return subprocess.run([servers.KVSHELF, command, *arguments, "--config", self.config,
                               "--bytes-per-page", str(self.page_bytes)],
                              input=data, capture_output=True, timeout=60)

    def set(self, key, data, *more):
        return self.run("set", key, *more, data=data).returncode == 0

    def get(self, key, *more):
        done = self.run("get", key, *more)
        return done.stdout if done.returncode == 0 else None


def page_of(i):
    return bytes((i * 31 + j) % 256 for j in range(PAGE_BYTES))


@pytest.fixture(scope="module")
def original():
    with servers.original_server() as url:
        yield url


def test_kvshelf_over_the_original_server(original, tmp_path):
    shelf = Shelf(tmp_path, original, verify="if_known")
    assert b"There is no namespace 'kv' of rank 0" in shelf.run("set", "key0", data=page_of(0)).stderr
    Hf3fsGlobalMetadataClient(original).initialize(0, PAGES)
    for i in range(4):
        assert shelf.set(f"key{i}", page_of(i))
    for i in range(4):
        assert shelf.get(f"key{i}") == page_of(i)
    assert b"present already" in shelf.run("set", "key0", data=page_of(9)).stdout
    assert shelf.run("delete", "key0").returncode == 0
    assert shelf.get("key0") is None
    assert shelf.get("key1") == page_of(1)
    warned = shelf.run("get", "key1").stderr
    assert warned.count(b"keeps no checksums") == 1


def test_kvshelf_over_the_original_server_cannot_verify(original, tmp_path):
    """With verify=required every page is a miss, and the reason is said."""
    client = Hf3fsGlobalMetadataClient(original)
    client.initialize(0, PAGES)
    client.clear(0)
    shelf = Shelf(tmp_path, original)
    assert shelf.set("key", page_of(1))
    done = shelf.run("get", "key")
    assert done.returncode == 1 and b"set verify to if_known" in done.stderr
    doctor = shelf.run("doctor")
    assert doctor.returncode == 1 and b"SGLang's own server" in doctor.stdout
    trusting = Shelf(tmp_path, original, verify="if_known")
    assert trusting.get("key") == page_of(1)
    assert trusting.run("doctor").returncode == 0


def test_the_original_servers_batches_end_when_it_is_full(original, tmp_path):
    """It evicts where it can; what it cannot give is not stored, and nothing raises."""
    client = Hf3fsGlobalMetadataClient(original)
    client.initialize(1, PAGES)
    reserved = client.reserve_and_allocate_page_indices(1, [(f"r{i}", "") for i in range(PAGES)])
    assert len(reserved) == PAGES
    shelf = Shelf(tmp_path, original, verify="if_known")
    done = shelf.run("set", "one more", "--tp-rank", "1", "--tp-size", "2", data=page_of(1))
    assert done.returncode == 1 and b"the index did not answer" in done.stderr


def test_both_kinds_of_clients_share_kvshelf_serve(tmp_path):
    """A page that the original client confirmed has no checksum: a verifying store does not believe it,
    and writes its own; one that believes finds it."""
    with servers.Kvshelf("--lease", "0", "--quarantine", "0") as server:
        client = Hf3fsGlobalMetadataClient(server.url)
        client.initialize(0, PAGES)
        verifying = Shelf(tmp_path, server.url)
        believing = Shelf(tmp_path, server.url, verify="if_known")
        assert verifying.set("ours", page_of(1))
        assert client.exists(0, ["ours"]) == [True]
        offset = client.get_page_indices(0, ["ours"])[0] * PAGE_BYTES
        with open(verifying.prefix + ".0.bin", "r+b") as pages:
            pages.seek(offset)
            assert pages.read(PAGE_BYTES) == page_of(1)
            _, theirs = client.reserve_and_allocate_page_indices(0, [("theirs", "")])[0]
            pages.seek(theirs * PAGE_BYTES)
            pages.write(page_of(2))
            pages.flush()
            client.confirm_write(0, [("theirs", theirs)], [])
        assert verifying.get("theirs") is None
        assert believing.get("theirs") == page_of(2)
        assert believing.get("ours") == page_of(1)
        assert verifying.set("theirs", page_of(2))
        assert verifying.get("theirs") == page_of(2)
        assert client.exists(0, ["theirs"]) == [True]
        assert client.get_page_indices(0, ["theirs"]) != [theirs]
