"""The module _eager: it does in C what eager calls of batchgemm.torch do again and again (_eager.c). It lies
beside libbatchgemm.so: in the wheel, or where "make eager" puts it. Python can do everything without it."""

import os
from importlib import machinery, util

from ._abi import _library


class Nothing:
    """In its place: it knows no call, so Python does everything."""

    product = scaled = run = layer = forward = backward = staticmethod(lambda *_: None)
    keep = keep_layer = clear = setup = staticmethod(lambda *_, **__: None)


def _load():
    folder = os.path.dirname(_library._name)
    finder = machinery.FileFinder(folder, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES))
    # without a folder the loader of libraries has looked for it
    spec = folder and finder.find_spec("batchgemm._eager")
    if not spec:
        return Nothing  # nobody has built it, or this Python takes no module of the limited API
    try:
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        return Nothing  # this Python is too old
    return module


eager = _load()
