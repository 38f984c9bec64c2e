"""Commands that a signal tells to stop: what already handles signals, and what happens next."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from codservice import commands

TOLD = (signal.SIGTERM, signal.SIGHUP)


class TellsItself(commands.Command):
    """Tells itself to stop, and again while it is stopping."""

    requires_system_checks: list[str] = []  # type: ignore[assignment]
    stealth_options = ("told",)
    tidied = False

    def handle(self, *, told: signal.Signals, **options: Any) -> None:
        try:
            os.kill(os.getpid(), told)
        finally:
            os.kill(os.getpid(), told)
            self.tidied = True


@pytest.fixture(autouse=True)
def _as_started() -> Iterator[None]:
    before = {each: signal.signal(each, signal.SIG_DFL) for each in TOLD}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("told", TOLD)
def test_a_command_ends_in_order_and_leaves_signals_as_they_were(told: signal.Signals) -> None:
    command = TellsItself()
    with pytest.raises(SystemExit) as ended:
        call_command(command, told=told)
    assert (ended.value.code, command.tidied) == (128 + told, True)
    assert [signal.getsignal(each) for each in TOLD] == [signal.SIG_DFL] * 2


def test_who_minds_or_ignores_signals_goes_on_to() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for told in TOLD:
        call_command(TellsItself(), told=told)
    assert heard == [signal.SIGTERM] * 2


def test_in_a_thread_signals_are_nobodys() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    command = TellsItself()
    thread = threading.Thread(target=call_command, args=[command], kwargs={"told": signal.SIGTERM})
    thread.start()
    thread.join()
    assert command.tidied
