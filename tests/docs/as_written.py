"""The texts of README and the operators' page, and running the lines of a page's fenced blocks word for word."""

import os
import re
import subprocess
import sys
from typing import Any

from tests.harness.database import database_url
from tests.harness.processes import CHECKOUT

README = (CHECKOUT / "README.md").read_text()
OPERATORS = (CHECKOUT / "docs/operators.md").read_text()

CURL = """
curl() {
    case " $* " in *" --fail"*) command curl "$@"; return;; esac
    command curl --fail-with-body "$@"
    echo
}
"""


def blocks(text: str) -> list[str]:
    return re.findall(r"```bash\n(.*?)```", text, re.S)


def run_as_written(script: str, live_server: Any, **environment: str) -> list[str]:
    """Run the lines in a shell against the live server, and return what they print."""
    script = script.replace("http://localhost:8000", live_server.url).replace(".venv/bin/python", sys.executable)
    # curl does not fail on a 4xx by itself. Lines with `--fail` handle that themselves.
    script = f"{CURL}\n{script}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=CHECKOUT,
        env=os.environ | {"DATABASE_URL": database_url()} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
