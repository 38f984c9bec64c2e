"""Pages behind a login stay private: no cache may keep any page of the URL configuration."""

import pytest
from django.test import Client

from tests.attack import stage

pytestmark = pytest.mark.django_db
NOBODYS = ("/docs", "/console/jsi18n/")  # the documentation; a script of the console's words
SIGNED_IN = ("agent", "supervisor", "operator", "holder")


def test_no_page_behind_a_login_may_be_kept() -> None:
    made = stage.build([], 11)
    shown: dict[str, set[str]] = {}
    keepable = []
    for who, path in made["pages"]:
        answer = Client(headers={"Cookie": made["people"][who]}).get(path)
        assert answer.status_code < 500, f"{path} as {who}"
        if answer.status_code == 200:
            shown.setdefault(path, set()).add(who)
            is_private = who and "" not in shown[path] and not path.startswith(NOBODYS)
            is_kept = (
                "no-store" not in answer.headers.get("Cache-Control", "") or "Cookie" not in answer.headers["Vary"]
            )
            keepable += [f"{path} as {who}"] * bool(is_private and is_kept)
    assert "\n".join(keepable) == ""
    for who in SIGNED_IN:
        assert sum(who in people for people in shown.values()) >= 5, f"{who} saw nothing"
    assert len(shown) > 60
