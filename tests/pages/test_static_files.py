"""Static files in production: named by their contents, and served by either version's names while two versions run."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.http import HttpResponse
from django.test import RequestFactory

from codservice.middleware import StaticFiles


@pytest.fixture
def web(settings: Any, tmp_path: Path) -> StaticFiles:
    settings.STATIC_ROOT = tmp_path
    backend = "whitenoise.storage.CompressedManifestStaticFilesStorage"
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": backend}}
    settings.WHITENOISE_USE_FINDERS = settings.WHITENOISE_AUTOREFRESH = False
    call_command("collectstatic", interactive=False, verbosity=0)
    return StaticFiles(lambda request: HttpResponse(status=HTTPStatus.NOT_FOUND))


def test_a_page_of_another_version_has_its_styles_from_this_one(web: StaticFiles, rf: RequestFactory) -> None:
    ours = staticfiles_storage.url("accounts/pages.css")
    answer = web(rf.get(ours))
    assert (answer.status_code, "immutable" in answer["Cache-Control"]) == (HTTPStatus.OK, True)

    of_another = web(rf.get("/static/accounts/pages.0123456789ab.css"))

    assert (of_another.status_code, of_another["Cache-Control"]) == (HTTPStatus.OK, "no-store")
    assert of_another.getvalue() == answer.getvalue()
    assert of_another["Content-Type"] == answer["Content-Type"]


@pytest.mark.parametrize(
    "name", ["accounts/gone.0123456789ab.css", "accounts/", "", "[", "%00.0123456789ab.css", "../x.0.css"]
)
def test_what_is_of_no_version_is_not_found(web: StaticFiles, rf: RequestFactory, name: str) -> None:
    assert web(rf.get(f"/static/{name}")).status_code == HTTPStatus.NOT_FOUND
