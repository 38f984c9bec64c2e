"""The supervisor alone, over small scripts."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import CHECKOUT, descendants

NOTED = """
import signal, sys, time
def stop(*_):
    {before_exit}
    open({notes!r}, "a").write("{name}\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open({notes!r} + ".{name}", "w").close()
while True: time.sleep(60)
"""


def supervise(tmp_path, processes: str, stop_order: str = "()", before: str = "") -> subprocess.Popen[str]:
    code = f"""
        import os, signal, sys
        from codservice.onebox import supervisor
        from codservice.onebox.process import Process
        from codservice.errors import CannotStart
        supervisor.FAILED_STARTS, supervisor.LONGEST_BACKOFF = 3, 0.4
        python = sys.executable
        notes = {str(tmp_path / "notes")!r}
        def noted(name, before_exit="pass"):
            script = {NOTED!r}.format(name=name, notes=notes, before_exit=before_exit)
            return [python, "-c", script]
        def seen(name):
            return os.path.exists(notes + "." + name)
        def up():
            open(notes + ".up", "w").close()
            return True
        {before.strip()}
        processes = {processes}
        try:
            sys.exit(supervisor.Supervisor(processes, stop_order={stop_order}, is_up=up).run())
        except CannotStart as error:
            print(error)
            sys.exit(1)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_starts_in_order_and_stops_in_the_given_order(tmp_path):
    running = supervise(
        tmp_path,
        """[Process("database", noted("database"), is_ready=lambda: seen("database")),
            Process("task", [python, "-c", f"import os; assert os.path.exists({notes!r} + '.database')"], once=True),
            Process("web", noted("web"), is_ready=lambda: seen("web")),
            Process("worker", noted("worker"), is_ready=lambda: seen("worker"))]""",
        '("web", "worker", "database")',
    )
    eventually(lambda: (tmp_path / "notes.worker").exists())
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert (tmp_path / "notes").read_text().split() == ["web", "worker", "database"]


def test_who_is_early_loads_at_once_and_hears_of_its_turn(tmp_path):
    script = f"""
import pathlib, sys, time
notes = {str(tmp_path / "notes")!r}
pathlib.Path(notes + ".loading").touch()
sys.stdin.read()
pathlib.Path(notes).write_text(str(pathlib.Path(notes + ".database").exists()))
time.sleep(60)
"""
    running = supervise(
        tmp_path,
        f"""[Process("database", noted("database"), is_ready=lambda: seen("loading") and seen("database")),
            Process("application", [python, "-c", {script!r}], is_ready=lambda: os.path.exists(notes), is_early=True),
        ]""",
    )
    eventually((tmp_path / "notes.up").exists)
    running.terminate()

    assert running.wait(PATIENCE) == 0
    assert (tmp_path / "notes").read_text().startswith("True")


def test_what_does_not_stop_in_its_time_is_killed(tmp_path):
    running = supervise(
        tmp_path,
        """[Process("slow", noted("slow", "time.sleep(60)"), is_ready=lambda: seen("slow"),
                stop=((signal.SIGTERM, 0.3),))]""",
    )
    eventually(lambda: (tmp_path / "notes.slow").exists())
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert running.wait(PATIENCE) == 0
    assert time.monotonic() - began < 30  # it sleeps for 60
    assert "did not stop" in running.stdout.read()


@pytest.mark.parametrize(
    ("signum", "hears_it_out"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGINT, False)]
)
def test_one_stop_may_be_told_twice_and_a_second_ctrl_c_is_impatience(tmp_path, signum, hears_it_out):
    told, may_end = tmp_path / "told", tmp_path / "may-end"
    running = supervise(  # `nohup make test` makes everything ignore SIGHUP
        tmp_path,
        """[Process("slow", noted("slow", slowly), is_ready=lambda: seen("slow"), stop=((signal.SIGTERM, 60.0),))]""",
        before=f"""signal.signal(signal.SIGHUP, signal.SIG_DFL)
        slowly = f"import os; open({str(told)!r}, 'w').close()"
        slowly += f"\\n    while not os.path.exists({str(may_end)!r}): time.sleep(0.02)" """,
    )
    eventually((tmp_path / "notes.slow").exists)
    running.send_signal(signum)
    eventually(told.exists)
    running.send_signal(signum)
    if hears_it_out:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        may_end.touch()
    assert running.wait(PATIENCE) == 0
    assert (tmp_path / "notes").exists() == hears_it_out


def test_crash_loop_ends_the_service_with_a_sentence(tmp_path):
    running = supervise(tmp_path, """[Process("web", [python, "-c", "raise SystemExit(5)"], is_ready=lambda: False)]""")
    assert running.wait(PATIENCE) == 1
    assert "web failed 3 times in a row. The last time it ended with status 5." in running.stdout.read()


def test_of_a_log_the_line_is_told_that_says_why(tmp_path):
    script = "echo 'FATAL:  no room'; echo 'LOG:  database system is shut down'; exit 1"
    running = supervise(
        tmp_path,
        f"""[Process("database", ["/bin/sh", "-c", {script!r}], is_ready=lambda: False, log=Path(notes + ".log"))]""",
        before="from pathlib import Path",
    )
    assert running.wait(PATIENCE) == 1
    assert running.stdout.read().endswith("notes.log says: FATAL:  no room\n")


def test_of_a_log_no_line_is_told_that_an_earlier_start_has_written(tmp_path):
    (tmp_path / "notes.log").write_text("FATAL:  of yesterday\n")
    running = supervise(
        tmp_path,
        """[Process("database", ["/bin/sh", "-c", "exit 1"], is_ready=lambda: False, log=Path(notes + ".log"))]""",
        before="from pathlib import Path",
    )
    said = running.stdout.read()
    assert "of yesterday" not in said
    assert "database" in said


def test_what_a_stop_has_cut_short_is_no_failure(tmp_path):
    """Ctrl-C at the first start also ends `initdb`, which belongs to the same terminal."""
    cut_short = """
        def make_cluster():
            os.kill(os.getpid(), signal.SIGINT)
            raise CannotStart("initdb was interrupted")
    """
    running = supervise(tmp_path, """[Process("database", [python], before_start=make_cluster)]""", before=cut_short)
    assert running.wait(PATIENCE) == 0
    assert running.stdout.read() == ""


def test_failed_preparation_ends_the_service(tmp_path):
    running = supervise(
        tmp_path,
        """[Process("prepare", [python, "-c", "raise SystemExit(4)"], once=True),
            Process("web", noted("web"))]""",
    )
    assert running.wait(PATIENCE) == 1
    assert "prepare ended with status 4" in running.stdout.read()
    assert not (tmp_path / "notes.web").exists()


def test_many_accidents_after_good_starts_are_not_a_crash_loop(tmp_path):
    script = "import time; open({!r}, 'a').write('x'); time.sleep(1.3); raise SystemExit(1)"
    running = supervise(
        tmp_path,
        f"""[Process("web", [python, "-c", {script.format(str(tmp_path / "starts"))!r}], is_ready=lambda: True)]""",
    )
    eventually(lambda: (tmp_path / "starts").exists() and len((tmp_path / "starts").read_text()) >= 5)
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


FALTERING = """
import os, sys, time
open({notes!r} + ".starts", "a").write("x")
if os.path.exists({notes!r} + ".broken"): os._exit({status})
open({notes!r} + ".works", "a").write("x")
time.sleep(60)
"""


@pytest.mark.parametrize("status", [1, os.EX_CONFIG])
def test_what_fails_when_all_were_up_is_tried_until_it_works_again(tmp_path, status):
    """As a worker does when Redis refuses it, or a PostgreSQL with a full disk. The others stay up."""
    script = FALTERING.format(notes=str(tmp_path / "notes"), status=status)
    running = supervise(
        tmp_path,
        f"""[Process("web", noted("web"), is_ready=lambda: seen("web")),
             Process("worker", [python, "-c", {script!r}], is_ready=lambda: seen("works"))]""",
    )
    eventually((tmp_path / "notes.up").exists)
    (worker,) = (pid for pid, line in descendants(running.pid).items() if ".starts" in line)
    (web,) = descendants(running.pid).keys() - {worker}
    (tmp_path / "notes.broken").touch()
    os.kill(worker, signal.SIGKILL)
    starts = tmp_path / "notes.starts"
    eventually(lambda: len(starts.read_text()) > 6)
    (tmp_path / "notes.broken").unlink()
    eventually(lambda: (tmp_path / "notes.works").read_text() == "xx")
    assert web in descendants(running.pid)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


def test_what_cannot_even_be_started_when_all_were_up_is_tried_again(tmp_path):
    """As with a database on a full disk. A start of the whole service would say so and end."""
    refusing = f"""
        def before_start():
            if os.path.exists({str(tmp_path / "notes.broken")!r}):
                open({str(tmp_path / "notes.refused")!r}, "a").write("x")
                raise CannotStart("The disk is full.")
    """
    running = supervise(
        tmp_path,
        """[Process("database", noted("database"), is_ready=lambda: seen("database"), before_start=before_start)]""",
        before=refusing,
    )
    eventually((tmp_path / "notes.up").exists)
    (tmp_path / "notes.broken").touch()
    (database,) = descendants(running.pid)
    os.kill(database, signal.SIGKILL)
    refused = tmp_path / "notes.refused"
    eventually(lambda: refused.exists() and len(refused.read_text()) > 6)
    (tmp_path / "notes.broken").unlink()
    eventually(lambda: descendants(running.pid))
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


def test_what_is_not_up_for_an_hour_is_asked_each_second_and_not_more_often(tmp_path):
    an_hour_passes = """
        from types import SimpleNamespace
        passed, asked = 0, 0
        def up():
            global asked
            asked += 1
        def select(readable, writable, exceptional, seconds):
            global passed
            passed += seconds
            if passed > 3600:
                print(asked)
                sys.stdout.flush()
                os._exit(0)
            return [], [], []
        supervisor.select = SimpleNamespace(select=select)
    """
    said, _ = supervise(tmp_path, "[]", before=an_hour_passes).communicate(timeout=PATIENCE)
    assert 3600 <= int(said) < 4000


def test_functions_run_in_forks_and_are_treated_alike(tmp_path):
    running = supervise(
        tmp_path,
        """[Process("task", target=lambda: open(notes, "w").close(), once=True),
            Process("web", target=lambda: exec(NOTED.format(name="web", notes=notes, before_exit="pass"), {}),
                is_ready=lambda: seen("web"))]""".replace("NOTED", repr(NOTED)),
    )
    eventually(lambda: (tmp_path / "notes.web").exists())
    (tmp_path / "notes.web").unlink()
    (forked,) = descendants(running.pid)
    os.kill(forked, signal.SIGKILL)
    eventually(lambda: (tmp_path / "notes.web").exists())
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert (tmp_path / "notes").read_text() == "web\n"


def test_an_output_that_takes_no_more_ends_nothing(tmp_path):
    """As on a full disk, or behind `| head`."""
    failing = """
        def worker():
            open(notes + ".starts", "a").write("x")
            while not os.path.exists(notes + ".broken"):
                time.sleep(0.05)
            raise ValueError
        import time
        print = supervisor.say
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    """
    running = supervise(
        tmp_path,
        """[Process("web", noted("web"), is_ready=lambda: seen("web")),
            Process("worker", target=worker, is_ready=lambda: seen("starts"))]""",
        stop_order="('web',)",
        before=failing,
    )
    eventually((tmp_path / "notes.up").exists)
    (tmp_path / "notes.broken").touch()
    starts = tmp_path / "notes.starts"
    eventually(lambda: len(starts.read_text()) > 6)
    (tmp_path / "notes.broken").unlink()
    eventually(lambda: len(descendants(running.pid)) == 2)
    assert not (tmp_path / "notes").exists()  # nobody has told web to stop
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


@pytest.mark.parametrize("what", ["[python, '-c', 'import time; time.sleep(60)']", "target=lambda: time.sleep(60)"])
def test_what_is_told_to_stop_before_it_has_begun_stops(tmp_path, what):
    """It does not use the supervisor's handlers as its own."""
    running = supervise(
        tmp_path,
        f"""[Process("web", {what}, is_ready=lambda: False)]""",
        before="import time; os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))",
    )
    assert running.wait(PATIENCE) == 1
    assert "The last time it was ended by SIGTERM" in running.stdout.read()


def test_function_that_raises_ends_with_its_traceback(tmp_path):
    running = supervise(tmp_path, """[Process("task", target=lambda: 1 / 0, once=True)]""")
    assert running.wait(PATIENCE) == 1
    assert "task ended with status 1" in running.stdout.read()


def test_sentence_of_a_process_is_not_followed_by_another(tmp_path):
    running = supervise(
        tmp_path,
        """[Process("web", [python, "-c", "import os; print('the reason', flush=True); os._exit(os.EX_CONFIG)"],
            is_ready=lambda: False)]""",
    )
    assert running.wait(PATIENCE) == 1
    assert "again" not in running.stdout.read()


@pytest.mark.parametrize("is_full", [False, True])
def test_a_log_that_grows_is_begun_anew_beside_its_process(tmp_path, is_full):
    """On a full disk nothing of it is kept."""
    log, kept = tmp_path / "database.log", tmp_path / "database.log.1"
    if is_full:
        kept.mkdir()
    talking = (
        "import os, time; print('x' * 2000, flush=True)\n"
        "while os.fstat(1).st_size: time.sleep(0.05)\n"
        "print('y', flush=True); time.sleep(60)"
    )
    running = supervise(
        tmp_path,
        f"[Process('database', [python, '-c', {talking!r}], log=Path({str(log)!r}))]",
        before="""
        from pathlib import Path
        from codservice.onebox import process
        process.LOG_BYTES, supervisor.LOOK_SECONDS = 1000, 0.1
        """,
    )
    eventually(lambda: log.exists() and log.read_text() == "y\n")
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert is_full or kept.read_text().splitlines()[1:] == ["x" * 2000], "after the line that says when it started"


def fork(target: str) -> subprocess.CompletedProcess[str]:
    """What a fork that runs `target` says and returns, where stdout was closed before."""
    code = f"""
import sys
from codservice.errors import CannotStart
from codservice.onebox.process import Process, spawn
{target}
sys.exit(spawn(Process("fork", target=target)).wait())
"""
    closed = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code]
    return subprocess.run(closed, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True)


def test_a_fork_needs_no_stdout():
    done = fork("def target(): return 3")
    assert (done.returncode, done.stderr) == (3, "")


def test_a_fork_that_cannot_start_says_why_in_one_line():
    done = fork("def target(): raise CannotStart('The port is taken.')")
    assert (done.returncode, done.stderr) == (1, "codservice: The port is taken.\n")
