"""Load SGLang's own HF3FS classes from the installed package without a GPU.

What is real: hicache_storage, the hf3fs folder (metadata server, its client, the storage class, the
plain-file client) as released. What is a stand-in: everything those import of SGLang that needs a GPU
build, and, where torch is not installed, torch itself (the metadata server and its client never use it).
"""
import importlib.machinery
import importlib.util
import os
import sys
import types
from unittest import mock

# Only these modules of the package are loaded for real; anything else under `sglang` is a stand-in.
REAL = (
    "sglang.srt.mem_cache.hicache_storage",
    "sglang.srt.mem_cache.storage.hf3fs",
    "sglang.srt.mem_cache.storage.hf3fs.",
)
PACKAGES = (
    "sglang",
    "sglang.srt",
    "sglang.srt.mem_cache",
    "sglang.srt.mem_cache.storage",
)


class StandIn(types.ModuleType):
    """A module in which every name exists."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = mock.MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder:
    """Gives a stand-in for each module of the package that is not loaded for real."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top == "torch" and torch_is_a_stand_in():
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if top != "sglang" or name in PACKAGES or name == REAL[0] or name.startswith(REAL[1]):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


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
