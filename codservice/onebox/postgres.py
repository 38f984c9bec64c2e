"""The embedded PostgreSQL: make its cluster, start it, and cope with what earlier starts left behind."""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from codservice.data_folder import Layout, hold, keep_name, own_folder
from codservice.errors import CannotStart
from codservice.onebox.binaries import PostgresPrograms, ServerUser, find_postgres
from codservice.onebox.process import Process, becomes_ready, log_hint, spawn, why
from codservice.run.kernel import die_with_parent

NEW_CLUSTER_BYTES = 256 << 20
OLD_CLUSTER_BYTES = 64 << 20
ORPHAN_SECONDS = 60.0
START_SECONDS = 600.0  # recovery after a crash may take its time
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
# User ids that no distribution assigns and systemd does not use (systemd.io/UIDS-GIDS).
FREE_IDS = range(60706, 61184)

# For a small machine: little shared memory, no parallel query (it also needs /dev/shm, 64 MB in a container), no
# replication. What makes commits durable (fsync, synchronous_commit, full_page_writes) stays on.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "32MB",
    "huge_pages": "off",
    "maintenance_work_mem": "32MB",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "autovacuum_max_workers": "1",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Customers' names and phones stay out of the log: no statements, no details.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_line_prefix": "%m [%p] ",
}


def server_user(layout: Layout) -> ServerUser:
    """Return the user that the servers run as: normally our own.

    For root, which PostgreSQL refuses, it is the cluster's owner, or else a user id that the system has no name for.
    Everything else on the machine runs as other users, for which the sockets' folders are closed.
    """
    if os.geteuid() != 0:
        return ServerUser(os.geteuid(), os.getegid())
    if layout.cluster.exists() and (found := layout.cluster.stat()).st_uid not in (0, _nobody().uid):
        return ServerUser(found.st_uid, found.st_gid)
    start = int.from_bytes(hashlib.sha256(os.fsencode(layout.data)).digest()[:4]) % len(FREE_IDS)
    free = next(number for number in (*FREE_IDS[start:], *FREE_IDS) if not _has_name(number))
    return ServerUser(free, free)


def _nobody() -> ServerUser:
    found = pwd.getpwnam("nobody")
    return ServerUser(found.pw_uid, found.pw_gid)


def postgres(layout: Layout, *, sessions: int = 60) -> Process:
    """Return the database as a process to supervise, for up to `sessions` at once.

    Raises `CannotStart` if the machine or the data do not allow it. The caller holds the data folder's lock, so any
    server that still runs on it is an orphan.
    """
    user = server_user(layout)
    _check_data(layout, user)
    make_runtime(layout, user, layout.postgres_socket)
    programs = find_postgres(major=_major(layout.cluster), user=user, copies=layout.runtime / "bin")
    options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    options += ["-c", f"unix_socket_directories={layout.postgres_socket.parent}", "-c", f"max_connections={sessions}"]

    def before_start() -> None:
        make_runtime(layout, user, layout.postgres_socket)
        _check_space(layout)
        if not layout.cluster.exists():
            _make_cluster(layout, programs, user)
        _stop_orphan(layout.cluster)
        # No server of ours is left, and any process may have the number in the socket's lock file by now.
        layout.postgres_socket.with_name(layout.postgres_socket.name + ".lock").unlink(missing_ok=True)
        if layout.cluster.stat().st_uid != user.uid:
            _give(layout.cluster, user)
        layout.cluster.chmod(0o700)  # PostgreSQL refuses a folder that others can enter, as they may a copy

    return Process(
        name="database",
        command=[str(programs.folder / "postgres"), "-D", _reachable(layout.cluster, user), "-p", "5432", *options],
        before_start=before_start,
        is_ready=lambda: _status(layout.cluster) == "ready",
        start_seconds=None,  # recovery after a crash takes as long as it takes
        # A fast shutdown; if that hangs, an immediate one, after which the next start recovers from the log.
        stop=((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)),
        orphan_signal=signal.SIGINT,
        options={"cwd": layout.cluster, **user.options()},
        environment=ENVIRONMENT,
        log=layout.data / "postgres.log",
    )


@contextmanager
def database_of(layout: Layout) -> Iterator[None]:
    """Provide the database while the block runs, for commands that need nothing but the data.

    It is that of a running service, or one that is started for the block. Makes the data folder and an empty cluster
    if there are none. Raises CannotStart.
    """
    if (lock := hold(layout)) is None:
        yield
        return
    with lock:
        process = postgres(layout)
        child = spawn(process)
        try:
            if not becomes_ready(process, child, seconds=START_SECONDS):
                raise CannotStart(f"PostgreSQL did not start.{log_hint(process)}")
            yield
        finally:
            child.send_signal(process.stop[0][0])
            child.wait()
            shutil.rmtree(layout.runtime, ignore_errors=True)


def _reachable(cluster: Path, user: ServerUser) -> str:
    """Return a path by which `user` reaches the cluster when started inside it.

    Root's data folder is usually closed to others, and opening root's folders is not an option. On Linux a process
    reaches the folder in which it was started by this link, whatever the permissions above it.
    """
    return str(cluster) if user.is_us or sys.platform != "linux" else "/proc/self/cwd"


def make_runtime(layout: Layout, user: ServerUser, socket: Path) -> None:
    """Make the folders above a server's socket; its user owns the last one."""
    own_folder(layout.runtime, mode=0o700 if user.is_us else 0o711)
    own_folder(socket.parent, owner=user.uid)


def _major(cluster: Path) -> int | None:
    if not cluster.exists():
        return None
    try:
        return int((cluster / "PG_VERSION").read_text().strip())
    except (OSError, ValueError) as error:
        raise CannotStart(f"{cluster} is not a PostgreSQL cluster that can be read: PG_VERSION is missing.") from error


def _check_data(layout: Layout, user: ServerUser) -> None:
    if not layout.cluster.exists() or os.geteuid() == 0:
        return
    if (owner := layout.cluster.stat().st_uid) != user.uid:
        raise CannotStart(
            f"{layout.cluster} belongs to user id {owner}, but this is user id {user.uid}. Run as its owner or as root,"
            " or set DATA_DIR to another folder."
        )


def _check_space(layout: Layout) -> None:
    needed = OLD_CLUSTER_BYTES if layout.cluster.exists() else NEW_CLUSTER_BYTES
    if (free := shutil.disk_usage(layout.data).free) < needed:
        raise CannotStart(
            f"The disk of DATA_DIR {layout.data} has {free >> 20} MB free, but {needed >> 20} MB are needed."
        )


def _make_cluster(layout: Layout, programs: PostgresPrograms, user: ServerUser) -> None:
    """Make the cluster under another name and rename it when complete, so that a crash half-way leaves none."""
    # initdb needs a user with a name, the server does not.
    maker = user if user.is_us or _has_name(user.uid) else _nobody()
    draft, copy = layout.data / "postgres.new", layout.data / "postgres.copy"
    for left in (draft, copy):
        shutil.rmtree(left, ignore_errors=True)
    own_folder(draft, owner=maker.uid)
    place = _reachable(draft, maker)

    def run(program: str, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - a path that we looked up
            [str(programs.folder / program), *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",  # the folder's name, which they tell, may be in another encoding
            cwd=draft,
            env={**os.environ, **ENVIRONMENT},
            # An initdb that is left alone would empty the folder of the next start's.
            preexec_fn=partial(die_with_parent, signal.SIGKILL, os.getpid()),
            **maker.options(),  # type: ignore[call-overload]
        )

    # The socket's folder (see own_folder) admits only its owner and root, who can read all files anyway.
    common = ["-D", place, "-U", "codservice", "-E", "UTF8", "--auth-local=trust", "--auth-host=reject"]
    common.append("--no-instructions")
    if programs.major >= 17:
        made = run("initdb", *common, "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
    else:
        # Sorts by code point everywhere; upper and lower case follow Unicode if the system has that locale.
        made = run("initdb", *common, "--locale=C", "--lc-ctype=C.UTF-8")
        if made.returncode != 0:
            shutil.rmtree(draft)
            own_folder(draft, owner=maker.uid)
            made = run("initdb", *common, "--locale=C")
    if made.returncode == 0:
        made = run("postgres", "--single", "-D", place, "template1", text="CREATE DATABASE codservice;\n")
    if made.returncode != 0 or "ERROR" in made.stderr:
        reason = why(made.stderr) or "no reason given"
        raise CannotStart(f"PostgreSQL could not create its cluster in {layout.data}: {reason}")
    if maker != user:
        # A copy, so that no other process of that user has a file of it open.
        shutil.copytree(draft, copy, symlinks=True)
        _give(copy, user)
        os.sync()
        shutil.rmtree(draft)
        draft = copy
    draft.rename(layout.cluster)
    keep_name(layout.cluster)


def _has_name(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _give(folder: Path, user: ServerUser) -> None:
    """Make `user` the owner of the folder and everything in it.

    The folder itself comes last, so that the next start can tell by its owner whether this was interrupted.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent, name), user.uid, user.gid, follow_symlinks=False)
    os.chown(folder, user.uid, user.gid)


def _pid_file(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
    except OSError:
        return []


def _status(cluster: Path) -> str:
    """Return the postmaster's own status: `starting`, `ready`, `stopping`, or nothing."""
    lines = _pid_file(cluster)
    return lines[7].strip() if len(lines) > 7 else ""


def _stop_orphan(cluster: Path) -> None:
    """Stop a server that outlived its supervisor, and delete a pid file that names none or some other process.

    Never by SIGKILL: a clean stop writes everything, and the next start recovers from an immediate one.
    """
    lines = _pid_file(cluster)
    pid = abs(int(lines[0])) if lines and lines[0].lstrip("-").isdecimal() else None
    if pid is None or not _is_postmaster(pid, cluster):
        # After a reboot or in a new container, any process may have the number, and a power cut may leave the file
        # empty: PostgreSQL would refuse to start.
        (cluster / "postmaster.pid").unlink(missing_ok=True)
        return
    for signum in (signal.SIGINT, signal.SIGQUIT):
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + ORPHAN_SECONDS
        while time.monotonic() < deadline:
            if not _is_postmaster(pid, cluster):
                return
            time.sleep(0.05)
    raise CannotStart(f"An earlier PostgreSQL (process {pid}) still runs on {cluster} and does not stop. End it.")


def _is_postmaster(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        try:
            program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
            return Path(program).name == "postgres" and os.path.samefile(f"/proc/{pid}/cwd", cluster)
        except OSError:
            return False
    command = ["/bin/ps", "-o", "command=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, errors="replace")  # noqa: S603 - a number is all that varies
    return "postgres" in shown.stdout
