"""Start, stop, restart: with real PostgreSQL and Valkey, and stand-ins for our own processes."""

import contextlib
import fcntl
import itertools
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from pathlib import Path

import psycopg
import pytest
import redis

from codservice import data_folder
from codservice.data_folder import Layout
from codservice.onebox.binaries import ServerUser
from codservice.onebox.postgres import _give, _nobody, make_runtime, server_user
from tests.harness.background import eventually
from tests.harness.disk import needs_root, small_disk
from tests.harness.processes import CHECKOUT, descendants, free_port, is_alive
from tests.harness.python import run_python

PACKAGES = sysconfig.get_paths()["platlib"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_whatever_ends_it_the_next_start_goes_on(run):
    service = run().wait_until_up()
    layout, below = Layout(service.data), descendants(service.popen.pid)
    made = layout.secrets.read_text()
    assert stat.S_IMODE(layout.secrets.stat().st_mode) == 0o600
    assert f"http://localhost:{service.port}/console/" in service.said()
    assert redis.Redis.from_url(data_folder.redis_url(service.data)).ping()
    # Commits are durable and text is Unicode.
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert service.query(f"SHOW {name}") == "on"
    assert service.query("SHOW server_encoding") == "UTF8"
    assert service.query("SELECT lower('É')") == "é"
    assert service.query("SHOW listen_addresses") == ""
    service.query("CREATE TABLE kept AS SELECT 7 AS number")
    assert len(below) > 5
    assert is_locked(layout.runtime)  # or systemd-tmpfiles would delete programs there that are not started for long

    assert service.stop() == 0
    assert not [line for pid, line in below.items() if is_alive(pid)]
    # Pid files that name another process of the server's user, as after a reboot, or in a container, where process ids
    # are small and taken. And what was opened to others, as in a copy of it, or after `chmod -R` on the data folder.
    pid_file, user = layout.cluster / "postmaster.pid", server_user(layout)
    make_runtime(layout, user, layout.postgres_socket)
    with subprocess.Popen(["/bin/sleep", "infinity"], **user.options()) as other, contextlib.ExitStack() as at_end:
        at_end.callback(other.kill)
        for left in (pid_file, layout.postgres_socket.with_name(".s.PGSQL.5432.lock")):
            left.write_text(f"{other.pid}\n{layout.cluster}\n1\n5432\n\n\n1 1\nready\n")
            os.chown(left, user.uid, user.gid)
        layout.cluster.chmod(0o755)
        layout.secrets.chmod(0o755)
        service = run().wait_until_up()
    assert service.query("SELECT number FROM kept") == 7
    assert layout.secrets.read_text() == made
    assert stat.S_IMODE(layout.cluster.stat().st_mode) == 0o700
    assert stat.S_IMODE(layout.secrets.stat().st_mode) == 0o600

    # The supervisor is killed, and leaves no orphans.
    below = descendants(service.popen.pid)
    service.popen.kill()
    service.popen.wait()
    eventually(lambda: not [pid for pid in below if is_alive(pid)])
    service = run().wait_until_up()
    assert service.query("SELECT number FROM kept") == 7

    # Everything is killed at once.
    for pid in [*descendants(service.popen.pid), service.popen.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    service.popen.wait()
    assert pid_file.exists()
    service = run().wait_until_up()
    assert service.query("SELECT number FROM kept") == 7
    assert service.stop() == 0
    for left in (b"", b"\xff\0"):  # as a power cut may leave it
        pid_file.write_bytes(left)
        service = run().wait_until_up()
        assert service.query("SELECT number FROM kept") == 7
        assert service.stop() == 0


def is_locked(folder: Path) -> bool:
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def test_what_is_killed_is_started_again(run):
    service = run().wait_until_up()
    service.query("CREATE TABLE kept AS SELECT 7 AS number")
    web = service.find("stub web")
    worker = next(iter(descendants(web)))
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: len(descendants(web)) == 2 and worker not in descendants(web))
    for words in ("bin/postgres", "valkey-server", "stub web", "stub worker"):
        killed = service.find(words)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda killed=killed: not is_alive(killed))
        eventually(lambda words=words, killed=killed: is_back(service, words, killed))
    assert service.stop() == 0


def is_back(service, words, killed) -> bool:
    """Whether everything works, with another process in place of the one that was killed."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{service.port}/readyz", timeout=1).close()
        redis.Redis.from_url(data_folder.redis_url(service.data)).ping()
        return service.find(words) != killed and service.query("SELECT number FROM kept") == 7
    except (OSError, ValueError, psycopg.OperationalError, redis.RedisError):
        return False


def test_stops_with_the_one_that_started_it(run, tmp_path):
    """As when `make run` is killed outright: make itself cannot pass that on."""
    starter = subprocess.Popen(
        ["/bin/sh", "-c", f"{sys.executable} -B -m tests.run.stub --stop-with-parent; exit 0"],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path / "data"), "PORT": str(free_port())},
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: len(descendants(starter.pid)) > 8)
    below = descendants(starter.pid)
    starter.kill()
    starter.wait()
    eventually(lambda: not [pid for pid in below if is_alive(pid)])


@pytest.mark.parametrize(
    "name", ["a" * 120, "With Capitals, spaces & 100% ünïcode:@"], ids=["longer than a socket's path", "odd name"]
)
def test_data_folder_of_any_name(run, tmp_path, name):
    service = run(tmp_path / name).wait_until_up()
    assert service.query("SELECT 1") == 1
    assert redis.Redis.from_url(data_folder.redis_url(service.data)).ping()
    from dj_database_url import parse

    assert Path(parse(data_folder.database_url(service.data))["HOST"]).is_dir()
    assert service.stop() == 0


@needs_root
def test_a_disk_that_was_full_and_is_freed_brings_the_database_back(run, tmp_path):
    with small_disk(tmp_path / "disk", 320) as disk:
        service = run(disk.folder / "data").wait_until_up()
        service.query("CREATE TABLE kept AS SELECT 7 AS number")

        def said_of(part: str) -> str:
            checked = run_python("manage.py", "check_service", "--json", "--timeout", "0", env=service.environment)
            return json.loads(checked.stdout)[part]

        assert said_of("disk") == "ok"
        disk.fill()
        assert said_of("disk").startswith("PostgreSQL's disk is full, ")
        for cache in service.data.rglob("pg_internal.init"):  # what a new session writes if it is missing
            cache.unlink()
        disk.fill()
        assert said_of("database").endswith(": No space left on device. Free some space on PostgreSQL's disk.")
        os.kill(service.find("bin/postgres"), signal.SIGKILL)
        eventually(lambda: service.said().count("MB free") > 2)
        assert service.find("stub web")
        disk.free()

        def is_back() -> bool:
            try:
                return service.query("SELECT number FROM kept") == 7
            except psycopg.OperationalError:
                return False

        eventually(is_back)
        assert service.stop() == 0


@pytest.fixture
def nobody():
    """An ordinary user: the command to become it, and a Python that it may run."""
    user = pwd.getpwnam("nobody")
    # env, because setpriv itself still has root's rights when it looks for the program.
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "env"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}"):
        command = [*become, f"PYTHONPATH={PACKAGES}", python, "-c", f"import celery, granian; open({__file__!r})"]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0:
            return user, become, python
    pytest.skip("the checkout or Python is not readable to others")


@pytest.mark.parametrize(("name", "inside"), [("data", True), ("data, and more", False), (os.fsdecode(b"d\xe9"), True)])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_runs_as_an_ordinary_user(run, nobody, name, inside):
    """A comma separates hosts for libpq and folders for PostgreSQL, so the socket is then put elsewhere."""
    user, become, python = nobody
    folder = Path(tempfile.mkdtemp(prefix="codservice-tests-"))
    try:
        os.chown(folder, user.pw_uid, user.pw_gid)
        service = run(folder / name, prefix=become, python=python, PYTHONPATH=PACKAGES).wait_until_up()
        socket_file = service.data / "run" / "postgres" / ".s.PGSQL.5432"
        assert inside == (socket_file.exists() and stat.S_ISSOCK(socket_file.stat().st_mode))
        assert service.data.stat().st_uid == user.pw_uid
        service.popen.send_signal(signal.SIGTERM)
        assert service.wait() == 0
    finally:
        shutil.rmtree(folder)


def may_enter(path: Path, uid: int) -> bool:
    """Whether a process of this user can connect to the socket."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(uid)
            socket.socket(socket.AF_UNIX).connect(str(path))
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_as_root_the_servers_run_as_a_user_of_their_own_below_a_closed_folder(run, tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    service = run().wait_until_up()
    owners = {Path(f"/proc/{service.find(words)}").stat().st_uid for words in ("bin/postgres", "valkey-server")}
    assert len(owners) == 1
    with pytest.raises(KeyError):  # otherwise whatever runs as that user could enter
        pwd.getpwuid(owners.pop())
    layout = Layout(service.data)
    for path in (layout.postgres_socket, layout.valkey_socket):
        assert may_enter(path, os.geteuid())
        assert not may_enter(path, _nobody().uid)
    service.query("CREATE TABLE kept AS SELECT 7 AS number")
    assert service.stop() == 0

    # The next start takes a cluster that was taken in part, because the start before was killed halfway.
    cluster = layout.cluster
    user = ServerUser(cluster.stat().st_uid, cluster.stat().st_gid)
    _give(cluster, _nobody())
    count, chown = itertools.count(), os.chown

    def killed(*args, **kwargs):
        if next(count) == 20:
            raise KeyboardInterrupt
        chown(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "chown", killed)
        with pytest.raises(KeyboardInterrupt):
            _give(cluster, user)
    service = run().wait_until_up()
    assert {path.stat().st_uid for path in (cluster, *cluster.rglob("*"))} == {user.uid}
    assert service.stop() == 0

    # And one that nobody owned.
    _give(cluster, _nobody())
    service = run().wait_until_up()
    assert service.query("SELECT number FROM kept") == 7
    owners = {path.stat().st_uid for path in (cluster, *cluster.rglob("*"))}
    assert len(owners) == 1
    assert owners.isdisjoint({0, _nobody().uid})
    assert service.stop() == 0
