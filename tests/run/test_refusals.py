"""What cannot start says why in one sentence, with status 1 and no traceback."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from codservice.data_folder import Layout, data_dir, own_folder
from codservice.errors import CannotStart
from codservice.onebox import postgres
from codservice.onebox.binaries import PostgresPrograms, ServerUser
from codservice.run import web
from codservice.run.web import Web
from codservice.secret_file import secrets
from tests.harness.background import eventually
from tests.harness.database import database_url, environment
from tests.harness.manage import PRODUCTION
from tests.harness.processes import CHECKOUT, free_port, is_alive
from tests.harness.python import run_python
from tests.harness.service import running_service


def refusal(service) -> str:
    assert service.wait() == 1
    said = service.said()
    assert said.startswith("codservice: ")
    assert said.count("\n") == 1, said
    return said


@pytest.fixture
def taken():
    """A port at which somebody else listens without sharing it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_port_taken(run, taken):
    said = refusal(run(PORT=str(taken)))
    assert f"Port {taken}" in said
    assert "set PORT" in said


def test_of_two_that_start_at_once_with_one_port_the_first_has_it(run, tmp_path):
    port = str(free_port())
    first = run(tmp_path / "first", PORT=port)
    eventually(Layout(first.data).cluster.exists)
    first.popen.send_signal(signal.SIGSTOP)  # before its web processes listen
    assert f"Port {port}" in refusal(run(tmp_path / "second", PORT=port))
    first.popen.send_signal(signal.SIGCONT)
    first.wait_until_up()
    assert {Web("127.0.0.1", int(port), workers=2, threads=2).get("/healthz")[0] for _ in range(50)} == {200}
    assert first.stop() == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_held_is_held_once_and_lets_in_those_that_share_it(monkeypatch, host):
    monkeypatch.setattr(web, "PORT_SECONDS", 0.0)
    held = Web(host, free_port(), workers=1, threads=1)
    with held.hold():
        for _ in range(2):
            with pytest.raises(CannotStart, match=f"Port {held.port}"):
                held.hold()
            assert held.address() == host
    held.hold().close()


def test_at_ctrl_c_before_it_listens_for_it_it_ends_by_the_signal_without_a_word(run, taken):
    service = run(PORT=str(taken), module="codservice.onebox")
    eventually(Layout(service.data).data.exists)  # now it waits for the port
    service.popen.send_signal(signal.SIGINT)
    assert (service.wait(), service.said()) == (-signal.SIGINT, "")


@pytest.mark.parametrize("host", ["no.such.host.invalid", ".example", "192.0.2.1"])
def test_no_address_of_this_machine(run, host):
    assert f"HOST {host} is not an address of this machine" in refusal(run(HOST=host))


def test_web_by_itself_says_what_it_cannot_listen_at(taken, tmp_path):
    """It starts as production starts it, but in development: production reads the pages' files, which others may be
    gathering in the checkout meanwhile.
    """
    environ = os.environ | dict.fromkeys(PRODUCTION, "") | {"ALLOWED_HOSTS": "localhost", "DATA_DIR": str(tmp_path)}
    for given in ({"HOST": "no.such.host.invalid"}, {"HOST": "a..b"}, {"HOST": "192.0.2.1"}, {"PORT": str(taken)}):
        done = run_python("-m", "codservice.run.web", env=environ | given)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith("codservice: ")
        assert next(iter(given.values())) in done.stderr


def test_a_web_shares_its_port_with_those_of_its_own_database_alone(service, tmp_path):
    other = database_url().rpartition("/")[0] + "/postgres"
    environ = environment(DATABASE_URL=other, PORT=str(service.port))
    done = run_python("-m", "codservice.run.web", env=environ)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"with another database listens at port {service.port} on 127.0.0.1. Set PORT" in done.stderr

    host = "of.the.second"
    with running_service(tmp_path / "log", PORT=str(service.port), ALLOWED_HOSTS=host):
        eventually(lambda: service.send("GET", "/account/login", headers={"Host": host}).status == 200)


def test_blanks_around_a_value_are_no_part_of_it(monkeypatch):
    """This holds for other settings too: in a file of variables written on Windows, each line ends with one."""
    for name, value in {"HOST": "::1", "PORT": "8001", "WEB_WORKERS": "3", "WEB_THREADS": ""}.items():
        monkeypatch.setenv(name, f"{value} \r")
    assert Web.from_environ() == Web("::1", 8001, workers=3, threads=2)


@pytest.mark.parametrize("name", ["PORT", "WEB_WORKERS", "WEB_THREADS"])
@pytest.mark.parametrize("value", ["x", "-1", "٣", "99999", "9" * 5000])
def test_unusable_number(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(CannotStart, match=f"^{name} must be a whole number from 1 to .{{1,80}}$"):
        Web.from_environ()


def test_nothing_starts_with_an_unusable_number(run):
    assert "WEB_THREADS" in refusal(run(WEB_THREADS="x"))


@pytest.fixture
def cluster(tmp_path):
    """An empty folder for a cluster."""
    folder = tmp_path / "data" / "postgres"
    secrets(tmp_path / "data")
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    return folder


def test_data_of_another_postgresql(run, cluster):
    (cluster / "PG_VERSION").write_text("9\n")
    said = refusal(run())
    assert "made by PostgreSQL 9" in said
    assert (cluster / "PG_VERSION").read_text() == "9\n"


def test_of_a_cluster_that_cannot_be_made_the_reason_is_told_and_not_the_end(tmp_path):
    """As where /dev/shm is too small."""
    initdb = tmp_path / "initdb"
    initdb.write_text(
        "#!/bin/sh\necho 'running ... FATAL:  No space left on device\nAborted\ninitdb: removing contents' >&2; exit 1"
    )
    initdb.chmod(0o755)
    user = ServerUser(os.geteuid(), os.getegid())
    with pytest.raises(CannotStart, match=r"No space left on device$"):
        postgres._make_cluster(Layout(tmp_path), PostgresPrograms(tmp_path, 18), user)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process ends with its parent")
def test_whoever_makes_a_cluster_ends_with_the_one_that_asked(tmp_path):
    """When it fails, initdb empties the folder by its name, in which the next start makes a cluster by then."""
    initdb, begun = tmp_path / "initdb", tmp_path / "begun"
    initdb.write_text(f"#!/bin/sh\necho $$ > {begun}.new; mv {begun}.new {begun}; exec sleep infinity")
    initdb.chmod(0o755)
    code = f"""
import os; from pathlib import Path
from codservice.data_folder import Layout
from codservice.onebox import postgres
user = postgres.ServerUser(os.geteuid(), os.getegid())
postgres._make_cluster(Layout(Path({str(tmp_path)!r})), postgres.PostgresPrograms(Path({str(tmp_path)!r}), 18), user)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as asking:
        eventually(begun.exists)
        asking.kill()
    pid = int(begun.read_text())
    try:
        eventually(lambda: not is_alive(pid))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def kept(monkeypatch):
    """The paths of files and folders that were written to the disk."""
    paths, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda opened: (paths.append(os.readlink(f"/proc/self/fd/{opened}")), fsync(opened))
    )
    return paths


def test_a_new_clusters_name_is_on_the_disk_before_anything_is_in_it(tmp_path, kept):
    layout = Layout(tmp_path)
    try:
        postgres.postgres(layout).before_start()
    finally:
        shutil.rmtree(layout.runtime)
    assert layout.cluster.exists()
    assert kept[-1] == str(tmp_path)


def test_folder_that_is_no_cluster(run, cluster):
    assert "PG_VERSION is missing" in refusal(run())


def test_second_instance_on_the_same_data(run):
    first = run(HOST="localhost").wait_until_up()  # a name of this machine is an address
    assert "already runs" in refusal(run())
    assert first.stop() == 0


def test_a_data_folder_has_one_path_however_it_is_reached(tmp_path, monkeypatch):
    """Servers are found by it, so a command must not look for them elsewhere than `make run` has put them."""
    folder, link = tmp_path / "disk/data", tmp_path / "link"
    link.symlink_to(folder.parent)
    for path in (link, link / "data", f"{link}/"):
        monkeypatch.setenv("DATA_DIR", str(path))
        with pytest.raises(CannotStart, match=f"{link} is a link to {folder.parent}, which is not there"):
            data_dir()
    folder.mkdir(parents=True)
    for path in (folder, link / "data", link / "new"):
        monkeypatch.setenv("DATA_DIR", str(path))
        assert data_dir() == folder.parent / path.name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody whom the system does not know")
def test_who_has_no_home_is_told_to_name_a_data_folder():
    unset = [word for name in ("DATA_DIR", "HOME", "XDG_DATA_HOME") for word in ("-u", name)]
    load = "import os, platformdirs; from codservice.onebox.__main__ import main"
    script = f"{load}; os.setuid({postgres.FREE_IDS[0]}); main()"
    done = subprocess.run(["env", *unset, sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr == "codservice: DATA_DIR is not set, and this user has no home folder. Set it to a folder.\n"


def test_data_dir_is_a_file(run, tmp_path):
    (tmp_path / "data").write_text("")
    assert "is not a folder" in refusal(run())


def test_data_dir_below_a_file(run, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refusal(run(tmp_path / "file" / "data"))


def test_data_dir_cannot_be_made(run):
    assert "cannot be created" in refusal(run(Path("/proc/data")))


def test_a_production_that_cannot_gather_its_static_files(run, tmp_path):
    (tmp_path / "file").touch()
    where = {"DJANGO_SETTINGS_MODULE": "tests.harness.patient", "STATIC_ROOT": str(tmp_path / "file/static")}
    said = refusal(run(module="codservice.onebox", **PRODUCTION, **where))
    assert f"Static files cannot be written to {tmp_path}/file/static: Not a directory" in said


def test_a_production_with_a_file_where_a_folder_of_static_files_belongs(run, tmp_path):
    (tmp_path / "agents").touch()
    where = {"DJANGO_SETTINGS_MODULE": "tests.harness.patient", "STATIC_ROOT": str(tmp_path)}
    said = refusal(run(module="codservice.onebox", **PRODUCTION, **where))
    assert f"Static files cannot be written to {tmp_path}: {tmp_path}/agents exists and is not a directory." in said


@pytest.mark.parametrize(
    ("damaged", "said"),
    [(b"SECRET_KEY=x\n", "has no ENCRYPTION_KEYS"), (b"\xff\xfeS\0", "secrets.env is not a text file")],
)
def test_damaged_secrets_are_not_replaced(run, tmp_path, damaged, said):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secrets.env").write_bytes(damaged)
    assert said in refusal(run())
    assert (tmp_path / "data" / "secrets.env").read_bytes() == damaged


def test_missing_secrets_of_a_database_that_is_there_are_not_replaced(run, cluster):
    file = cluster.with_name("secrets.env")
    file.unlink()
    said = refusal(run())
    assert "secrets.env is missing, but" in said
    assert "or set SECRET_KEY and ENCRYPTION_KEYS to the values that the service uses." in said
    assert not file.exists()


def test_folder_that_somebody_else_put_there_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotStart):
        own_folder(tmp_path / "link")
    (tmp_path / "open").mkdir(mode=0o777)
    assert own_folder(tmp_path / "open").stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        os.chown(tmp_path / "open", 12345, -1)
        with pytest.raises(CannotStart):
            own_folder(tmp_path / "open")


def test_processes_that_ask_for_secrets_at_once_get_the_same(tmp_path):
    code = (
        f"from pathlib import Path; from codservice.secret_file import secrets; print(secrets(Path({str(tmp_path)!r})))"
    )
    asking = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(6)]
    assert len({process.communicate()[0] for process in asking}) == 1
    assert [path.name for path in Layout(tmp_path).data.iterdir()] == ["secrets.env"]


def test_new_secrets_are_on_the_disk_before_they_are_used(tmp_path, kept):
    secrets(tmp_path)
    assert kept[-1] == str(tmp_path)
