"""The whole service with demo data, in a temporary folder, for scoring its pages and taking pictures of them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page

from tests.harness.browser import log_in

from .processes import CHECKOUT

PORT = 8790
URL = f"http://localhost:{PORT}"
AGENT, SUPERVISOR, MERCHANT = "samira1", "nadia1", "demo1@example.dz"


class Demo(NamedTuple):
    """A running service, and the password of all its users."""

    folder: Path
    password: str

    def sign_in(self, page: Page, username: str) -> None:
        """Sign the page's browser in as a merchant, by e-mail address, or as staff."""
        page.goto("/account/login" if "@" in username else "/console/login/")
        log_in(page, username, self.password)


@contextmanager
def demonstration() -> Iterator[Demo]:
    folder = Path(tempfile.mkdtemp(prefix="codservice-demo-"))
    ours = {"DATA_DIR": f"{folder}/data", "DEMO": "1", "PORT": str(PORT), "WEBHOOK_ALLOW_PRIVATE": "true"}
    log, environ = folder / "log", os.environ | ours
    with log.open("wb") as file:
        command = [sys.executable, "-m", "codservice.onebox"]
        service = subprocess.Popen(command, cwd=CHECKOUT, env=environ, stdout=file, stderr=file)
    try:
        while not _is_ready():
            if service.poll() is not None:
                sys.exit(f"The service did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.5)
        (password,) = re.findall(r"password of each is (\S+)", log.read_text())
        yield Demo(folder, password)
    finally:
        service.terminate()
        try:
            service.wait(30)
        except subprocess.TimeoutExpired:
            service.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready() -> bool:
    try:
        return urllib.request.urlopen(f"{URL}/readyz", timeout=5).status == 200
    except OSError:
        return False
