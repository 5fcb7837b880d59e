"""Run Python functions on whichever of your machines are up, with Covey.

    import covey

    def simulate(seed):
        return seed * seed

    if __name__ == "__main__":
        with covey.Executor() as ex:
            for result in ex.map(simulate, range(40)):
                print(result)

README.md, next to this package, says what travels, what comes back and what goes wrong how.
"""

from ._errors import Error, PeerError, RemoteError, RemoteTraceback, TaskFailed, TaskTimeout
from ._executor import Executor, Future

__version__ = "0.3.0"
__all__ = ["Error", "Executor", "Future", "PeerError", "RemoteError", "RemoteTraceback", "TaskFailed", "TaskTimeout"]
