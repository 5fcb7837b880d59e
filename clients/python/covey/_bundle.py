"""Makes the archive that travels: what is to be called, and the source of the modules it needs."""

import io
import json
import os
import pickle
import re
import sys
import sysconfig
import types
import zipfile

from ._errors import Error

PROTOCOL = 4  # of pickles: every Python from 3.8 reads it
PACK = 256 << 10  # bytes of units that are compressed together
MOST_SOURCE = 32 << 20  # bytes of modules; more is data, which is for files=


class _Pickler(pickle.Pickler):
    """Notes which modules a call needs."""

    def __init__(self, file, modules):
        super().__init__(file, PROTOCOL)
        self.modules = modules

    def reducer_override(self, obj):
        if isinstance(obj, (type, types.FunctionType)):
            self.modules.add((getattr(obj, "__module__", None) or "").partition(".")[0])
        return NotImplemented


def pickle_call(f, args, kwargs, modules):
    """The bytes of a call; the modules it names are added to modules."""
    out = io.BytesIO()
    try:
        _Pickler(out, modules).dump((f, args, kwargs))
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise pickle.PicklingError(
            "this call cannot travel: %s. Give a function that a file defines at its top level (no lambda, no inner function), and arguments made of data" % e
        ) from None
    if "__main__" in modules and _main_file() is None:
        raise pickle.PicklingError("%s was typed at a prompt and has no source that could travel: put it into a file and import it" % getattr(f, "__name__", f))
    return out.getvalue()


def archive(units, modules, python):
    """A program of one file that runs units, each a pickle, by their slot, from 1. modules are as sources has them."""
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env " + python.encode() + b"\n")
    with zipfile.ZipFile(buffer, "w") as z:
        for name, source in sorted(modules.items()):
            _write(z, name, source)
        firsts, pack, size = [], [], 0
        for slot, unit in enumerate(units, 1):
            if not pack:
                firsts.append(slot)
            pack.append(unit)
            size += len(unit)
            if size >= PACK or slot == len(units):
                _write(z, "calls/%d" % (len(firsts) - 1), pickle.dumps(pack, PROTOCOL))
                pack, size = [], 0
        _write(z, "calls/index", json.dumps(firsts).encode())
    return buffer.getvalue()


def _write(z, name, data):
    info = zipfile.ZipInfo(name)  # with a date of its own: the same content has the same name everywhere
    info.compress_type = zipfile.ZIP_DEFLATED
    z.writestr(info, data)


def sources(modules):
    """Names in the archive to source. A module brings what is loaded from the folder that it is in."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "_worker.py"), "rb") as f:
        out = {"__main__.py": f.read()}
    tops, roots = {"covey"}, set()
    for name in modules:
        if name == "__main__":
            main = _main_file()
            with open(main, "rb") as f:
                out["__mp_main__.py"] = f.read()
            roots.add(os.path.dirname(os.path.abspath(main)))
        elif _place(name) is not None:
            tops.add(name)
            roots.add(os.path.dirname(_place(name)))
        elif name not in sys.modules:
            raise Error("there is no module %s here that could travel: import it before the call, or name it right in Executor(modules=…)" % name)
    tops.update(name for name in list(sys.modules) if "." not in name and _place(name) and os.path.dirname(_place(name)) in roots)
    for name in tops:
        _add(out, name, _place(name) or here)
    size = sum(map(len, out.values()))
    if size > MOST_SOURCE:
        raise Error("the modules that travel are %d MB large, 32 MB is the limit; packages of many files are better installed there: %s" % (size >> 20, ", ".join(sorted(tops))))
    return out


def _add(out, name, place):
    if os.path.isfile(place):
        with open(place, "rb") as f:
            out[name + ".py"] = f.read()
        return
    for folder, folders, files in os.walk(place):
        folders[:] = [d for d in folders if not d.startswith(".") and d != "__pycache__"]
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                with open(path, "rb") as f:
                    out[os.path.join(name, os.path.relpath(path, place)).replace(os.sep, "/")] = f.read()


def _place(name):
    """The file of a module or the folder of a package of one's own; None if it is installed with Python."""
    module = sys.modules.get(name)
    if name in ("", "__main__", "__mp_main__", "builtins") or not isinstance(module, types.ModuleType):
        return None
    paths = list(getattr(module, "__path__", None) or [])
    file = getattr(module, "__file__", None)
    place = paths[0] if paths else file if file and file.endswith(".py") else None
    if place is None or _installed(os.path.abspath(place)) or not os.path.exists(place):
        return None
    return os.path.abspath(place)


def _main_file():
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return file if file and os.path.isfile(file) and not _installed(os.path.abspath(file)) else None


_STDLIB = tuple({os.path.join(os.path.abspath(sysconfig.get_path(k)), "") for k in ("stdlib", "platstdlib")})


def _installed(path):
    return path.startswith(_STDLIB) or re.search(r"[/\\](site|dist)-packages[/\\]", path) is not None
