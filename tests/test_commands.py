"""What the commands have in common."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from codservice.commands import Command


@pytest.mark.parametrize(
    ("command", "option", "given"),
    [
        ("webhook_sink", "--port", "65536"),
        ("webhook_sink", "--port", "-1"),
        ("webhook_sink", "--status", "99"),
        ("webhook_sink", "--delay", "-1"),
        ("webhook_sink", "--count", "many"),
        ("deliveries", "--limit", str(2**63)),
        ("deliveries", "--limit", "-1"),
        ("seed_demo", "--seed", "9" * 200),
        ("seed_demo", "--seed", "9" * 5000),
        ("seed_demo", "--orders", "-1"),
        ("check_service", "--timeout", "nan"),
        ("check_service", "--timeout", "1e400"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_in_a_sentence(command, option, given):
    with pytest.raises(CommandError, match=f"argument {option}: “{given}” is no number from .+ to .+"):
        call_command(command, option, given)


@pytest.mark.parametrize(
    ("total", "count", "said"), [(0, 3, []), (19, 40, []), (40, 41, [f"{part * 5} %" for part in range(1, 21)])]
)
def test_more_may_come_than_were_counted(monkeypatch, total, count, said):
    monkeypatch.setattr("sys.stderr", StringIO())
    err = StringIO()
    assert list(Command(stderr=err).progress(range(count), total=total, unit="orders")) == [*range(count)]
    assert [line.partition(":")[0] for line in err.getvalue().splitlines()] == said
