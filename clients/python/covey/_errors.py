"""What goes wrong, and how a failed call raises here."""

import builtins


class Error(Exception):
    """Everything that this package raises for reasons of its own."""


class PeerError(Error):
    """The peer on this machine does not answer, or refuses.

    code is the one of the API: usage, not_found, no_coordinator, timeout, conflict, refused, failed.
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class TaskFailed(Error):
    """The task of a call ended without a result: its process was killed, Python is missing there, ….

    task is its id for `peer explain` and `peer logs`, state and reason are words of the API,
    exit_code is None if there is none, and peer is the name of the machine.
    """

    def __init__(self, message, task="", state="", reason="", exit_code=None, peer=""):
        super().__init__(message)
        self.task, self.state, self.reason, self.exit_code, self.peer = task, state, reason, exit_code, peer


class TaskTimeout(TaskFailed, TimeoutError):
    """The task was stopped at the executor's timeout."""


class RemoteTraceback(Exception):
    """Where a call failed on the other machine: the cause of what it raises here."""

    def __str__(self):
        return "\n" + self.args[0]


class RemoteError(Error):
    """An exception of a call that is of no built-in type: type is its name, args what it says.

    Its class is not imported here, since what another machine sent is not to choose code to run.
    """

    def __init__(self, type, message):
        super().__init__(type + ": " + message)
        self.type, self.message = type, message


def rebuild(error):
    """The exception for what a worker wrote of one. Only built-in ones get their type back."""
    name, text = str(error.get("type")), str(error.get("text"))
    kind = getattr(builtins, name, None)
    made = None
    if isinstance(kind, type) and issubclass(kind, Exception) and isinstance(error.get("args"), list):
        try:
            made = kind(*error["args"])
        except Exception:
            pass
    if made is None:
        made = RemoteError(name, text)
    made.__cause__ = RemoteTraceback(str(error.get("traceback")))
    return made
