"""What the tests see of other processes."""

import os
import subprocess
import sys

import pytest

from tests.harness.processes import command_line, descendants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_who_ends_while_we_look_is_no_descendant():
    """It has no command line any more, as all have that are gone: whoever waits for its end never sees it."""
    # The more memory there is to give back, the longer an end takes.
    with subprocess.Popen([sys.executable, "-S", "-c", "import os; held = b'x' * (256 << 20); os._exit(0)"]) as child:
        while child.pid in (below := descendants(os.getpid())):
            assert below[child.pid], "a process without a command line"
    assert command_line(child.pid) == ""
