"""SGLang's released storage class stores and loads pages over kvshelf serve.

Real in every test: SGLang's HiCacheHF3FS, its plain-file client, its metadata client over HTTP and its host
pools, all as released, and kvshelf serve; where a test's name says so, kvshelf's own store too (the program's
get and set) on the same file. Stand-ins: the device's pool, and the engine, which is the test: it makes pages,
and calls the class as the cache controller does.
"""
import itertools
import json
import urllib.request

import pytest
import servers

torch = pytest.importorskip("torch", reason="SGLang's storage class needs torch")
import engine  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer  # noqa: E402
from test_remote_client import Shelf  # noqa: E402

PAGES = 32  # of a file
FLAGS = ["--lease", "0", "--quarantine", "0"]
KINDS = [(kind, layout) for kind in ("mha", "mla") for layout in ("page_first", "page_first_direct", "layer_first")]


def h(i):
    return f"{i:064x}"


class Engine:
    """The stand-in: one rank, which holds pages in a real host pool."""

    def __init__(self, tmp_path, server, kind="mha", layout="page_first", rank=0, ranks=1, pages=PAGES):
        self.kind, self.rank = kind, rank
        self.pool = (engine.mha_pool if kind == "mha" else engine.mla_pool)(64, layout=layout)
        self.two_slots = kind == "mha" and layout != "layer_first"
        self.slot_bytes = engine.slot_bytes(self.pool)
        config = tmp_path / f"config-{kind}-{rank}.json"
        self.prefix = str(tmp_path / kind)
        engine.write_config(config, self.prefix, server.url, pages, self.slot_bytes)
        self.storage = engine.open_storage(config, self.pool, kind == "mla", rank, ranks)

    def seed(self, i):
        """MLA pages are the same on all ranks, MHA pages are not."""
        return (self.kind, i) if self.kind == "mla" else (self.kind, self.rank, i)

    def set(self, numbers):
        numbers = list(numbers)
        for page, i in enumerate(numbers):
            engine.put(self.pool, page, engine.expected(self.pool, self.seed(i)))
        return self.storage.batch_set_v1([h(i) for i in numbers],
                                         engine.indices(self.pool, range(len(numbers))))

    def exists(self, numbers):
        return self.storage.batch_exists([h(i) for i in numbers])

    def get(self, numbers):
        """As many pages of the prefix as were loaded; each byte of them is checked."""
        numbers = list(numbers)
        into = list(range(40, 40 + len(numbers)))[::-1]
        for page in into:
            engine.put(self.pool, page, b"\xee" * len(engine.page_of(self.pool, page)))
        results = self.storage.batch_get_v1([h(i) for i in numbers], engine.indices(self.pool, into))
        assert len(results) == len(numbers)
        loaded = list(itertools.takewhile(bool, results))
        for page, i in zip(into, numbers[:len(loaded)]):
            assert engine.page_of(self.pool, page) == engine.expected(self.pool, self.seed(i))
        return len(loaded)


def counts(server, rank=0, namespace="kv"):
    with urllib.request.urlopen(f"{server.url}/api/status") as answer:
        rows = json.load(answer)["namespaces"]
    return next(row["pages"] for row in rows if (row["rank"], row["namespace"]) == (rank, namespace))


@pytest.fixture()
def server(tmp_path):
    with servers.Kvshelf("--data-dir", str(tmp_path / "index"), *FLAGS) as running:
        yield running


@pytest.fixture()
def make(tmp_path, server):
    made = []

    def one(*args, **named):
        made.append(Engine(tmp_path, server, *args, **named))
        return made[-1]
    yield one
    for each in made:
        each.storage.close()


@pytest.mark.parametrize("kind,layout", KINDS)
def test_real_class_files_pools_stand_in_engine_stores_and_loads(make, server, kind, layout):
    one = make(kind, layout)
    slots = 2 if one.two_slots else 1
    assert one.exists(range(8)) == 0
    assert all(one.set(range(8)))
    assert one.exists(range(8)) == 8
    assert one.get(range(8)) == 8
    assert counts(server)["committed"] == 8 * slots
    # A prefix that goes on beyond what is stored; then all of it again, of which half is present.
    assert one.exists(range(12)) == 8
    assert one.get(range(12)) == 8
    assert all(one.set(range(4, 16)))
    assert one.get(range(16)) == 16
    assert counts(server) == {"free": PAGES - 16 * slots, "reserved": 0, "committed": 16 * slots, "retired": 0}


def test_real_class_files_pools_stand_in_engine_mha_ranks_have_pages_of_their_own(make, server):
    ranks = [make("mha", rank=rank, ranks=4) for rank in range(4)]
    for one in ranks:
        assert one.exists(range(8)) == 0
        assert all(one.set(range(8)))
    for one in ranks:
        assert one.get(range(8)) == 8
        assert counts(server, one.rank)["committed"] == 16
    ranks[2].storage.clear()
    assert [one.get(range(8)) for one in ranks] == [8, 8, 0, 8]


@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_real_class_files_pools_stand_in_engine_mla_ranks_read_what_rank_0_wrote(make, server, layout):
    ranks = [make("mla", layout, rank=rank, ranks=4) for rank in range(4)]
    # Ranks other than 0 skip the backup, whatever is asked: nothing is written or reserved.
    assert ranks[1].set(range(8)) is True
    assert [one.exists(range(8)) for one in ranks] == [0] * 4
    assert counts(server) == {"free": PAGES, "reserved": 0, "committed": 0, "retired": 0}
    assert all(ranks[0].set(range(8)))
    assert ranks[3].set(range(8, 16)) is True
    assert [one.exists(range(16)) for one in ranks] == [8] * 4
    assert [one.get(range(16)) for one in ranks] == [8] * 4
    assert counts(server)["committed"] == 8


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_real_class_files_pools_stand_in_engine_goes_on_after_a_restart(make, server, end):
    one, ranks = make("mha"), [make("mla", rank=rank, ranks=2) for rank in (0, 1)]
    # One namespace has one geometry: MLA pages of another length belong to another server or rank.
    assert one.slot_bytes == ranks[0].slot_bytes
    assert all(one.set(range(4))) and all(ranks[0].set(range(100, 108)))
    for _ in range(2):
        getattr(server, end)()
        server.start()
        assert one.get(range(4)) == 4
        assert ranks[1].get(range(100, 108)) == 8
        assert counts(server)["committed"] == 16
    if end == "stop":  # after a kill the pages that look free rest first: a writer may still own one
        assert all(one.set(range(4, 6)))
        assert one.get(range(6)) == 6


def test_real_class_files_pools_stand_in_engine_delete_and_clear(make, server):
    one = make("mla")
    assert all(one.set(range(8)))
    one.storage.delete(h(3))
    assert not one.storage.exists(h(3)) and one.storage.exists(h(4))
    assert one.exists(range(8)) == 3
    assert one.get(range(8)) == 3
    one.storage.clear()
    assert one.exists(range(8)) == 0
    after = counts(server)  # cleared pages are free or about to be
    assert (after["committed"], after["reserved"], after["free"] + after["retired"]) == (0, 0, PAGES)
    assert all(one.set(range(8)))
    assert one.get(range(8)) == 8


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_real_class_files_pools_stand_in_engine_a_full_cache_gives_up_old_pages(make, server, kind):
    one = make(kind)
    slots = 2 if one.two_slots else 1
    for first in range(0, 200, 8):
        assert all(one.set(range(first, first + 8)))
        assert one.get(range(first, first + 8)) == 8
    assert counts(server) == {"free": 0, "reserved": 0, "committed": PAGES, "retired": 0}
    found = [i for i in range(200) if one.get([i]) == 1]
    assert len(found) == PAGES // slots
    assert found[-8:] == list(range(192, 200))


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_real_class_files_pools_stand_in_engine_a_batch_beyond_the_cache_fails_page_by_page(make, server, kind):
    """With SGLang's server such a batch raises, and its pages are lost for ever."""
    one = make(kind, pages=16)
    slots = 2 if one.two_slots else 1
    results = one.set(range(20))
    assert results == [True] * 16 + [False] * (20 * slots - 16)
    assert one.get(range(20)) == 16 // slots
    assert counts(server) == {"free": 0, "reserved": 0, "committed": 16, "retired": 0}
    # Nothing is evicted for a batch beyond half of the pages: its writer may never confirm.
    assert all(one.set(range(100, 104)))
    assert one.get(range(100, 104)) == 4


def test_real_class_files_pools_stand_in_engine_two_engines_share_pages(make):
    one, other = make("mla"), make("mla")
    assert all(one.set(range(8)))
    assert other.get(range(8)) == 8
    assert all(other.set(range(16)))
    assert one.get(range(16)) == 16


def test_real_class_files_pools_stand_in_engine_extra_pools(make, server):
    one = make("mha", rank=3, ranks=4)
    states, mirror = engine.mamba_pool(16), engine.mla_pool(16)
    one.storage.register_mem_host_pool_v2(states, PoolName.MAMBA)
    one.storage.register_mem_host_pool_v2(mirror, PoolName.INDEXER)
    pools = {PoolName.MAMBA: states, PoolName.INDEXER: mirror}
    assert all(one.set(range(8)))

    def transfers(pages, policy=PoolHitPolicy.ALL_PAGES):
        return [PoolTransfer(name=name, keys=[h(i) for i in pages], hit_policy=policy,
                             host_indices=engine.indices(pool, pages)) for name, pool in pools.items()]
    for name, pool in pools.items():
        for page in range(8):
            engine.put(pool, page, engine.expected(pool, (name, page)))
    assert one.storage.batch_set_v2(transfers(range(6))) == {name: [True] * 6 for name in pools}
    hits = one.storage.batch_exists_v2([h(i) for i in range(8)], transfers(range(8)))
    assert hits.kv_hit_pages == 6
    hits = one.storage.batch_exists_v2([h(i) for i in range(8)],
                                       transfers([7], PoolHitPolicy.TRAILING_PAGES))
    assert hits.kv_hit_pages == 6
    for pool in pools.values():
        for page in range(8):
            engine.put(pool, page, b"\xee" * len(engine.page_of(pool, page)))
    loaded = one.storage.batch_get_v2(transfers(range(8)))
    assert loaded == {name: [True] * 6 + [False] * 2 for name in pools}
    for name, pool in pools.items():
        for page in range(6):
            assert engine.page_of(pool, page) == engine.expected(pool, (name, page))
        assert counts(server, 3, name)["committed"] == 6
    one.storage.clear()
    assert counts(server, 3, "mamba")["committed"] == 0 == counts(server, 3)["committed"]


# ---- Both stores on one file ------------------------------------------------------------------------


def shelf_beside(tmp_path, one, server, verify):
    """kvshelf's store with the same file."""
    shelf = Shelf.__new__(Shelf)
    shelf.config, shelf.page_bytes = tmp_path / f"shelf-{verify}.json", one.slot_bytes
    engine.write_config(shelf.config, one.prefix, server.url, PAGES, one.slot_bytes, verify=verify)
    return shelf


def slots_of(one, i):
    """The keys of a page and the bytes behind each."""
    data = engine.expected(one.pool, one.seed(i))
    if not one.two_slots:
        return [(h(i), data)]
    return [(h(i) + "-k", data[:one.slot_bytes]), (h(i) + "-v", data[one.slot_bytes:])]


@pytest.mark.parametrize("kind,layout", KINDS)
def test_real_class_and_real_kvshelf_store_read_each_others_pages(make, server, tmp_path, kind, layout):
    one = make(kind, layout)
    believing = shelf_beside(tmp_path, one, server, "if_known")
    verifying = shelf_beside(tmp_path, one, server, "required")
    mla = ["--mla"] if kind == "mla" else []
    assert all(one.set(range(4)))
    key, data = slots_of(one, 2)[-1]
    assert believing.get(key, *mla) == data
    assert verifying.get(key, *mla) is None  # SGLang's client sends no checksum
    for key, data in slots_of(one, 10):
        assert one.exists([10]) == 0
        assert verifying.set(key, data, *mla)
        assert verifying.get(key, *mla) == data
    assert one.exists([10]) == 1
    assert one.get([10]) == 1
    # A page of SGLang's that kvshelf's store writes again has a checksum from then on, for both.
    for key, data in slots_of(one, 2):
        assert verifying.set(key, data, *mla)
        assert verifying.get(key, *mla) == data
    assert one.get(range(4)) == 4
