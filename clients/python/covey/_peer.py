"""Asks the peer on this machine: HTTP over the socket in its data folder."""

import hashlib
import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.parse

from ._errors import PeerError


def default_data():
    """The data folder that `peer` takes if nobody says another one."""
    if os.environ.get("PEER_DATA"):
        return os.environ["PEER_DATA"]
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/covey")
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "covey")


def socket_path(data):
    """Where the peer with this data folder listens. A path too long for a socket has a short name."""
    data = os.path.abspath(data)
    path = os.path.join(data, "peer.sock")
    if len(os.fsencode(path)) <= 100:
        return path
    folder = "covey-%d" % os.getuid()
    name = os.path.join(folder, hashlib.sha256(os.fsencode(data)).hexdigest()[:16] + ".sock")
    for base in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR") or "/tmp"):
        if base and len(os.fsencode(os.path.join(base, name))) <= 100:
            return os.path.join(base, name)
    return os.path.join("/tmp", name)


def check_folder(path):
    """Nobody else may have made the folder of a socket with a short name: /tmp is everybody's."""
    folder = os.path.dirname(path)
    if not os.path.basename(folder).startswith("covey-"):
        return
    try:
        st = os.lstat(folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.getuid() or st.st_mode & 0o022:
        raise PeerError("refused", "another user may have made the folder %s: remove it, or set XDG_RUNTIME_DIR to a folder of your own" % folder)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("peer", timeout=timeout)
        self._path = path

    def connect(self):
        check_folder(self._path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(min(5, self.timeout))
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


class Peer:
    """The peer of a data folder. Any thread may ask."""

    def __init__(self, data=None, program=None):
        self.data = os.path.abspath(data or default_data())
        self.program = program or os.environ.get("COVEY_PEER") or "peer"
        if not hasattr(socket, "AF_UNIX"):
            raise PeerError("usage", "this Python has no unix sockets: on Windows run it in WSL, next to a peer there")
        self.socket = socket_path(self.data)

    def ask(self, method, path, body=None, timeout=30):
        """The JSON that a call answers. timeout is in seconds, for each part of the answer."""
        with self.open(method, path, body, timeout) as answer:
            return answer.json()

    def lines(self, path, timeout=30):
        """The JSON lines of a stream that ends. One that says an error raises it."""
        with self.open("GET", path, timeout=timeout) as answer:
            yield from answer

    def open(self, method, path, body=None, timeout=30, endless=False):
        """An answer that has begun in time. What comes after that may take as long as it likes if it is endless."""
        token = self.token()
        try:
            return self._open(token, method, path, body, timeout, endless)
        except PeerError as e:
            now = self.token()
            if e.code != "refused" or now == token:  # else the peer was started between reading it and asking
                raise
        return self._open(now, method, path, body, timeout, endless)

    def token(self):
        """What the owner of the peer shows it; none inside of a task, which cannot read it. It changes with each start of the peer."""
        try:
            with open(os.path.join(self.data, "api.token")) as f:
                return f.read().strip()
        except OSError:
            return ""

    def _open(self, token, method, path, body, timeout, endless):
        data = None if body is None else json.dumps(body).encode()
        c = _Connection(self.socket, timeout)
        headers = {"Content-Type": "application/json"} if data else {}
        if token:
            headers["Authorization"] = "Bearer " + token
        try:
            c.request(method, path, data, headers)
            sock = c.sock
            response = c.getresponse()
            if endless:
                sock.settimeout(None)
            if response.status // 100 != 2:
                raise error_in(response)
        except BaseException as e:
            c.close()
            raise self.lost(e) from None
        return Answer(self, c, response)

    def lost(self, e):
        """What an error of the connection means for who asked."""
        if isinstance(e, socket.timeout):
            return PeerError("no_coordinator", "the peer at %s does not answer in time; see what it does with `peer status`" % self.socket)
        if isinstance(e, PermissionError):
            return PeerError("refused", "the peer at %s belongs to another user" % self.socket)
        if isinstance(e, (FileNotFoundError, ConnectionRefusedError)):
            return PeerError("no_coordinator", "no peer answers at %s; start one with `peer up`, or name its data folder: Executor(data=…), PEER_DATA" % self.socket)
        if isinstance(e, (OSError, http.client.HTTPException, ValueError)) and not isinstance(e, UnicodeError):
            return PeerError("no_coordinator", "the peer at %s went away before it answered; see whether it runs with `peer status`, start it with `peer up`" % self.socket)
        return e

    def run(self, *args):
        """What a command of the `peer` program prints: files travel by it."""
        program = shutil.which(self.program)
        if program is None:
            raise PeerError("usage", "the program %s is not found, which files and large arguments travel by: put it on the PATH, or name it with Executor(peer=…) or COVEY_PEER" % self.program)
        done = subprocess.run([program, "--data", self.data, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise PeerError("failed", "`peer %s` failed: %s" % (" ".join(args), done.stderr.decode("utf-8", "replace").strip()))
        return done.stdout.decode()

    def put(self, path):
        """The name that every peer knows a file or folder by."""
        return self.run("put", "--for", "1d", "--", path).strip()

    def put_bytes(self, data):
        with tempfile.NamedTemporaryFile(prefix="covey-") as f:
            f.write(data)
            f.flush()
            return self.put(f.name)


class Answer:
    """An answer as it comes. close, from any thread, ends it."""

    def __init__(self, peer, connection, response):
        self._peer, self._connection, self._response = peer, connection, response
        self._sock = connection.sock or response.fp.raw._sock  # http.client lets go of it where nothing is kept alive

    def json(self):
        try:
            return json.loads(self._response.read())
        except Exception as e:
            raise self._peer.lost(e) from None

    def __iter__(self):
        while True:
            try:
                line = self._response.readline()
                v = json.loads(line) if line else None
            except Exception as e:
                raise self._peer.lost(e) from None
            if not line:
                return
            if set(v) == {"error"}:
                raise PeerError(v["error"].get("code", "failed"), v["error"].get("message", ""))
            yield v

    def close(self):
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes who reads
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._response.close()
        self._connection.close()


def error_in(response):
    try:
        e = json.loads(response.read())["error"]
        return PeerError(e["code"], e["message"])
    except (ValueError, KeyError, TypeError):
        return PeerError("failed", "the peer answered %d and gave no reason" % response.status)


def job_path(job, rest=""):
    return "/v1/jobs/" + urllib.parse.quote(job, safe="") + rest
