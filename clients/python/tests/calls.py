"""What the tests call: it travels, as the source of any module of one's own does."""

import os
import signal
import sys
import time


class Odd(Exception):
    pass


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def plus(self, other):
        return Point(self.x + other.x, self.y + other.y)


def square(x):
    print("this is no result")
    return x * x


def echo(x):
    return x


def fail(kind):
    if kind == "odd":
        raise Odd("so odd", 3)
    if kind == "os":
        open("there-is-no-such-file")
    if kind == "killed":
        sys.stderr.write("about to go\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit":
        sys.exit(3)
    raise ValueError("seven", 7)


def wait_for(path):
    """Says that it is there, and waits until it is told to go on."""
    open(path + ".here", "w").close()
    while not os.path.exists(path):
        time.sleep(0.05)
    return "went on"


def second_time(path):
    """Fails the first time."""
    if os.path.exists(path):
        return os.environ["COVEY_ATTEMPT"]
    open(path, "w").close()
    raise ValueError("not yet")


def read(name):
    with open(name) as f:
        return f.read()


def write(name, text):
    with open(name, "w") as f:
        f.write(text)


def a_set():
    return {1}


def odd_keys():
    return {1: 2}


def length(data):
    return len(data)


def sizes(n):
    return "x" * n
