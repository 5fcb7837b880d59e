"""Against peers that run: COVEY_TEST_PEERS is their data folders, COVEY_PEER the program `peer`.

peer testnet up -n 3 --dir /tmp/t &
COVEY_TEST_PEERS=/tmp/t/p1:/tmp/t/p2:/tmp/t/p3 COVEY_PEER=peer PYTHONPATH=. python3 -m unittest discover tests
"""

import concurrent.futures
import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import calls  # noqa: E402
import covey  # noqa: E402

PEERS = os.environ.get("COVEY_TEST_PEERS", "").split(os.pathsep)


def executor(**kwargs):
    return covey.Executor(**{"data": PEERS[0], "cpus": 0.01, "python": sys.executable, **kwargs})


def until(said):
    while not said():
        time.sleep(0.05)


class Travelling(unittest.TestCase):
    """What needs no peer."""

    def test_a_stream_that_does_not_begin_is_an_error_and_no_hang(self):
        with tempfile.TemporaryDirectory() as data, socket.socket(socket.AF_UNIX) as mute:
            peer = covey._peer.Peer(data)
            mute.bind(peer.socket)
            mute.listen()
            with self.assertRaisesRegex(covey.PeerError, "does not answer in time"):
                peer.open("GET", "/v1/jobs/x/follow", timeout=0.2, endless=True)

    def test_what_cannot_travel_is_said_when_it_is_submitted(self):
        for call in (lambda: 1, threading.Lock()):
            with self.assertRaisesRegex(pickle.PicklingError, "cannot travel"):
                covey._bundle.pickle_call(calls.echo, (call,), {}, set())

    def test_an_archive_of_the_same_calls_is_the_same(self):
        one, other = [covey._bundle.archive([b"x"], covey._bundle.sources({"calls"}), "python3") for _ in range(2)]
        self.assertEqual(one, other)

    def test_what_is_installed_stays_here(self):
        self.assertEqual({"__main__.py", "covey", "calls.py", "test_executor.py"},
                         {n.split("/")[0] for n in covey._bundle.sources({"calls", "json", "unittest"})} - {"test_joblib.py", "test_readme.py"})  # fmt: skip

    def test_without_a_peer_there_is_an_error_at_once(self):
        with tempfile.TemporaryDirectory() as empty, self.assertRaisesRegex(covey.PeerError, "no peer answers at .*peer.sock; start one with `peer up`"):
            covey.Executor(data=empty)

    def test_sizes_are_read_as_peer_reads_them(self):
        self.assertEqual([0, 5, 2 << 30, 1500000], [covey._executor._bytes(x) for x in (None, 5, "2GiB", "1.5MB")])
        for wrong in ("4", "much", "3 apples"):
            with self.assertRaises(ValueError):
                covey._executor._bytes(wrong)


@unittest.skipUnless(PEERS[0], "COVEY_TEST_PEERS names no data folders of running peers")
class Running(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="covey-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        warnings.simplefilter("error", ResourceWarning)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_calls_of_a_moment_become_one_job(self):
        with executor() as ex:
            futures = [ex.submit(calls.square, i) for i in range(5)]
            self.assertEqual([0, 1, 4, 9, 16], [f.result(120) for f in futures])
        self.assertEqual(1, len({f.task.split(".")[0] for f in futures}))
        tasks = ex.peer.ask("GET", "/v1/jobs/%s/tasks" % futures[0].task.split(".")[0])["tasks"]
        self.assertEqual(["square(%d)" % i for i in range(5)], [t["item"] for t in tasks])

    def test_the_failing_call_raises_with_its_traceback_from_there(self):
        with executor() as ex:
            fine, *failing = ex.submit(calls.echo, 1), *(ex.submit(calls.fail, k) for k in ("value", "os", "odd", "exit"))
            errors = [f.exception(120) for f in failing]
            self.assertEqual(1, fine.result(120))
        value, missing, odd, left = errors
        self.assertEqual(("seven", 7), value.args)
        self.assertIs(ValueError, type(value))
        self.assertIn('raise ValueError("seven", 7)', str(value.__cause__))
        self.assertIs(FileNotFoundError, type(missing))
        self.assertEqual("calls.Odd: ('so odd', 3)", str(odd))
        self.assertIsInstance(odd, covey.RemoteError)
        self.assertEqual("SystemExit", left.type)

    def test_a_process_that_is_killed_is_told_with_what_it_said(self):
        with executor() as ex:
            f = ex.submit(calls.fail, "killed")
            with self.assertRaises(covey.TaskFailed) as e:
                f.result(120)
        self.assertEqual(f.task, e.exception.task.rpartition(".")[0])
        self.assertIn("about to go", str(e.exception))
        self.assertIn("peer explain", str(e.exception))

    def test_a_python_that_is_not_there_is_told(self):
        with executor(python="python9") as ex, self.assertRaisesRegex(covey.TaskFailed, "python9"):
            ex.submit(calls.echo, 1).result(120)

    def test_results_are_json_and_what_is_none_raises(self):
        with executor() as ex:
            plain = [None, True, 1.5, "ü", [1, [2]], {"a": {"b": None}}]
            futures = [ex.submit(calls.echo, plain), ex.submit(calls.echo, (1, 2)), ex.submit(calls.a_set), ex.submit(calls.odd_keys)]
            self.assertEqual([plain, [1, 2]], [f.result(120) for f in futures[:2]])
            for f in futures[2:]:
                with self.assertRaisesRegex(TypeError, 'results="pickle"'):
                    f.result(120)

    def test_pickles_come_back_on_request_only(self):
        with executor(results="pickle") as ex:
            futures = [ex.submit(calls.Point(1, 2).plus, calls.Point(3, 4)), ex.submit(functools.partial(calls.echo, {1})), ex.submit(calls.fail, "odd")]
            self.assertEqual(calls.Point(4, 6), futures[0].result(120))
            self.assertEqual({1}, futures[1].result(120))
            with self.assertRaises(calls.Odd) as e:
                futures[2].result(120)
            self.assertIn('raise Odd("so odd", 3)', str(e.exception.__cause__))

    def test_a_worker_that_sends_a_pickle_unasked_runs_nothing_here(self):
        f = covey._executor.Future(covey._executor.Unit(executor(), 1, [b""]))
        covey._batch.end(f, {"pickle": "gASVFgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOULg=="}, "json")
        self.assertIsInstance(f.exception(), covey.Error)

    def test_map_gives_results_in_order_and_several_calls_to_a_task(self):
        name = "map-%d" % os.getpid()
        with executor(name=name) as ex:
            results = ex.map(calls.square, range(23), chunksize=5)
            self.assertEqual([i * i for i in range(23)], list(results))
            job = ex.peer.ask("GET", "/v1/jobs/" + name)["job"]
        self.assertEqual(5, job["count"])

    def test_a_call_that_fails_spares_the_others_of_its_task(self):
        with executor() as ex:
            futures = ex._submit([(calls.echo, (1,), {}), (calls.fail, ("value",), {}), (calls.echo, (2,), {})]).futures
            self.assertEqual([1, 2], [futures[0].result(120), futures[2].result(120)])
            self.assertIsInstance(futures[1].exception(120), ValueError)

    def test_ten_thousand_calls_take_bounded_memory(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with executor() as ex:
            self.assertEqual(10000 * 9999 // 2, sum(ex.map(calls.echo, range(10000), chunksize=500)))
        self.assertLess(tracemalloc.get_traced_memory()[1], 64 << 20)

    def test_large_arguments_and_results_travel_as_files(self):
        big = os.urandom(300000)
        with executor() as ex:
            futures = [ex.submit(calls.length, big), ex.submit(calls.length, big[1:]), ex.submit(calls.sizes, 500000)]
            self.assertEqual([300000, 299999, 500000], [futures[0].result(120), futures[1].result(120), len(futures[2].result(120))])

    def test_a_result_larger_than_its_limit_is_told(self):
        with executor(job={"max_output": 4096}) as ex, self.assertRaisesRegex(covey.TaskFailed, "max_output"):
            ex.submit(calls.sizes, 100000).result(120)

    def test_files_go_there_and_come_home(self):
        with open(self.path("in.txt"), "w") as f:
            f.write("brought along")
        with executor(files=[self.path("in.txt"), self.path("in.txt") + ":other/name"], outputs=["*.out"], to=self.path("home")) as ex:
            futures = [ex.submit(calls.read, "in.txt"), ex.submit(calls.read, "other/name"), ex.submit(calls.write, "a.out", "made there")]
            self.assertIsNone(futures[2].result(120))
            self.assertEqual(os.path.join(self.path("home"), "3"), futures[2].folder)
            self.assertEqual("made there", calls.read(os.path.join(futures[2].folder, "a.out")))
            for f in futures[:2]:
                with self.assertRaisesRegex(covey.TaskFailed, "[*].out"):  # they left nothing that comes home
                    f.result(120)
        with executor(files=[self.path("in.txt"), self.path("in.txt") + ":other/name"]) as ex:
            self.assertEqual(["brought along"] * 2, list(ex.map(calls.read, ["in.txt", "other/name"])))

    def test_a_call_is_cancelled_before_its_job_is_handed_in(self):
        with executor() as ex:
            ex.gather = 600
            f = ex.submit(calls.echo, 1)
            self.assertTrue(f.cancel())
            self.assertTrue(f.cancel())
        self.assertTrue(f.cancelled())
        self.assertIsNone(f.task)

    def test_a_call_that_runs_is_cancelled_and_its_task_stopped(self):
        with executor() as ex:
            stays, goes = [ex.submit(calls.wait_for, self.path(n)) for n in ("stays", "goes")]
            until(lambda: os.path.exists(self.path("goes.here")) and goes.running() and stays.running())
            self.assertTrue(goes.cancel())
            self.assertEqual({goes}, concurrent.futures.wait([goes, stays], return_when="FIRST_COMPLETED").done)
            open(self.path("stays"), "w").close()
            self.assertEqual("went on", stays.result(120))
            self.assertFalse(stays.cancel())
        job, slot = goes.task.split(".")
        tasks = ex.peer.ask("GET", "/v1/jobs/%s/tasks" % job)["tasks"]
        self.assertEqual(("shutdown", "cancelled"), (tasks[int(slot) - 1]["state"], tasks[int(slot) - 1]["reason"]))

    def test_a_job_that_somebody_cancels_cancels_its_calls(self):
        with executor() as ex:
            f = ex.submit(calls.wait_for, self.path("never"))
            until(f.running)
            ex.peer.ask("POST", "/v1/jobs/%s/cancel" % f.task.split(".")[0])
            with self.assertRaises(concurrent.futures.CancelledError):
                f.result(120)

    def test_who_stops_asking_a_map_cancels_the_rest(self):
        with executor() as ex:
            results = ex.map(calls.wait_for, [self.path("a"), self.path("b")])
            open(self.path("a"), "w").close()
            self.assertEqual("went on", next(results))
            results.close()

    def test_a_call_over_its_time_raises_timeout(self):
        with executor(timeout=1) as ex:
            f = ex.submit(calls.wait_for, self.path("never"))
            with self.assertRaises(covey.TaskTimeout) as e:
                f.result(120)
        self.assertIsInstance(e.exception, TimeoutError)
        with executor() as ex:
            f = ex.submit(calls.wait_for, self.path("never"))
            with self.assertRaises(concurrent.futures.TimeoutError):  # of who waits: the call goes on
                f.result(0.01)
            self.assertTrue(f.cancel())

    def test_a_call_is_tried_again(self):
        with executor(retries=2) as ex:
            self.assertEqual("2", ex.submit(calls.second_time, self.path("once")).result(120))

    def test_after_shutdown_nothing_is_taken(self):
        ex = executor()
        f = ex.submit(calls.wait_for, self.path("never"))
        ex.shutdown(cancel_futures=True)
        self.assertTrue(f.cancelled())
        with self.assertRaisesRegex(RuntimeError, "shut down"):
            ex.submit(calls.echo, 1)

    def test_modules_are_named_that_no_call_names(self):
        with self.assertRaisesRegex(covey.Error, "nothing_here"):
            executor(modules=["nothing_here"]).submit(calls.echo, 1)

    def test_a_job_that_is_refused_says_why(self):
        with executor(constraints=["this is none"]) as ex, self.assertRaises(covey.PeerError) as e:
            ex.submit(calls.echo, 1).result(120)
        self.assertEqual("usage", e.exception.code)
        self.assertIn("constraint", str(e.exception))

    def test_a_file_that_is_not_there_is_named(self):
        with executor(files=["nothing-here"]) as ex, self.assertRaisesRegex(covey.Error, "nothing-here"):
            ex.submit(calls.echo, 1).result(120)

    def program(self, body, *args):
        """What a program prints that defines its functions in its own file, and how it ends."""
        with open(self.path("program.py"), "w") as f:
            f.write("import sys, covey, helper\ndef f(x):\n    return helper.twice(x)\nprint('top', __name__)\nif __name__ == '__main__':\n" + body)
        with open(self.path("helper.py"), "w") as f:
            f.write("class E(Exception): pass\ndef twice(x):\n    return 2 * x\n")
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(covey.__file__))}
        done = subprocess.run([sys.executable, self.path("program.py"), PEERS[0], *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=300)
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def test_a_program_brings_its_own_file_and_its_neighbours(self):
        out, err, code = self.program("    with covey.Executor(data=sys.argv[1], python=sys.executable) as ex:\n        print(list(ex.map(f, [1, 2])))\n")
        self.assertEqual(("top __main__\n[2, 4]\n", "", 0), (out, err, code))

    def test_a_program_that_ends_waits_for_its_calls(self):
        out, err, code = self.program("    covey.Executor(data=sys.argv[1], python=sys.executable).submit(f, 4).add_done_callback(lambda f: print(f.result()))\n")
        self.assertEqual(("top __main__\n8\n", "", 0), (out, err, code))

    def test_a_callback_that_waits_for_its_own_call_is_told_so(self):
        said = []

        def callback(_):
            try:
                ex.shutdown()
            except RuntimeError as e:
                said.append(str(e))

        ex = executor()
        ex.submit(abs, -1).add_done_callback(callback)
        ex.shutdown()
        self.assertIn("wait=False", said[0])

    def test_a_peer_that_is_stopped_gives_an_error_and_no_hang(self):
        pid = covey._peer.Peer(PEERS[-1]).ask("GET", "/v1/status")["pid"]
        with executor(data=PEERS[-1]) as ex:
            f = ex.submit(calls.wait_for, self.path("never"))
            until(f.running)
            os.kill(pid, signal.SIGSTOP)
            ex.patience = 1  # not before: a busy peer may take longer to begin
            try:
                with self.assertRaisesRegex(covey.PeerError, "does not answer in time.*peer cancel"):
                    f.result(120)
            finally:
                os.kill(pid, signal.SIGCONT)
        job = f.task.split(".")[0]
        ex.peer.ask("POST", "/v1/jobs/%s/cancel" % job)


if __name__ == "__main__":
    unittest.main()
