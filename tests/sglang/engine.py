"""What of an engine SGLang's storage class needs, without a GPU: host pools and a configuration.

Real: the host pools (SGLang's MHATokenToKVPoolHost, MLATokenToKVPoolHost, MambaPoolHost, in CPU memory), the
storage class and how it is made from a configuration. Stand-ins: the device's pool, whose tensors hold one
page, and the engine itself: whoever calls the storage class as SGLang's cache controller does.
"""
import hashlib
import json
import os
import signal

import isolated

isolated.install()
import torch  # noqa: E402
from sglang.srt.mem_cache import pool_host  # noqa: E402, F401
from sglang.srt.mem_cache.device_pool_info import (  # noqa: E402
    KVBufferLayout,
    KVBuffers,
    MambaStateBufferInfo,
    MHABufferInfo,
    MLABufferInfo,
)
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig  # noqa: E402
from sglang.srt.mem_cache.pool_host import base as pool_base  # noqa: E402
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost  # noqa: E402
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.storage.hf3fs.storage_hf3fs import HiCacheHF3FS  # noqa: E402

pool_base.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
LAYERS, DTYPE = 2, torch.bfloat16
CPU = torch.device("cpu")


def pointers(tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)


def mha_pool(pages, page_bytes=4096, layout="page_first", tokens=16):
    """A real host pool of K and V; `page_bytes` are those of K or V of a page."""
    heads = 2
    dim = page_bytes // (tokens * LAYERS * heads * DTYPE.itemsize)
    assert page_bytes == tokens * LAYERS * heads * dim * DTYPE.itemsize
    k, v = ([torch.zeros(tokens, heads, dim, dtype=DTYPE) for _ in range(LAYERS)] for _ in "kv")
    info = MHABufferInfo(
        buffers=KVBuffers(k=tuple(k), v=tuple(v), k_data_ptrs=pointers(k), v_data_ptrs=pointers(v),
                          layout=KVBufferLayout.NHD),
        page_size=tokens, head_num=heads, head_dim=dim, v_head_dim=dim, dtype=DTYPE, device=CPU)
    return MHATokenToKVPoolHost(
        info, 1.0, 0, tokens, layout, pin_memory=False, device_capacity_tokens=tokens, start_layer=0,
        end_layer=LAYERS, host_token_capacity=pages * tokens)


def mla_pool(pages, page_bytes=4096, layout="page_first", tokens=16):
    width = page_bytes // (tokens * LAYERS * DTYPE.itemsize)
    assert page_bytes == tokens * LAYERS * width * DTYPE.itemsize
    rope = width // 4
    rows = [torch.zeros(tokens, 1, width, dtype=DTYPE) for _ in range(LAYERS)]
    info = MLABufferInfo(
        buffers=tuple(rows), data_ptrs=pointers(rows), layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS, page_size=tokens, kv_lora_rank=width - rope, qk_rope_head_dim=rope,
        kv_cache_dim=width, dtype=DTYPE, device=CPU)
    return MLATokenToKVPoolHost(
        info, 1.0, 0, tokens, layout, pin_memory=False, device_capacity_tokens=tokens, start_layer=0,
        end_layer=LAYERS, target_layer_num=LAYERS, host_token_capacity=pages * tokens)


def mamba_pool(states):
    """Of 2 layers, 512 + 2 x 64 bytes of state each."""
    info = MambaStateBufferInfo(temporal=torch.zeros(LAYERS, 1, 8, 16, dtype=torch.float32),
                                conv=(torch.zeros(LAYERS, 1, 32, dtype=DTYPE),) * 2)
    return MambaPoolHost(info, 1.0, 0, device_capacity=states, pin_memory=False, layout="page_first")


def page_of(pool, page):
    """The bytes of a page of a pool, in the order of the file: K, then V."""
    flat = pool.get_data_page(page * pool.page_size, flat=True)
    return flat.contiguous().view(torch.uint8).numpy().tobytes()


def expected(pool, seed):
    """Bytes for a page of this pool that no other seed has."""
    length = len(page_of(pool, 0))
    return hashlib.shake_128(repr(seed).encode()).digest(length)


def put(pool, page, data):
    dtype = torch.uint8 if isinstance(pool, MambaPoolHost) else DTYPE
    flat = torch.frombuffer(bytearray(data), dtype=dtype)
    pool.set_from_flat_data_page(page * pool.page_size, flat)


def indices(pool, pages):
    """`host_indices` of these pages, as the engine's allocator gives them out."""
    return torch.cat([torch.arange(page * pool.page_size, (page + 1) * pool.page_size) for page in pages])


def slot_bytes(pool):
    """Bytes per page as the engine computes them for this backend."""
    per_token = (pool.get_size_per_token() if pool.layout == "layer_first"
                 else pool.get_ksize_per_token())
    return per_token * pool.page_size


def write_config(path, prefix, url, pages, page_bytes, **more):
    with open(path, "w") as f:
        json.dump({"file_path_prefix": prefix, "file_size": pages * page_bytes, "numjobs": 2, "entries": 4,
                   "metadata_server_url": url, **more}, f)


def open_storage(config, pool, is_mla, rank=0, ranks=1):
    """SGLang's storage class over its plain-file client, made as SGLang's backend factory makes it."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)}
    os.environ[HiCacheHF3FS.default_env_var] = str(config)
    try:
        storage = HiCacheHF3FS.from_env_config(slot_bytes(pool), pool.dtype, HiCacheStorageConfig(
            tp_rank=rank, tp_size=ranks, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
            is_mla_model=is_mla, enable_storage_metrics=False,
            is_page_first_layout=pool.layout == "page_first", model_name="model",
            extra_config={"use_mock_hf3fs_client": True}))
    finally:
        del os.environ[HiCacheHF3FS.default_env_var]
        for number, handler in handlers.items():  # it takes them over
            signal.signal(number, handler)
    storage.register_mem_pool_host(pool)
    return storage
