"""The image is built by its Dockerfile's steps in a clean folder, and its roles run as another user.

This needs no container engine: `dockerfile.py` carries the steps out.
"""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from codservice.data_folder import Layout
from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import CHECKOUT, free_port

from . import backing
from .compose import COMPOSE
from .dockerfile import Stage, build

pytestmark = pytest.mark.hosts


class Container:
    """One role's process, run as in a container of the image: its user, its environment, its command."""

    def __init__(self, image: Stage, command: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self.output, self.environment = output, environment
        with output.open("wb") as file:
            self.popen = subprocess.Popen(
                command,
                cwd=image.inside(image.folder),
                env={**image.environment, **environment},
                stdout=file,
                stderr=file,
                **as_user(image.user),
            )

    def end(self) -> int:
        """Stop the process as `docker stop` does."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(PATIENCE)


def as_user(user: str) -> dict[str, object]:
    """Options of Popen for the image's user. Without root, processes can only run as ourselves."""
    uid, _, gid = user.partition(":")
    return {"user": int(uid), "group": int(gid), "extra_groups": []} if os.geteuid() == 0 else {}


def base_python() -> str:
    """A Python that the image's user can run: root's own may be in a folder that is closed to others."""
    of_system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    candidates = [os.path.realpath(sys.executable), *filter(None, [of_system])]
    for python in candidates:
        question = [python, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
        with contextlib.suppress(PermissionError):
            if subprocess.run(question, cwd="/", check=False, **as_user("10001:10001")).returncode == 0:
                return python
    pytest.fail(f"none of {candidates} is a Python 3.11 with venv that another user can run")


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that the image's user can pass through. pytest closes its own again whenever another run begins."""
    with tempfile.TemporaryDirectory(prefix="codservice-tests-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="module")
def image(open_folder: Path) -> Stage:
    folder = open_folder / "image"
    folder.mkdir()
    return build(CHECKOUT / "Dockerfile", folder, base_python())


@pytest.fixture
def environment(open_folder: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What compose.yaml gives the containers, with secrets in files."""
    layout = Layout(tmp_path / "database")
    database_port, redis_port = free_port(), free_port()
    running = [backing.start(backing.database(layout))]
    try:
        backing.prepare_role(layout)
        running.append(backing.start(backing.pgbouncer(layout, "127.0.0.1", database_port)))
        running.append(backing.start(backing.redis(layout, "127.0.0.1", redis_port)))
        secrets = {
            "SECRET_KEY": "abcde" * 10,
            "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
            "DATABASE_URL": f"postgresql://codservice@127.0.0.1:{database_port}/codservice",
            "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        }
        folder = open_folder / "secrets"
        folder.mkdir()
        for name, value in secrets.items():
            (folder / name).write_text(value)
        yield {
            **{f"{name}_FILE": str(folder / name) for name in secrets},
            "DATABASE_PGBOUNCER": "true",
            "ALLOWED_HOSTS": "shop.example",
            "TRUSTED_PROXIES": "1",
            "PORT": str(free_port()),
            # With HTTPS the service would refuse to send to private addresses.
            "HTTPS": "false",
            "WEBHOOK_ALLOW_PRIVATE": "true",
        }
    finally:
        for popen in reversed(running):
            popen.kill()
            popen.wait()
        shutil.rmtree(layout.runtime, ignore_errors=True)


def role(name: str) -> list[str]:
    return ["python", "-m", f"codservice.run.{name}"]


def test_the_image_serves_as_another_user_and_stops_when_told(image, environment, open_folder, tmp_path):
    assert image.user == "10001:10001"
    assert image.command == role("web")
    pulses = open_folder / "pulses"
    pulses.mkdir()
    pulses.chmod(0o777)

    def started(name: str) -> Container:
        # Each container has its own /tmp.
        pulse = {"PULSE_FILE": str(pulses / name)}
        return Container(image, role(name), environment | pulse, tmp_path / f"{name}.log")

    prepared = started("prepare")
    assert prepared.popen.wait(PATIENCE) == 0, prepared.output.read_text()
    containers = {name: started(name) for name in ("web", "worker", "beat")}
    try:
        for name, service in COMPOSE["services"].items():
            if name in containers:
                command = ["sh", "-c", service["healthcheck"]["test"]]
                check = partial(Container, image, command, containers[name].environment, tmp_path / "health.log")
                eventually(lambda check=check: check().popen.wait(PATIENCE) == 0)
        eventually(lambda: get(environment, "/readyz")[0] == 200)
        status, page = get(environment, "/account/login")
        assert status == 200, page
        for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
            assert get(environment, path)[0] == 200, path
    finally:
        ends = {name: container.end() for name, container in containers.items()}
    assert ends == {"web": 0, "worker": 0, "beat": 0}, {name: c.output.read_text() for name, c in containers.items()}
    said = "".join(container.output.read_text() for container in containers.values())
    assert "Traceback" not in said


def get(environment: Mapping[str, str], path: str) -> tuple[int, str]:
    """Status and body, as the proxy in front gets them, or (0, "") without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", int(environment["PORT"]), timeout=5)
    headers = {"Host": "shop.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except OSError:
        return 0, ""
    finally:
        connection.close()


def test_the_image_refuses_to_start_without_its_settings(image, open_folder, tmp_path):
    for command in (role("web"), role("worker"), role("beat"), role("prepare"), ["python", "manage.py", "migrate"]):
        refused = Container(image, command, {"DATA_DIR": str(open_folder)}, tmp_path / "refused.log")

        assert refused.popen.wait(PATIENCE) == 1
        said = refused.output.read_text()
        assert "SECRET_KEY, ENCRYPTION_KEYS, DATABASE_URL, REDIS_URL, ALLOWED_HOSTS must be set" in said
        assert "Traceback" not in said


def test_the_image_carries_the_client_programs_of_postgresql_18(image, tmp_path):
    for program in ("pg_dump", "pg_restore"):
        shown = Container(image, [program, "--version"], {}, tmp_path / "version.log")
        assert shown.popen.wait(PATIENCE) == 0
        assert " 18." in shown.output.read_text()
