"""Signing secrets can be read nowhere but in the one answer that shows them."""

import base64
import os
import re
import subprocess

import pytest
import redis
from cryptography.fernet import Fernet, InvalidToken
from django.db import connection
from django.urls import reverse

from codservice.celery import app
from codservice.onebox import binaries
from tests.factories import UserFactory
from tests.harness.broker import redis_texts
from tests.harness.manage import manage
from tests.harness.receivers import Receiver
from webhooks import posts, secrets
from webhooks.models import Webhook


def test_a_secret_has_256_random_bits_and_its_hint_tells_24_of_them():
    made = {secrets.make_secret() for _ in range(100)}

    assert len(made) == 100
    assert all(re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret) for secret in made)
    assert all(secrets.hint(secret) == secret[:10] + "…" for secret in made)


def test_what_is_stored_is_encrypted_and_different_each_time():
    secret = secrets.make_secret()
    first, second = secrets.encrypt(secret), secrets.encrypt(secret)

    assert first != second
    assert secret.encode() not in first
    assert secrets.decrypt(first) == secrets.decrypt(second) == secret
    with pytest.raises(InvalidToken):
        secrets.decrypt(first[:-1] + bytes([first[-1] ^ 1]))


def test_another_key_reads_nothing(settings):
    encrypted = secrets.encrypt(secrets.make_secret())
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(InvalidToken):
        secrets.decrypt(encrypted)
    assert not secrets.is_under_newest_key(encrypted)


A_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="  # fixed: test workers must agree on the names of their tests


@pytest.mark.parametrize("value", ["types", "x" * 44, "", A_KEY + ",", "é" * 43 + "="])
def test_keys_of_the_wrong_form_stop_the_start_with_a_sentence(value):
    result = manage("check", env={"ENCRYPTION_KEYS": value})

    assert result.returncode != 0
    assert "ENCRYPTION_KEYS" in result.stderr
    assert "Traceback" not in result.stderr
    assert not value or value not in result.stderr


def test_a_post_does_not_tell_its_secrets():
    secret = secrets.make_secret()
    post = posts.Post(None, "https://shop.example/", "ping", b"", [secret], 1)

    assert secret not in repr(post)
    assert secret not in repr(posts.Outcome(post, "", 200, 1, b""))


@pytest.mark.django_db(transaction=True)
def test_a_secret_is_in_no_dump_log_redis_page_or_other_answer(api, caplog, client, monkeypatch, settings, make_engine):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    caplog.set_level("DEBUG")
    seen = []
    with Receiver() as receiver:
        made = api.post("/api/v1/webhooks", {"url": receiver.url(), "events": ["order.confirmed"]})
        id_ = made.json()["data"]["id"]
        rotated = api.post(f"/api/v1/webhooks/{id_}/rotate-secret")
        used = [answer.json()["signing_secret"] for answer in (made, rotated)]
        api.post(f"/api/v1/webhooks/{id_}/ping")
        assert make_engine().drain() == 1
        seen += [str(request.head) + str(request.body) for request in receiver.requests]
    seen += [api.get(path).content.decode() for path in ("/api/v1/webhooks", f"/api/v1/webhooks/{id_}/deliveries")]
    monkeypatch.setattr("webhooks.serializers.webhook_body", lambda webhook: 1 / 0)
    crash = api.post(f"/api/v1/webhooks/{id_}/rotate-secret")
    assert crash.status_code == 500
    seen += [crash.content.decode(), caplog.text]
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    seen.append(client.get(reverse("admin:webhooks_webhook_change", args=[id_])).content.decode())
    database = redis.Redis.from_url(settings.REDIS_URL)
    seen += redis_texts(database)
    assert any("deliver" in text for text in seen), "the workers were woken"
    webhook = Webhook.objects.get()
    used.append(secrets.decrypt(bytes(webhook.secret)))  # the one of the crash
    seen += [repr(webhook), str(webhook), dumped()]

    assert "webhooks_webhook" in seen[-1]
    for secret in used:
        for text in seen:
            assert secret not in text
            assert secret.removeprefix("whsec_") not in text
        assert secret.removeprefix("whsec_").encode().hex() not in seen[-1], "as pg_dump writes bytea"
        assert base64.b64decode(secret.removeprefix("whsec_")).hex() not in seen[-1]


def test_a_secret_in_a_task_would_be_seen(settings):
    app.send_task("x", ["not for a broker"], argsrepr="-")
    assert any("not for a broker" in text for text in redis_texts(redis.Redis.from_url(settings.REDIS_URL)))


def dumped() -> str:
    """Return the test database as written by pg_dump of the server's own release."""
    database = connection.settings_dict
    where = ["-h", database["HOST"], "-p", str(database["PORT"] or 5432), "-U", database["USER"], database["NAME"]]
    errors = []
    for folder in binaries._postgres_folders():
        if (program := folder / "pg_dump").exists():
            password = {"PGPASSWORD": database["PASSWORD"] or ""}
            done = subprocess.run([program, *where], env=os.environ | password, capture_output=True, check=False)
            if done.returncode == 0:
                return done.stdout.decode()
            errors.append(done.stderr.decode())
    raise AssertionError(f"no pg_dump can dump the database: {errors}")
