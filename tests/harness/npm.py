"""Installs programs from npm that tests use, once and as their lock file pins them, in a cache folder of this user."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def program(name: str) -> str:
    """The path of a program that must be on this machine."""
    path = shutil.which(name)
    assert path, f"{name} is missing; install it (`make languages`), the tests use it"
    return path


def installed(package: Path) -> Path:
    """A folder with `package`'s files, and the packages of its `package-lock.json` under `node_modules`."""
    cache = Path(tempfile.gettempdir()) / f"codservice-{package.name}-{os.getuid()}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (package / "package-lock.json").read_bytes()
    done_file = cache / "installed.json"
    # Several workers of a run may ask at the same time.
    with (cache / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for path in package.iterdir():  # atomically, because a program of another worker may be reading it
            os.replace(shutil.copy(path, cache / f"{path.name}.new"), cache / path.name)
        if not done_file.exists() or done_file.read_bytes() != lock:
            command = [program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=cache, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"npm could not install what {package.name} needs: {done.stderr}"
            done_file.write_bytes(lock)
    return cache
