"""SGLang's released metadata client (real) drives kvshelf serve (real): every operation, what it makes of
refusals, and restarts of the server under it. Nothing here is a stand-in but what isolated.py names: the
parts of SGLang that need a GPU build, which this client does not use.
"""
import isolated
import pytest
import servers

isolated.install()
from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: E402
from sglang.srt.mem_cache.storage.hf3fs.mini_3fs_metadata_server import (  # noqa: E402
    Hf3fsGlobalMetadataClient,
)

FLAGS = ["--lease", "0", "--quarantine", "0"]


def h(i):
    return f"{i:064x}"


def halves(n):
    return [(h(i) + side, "") for i in range(n) for side in ("-k", "-v")]


@pytest.fixture()
def server(tmp_path):
    with servers.Kvshelf("--data-dir", str(tmp_path / "index"), *FLAGS) as running:
        yield running


@pytest.fixture()
def client(server):
    made = Hf3fsGlobalMetadataClient(server.url)
    made.initialize(0, 64)
    return made


def store(client, keys, rank=0, **namespace):
    reserved = client.reserve_and_allocate_page_indices(rank, keys, **namespace)
    assert all(not present and page >= 0 for present, page in reserved)
    written = [(key, page) for (key, _), (_, page) in zip(keys, reserved)]
    client.confirm_write(rank, written, [], **namespace)
    return [page for _, page in reserved]


def test_real_client_every_operation(client):
    keys = halves(16)
    names = [key for key, _ in keys]
    assert client.exists(0, names) == [False] * 32
    pages = store(client, keys)
    assert len(set(pages)) == 32 and all(0 <= page < 64 for page in pages)
    assert client.exists(0, names + ["never"]) == [True] * 32 + [False]
    assert client.get_page_indices(0, names + ["never"]) == pages + [None]
    again = client.reserve_and_allocate_page_indices(0, keys[:3] + [("new", "")])
    assert again[:3] == [(True, page) for page in pages[:3]]
    assert again[3][0] is False and again[3][1] not in pages
    client.confirm_write(0, [], [again[3][1]])
    assert client.exists(0, ["new"]) == [False]
    client.delete_keys(0, names[:2] + ["never"])
    assert client.exists(0, names[:3]) == [False, False, True]
    client.clear(0)
    assert client.exists(0, names) == [False] * 32
    client.initialize(0, 64)


def test_real_client_pools_and_ranks_are_apart(client):
    client.initialize(0, 8, PoolName.MAMBA)
    client.initialize(7, 8)
    store(client, [(h(1) + "_mamba", "")], namespace=PoolName.MAMBA)
    assert client.exists(0, [h(1) + "_mamba"], PoolName.MAMBA) == [True]
    assert client.exists(0, [h(1) + "_mamba"]) == [False]
    assert client.exists(7, [h(1) + "_mamba"]) == [False]


def test_real_client_a_full_catalog_answers_page_by_page(client):
    """The original server fails the whole batch and leaks its pages; the client takes -1 for no page."""
    keys = [(h(i), "") for i in range(200)]
    reserved = client.reserve_and_allocate_page_indices(0, keys)
    given = [page for present, page in reserved if not present and page >= 0]
    assert len(given) == len(set(given)) == 64
    assert [page for _, page in reserved[64:]] == [-1] * 136
    client.confirm_write(0, [(h(i), page) for i, (_, page) in enumerate(reserved[:64])], [])
    assert client.exists(0, [h(i) for i in range(64)]) == [True] * 64


def test_real_client_batches_as_a_long_prefix_makes_them(server):
    client = Hf3fsGlobalMetadataClient(server.url)
    client.initialize(3, 20000)
    keys = halves(8192)
    names = [key for key, _ in keys]
    pages = store(client, keys, rank=3)
    assert client.get_page_indices(3, names) == pages
    assert client.exists(3, names) == [True] * len(names)


def test_real_client_what_it_makes_of_refusals(client, server):
    with pytest.raises(RuntimeError, match="404"):
        client.exists(5, ["a"])
    with pytest.raises(RuntimeError, match="409"):
        client.initialize(0, 65)
    with pytest.raises(RuntimeError, match="400"):
        client.reserve_and_allocate_page_indices(0, ["not a pair"])
    with pytest.raises(RuntimeError, match="400"):
        client.exists(0, None)
    # Confirms that do not apply change nothing, and are no failure to it.
    page = store(client, [(h(1), "")])[0]
    client.confirm_write(0, [("other", page), ("far", 10**6), ("low", -1)], [page, 10**6])
    assert client.get_page_indices(0, [h(1), "other", "far", "low"]) == [page, None, None, None]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_real_client_goes_on_after_a_restart(client, server, end):
    keys = halves(16)
    names = [key for key, _ in keys]
    pages = store(client, keys)
    late = client.reserve_and_allocate_page_indices(0, [("late", "")])[0][1]
    for _ in range(3):
        getattr(server, end)()
        server.start()
        assert client.get_page_indices(0, names) == pages
        assert client.exists(0, names) == [True] * 32
    client.confirm_write(0, [("late", late)], [])
    assert client.get_page_indices(0, ["late"]) == [late]


def test_real_client_finds_an_empty_server_after_a_restart_without_a_directory():
    with servers.Kvshelf(*FLAGS) as server:
        client = Hf3fsGlobalMetadataClient(server.url)
        client.initialize(0, 8)
        store(client, [(h(1), "")])
        server.kill()
        server.start()
        with pytest.raises(RuntimeError, match="404"):
            client.exists(0, [h(1)])
        client.initialize(0, 8)
        assert client.exists(0, [h(1)]) == [False]


def test_real_client_with_a_token_in_its_url(tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-sufficient-length\n")
    with servers.Kvshelf("--token-file", str(token), *FLAGS) as server:
        with pytest.raises(RuntimeError, match="401"):
            Hf3fsGlobalMetadataClient(server.url).initialize(0, 8)
        host = server.url.removeprefix("http://")
        client = Hf3fsGlobalMetadataClient(f"http://x:a-token-of-sufficient-length@{host}")
        client.initialize(0, 8)
        store(client, [(h(1), "")])
        assert client.exists(0, [h(1)]) == [True]
