"""Worker and beat give a sign of life whenever their work comes round, and a container's health check reads it."""

import subprocess
import sys
import time

import pytest
from celery import Celery

from codservice.run import pulse
from codservice.run.beat import Scheduler
from tests.harness.background import PATIENCE
from tests.harness.processes import CHECKOUT


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The path for the sign of life, not written yet."""
    path = tmp_path / "pulse"
    monkeypatch.setenv("PULSE_FILE", str(path))
    monkeypatch.setattr(pulse, "_noted", -pulse.REST_SECONDS)
    return path


def test_what_hangs_has_no_sign_of_life(file, monkeypatch):
    assert pulse.problem() == "no sign of life yet"

    pulse.note()

    assert pulse.problem() == ""
    later = time.monotonic() + pulse.MOST_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert pulse.problem() == "the last sign of life was 61 s ago"


def test_a_sign_is_written_once_a_second_and_in_place(file, monkeypatch):
    def noted_at(seconds):
        monkeypatch.setattr(time, "monotonic", lambda: seconds)
        pulse.note()
        return file.read_bytes()

    first = noted_at(9.5)
    assert noted_at(10.4) == first
    assert noted_at(10.5) == b"0" * 15 + b"10500"
    assert len(first) == 20


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "cannot be read"), ("soon", "cannot be read"), ("99999999999", "from before the host restarted")],
)
def test_what_no_sign_is_is_said(file, content, said):
    file.write_text(content)

    assert said in pulse.problem()


def test_work_goes_on_where_no_sign_can_be_written(file, monkeypatch):
    file.mkdir()
    pulse.note()
    monkeypatch.delenv("PULSE_FILE")
    monkeypatch.setattr(pulse, "_noted", -pulse.REST_SECONDS)
    pulse.note()

    assert pulse.problem() == "PULSE_FILE is not set"


@pytest.mark.parametrize("role", ["worker", "beat"])
def test_where_no_sign_can_be_written_nothing_starts(file, role):
    pulse.need_file()
    assert pulse.problem() == "no sign of life yet"

    file.mkdir()
    command = [sys.executable, "-m", f"codservice.run.{role}"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.stderr == f"codservice: PULSE_FILE {file} cannot be written: is a directory.\n"
    assert done.returncode == 1


def test_a_sign_follows_no_link_of_another_user(file, tmp_path):
    file.symlink_to(tmp_path / "victim")

    pulse.note()

    assert not (tmp_path / "victim").exists()


def test_beat_gives_one_with_each_tick(file):
    app = Celery("test", set_as_current=False)
    app.conf.beat_schedule = {}

    Scheduler(app).tick()

    assert pulse.problem() == ""


@pytest.mark.django_db(transaction=True)
def test_a_worker_gives_one_with_each_look_for_what_is_due(file, make_engine):
    make_engine().drain()

    assert pulse.problem() == ""


def test_the_health_check_ends_with_0_or_with_a_sentence(file):
    command = [sys.executable, "-m", "codservice.run.pulse"]

    ill = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    pulse.note()
    well = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert (ill.returncode, ill.stderr) == (1, "codservice: no sign of life yet\n")
    assert (well.returncode, well.stderr) == (0, "")
