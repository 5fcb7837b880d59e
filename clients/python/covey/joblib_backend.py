"""Has joblib, and what rests on it as scikit-learn does, make its calls with Covey.

    import covey.joblib_backend, joblib
    with joblib.parallel_backend("covey"):
        joblib.Parallel()(joblib.delayed(f)(x) for x in range(40))

What else is given to parallel_backend is the executor's: parallel_backend("covey", memory="2GiB").
"""

import joblib
from joblib.parallel import ParallelBackendBase

from ._executor import Executor


class CoveyBackend(ParallelBackendBase):
    supports_timeout = True
    supports_retrieve_callback = False
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, nesting_level=None, inner_max_num_threads=None, **options):
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._options, self._executor = options, None

    def configure(self, n_jobs=1, parallel=None, **_):
        self.parallel = parallel
        self._executor = Executor(**self._options)
        return self.effective_n_jobs(n_jobs)

    def effective_n_jobs(self, n_jobs):
        """-1, and no number: as many tasks as the peers that are here have room for."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning: give a number, or -1 for all there is")
        if n_jobs is not None and n_jobs > 0 and n_jobs != 1:
            return n_jobs
        ex = self._executor or Executor(**self._options)
        here = ex.peer.ask("GET", "/v1/peers")["peers"]
        cpus = sum(p["cpus"] for p in here if p["standing"] == "ready" and p["availability"] == "active")
        return max(1, int(cpus * 1000 // max(1, ex.job["resources"].get("milli_cpu", 1000))))

    def apply_async(self, func, callback=None):
        """func is a batch of calls: they travel without joblib, which need not be there."""
        unit = self._executor._submit([(f, args, kwargs) for f, args, kwargs in func.items])
        result = _Result(unit)
        if callback is not None:
            unit.futures[-1].add_done_callback(lambda f: callback(f))
        return result

    submit = apply_async  # its name from joblib 1.5 on

    def compute_batch_size(self):
        return 1

    def terminate(self):
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def abort_everything(self, ensure_ready=True):
        self._executor.shutdown(cancel_futures=True)
        self._executor = Executor(**self._options) if ensure_ready else None


class _Result:
    def __init__(self, unit):
        self._unit = unit

    def get(self, timeout=None):
        return [f.result(timeout) for f in self._unit.futures]


joblib.register_parallel_backend("covey", CoveyBackend)
