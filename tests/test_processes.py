"""What the tests see of other processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.processes import CHECKOUT, command_line, descendants, free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_who_ends_while_we_look_is_no_descendant():
    """It has no command line any more, like every process that is gone. Waiting for its end would never see it."""
    # The more memory it has to give back, the longer its end takes.
    with subprocess.Popen([sys.executable, "-S", "-c", "import os; held = b'x' * (256 << 20); os._exit(0)"]) as child:
        while child.pid in (below := descendants(os.getpid())):
            assert below[child.pid], "a process without a command line"
    assert command_line(child.pid) == ""


def test_a_free_port_is_not_given_to_another_socket_meanwhile():
    given, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert all(free_port() < given for _ in range(100))


TAKEN = """
import sys
from itertools import chain
from tests.harness import processes

drawn = chain([int(sys.argv[1]) - 20_000], range(12_000))
processes.secrets.randbelow = lambda _: next(drawn)
print(processes.free_port())
"""


def test_a_port_is_given_to_one_run_though_nobody_listens_there_yet():
    """Two services would share it, as the processes of one do."""
    ours = free_port()
    theirs = subprocess.run([sys.executable, "-c", TAKEN, str(ours)], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    assert 20_000 <= int(theirs.stdout) != ours
