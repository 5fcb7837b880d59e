"""Runs in a task: calls what its slot is to call, and writes what came of it to stdout, a JSON line each.

It travels as __main__.py of an archive that also has the calls and the modules they need. What the
calls print goes to stderr, so that stdout is results and nothing else. It runs on any Python from 3.8.
"""

import bisect
import json
import os
import pickle
import sys
import traceback


def main():
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    archive, sys.path[0] = __loader__, os.path.abspath(sys.path[0])
    unit = unit_of(archive, int(os.environ["COVEY_SLOT"]))
    wrong = 0
    for number, call in enumerate(unit["calls"]):
        try:
            if b"__main__" in call:
                load_main()
            f, args, kwargs = pickle.loads(call)
            line = carried(f(*args, **kwargs), unit["results"])
        except BaseException as e:
            wrong, line = 1, raised(e, unit["results"])
        line["call"] = number
        print(json.dumps(line), file=out, flush=True)
    return wrong


def unit_of(archive, slot):
    """Units are packed together; the index says which slot each pack begins with."""
    firsts = json.loads(archive.get_data("calls/index").decode())
    pack = bisect.bisect_right(firsts, slot) - 1
    return pickle.loads(pickle.loads(archive.get_data("calls/%d" % pack))[slot - firsts[pack]])


def load_main():
    """The program's own file, under another name, so that what it does when it is run is not done."""
    if "__mp_main__" not in sys.modules:
        import __mp_main__

        sys.modules["__main__"] = __mp_main__


def carried(value, how):
    if how == "pickle":
        import base64

        return {"pickle": base64.b64encode(pickle.dumps(value, 4)).decode()}
    check(value)
    return {"value": json.loads(json.dumps(value, default=listed))}


def listed(value):
    if hasattr(value, "tolist"):  # numbers and arrays of NumPy
        return value.tolist()
    raise TypeError(
        "the call returned a %s, which JSON cannot carry: return numbers, text, lists and dicts, "
        'or, if you trust the machines that run it, use Executor(results="pickle")' % type(value).__name__
    )


def check(value):
    """JSON makes text of whatever is a key, and nobody is told."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError('the call returned a dict with the key %r, and in JSON keys are text: use str(key), or Executor(results="pickle")' % (key,))
            check(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            check(inner)


def raised(e, how):
    kind = type(e)
    name = kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__.replace("__mp_main__", "__main__"), kind.__qualname__)
    error = {"type": name, "text": str(e), "traceback": told(e)}
    try:
        check(list(e.args))
        error["args"] = json.loads(json.dumps(e.args))
    except Exception:
        pass
    if how == "pickle":
        try:
            error["pickle"] = carried(pickle.loads(pickle.dumps(e, 4)), how)["pickle"]
        except Exception:
            pass
    return {"error": error}


def told(e):
    """The traceback, from where the call begins: what is above it is this file."""
    tb = e.__traceback__
    if tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(e), e, tb))


if __name__ == "__main__":
    sys.exit(main())
