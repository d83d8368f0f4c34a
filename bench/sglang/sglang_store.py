"""As bench/sglang/store.c, by SGLang's own class as released: HiCacheHF3FS with its plain-file client, its
metadata client and an MLA host pool in layout page_first, which lets it read into the pool directly.

usage: sglang_store.py URL PREFIX FILE_BYTES PAGE_BYTES PAGES
"""
import logging
import os
import sys
import time
import warnings

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "sglang"))
import engine  # noqa: E402
import torch  # noqa: E402

NUMJOBS, ENTRIES = 16, 8  # as by default


def main():
    url, prefix = sys.argv[1:3]
    file_bytes, page_bytes, n = map(int, sys.argv[3:])
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # of torch, about a buffer that is only read
    pool = engine.mla_pool(n, page_bytes=page_bytes, tokens=64)
    rows = pool.kv_buffer.view(torch.uint8).reshape(n, page_bytes)
    wanted = (torch.arange(n) % 255 + 1).to(torch.uint8).reshape(n, 1)
    config = f"{prefix}.sglang.json"
    engine.write_config(config, prefix, url, file_bytes // page_bytes, page_bytes, numjobs=NUMJOBS, entries=ENTRIES)
    storage = engine.open_storage(config, pool, is_mla=True)
    keys = [f"{(1 << 64) + i:064x}" for i in range(n)]
    indices = engine.indices(pool, range(n))

    rows[:] = wanted
    assert all(storage.batch_set_v1(keys, indices)), "not every page was stored"
    print("ready", flush=True)
    for line in sys.stdin:
        rows.zero_()
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter_ns()
            assert storage.batch_exists(keys) == n, "not every page is there"
            between = time.perf_counter_ns()
            results = storage.batch_get_v1(keys, indices)
            times += [between - begin, time.perf_counter_ns() - between]
            assert all(results), "not every page was loaded"
        assert bool((rows == wanted).all()), "a page has other bytes"
        print(*times, flush=True)
    storage.close()


if __name__ == "__main__":
    main()
