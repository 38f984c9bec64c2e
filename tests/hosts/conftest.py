import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from codservice.data_folder import Layout

from .deployment import Deployment
from .lan import Switch


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    if os.geteuid() != 0 or not Path("/sys/class/net").exists():
        pytest.skip("Network namespaces need Linux and root: run `sudo make test-hosts`.")
    switch = Switch()
    try:
        made = Deployment(switch, tmp_path)
        made.start()
        yield made
    finally:
        switch.close()
        shutil.rmtree(Layout(tmp_path / "database").runtime, ignore_errors=True)
