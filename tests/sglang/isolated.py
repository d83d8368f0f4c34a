"""Load SGLang's own HF3FS classes from the installed package without a GPU.

What is real, as released: hicache_storage, the hf3fs folder (metadata server, its client, the storage
class, the plain-file client) and, where torch is installed, the host pools. What is a stand-in: everything
those import of SGLang that needs a GPU build, and, where torch is not installed, torch itself (the metadata
server and its client never use it).
"""
import importlib.machinery
import importlib.util
import os
import sys
import types
from unittest import mock

# Only these modules of the package, and what is below them, are loaded for real; anything else under
# `sglang` is a stand-in.
REAL = (
    "sglang.srt.mem_cache.hicache_storage",
    "sglang.srt.mem_cache.storage.hf3fs",
)
REAL_WITH_TORCH = (
    "sglang.srt.environ",
    "sglang.srt.mem_cache.device_pool_info",
    "sglang.srt.mem_cache.host_memory",
    "sglang.srt.mem_cache.pool_host",
    "sglang.srt.mem_cache.storage.mmap",
)
PACKAGES = (
    "sglang",
    "sglang.srt",
    "sglang.srt.mem_cache",
    "sglang.srt.mem_cache.storage",
)


class StandIn(types.ModuleType):
    """A module in which every name exists. No platform is there: is_cuda() and its like answer False."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = (lambda: False) if name.startswith("is_") else mock.MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder:
    """Gives a stand-in for each module of the package that is not loaded for real."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top == "torch" and torch_is_a_stand_in():
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if top != "sglang" or name in PACKAGES or is_real(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def is_real(name):
    real = REAL if torch_is_a_stand_in() else REAL + REAL_WITH_TORCH
    return any(name == module or name.startswith(module + ".") for module in real)


_torch_found = None


def torch_is_a_stand_in():
    global _torch_found
    if _torch_found is None:
        _torch_found = importlib.machinery.PathFinder.find_spec("torch") is not None
    return not _torch_found


def install():
    """Makes `import sglang.srt.mem_cache.storage.hf3fs...` work; returns the package's version."""
    from importlib.metadata import version

    root = None
    for entry in sys.path:
        if os.path.isdir(os.path.join(entry, "sglang", "srt")):
            root = os.path.join(entry, "sglang")
            break
    if root is None:
        raise ImportError("SGLang is not installed in this Python")
    for name in PACKAGES:
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(root, *name.split(".")[1:])]
        sys.modules[name] = module
    sys.meta_path.insert(0, Finder())
    return version("sglang")
