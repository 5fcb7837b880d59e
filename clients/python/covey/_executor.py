"""The executor: gathers calls into array jobs, and gives futures what came of them."""

import concurrent.futures
import itertools
import os
import pickle
import re
import threading
import time

from . import _bundle
from ._batch import Batch, Helpers, Ours, spawn
from ._errors import Error
from ._peer import Peer

_claims = threading.Lock()


class Future(concurrent.futures.Future):
    """A call. Until it has ended it can be cancelled, also while it runs.

    task is JOB.SLOT once its job was handed in, for `peer explain` and `peer logs`; folder is where
    its files are, if the executor has outputs and the call is done.
    """

    task = None
    folder = None
    _started = _claimed = False

    def __init__(self, unit):
        super().__init__()
        self._unit = unit

    def running(self):
        """Whether its task has been started."""
        return self._started and not self.done()

    def cancel(self):
        """Takes the call back; its task is stopped if all calls in it are cancelled. False: it is done."""
        if not self._claim():
            return self.cancelled()
        super().cancel()
        self.set_running_or_notify_cancel()
        self._unit.one_less()
        return True

    def _claim(self):
        with _claims:
            was, self._claimed = self._claimed, True
            return not was

    def _end(self, value=None, error=None):
        """What came of it. A future that is over stays what it is."""
        if not self._claim():
            return
        self.set_running_or_notify_cancel()
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)
        self._unit.one_less()


class Unit:
    """Calls that one task makes, one after the other."""

    def __init__(self, executor, number, calls):
        self.executor, self.number = executor, number
        self.payload = pickle.dumps({"results": executor.results, "calls": calls}, _bundle.PROTOCOL)
        self.futures = [Future(self) for _ in calls]
        self.label = ""
        self.batch = self.slot = None
        self._left = len(calls)

    def over(self):
        return self._left == 0

    def one_less(self):
        with _claims:
            self._left -= 1
            over = self._left == 0
        if over:
            self.executor._unit_is_over(self)


class Executor(concurrent.futures.Executor):
    """Runs calls as tasks of Covey.

    cpus, memory, disk   what each task promises itself; memory and disk in bytes or as "2GiB"
    constraints          which peers may run them, as in ["peer.os == linux", "peer.label.zone == attic"]
    timeout              seconds for each call, of each attempt; a task has as many times that as it has calls
    retries              further attempts of a task of which a call raised, or whose process died
    parallel             at most so many tasks of an array at once
    files                what each task finds in its folder: paths, or "PATH:NAME", as `peer run --in`
    outputs, to          patterns of files that come home, as `peer run --out`, each call's into the folder to/NUMBER
    keep                 copies that there are of what a task left and printed; 2 with outputs, else 1
    results              "json", or "pickle": anything comes back, and the machines that run it can run code here
    python               which one there; the first `python3` on the PATH if nothing is said
    modules              names of modules to send that no call names, besides those it does name
    env                  variables of the tasks; everybody who may see the job sees them
    name                 of the jobs; the function's if nothing is said
    job                  further fields of the job, as POST /v1/jobs takes them
    data, peer           the data folder of the peer to ask, and the program `peer`
    patience             seconds for which the peer here may be away before all calls fail
    """

    def __init__(self, *, cpus=1, memory=None, disk=None, constraints=(), timeout=None, retries=0, parallel=None, files=(), outputs=(), to=".", keep=None,
                 results="json", python="python3", modules=(), env=None, name=None, job=None, data=None, peer=None, patience=30):  # fmt: skip
        if results not in ("json", "pickle"):
            raise ValueError('results: expected "json" or "pickle", got %r' % (results,))
        if isinstance(outputs, str) or isinstance(files, (str, os.PathLike)) or isinstance(constraints, str):
            raise TypeError("files, outputs and constraints are lists: write [%r]" % (outputs or files or constraints,))
        self.results, self.outputs, self.to, self.python, self.patience = results, list(outputs), to, python, patience
        self.timeout, self.name, self.gather, self._files, self._inputs = timeout, name, 0.02, list(files), None
        self._modules, self._sources = set(modules), None
        self.job = _job(cpus, memory, disk, constraints, retries, parallel, self.outputs, keep, env)
        self.job.update(job or {})
        self.peer = Peer(data, peer)
        self.peer.ask("GET", "/v1/status", timeout=10)  # what is wrong is said here, not by each call
        self.helpers = Helpers()
        self._change = threading.Condition()
        self._numbers = itertools.count(1)
        self._gathered, self._batches, self._left, self._shut = [], set(), 0, False

    def submit(self, fn, /, *args, **kwargs):
        """One call, as a task of its own. Calls within 20 ms become one array job."""
        return self._submit([(fn, args, kwargs)]).futures[0]

    def map(self, fn, *iterables, timeout=None, chunksize=None):
        """The results in order, as they come. With chunksize a task makes so many calls.

        If nothing is said a task makes one call, but there are about a thousand tasks at most; with
        outputs always one. Whoever stops asking cancels what is left.
        """
        calls = [(fn, args, {}) for args in zip(*iterables)]
        if chunksize is None:
            chunksize = 1 if self.outputs else -(-len(calls) // 1000) or 1
        elif chunksize < 1 or self.outputs and chunksize > 1:
            raise ValueError("chunksize: expected a number from 1; with outputs it is 1, so that each call has its folder")
        until = None if timeout is None else time.monotonic() + timeout
        futures = []
        try:
            for i in range(0, len(calls), chunksize):
                futures += self._submit(calls[i : i + chunksize]).futures
        except BaseException:
            for f in futures:
                f.cancel()
            raise
        futures.reverse()

        def results():
            try:
                while futures:
                    yield futures.pop().result(None if until is None else until - time.monotonic())
            finally:
                for f in reversed(futures):
                    f.cancel()

        return results()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Takes no more calls; waits for those there are, or cancels them."""
        if wait and isinstance(threading.current_thread(), Ours):
            raise RuntimeError("a callback of a call cannot wait for that call: shutdown(wait=False), or call it elsewhere")
        with self._change:
            self._shut = True
            open_units = self._gathered + [u for b in self._batches for u in b.units] if cancel_futures else []
            self._change.notify_all()
        for unit in open_units:
            for f in unit.futures:
                f.cancel()
        if wait:
            with self._change:
                self._change.wait_for(lambda: self._left == 0 and not self._batches)
            self.helpers.wait()

    def __exit__(self, kind, error, tb):
        self.shutdown(cancel_futures=kind is not None and not issubclass(kind, Exception))  # Ctrl-C: nobody waits for the rest
        return False

    def _submit(self, calls):
        modules = set()
        pickled = [_bundle.pickle_call(*call, modules) for call in calls]
        unit = Unit(self, next(self._numbers), pickled)
        unit.label = _label(calls)
        with self._change:
            if self._shut:
                raise RuntimeError("the executor is shut down and takes no more calls")
            if self._sources is None or not modules <= self._modules:  # now: when the program has ended its file is not known any more
                self._sources = _bundle.sources(self._modules | modules)
                self._modules |= modules
            if not self.name:
                self.name = re.sub("[^a-z0-9]+", "-", getattr(calls[0][0], "__name__", "calls").lower()).strip("-")[:60] or "calls"
            self._left += 1
            self._gathered.append(unit)
            first = len(self._gathered) == 1
        if first and not spawn(self._gather):
            self._gather()
        return unit

    def _gather(self):
        """Hands in what came within a moment: a longer one the more jobs are under way."""
        with self._change:
            self._change.wait_for(lambda: self._shut, self.gather * (1 + len(self._batches)))
            units, self._gathered = [u for u in self._gathered if not u.over()], []
            modules = self._sources
        while units:
            some = units[: _so_many(units)]
            del units[: len(some)]
            batch = Batch(self, some, modules)
            with self._change:
                self._batches.add(batch)
            if not spawn(self._run, batch):
                self._run(batch)

    def _run(self, batch):
        try:
            batch.run()
        except BaseException as e:
            batch.fail(e)
        finally:
            with self._change:
                self._batches.discard(batch)
                self._change.notify_all()

    def _unit_is_over(self, unit):
        with self._change:
            self._left -= 1
            if self._left == 0:
                self._change.notify_all()
            batch = unit.batch
        if batch is not None:
            batch.unit_is_over(unit)

    def folder(self, unit):
        """Where the files of a call come home to."""
        return os.path.join(self.to, str(unit.number))

    def inputs(self):
        """The job's inputs; files are brought to the peer once."""
        with _puts:
            if self._inputs is None:
                self._inputs = [_input(self.peer, f) for f in self._files]
            return self._inputs


_puts = threading.Lock()
MOST_UNITS, MOST_BYTES = 10_000, 64 << 20  # of one job


def _so_many(units):
    size = 0
    for i, unit in enumerate(units[:MOST_UNITS]):
        size += len(unit.payload)
        if size > MOST_BYTES and i > 0:
            return i
    return MOST_UNITS


def _input(peer, file):
    path, name = os.fspath(file), ""
    if not os.path.exists(path):
        path, _, name = path.rpartition(":")
    if not os.path.exists(path):
        raise Error("files: there is no %s here" % file)
    return {"ref": peer.put(path), "name": name or os.path.basename(os.path.abspath(path))}


def _job(cpus, memory, disk, constraints, retries, parallel, outputs, keep, env):
    need = {"milli_cpu": round(cpus * 1000), "memory": _bytes(memory), "disk": _bytes(disk)}
    job = {"type": "batch", "resources": {k: v for k, v in need.items() if v}, "unreachable": {"replace_after_ms": 10000}, "run": {"process": {}}}
    if env:
        job["run"]["process"]["env"] = dict(env)
    if constraints:
        job["constraints"] = list(constraints)
    if retries:
        job["restart"] = {"condition": "on-failure", "attempts": retries}
    if parallel:
        job["parallel"] = parallel
    if outputs:
        job["outputs"] = {"globs": outputs, **({"keep": keep} if keep else {})}
    elif keep:
        job["keep_logs"] = keep
    return job


def _bytes(size):
    m = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([KMGT])(i?)B)?", str(size or 0))
    if m is None or isinstance(size, str) and not m[2]:
        raise ValueError("%r: expected bytes as a number, or text like 500MB or 2GiB" % (size,))
    return int(float(m[1]) * (1024 if m[3] else 1000) ** (" KMGT".index(m[2]) if m[2] else 0))


def _label(calls):
    """What people see of a task in `peer tasks`."""
    fn, args, kwargs = calls[0]
    name = getattr(fn, "__name__", type(fn).__name__)
    if len(calls) > 1:
        return "%s × %d" % (name, len(calls))
    shown = [_short(a) for a in args] + ["%s=%s" % (k, _short(v)) for k, v in kwargs.items()]
    return "%s(%s)" % (name, ", ".join(shown)[:48])


def _short(value):
    if isinstance(value, str):
        return ascii(value[:20])
    return repr(value)[:20] if value is None or isinstance(value, (bool, int, float)) else type(value).__name__
