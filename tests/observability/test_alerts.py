"""The alerts ring for what they say, and for nothing else, according to Prometheus' own tool."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.harness.processes import CHECKOUT

ALERTS = CHECKOUT / "docs/operations/alerts.yml"
RULES = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}

WEB = {
    "codservice_database_up": "1x60",
    'codservice_duty_age_seconds{duty="worker"}': "5x60",
    'codservice_duty_age_seconds{duty="beat"}': "5x60",
    'codservice_duty_age_seconds{duty="prune"}': "3600x60",
    "codservice_oldest_due_seconds": "0x60",
    # A web service has these of the worker's counters, too.
    "codservice_delivery_sweeps_total": "0x60",
    'codservice_delivery_attempts_total{outcome="delivered"}': "0x60",
    'codservice_delivery_attempts_total{outcome="unreadable_secret"}': "0x60",
    "codservice_rate_limit_opened_total": "0x60",
    'codservice_mails_total{outcome="failed"}': "0x60",
    'codservice_http_requests_total{status="200"}': "0+60x60",
    'codservice_http_requests_total{status="503"}': "0x60",
    'codservice_http_request_duration_seconds_bucket{route="api/v1/orders",le="0.1"}': "0+60x60",
    'codservice_http_request_duration_seconds_bucket{route="api/v1/orders",le="2.5"}': "0+60x60",
    'codservice_http_request_duration_seconds_bucket{route="api/v1/orders",le="+Inf"}': "0+60x60",
    'codservice_orders_pending{age="over_24h"}': "3x90",
}
WORKER = {
    "codservice_delivery_sweeps_total": "0+12x60",
    'codservice_delivery_attempts_total{outcome="delivered"}': "0+60x60",
}
FAILED, UNREADABLE = (
    f'codservice_delivery_attempts_total{{outcome="{each}"}}' for each in ("status", "unreadable_secret")
)
MAILS_FAILED = 'codservice_mails_total{outcome="failed"}'
NO_DATABASE = {name: "_x60" for name in WEB if re.match("codservice_(duty|oldest|orders)", name)}


def of(instance: str, figures: dict[str, str]) -> dict[str, str]:
    """Return the series that a host reports."""
    told = {}
    for name, values in figures.items():
        figure, _, labels = name.rstrip("}").partition("{")
        told[f"{figure}{{{labels}{',' if labels else ''}instance='{instance}'}}"] = values
    return told


def ringing(tmp_path: Path, series: dict[str, str], after: str = "30m") -> set[str]:
    """Return the alerts that ring after some time."""
    expected = [
        {"eval_time": after, "alertname": name, "exp_alerts": [{"exp_labels": {"never": "so"}}]} for name in RULES
    ]
    test = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    said = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True, check=False
    ).stderr
    return set(re.findall(r"alertname: ?(\w+), time(?:(?!alertname:).)*?got:\[\n", said, re.S))


def test_alerts_about_parts_hang_on_what_any_web_tells() -> None:
    for name in ("WorkerSilent", "BeatSilent", "RetentionStopped"):
        figures = set(re.findall(r"codservice_\w+", RULES[name]["expr"]))
        assert figures == {"codservice_duty_age_seconds", "codservice_database_up"}
    assert "absent(codservice_database_up)" in {rule["expr"] for rule in RULES.values()}


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (of("web", WEB), set()),
        (of("web", WEB) | of("worker", WORKER), set()),
        (of("worker", WORKER), {"WebSilent"}),
        ({}, {"WebSilent"}),
        (of("web", WEB | {'codservice_duty_age_seconds{duty="worker"}': "0+60x60"}), {"WorkerSilent"}),
        (of("web", WEB | {'codservice_duty_age_seconds{duty="worker"}': "_x60"}), {"WorkerSilent"}),
        (of("web", WEB | {'codservice_duty_age_seconds{duty="beat"}': "0+60x60"}), {"BeatSilent"}),
        (of("web", WEB | {'codservice_duty_age_seconds{duty="beat"}': "_x60"}), {"BeatSilent"}),
        (of("web", WEB | {'codservice_duty_age_seconds{duty="prune"}': "172800+60x60"}), {"RetentionStopped"}),
        (of("web", WEB | NO_DATABASE | {"codservice_database_up": "0x60"}), {"DatabaseAway"}),
        (of("web", WEB | {"codservice_oldest_due_seconds": "0+60x60"}), {"DeliveriesLate"}),
        (of("web", WEB | {"codservice_rate_limit_opened_total": "0+1x60"}), {"RateLimitOpen"}),
        (of("web", WEB | {'codservice_http_requests_total{status="503"}': "0+1x60"}), {"ServerErrors"}),
        (
            of("web", WEB | {name: "0+1x60" for name in WEB if 'le="0.1"' in name}),
            {"SlowAnswers"},
        ),
        (of("web", WEB) | of("worker", {FAILED: "0+60x60"}), {"AttemptsFail"}),
        (of("web", WEB) | of("worker", WORKER | {UNREADABLE: "0x20 1x40"}), {"SecretsUnreadable"}),
        (of("web", WEB | {'codservice_orders_pending{age="over_24h"}': "200x90"}), set()),
        (of("web", WEB) | of("worker", {MAILS_FAILED: "0x9 1 2 2 3x3 4x40"}), set()),
        (of("web", WEB) | of("worker", {MAILS_FAILED: "0x9 1 2 2 3x3 4x7 5x40"}), {"MailsFail"}),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, set) else "",
)
def test_each_rings_for_what_it_says_and_no_other(tmp_path: Path, series: dict[str, str], expected: set[str]) -> None:
    assert ringing(tmp_path, series) == expected


@pytest.mark.parametrize(
    "passed",
    [
        # A restart of Redis, and one of PostgreSQL, while calls come, and a receiver that was away for some minutes.
        {"codservice_rate_limit_opened_total": "0x9 2x51"},
        {'codservice_http_requests_total{status="503"}': "0x9 30 60x50"},
        {FAILED: "0x9 2000 4000x50"},
    ],
    ids=lambda passed: re.findall("codservice_([a-z]+)", next(iter(passed)))[0],
)
def test_what_has_passed_rings_no_more(tmp_path: Path, passed: dict[str, str]) -> None:
    """An alert that says how things are does not ring late for how they were."""
    for minute in (11, 13, 15, 17, 20, 25):
        assert ringing(tmp_path, of("web", WEB | passed), after=f"{minute}m") == set()


def test_a_web_that_was_away_for_two_days_says_nothing_of_retention(tmp_path: Path) -> None:
    told = {"codservice_database_up": "1x60 _x3600", 'codservice_duty_age_seconds{duty="prune"}': "0x60 _x3600"}
    assert "RetentionStopped" not in ringing(tmp_path, told, after="49h3m")


def test_an_old_service_whose_retention_never_ran_is_told_from_a_new_one(tmp_path: Path) -> None:
    told = {"codservice_database_up": "1x3600"}
    assert "RetentionStopped" not in ringing(tmp_path, told, after="47h")
    assert "RetentionStopped" in ringing(tmp_path, told, after="49h")
    told['codservice_duty_age_seconds{duty="prune"}'] = "_x2900 0+60x700"
    assert "RetentionStopped" not in ringing(tmp_path, told, after="49h")
