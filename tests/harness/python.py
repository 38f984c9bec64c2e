"""Python in a process of its own, started in a third of the time."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, AnyStr

from .background import PATIENCE
from .processes import CHECKOUT

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)
_one_at_a_time = threading.Lock()


class FreshPython(subprocess.Popen[AnyStr]):
    """Python with these arguments, in the checkout."""

    def __init__(self, *arguments: str, cwd: Any = CHECKOUT, **options: Any) -> None:
        super().__init__([sys.executable, *arguments], cwd=cwd, **options)


class Python(FreshPython[AnyStr]):
    """The same, forked from a process that has the libraries loaded, as a child of this one all the same.

    Options of Python's are not taken, and what is read only at the very start is not seen: variables such as
    PYTHONUNBUFFERED or LD_PRELOAD. Tests of how our processes start, or of their signals, begin with nothing.
    """

    def _execute_child(
        self, args: list[str], executable: None, preexec_fn: None, close_fds: bool, pass_fds: tuple[int, ...],
        cwd: Any, env: Mapping[str, str] | None, startupinfo: None, creationflags: int, shell: bool, *rest: Any,
    ) -> None:  # fmt: skip
        sys.audit("subprocess.Popen", executable, args, cwd, env)  # as the usual one does, which `marks` hears
        ends, others = rest[:6], rest[6:]  # of the pipes, here and there: -1 where there is none
        assert (executable, preexec_fn, pass_fds, shell) == (None, None, (), False)
        assert others == (True, None, None, None, -1, False, -1), "only pipes, files, an environment and a folder"
        given = [inherited if end == -1 else end for inherited, end in enumerate((ends[0], ends[3], ends[5]))]
        job = {"arguments": args[1:], "environ": dict(os.environ if env is None else env), "folder": str(cwd)}
        with _one_at_a_time:
            starter = _starter()
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(starter, [json.dumps(job).encode()], given)
                self.pid = int(starter.recv(32))
            finally:
                _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def run_python(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `Python` with these arguments to its end, and return what it says."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Python[str](*arguments, env=env, stdin=subprocess.DEVNULL, text=True, **pipes) as running:
        try:
            out, err = running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
    return subprocess.CompletedProcess(arguments, running.returncode, out, err)


@cache
def _starter() -> socket.socket:
    """A socket to the process that forks for each. That one ends when this one, which has the socket, does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.harness.starter", str(theirs.fileno())]
    with theirs:
        subprocess.Popen(command, cwd=CHECKOUT, env=kept(), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    return ours


def kept() -> dict[str, str]:
    """What any process needs of this one's environment."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
