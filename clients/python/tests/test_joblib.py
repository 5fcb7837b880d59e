"""Against peers that run, as test_executor.py; with joblib, where there is one."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import joblib

    import covey.joblib_backend
except ImportError:
    joblib = None

import calls  # noqa: E402

PEERS = os.environ.get("COVEY_TEST_PEERS", "").split(os.pathsep)


@unittest.skipUnless(joblib, "this Python has no joblib (Debian: python3-joblib)")
@unittest.skipUnless(PEERS[0], "COVEY_TEST_PEERS names no data folders of running peers")
class Joblib(unittest.TestCase):
    def backend(self, **options):
        return joblib.parallel_backend("covey", data=PEERS[0], cpus=0.01, python=sys.executable, **options)

    def test_calls_of_joblib_are_made_there_in_order(self):
        with self.backend():
            self.assertEqual([i * i for i in range(12)], joblib.Parallel(n_jobs=6)(joblib.delayed(calls.square)(i) for i in range(12)))

    def test_a_call_that_fails_raises(self):
        with self.backend(), self.assertRaisesRegex(ValueError, "seven"):
            joblib.Parallel(n_jobs=2)(joblib.delayed(calls.fail)("value") for _ in range(3))

    def test_no_number_of_jobs_is_as_many_as_there_is_room_for(self):
        with self.backend():
            self.assertGreaterEqual(joblib.Parallel()._effective_n_jobs(), 100)


if __name__ == "__main__":
    unittest.main()
