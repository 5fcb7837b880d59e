"""One array job: handed in, watched to its end, and what its tasks wrote read."""

import base64
import collections
import copy
import json
import logging
import pickle
import random
import sys
import threading
import time

from . import _bundle
from ._errors import Error, PeerError, TaskFailed, TaskTimeout, rebuild
from ._peer import job_path

log = logging.getLogger("covey")
MOST_SCRIPT = 60 << 10  # bytes that travel in the job itself; more is put as a file
MOST_LABELS = 600 << 10
ENDED = ("failed", "rejected", "orphaned", "shutdown")
CHECK = 5  # seconds between two looks whether the peer here still answers


class Ours(threading.Thread):
    """A thread of this package's."""


def spawn(f, *args):
    """Starts a thread. False: Python is ending and starts none any more, so that the caller is to do it."""
    try:
        Ours(target=f, args=args, name="covey").start()
        return True
    except RuntimeError:
        return False


class Helpers:
    """Threads that do what takes a moment: as many as there is work for, and eight at most."""

    def __init__(self):
        self._change, self._work, self._threads = threading.Condition(), collections.deque(), 0

    def do(self, f, *args):
        with self._change:
            self._work.append((f, args))
            if self._threads == 8:
                return
            self._threads += 1
        if not spawn(self._run):
            self._run()

    def wait(self):
        with self._change:
            self._change.wait_for(lambda: not self._work and not self._threads)

    def _run(self):
        while True:
            with self._change:
                if not self._work:
                    self._threads -= 1
                    self._change.notify_all()
                    return
                f, args = self._work.popleft()
            try:
                f(*args)
            except Exception:
                log.exception("this is a bug of covey's")


class Batch:
    def __init__(self, executor, units, modules):
        self.ex, self.units, self.modules = executor, units, modules
        self.id = "".join(random.SystemRandom().choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(10))
        self._change = threading.Condition()
        self._handed_in = self._done = False
        self._lost = None  # why nothing more will be heard
        self._stream = None
        self._settled, self._settling = set(), 0
        self._stop, self._stopping = [], False
        self._unsure, self._looking = set(), False  # slots that have ended, for all that is known not for good
        for slot, unit in enumerate(units, 1):
            unit.batch, unit.slot = self, slot
            for f in unit.futures:
                f.task = "%s.%d" % (self.id, slot)

    # -- its life, in a thread of its own

    def run(self):
        self._hand_in()
        spawn(self._watch_peer)
        try:
            self._follow()
            with self._change:
                self._change.wait_for(lambda: not self._settling)
        finally:
            with self._change:
                self._done = True
                self._change.notify_all()
        self.fail(self._lost or Error("job %s ended and said nothing of this call; see `peer explain %s`" % (self.id, self.id)))

    def fail(self, error):
        for unit in self.units:
            for f in unit.futures:
                f._end(error=error)

    def _hand_in(self):
        job = copy.deepcopy(self.ex.job)
        process = job.setdefault("run", {}).setdefault("process", {})
        program = _bundle.archive([u.payload for u in self.units], self.modules, self.ex.python)
        job.update(id=self.id, name=self.ex.name, count=len(self.units))
        job["inputs"] = list(self.ex.inputs())
        if len(program) <= MOST_SCRIPT:
            process.update(script=base64.b64encode(program).decode(), script_name="covey.pyz")
        else:
            process["command"] = [self.ex.python, "covey.pyz"]
            job["inputs"].append({"ref": self.ex.peer.put_bytes(program), "name": "covey.pyz"})
        labels = [u.label for u in self.units]
        if sum(len(x.encode()) for x in labels) <= MOST_LABELS:
            job["each"] = labels
        if self.ex.timeout:
            job["timeout_ms"] = round(self.ex.timeout * 1000 * max(len(u.futures) for u in self.units))
        for u in self.units:
            u.payload = b""
        until = time.monotonic() + self.ex.patience
        while True:  # by its id it is taken once, however often it is said
            try:
                answer = self.ex.peer.ask("POST", "/v1/jobs", {"job": job}, timeout=60)
                break
            except PeerError as e:
                if e.code != "no_coordinator" or time.monotonic() > until:
                    raise
                time.sleep(0.5)
        if answer.get("note"):
            log.warning("job %s: %s", self.id, answer["note"])
        with self._change:
            self._handed_in = True
        for unit in self.units:
            if unit.over():
                self.unit_is_over(unit)

    def _follow(self):
        wait = 0.1
        while not self._lost:
            try:
                with self.ex.peer.open("GET", job_path(self.id, "/follow?tasks=1"), timeout=self._patient(), endless=True) as stream:
                    self._stream = stream
                    if self._lost:  # said before there was a stream to close
                        return
                    for line in stream:
                        wait = 0.1
                        for task in line.get("tasks") or ():
                            self._see(task)
                        if line["job"].get("ended"):
                            self._see_all()
                            return
            except PeerError as e:
                if e.code != "no_coordinator":
                    raise
            with self._change:
                self._change.wait_for(lambda: self._lost, wait)
            wait = min(2 * wait, 2)

    def _patient(self):
        """How many seconds the peer here may take to answer: it is asked again before patience ends."""
        return max(2, self.ex.patience / 3)

    def _watch_peer(self):
        """Ends the batch when the peer here has not answered for too long: a stream says nothing by itself."""
        heard = time.monotonic()
        while True:
            with self._change:
                if self._change.wait_for(lambda: self._done, min(CHECK, self.ex.patience / 3)):
                    return
            try:
                self.ex.peer.ask("GET", "/v1/status", timeout=self._patient())
                heard = time.monotonic()
            except PeerError as e:
                if time.monotonic() - heard < self.ex.patience:
                    continue
                with self._change:
                    self._lost = PeerError(e.code, "%s. Job %s goes on without it: `peer wait %s`, `peer cancel %s`" % (e, self.id, self.id, self.id))
                    self._change.notify_all()
                if self._stream:
                    self._stream.close()
                return

    # -- its tasks

    def _see(self, task):
        if not 0 < task["slot"] <= len(self.units):
            return
        unit = self.units[task["slot"] - 1]
        final = task.get("final") or task["state"] == "complete"
        if task["state"] in ("running", "saving") or final:
            for f in unit.futures:
                f._started = True
        ended = task["state"] in ENDED
        with self._change:
            (self._unsure.add if ended and not final else self._unsure.discard)(unit.slot)
            look = bool(self._unsure) and not self._looking
            self._looking = self._looking or look
        if look:
            self.ex.helpers.do(self._look_again)
        if final:
            with self._change:
                if unit.slot in self._settled:
                    return
                self._settled.add(unit.slot)
                self._settling += 1
            self.ex.helpers.do(self._settle, unit, task)

    def _look_again(self):
        """Asks about tasks that ended and may be given another attempt: that they are not is no event of theirs."""
        wait = 0.1
        while True:
            with self._change:
                self._change.wait_for(lambda: self._done or self._lost, wait)
                if not self._unsure or self._done or self._lost:
                    self._looking = False
                    return
            wait = min(2 * wait, 5)
            try:
                after = ""
                while after is not None:
                    page = self.ex.peer.ask("GET", job_path(self.id, "/tasks?limit=1000&state=%s&after=%s" % (",".join(ENDED), after)))
                    for task in page["tasks"]:
                        if task.get("final"):
                            self._see(task)
                    after = page.get("next") or None
            except PeerError as e:
                log.debug("job %s: %s", self.id, e)  # who watches the peer says more

    def _see_all(self):
        if len(self._settled) < len(self.units):
            for task in self.ex.peer.ask("GET", job_path(self.id, "/tasks"), timeout=120)["tasks"]:
                self._see({**task, "final": True})

    def _settle(self, unit, task):
        try:
            if not unit.over():
                self._read(unit, task)
        except BaseException as e:
            for f in unit.futures:
                f._end(error=e)
        finally:
            with self._change:
                self._settling -= 1
                self._change.notify_all()

    def _read(self, unit, task):
        if task["state"] == "shutdown" and task.get("reason") == "cancelled":  # by somebody else
            for f in unit.futures:
                f.cancel()
            return
        ends = {} if task.get("reason") == "no-output" else self._results(task)
        if task["state"] == "complete" and self.ex.outputs:
            folder = self.ex.folder(unit)
            self.ex.peer.run("get", "%s.%d" % (self.id, unit.slot), "--to", folder)
            for f in unit.futures:
                f.folder = folder
        failed = None
        for number, f in enumerate(unit.futures):
            if number in ends:
                end(f, ends[number], self.ex.results)
                continue
            failed = failed or self._why(task)
            f._end(error=failed)

    def _results(self, task):
        """What its calls ended with, by their number. The last word counts: lines come from one attempt."""
        ends = {}
        for line in self._output(task, "stdout").split(b"\n"):
            try:
                v = json.loads(line)
                ends[v["call"]] = v
            except (ValueError, TypeError, KeyError):
                pass  # the last line of a task that was killed
        return ends

    def _output(self, task, stream, tail=""):
        until = time.monotonic() + self.ex.patience
        while True:
            try:
                out = bytearray()
                for chunk in self.ex.peer.lines(job_path(self.id, "/logs?task=%s&stream=%s%s" % (task["id"], stream, tail))):
                    if chunk.get("error"):
                        raise PeerError(chunk["error"]["code"], chunk["error"]["message"])
                    out += base64.b64decode(chunk.get("data") or "")
                return bytes(out)
            except PeerError as e:
                if e.code == "not_found" and task["state"] != "complete":
                    return b""  # it never began
                if e.code != "no_coordinator" or self._lost or time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def _why(self, task):
        where = task.get("peer_name") or ""
        text = task.get("message") or {None: "it " + task["state"]}.get(task.get("exit_code"), "it ended with %s" % task.get("exit_code"))
        if task.get("truncated"):
            text += "; its result is larger than what is kept of its output (job={'max_output': BYTES})"
        elif task["state"] == "complete":
            text += " and wrote no result"
        try:
            said = self._output(task, "stderr", "&tail=15").decode("utf-8", "replace").strip()
        except PeerError:
            said = ""
        text = "task %s%s: %s; see `peer explain %s`" % (task["id"], " on " + where if where else "", text, task["id"])
        if said:
            text += "\nit said:\n" + said
        kind = TaskTimeout if task.get("reason") == "timeout" else TaskFailed
        return kind(text, task["id"], task["state"], task.get("reason", ""), task.get("exit_code"), where)

    # -- cancelling

    def unit_is_over(self, unit):
        """Stops its task if that has not ended: all its calls were cancelled."""
        with self._change:
            if not self._handed_in or self._done or unit.slot in self._settled:
                return
            self._stop.append(unit.slot)
            if self._stopping:
                return
            self._stopping = True
        self.ex.helpers.do(self._cancel)

    def _cancel(self):
        while True:
            with self._change:
                slots, self._stop = [s for s in self._stop if s not in self._settled], []
                if not slots:
                    self._stopping = False
                    return
            whole = all(u.over() for u in self.units)
            for slot in [None] if whole else slots:
                self._cancel_one(self.id if slot is None else "%s.%d" % (self.id, slot))

    def _cancel_one(self, subject):
        until = time.monotonic() + self.ex.patience
        while True:
            try:
                self.ex.peer.ask("POST", job_path(subject, "/cancel"))
                return
            except PeerError as e:
                if e.code in ("conflict", "not_found"):  # it has ended by itself
                    return
                if e.code != "no_coordinator" or self._lost or time.monotonic() > until:
                    log.warning("%s could not be cancelled, do it with `peer cancel %s`: %s", subject, subject, e)
                    return
                time.sleep(0.5)


def end(future, said, how):
    """Gives a future what a worker wrote."""
    try:
        error = said.get("error")
        if how == "pickle" and "pickle" in (error or said):
            sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # what the program's own file is called there
            v = pickle.loads(base64.b64decode((error or said)["pickle"]))
            if error is None:
                future._end(v)
            else:
                v.__cause__ = rebuild(error).__cause__
                future._end(error=v)
        elif error is None:
            future._end(said["value"])
        else:
            future._end(error=rebuild(error))
    except Exception as e:
        future._end(error=Error("the result of task %s cannot be read: %r" % (future.task, e)))
