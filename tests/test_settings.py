"""Settings come from the environment alone; a wrong one stops the start with a sentence that names it."""

import re
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core import checks
from django.http.request import validate_host
from django.urls import get_resolver

from codservice.accounts import known_browsers
from codservice.data_folder import Layout
from codservice.secret_file import secrets
from tests.harness.manage import PRODUCTION, manage
from tests.harness.processes import CHECKOUT


def test_the_console_passes_djangos_own_check():
    """`manage.py check` may look at it before its addresses, and with them its pages, are loaded."""
    assert get_resolver().url_patterns
    assert checks.run_checks(tags=[checks.Tags.admin]) == []


def test_production_settings_pass_djangos_own_check():
    result = manage("check", "--deploy", "--fail-level", "WARNING")
    assert result.returncode == 0, result.stderr
    assert "no issues" in result.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATA_DIR", "~/codservice"),
        ("DATA_DIR", " "),
        ("DATA_DIR", "/var/lib/codservice\r"),
        ("DATABASE_URL", "mysql://localhost/x"),
        ("DATABASE_URL", "sqlite:///x"),
        ("DATABASE_URL", "nonsense"),
        ("DATABASE_URL", "postgresql://first:5432,second:port/x"),
        ("DATABASE_URL", "postgresql://localhost"),
        ("DATABASE_URL", "postgresql://localhost/"),
        ("DATABASE_URL", "postgresql://localhost/x?sslmod=require"),
        ("DATABASE_URL", "postgresql://localhost/x?conn_max_age=60"),
        ("DATABASE_URL", "postgresql://localhost/x?connect_timeout=soon"),
        ("DATABASE_URL", "postgresql://localhost/x?pool=true"),  # not with connections that last
        ("DATABASE_URL", "postgresql://localhost/x?isolation_level=3"),  # statements rely on 2
        ("REDIS_URL", "memcached://localhost"),
        ("REDIS_URL", "redis://localhost/shop"),
        ("REDIS_URL", "redis://localhost/0/"),
        ("REDIS_URL", "redis://localhost/-1"),
        ("REDIS_URL", "redis://localhost/0?db=many"),
        ("REDIS_URL", "redis://localhost/0?tls=on"),
        ("REDIS_URL", "redis://localhost:6379?db=3"),
        ("REDIS_URL", "redis://localhost/0?socket_timeout=5"),
        ("REDIS_URL", "unix:///run/redis.sock?password=none&db=3"),
        ("REDIS_URL", "rediss://localhost/0?ssl_cert_reqs=perhaps"),
        ("REDIS_URL", "rediss://localhost/0?ssl_min_version=771"),
        ("REDIS_URL", "rediss://localhost/0?ssl_check_hostname=0"),
        ("API_RATE_LIMIT", "many"),
        ("API_RATE_LIMIT", "0"),
        ("API_RATE_LIMIT", "1.5"),
        ("PAGE_RATE_LIMIT", "59"),
        ("TRUSTED_PROXIES", "-1"),
        ("TRUSTED_PROXIES", "*"),
        ("DEBUG", "maybe"),
        ("DEBUG", "true"),
        ("WEBHOOK_ALLOW_PRIVATE", "true"),
        ("ALLOWED_HOSTS", "shop.example,*"),
        ("ALLOWED_HOSTS", ""),
        ("ALLOWED_HOSTS", "shop.example,"),
        ("ALLOWED_HOSTS", "https://shop.example"),
        ("ALLOWED_HOSTS", "shop.example/"),
        ("ALLOWED_HOSTS", "shop.example cod.example"),
        ("ALLOWED_HOSTS", "shop.example:8000"),
        ("ALLOWED_HOSTS", "shop.example."),
        ("ALLOWED_HOSTS", "*.shop.example"),
        ("ALLOWED_HOSTS", "::1"),
        ("CSRF_TRUSTED_ORIGINS", "shop.example"),
        ("CSRF_TRUSTED_ORIGINS", "https://shop.example,"),
        ("CSRF_TRUSTED_ORIGINS", "https://shop.example/"),
        ("SECRET_KEY", "x"),
        ("SECRET_KEY", "x" * 50),
        ("SECRET_KEY", "".join(map(chr, range(48, 97)))),  # 49 characters
        ("SECRET_KEY_FALLBACKS", "x"),
        ("HTTPS", "sometimes"),
        ("DEMO", "perhaps"),
        ("DEMO", "true"),
        ("DATABASE_PGBOUNCER", "perhaps"),
        ("DATABASE_STATEMENT_TIMEOUT", "long"),
        ("DATABASE_STATEMENT_TIMEOUT", "2147484"),  # more than PostgreSQL takes
        ("LOG_LEVEL", "LOUD"),
        ("EMAIL_URL", "carrier-pigeon://x"),
        ("EMAIL_URL", "smtp://"),
        ("EMAIL_URL", "submission://user:password@"),
        ("EMAIL_URL", "submission://user:password@:587"),
        ("EMAIL_URL", "submission://us%C3%A9r:password@host:587"),
        ("EMAIL_URL", "submission://user:password@host:587?timeout=30"),
        ("EMAIL_URL", "submission://user:password@host:587?starttls"),
        ("EMAIL_URL", "smtp://user:password@host:587?tls=require"),
        ("EMAIL_URL", "smtp://user:password@host:587?ssl=off&tls=on"),
        ("EMAIL_URL", "file:///var/mail/codservice"),
        ("DEFAULT_FROM_EMAIL", ""),
        ("DEFAULT_FROM_EMAIL", "shop"),
        ("DEFAULT_FROM_EMAIL", "Cod <shop>"),
        ("DEFAULT_FROM_EMAIL", "é@shop.example"),  # Django would write another mailbox
        ("DEFAULT_FROM_EMAIL", "cod@shop.example\nBcc: all@shop.example"),
        ("DEFAULT_FROM_EMAIL", "Cod <cod@shop.example>, all@shop.example"),
        ("DEFAULT_FROM_EMAIL", "cod@shop..example"),
        ("DEFAULT_FROM_EMAIL", f"cod@{'x' * 64}.example"),  # no name of a host is so long
        ("WEBHOOK_CA_FILE", "/no/where.pem"),
        ("WEBHOOK_CA_FILE", "/"),
        ("WEBHOOK_CA_FILE", __file__),
        ("METRICS_TOKEN_FILE", sys.executable),  # not a text file
        ("METRICS_TOKEN_FILE", f"{__file__}/below-a-file"),
        ("CALLING_EARLIEST", "08:00+01:00"),
        ("CALLING_EARLIEST", "25:00"),
        ("METRICS_TOKEN", "seize-caractères-et-plus"),
        ("ENCRYPTION_KEYS", ""),
        ("DELIVERY_RETENTION_DAYS", "0"),
        ("DELIVERY_RETENTION_DAYS", "10001"),
        ("CUSTOMER_RETENTION_DAYS", "-1"),
        ("CUSTOMER_RETENTION_DAYS", "30"),  # shorter than deliveries, which name customers, are kept
    ],
)
def test_a_wrong_value_stops_the_start_with_a_sentence_that_names_it(name, value):
    result = manage("check", env={name: value})
    assert result.returncode != 0
    assert name in result.stderr
    assert "Traceback" not in result.stderr
    assert not re.search(r"\['|Environment variable|Not a valid", result.stderr), "as the library says it"
    assert len(result.stderr.strip().splitlines()) <= 2


def test_no_part_is_said_of_a_value_that_is_given_in_place_of_its_file():
    """Most systems allow 255 characters in a name, and quote one that is longer."""
    given = {"ENCRYPTION_KEYS_FILE": ",".join([PRODUCTION["ENCRYPTION_KEYS"]] * 6)}
    result = manage("check", env=given, unset=["ENCRYPTION_KEYS"])
    assert result.returncode == 1
    assert result.stderr == "ENCRYPTION_KEYS_FILE must be the path of a text file that holds the value.\n"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *(
            (name, url.format(password))
            for name, url in (
                ("DATABASE_URL", "postgresql://user:{}@host/name"),
                ("REDIS_URL", "redis://user:{}@host/0"),
                ("EMAIL_URL", "submission://user:{}@host:587"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:{}@host"),
            )
            for password in ("hid/den", "hid#den", "hid[den")
        ),
        ("REDIS_URL", "redis://user:hidden@host:70000/0"),
        ("REDIS_URL", "redis://user:1?hid=den@host/0"),
        ("REDIS_URL", "redis://user:hid;den@host/0"),
        ("EMAIL_URL", "submission://user:1?hid=den@host"),
        ("DATABASE_URL", "postgresql://user:1?hid=den@host/name"),
        ("DATABASE_URL", "postgresql://user:1/x?hid=den@host/name"),
        ("SENTRY_DSN", "https://hid/den@host/1"),
        ("SENTRY_DSN", "https://hidden@host:port/1"),
        ("SENTRY_DSN", "https://hidden@ho[st/1"),
        ("SENTRY_DSN", "https://hidden@host/project1"),
    ],
)
def test_no_part_is_said_of_an_address_that_cannot_be_read(name, url):
    """Libraries quote what they take for the port, which is what precedes a slash in the password."""
    result = manage("check", env={name: url})
    assert result.returncode == 1
    assert name in result.stderr
    assert "hid" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_hosts_origins_and_a_sender_may_be_what_django_takes():
    taken = {
        "ALLOWED_HOSTS": "Shop.example, .cod.example,localhost,127.0.0.1,[::1]",
        "CSRF_TRUSTED_ORIGINS": "https://shop.example:8443, https://*.cod.example",
        "DEFAULT_FROM_EMAIL": "Cod <cod@shop.example>",
    }
    given = shown("settings.ALLOWED_HOSTS, settings.CSRF_TRUSTED_ORIGINS, settings.DEFAULT_FROM_EMAIL", **taken)
    lists = [[each.strip() for each in value.split(",")] for value in list(taken.values())[:2]]
    assert given == str((*lists, taken["DEFAULT_FROM_EMAIL"]))
    hosts = ["shop.example", "a.cod.example", "cod.example", "localhost", "127.0.0.1", "[::1]"]
    assert all(validate_host(host, lists[0]) for host in hosts)


def test_demo_data_is_asked_for_as_anything_is_switched_on(tmp_path):
    development = {"unset": ("SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL"), "DATA_DIR": str(tmp_path)}
    demo = [shown("settings.DEMO", DEMO=value, **development) for value in ("1", "true", "0")]
    assert demo == ["True", "True", "False"]
    assert shown("settings.DEMO", DEMO="0") == "False"


def shown(expression, *, unset=(), **env):
    """Return the value of an expression about the settings, with these variables set, and production's but `unset`."""
    show = f"from django.conf import settings; print(({expression}))"
    result = manage("shell", "--no-imports", "-c", show, env=env, unset=unset)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize(
    ("url", "port", "begins_with_tls", "asks_for_tls"),
    [
        ("smtp://relay", 25, False, False),
        ("smtp://user:password@relay:2525", 2525, False, False),
        ("submission://user:password@host", 587, False, True),
        ("submission://user:password@host:587", 587, False, True),
        ("submission://user:password@host:465", 465, True, False),
        ("smtps://user:password@host", 465, True, False),
        ("smtps://user:password@host:465", 465, True, False),
        ("smtps://user:password@host:587", 587, False, True),
        ("smtp://user:password@host:587?tls=on", 587, False, True),
        ("smtp://user:password@host:465?ssl=True", 465, True, False),
        ("smtp://user:password@host:587?tls=TRUE", 587, False, True),
    ],
)
def test_mail_is_sent_as_its_address_says(url, port, begins_with_tls, asks_for_tls):
    given = shown("settings.EMAIL_PORT, settings.EMAIL_USE_SSL, settings.EMAIL_USE_TLS", EMAIL_URL=url)
    assert given == str((port, begins_with_tls, asks_for_tls))


def test_every_address_of_mail_in_the_docs_is_one():
    texts = [path.read_text() for path in (settings.BASE_DIR / "docs").rglob("*") if path.suffix in (".md", ".yaml")]
    named = {url for text in texts for url in re.findall(r"\b(?:smtps?|submission)[a-z+]*://[^\s`]+\d", text)}
    assert len(named) >= 3
    for url in named:
        assert shown("settings.EMAIL_HOST", EMAIL_URL=url.replace("…", "host"))


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("rediss://:password@redis:6380/0", "CERT_REQUIRED"),
        ("rediss://:password@redis:6380/0?ssl_ca_certs=/etc/ca.pem", "CERT_REQUIRED"),
        ("rediss://:password@redis:6380/0?ssl_cert_reqs=none", "CERT_NONE"),
    ],
)
def test_celery_checks_the_certificate_of_redis(url, checked):
    app = "__import__('codservice.celery', fromlist=['app']).app"
    assert shown(f"{app}.connection_for_write().ssl['ssl_cert_reqs'].name", REDIS_URL=url) == checked


def test_in_development_all_that_may_be_switched_on(tmp_path):
    secrets(tmp_path)
    free = {"DATA_DIR": str(tmp_path), "DEBUG": "true", "WEBHOOK_ALLOW_PRIVATE": "true", "ALLOWED_HOSTS": "*"}
    result = manage("check", env=free, unset=["SECRET_KEY", "ENCRYPTION_KEYS"])
    assert result.returncode == 0, result.stderr


def test_a_production_without_secrets_does_not_start(tmp_path):
    result = manage("check", env={"DATA_DIR": str(tmp_path)}, unset=["SECRET_KEY", "ENCRYPTION_KEYS"])
    assert result.returncode != 0
    assert "SECRET_KEY" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == [], "and makes up none"
    # Nor does it lead a `make run` with a PostgreSQL of one's own, whose folder is another, to new keys.
    assert f"there is no {tmp_path / 'secrets.env'}. With `make run`, start it once with this DATA_DIR" in result.stderr


@pytest.mark.parametrize("name", ["ENCRYPTION_KEYS", "ENCRYPTION_KEYS_FILE"])
def test_an_encryption_key_that_would_not_be_used_is_refused(tmp_path, name):
    """Without a SECRET_KEY both secrets come from the data folder."""
    secrets(tmp_path)
    (tmp_path / "key").write_text(PRODUCTION["ENCRYPTION_KEYS"])
    value = str(tmp_path / "key") if name.endswith("_FILE") else PRODUCTION["ENCRYPTION_KEYS"]
    result = manage(
        "check",
        env={"DATA_DIR": str(tmp_path), name: value},
        unset=["SECRET_KEY", *({"ENCRYPTION_KEYS"} - {name})],
    )
    assert result.returncode != 0
    assert "ENCRYPTION_KEYS is set without SECRET_KEY" in result.stderr
    assert str(tmp_path / "secrets.env") in result.stderr
    assert "Traceback" not in result.stderr


def test_a_secret_key_needs_an_encryption_key(tmp_path):
    result = manage("check", env={"DATA_DIR": str(tmp_path)}, unset=["ENCRYPTION_KEYS"])
    assert result.returncode != 0
    assert "SECRET_KEY is set without ENCRYPTION_KEYS. Set both, or unset both" in result.stderr


def test_https_without_a_proxy_is_warned_of():
    for proxies, is_told in (("0", True), ("1", False)):
        start = ("shell", "--no-imports", "-c", "import codservice.wsgi")
        result = manage(*start, env={"HTTPS": "true", "TRUSTED_PROXIES": proxies})
        assert result.returncode == 0
        assert ("TRUSTED_PROXIES is 0" in result.stdout + result.stderr) is is_told


def test_a_value_may_stand_in_a_file(tmp_path):
    (tmp_path / "limit").write_text("77\n")
    show = "from django.conf import settings; print(settings.API_RATE_LIMIT)"
    result = manage("shell", "--no-imports", "-c", show, env={"API_RATE_LIMIT_FILE": str(tmp_path / "limit")})
    assert result.stdout.strip() == "77", result.stderr


def test_a_value_that_stands_in_the_environment_and_in_a_file_stops_the_start(tmp_path):
    """Neither can be preferred: whoever has just changed the one would not hear that the other holds."""
    (tmp_path / "key").write_text(PRODUCTION["SECRET_KEY"])
    file = {"SECRET_KEY_FILE": str(tmp_path / "key")}
    result = manage("check", env=file)
    assert (result.returncode, result.stderr) == (
        1,
        "SECRET_KEY and SECRET_KEY_FILE are both set. Unset one of them.\n",
    )
    for blank in ("", " "):
        assert manage("check", env=file | {"SECRET_KEY": blank}).returncode == 0
        assert manage("check", env={"SECRET_KEY_FILE": ""}).returncode == 0


def test_a_file_may_end_with_a_line_break_which_is_no_part_of_the_value(tmp_path):
    given = {
        "METRICS_TOKEN": "sixteen-characters",
        "ALLOWED_HOSTS": "shop.example",
        "DEFAULT_FROM_EMAIL": "a@b.example",
    }
    for name, value in given.items():
        (tmp_path / name).write_text(f"{value}\n")
    show = "from django.conf import settings as s; print([s.METRICS_TOKEN, s.ALLOWED_HOSTS, s.DEFAULT_FROM_EMAIL])"
    result = manage(
        "shell", "--no-imports", "-c", show, env={f"{name}_FILE": str(tmp_path / name) for name in given}, unset=given
    )
    assert result.stdout.strip() == "['sixteen-characters', ['shop.example'], 'a@b.example']", result.stderr


def test_blanks_around_a_value_are_no_part_of_it():
    given = {
        "METRICS_TOKEN": "sixteen-characters",
        "HTTPS": "true",
        "API_RATE_LIMIT": "77",
        "REDIS_URL": "redis://localhost:6379/3",
        "DATABASE_URL": "postgresql://shop:hidden@localhost/shop",
    }
    show = (
        "from django.conf import settings as s;"
        "print([s.METRICS_TOKEN, s.HTTPS, s.API_RATE_LIMIT, s.REDIS_URL, s.DATABASES['default']['NAME']])"
    )
    for text in ("{}\r", " {} "):
        env = {name: text.format(value) for name, value in given.items()}
        result = manage("shell", "--no-imports", "-c", show, env=env)
        said = "['sixteen-characters', True, 77, 'redis://localhost:6379/3', 'shop']"
        assert result.stdout.strip() == said, result.stderr


@pytest.mark.parametrize("name", ["SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS"])
def test_what_is_nothing_but_blanks_makes_no_development_server(tmp_path, name):
    secrets(tmp_path)
    result = manage("check", env={"DATA_DIR": str(tmp_path), name: " \r"})
    assert result.returncode == 1
    assert result.stderr == f"{name} is set but blank. Give it a value.\n"


@pytest.mark.parametrize("name", ["SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_a_file_that_is_empty_makes_no_development_server(tmp_path, name, text):
    (tmp_path / "file").write_text(text)
    secrets(tmp_path)
    env = {"DATA_DIR": str(tmp_path), f"{name}_FILE": str(tmp_path / "file")}
    result = manage("check", env=env, unset=[name])
    assert result.returncode == 1
    assert result.stderr == f"{name}_FILE names an empty file. Write the value into it.\n"


def test_a_secret_key_in_a_file_stays_what_it_was(tmp_path):
    """It signs feeds' cursors and sessions, also those of the version before."""
    (tmp_path / "key").write_text(f"{PRODUCTION['SECRET_KEY']}\n")
    show = "from django.conf import settings; print(settings.SECRET_KEY.encode()[-3:])"
    env = {"SECRET_KEY_FILE": str(tmp_path / "key")}
    result = manage("shell", "--no-imports", "-c", show, env=env, unset=["SECRET_KEY"])
    assert result.stdout.strip() == repr(f"{PRODUCTION['SECRET_KEY']}\n".encode()[-3:]), result.stderr


def test_what_a_key_of_before_has_signed_holds():
    sign = "from django.core import signing; print(signing.dumps('next'))"
    signed = manage("shell", "--no-imports", "-c", sign).stdout.strip()
    read = f"from django.core import signing; print(signing.loads('{signed}'))"
    new = {"SECRET_KEY": PRODUCTION["SECRET_KEY"][::-1]}
    for env, said in ((new | {"SECRET_KEY_FALLBACKS": PRODUCTION["SECRET_KEY"]}, "next"), (new, "")):
        result = manage("shell", "--no-imports", "-c", read, env=env)
        assert result.stdout.strip() == said, result.stderr


def test_a_key_of_before_may_have_stood_in_a_file_with_a_line_break_and_beside_others(tmp_path):
    old, older = (PRODUCTION["SECRET_KEY"][turn:] + PRODUCTION["SECRET_KEY"][:turn] for turn in (1, 2))
    sign = "from django.core import signing; print(signing.dumps('next'))"
    (tmp_path / "key").write_text(f"{old}\n")
    in_file = {"SECRET_KEY_FILE": str(tmp_path / "key")}
    signed = [
        manage("shell", "--no-imports", "-c", sign, env=in_file, unset=["SECRET_KEY"]).stdout.strip(),
        manage("shell", "--no-imports", "-c", sign, env={"SECRET_KEY": older}).stdout.strip(),
    ]
    in_words, in_a_file = f"{old}, {older}", str(tmp_path / "fallbacks")
    Path(in_a_file).write_text(f"{in_words}\n")
    for env in ({"SECRET_KEY_FALLBACKS": in_words}, {"SECRET_KEY_FALLBACKS_FILE": in_a_file}):
        read = f"from django.core import signing; print([signing.loads(each) for each in {signed}])"
        result = manage("shell", "--no-imports", "-c", read, env=env)
        assert result.stdout.strip() == "['next', 'next']", result.stderr


def test_a_key_of_before_holds_with_the_secrets_of_make_run_too(tmp_path):
    secrets(tmp_path)
    show = "from django.conf import settings as s; print(s.SECRET_KEY_FALLBACKS[0])"
    env = {"DATA_DIR": str(tmp_path), "SECRET_KEY_FALLBACKS": PRODUCTION["SECRET_KEY"]}
    result = manage("shell", "--no-imports", "-c", show, env=env, unset=["SECRET_KEY", "ENCRYPTION_KEYS"])
    assert result.stdout.strip() == PRODUCTION["SECRET_KEY"], result.stderr


def test_a_key_of_before_may_stand_beside_the_new_one_in_the_file_of_make_run(tmp_path):
    secrets(tmp_path)
    sign = "from django.core import signing; print(signing.dumps('next'))"
    development = {"env": {"DATA_DIR": str(tmp_path)}, "unset": ["SECRET_KEY", "ENCRYPTION_KEYS"]}
    signed = manage("shell", "--no-imports", "-c", sign, **development).stdout.strip()
    file = tmp_path / "secrets.env"
    new = PRODUCTION["SECRET_KEY"]
    file.write_text(file.read_text().replace("SECRET_KEY=", f"SECRET_KEY={new}\nSECRET_KEY_FALLBACKS={new[::-1]}, "))
    read = f"from django.core import signing; print(signing.loads('{signed}'))"
    result = manage("shell", "--no-imports", "-c", read, **development)
    assert result.stdout.strip() == "next", result.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("SECRET_KEY=hidden", "SECRET_KEY is too easy to guess"),
        ("SECRET_KEY_FALLBACKS=hidden", "SECRET_KEY_FALLBACKS is too easy to guess"),
        ("SECRET_KEY_FALLBACK=hidden", "secrets.env has in line 5 none of SECRET_KEY, ENCRYPTION_KEYS"),
        ("EMAIL_URL=submission://user:hidden@host", "secrets.env has in line 5 none of SECRET_KEY, ENCRYPTION_KEYS"),
        ("hidden", "secrets.env has in line 5 none of SECRET_KEY, ENCRYPTION_KEYS"),
    ],
)
def test_what_would_not_be_used_from_the_file_of_make_run_is_refused(tmp_path, line, said):
    secrets(tmp_path)
    with (tmp_path / "secrets.env").open("a") as file:
        file.write(f"{line}\n\n# the end\n")
    result = manage("check", env={"DATA_DIR": str(tmp_path)}, unset=["SECRET_KEY", "ENCRYPTION_KEYS"])
    assert result.returncode != 0
    assert said in result.stderr
    assert "hidden" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_former_key_is_kept_as_long_as_the_browsers_that_it_has_marked_are_known():
    days = known_browsers._AGE // (24 * 60 * 60)
    assert f"after {days} days take the old one out" in (CHECKOUT / "SECURITY.md").read_text()


def test_cookies_are_bound_to_the_host_where_there_is_https():
    show = (
        "from django.conf import settings as s; from codservice.accounts import known_browsers as known;"
        "from codservice.middleware import MessageStorage;"
        "names = [s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.LANGUAGE_COOKIE_NAME, known.COOKIE,"
        " MessageStorage.storage_classes[0].cookie_name];"
        "print(all(name.startswith('__Host-') for name in names), any(name.startswith('__Host-') for name in names))"
    )
    for https, said in (("true", "True True"), ("false", "False False")):
        result = manage("shell", "--no-imports", "-c", show, env={"HTTPS": https})
        assert result.stdout.strip() == said, result.stderr


def test_locks_and_statements_have_a_limit_and_connections_are_kept():
    database = settings.DATABASES["default"]
    assert "lock_timeout=2s" in database["OPTIONS"]["options"]
    assert "statement_timeout=30s" in database["OPTIONS"]["options"]
    assert "jit=off -c work_mem=16MB" in database["OPTIONS"]["options"]
    assert database["CONN_HEALTH_CHECKS"] is True
    assert database["CONN_MAX_AGE"] is None


def test_an_empty_database_url_is_none(tmp_path):
    secrets(tmp_path)
    show = "from django.db import connection as c; print(c.get_connection_params()['host'])"
    env = {"DATA_DIR": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    result = manage("shell", "--no-imports", "-c", show, env=env, unset=["SECRET_KEY", "ENCRYPTION_KEYS"])
    assert result.stdout.strip() == str(Layout(tmp_path).postgres_socket.parent), result.stderr


def test_options_of_the_database_url_win_over_ours():
    asked = "map(c.get_connection_params().get, ('options', 'connect_timeout'))"
    show = f"from django.db import connection as c; print(*{asked})"
    url = PRODUCTION["DATABASE_URL"] + "?options=-c%20temp_buffers%3D1MB%20-c%20work_mem%3D64MB&connect_timeout=9"
    result = manage("shell", "--no-imports", "-c", show, env={"DATABASE_URL": url})
    assert re.fullmatch(
        "-c lock_timeout=2s .* -c work_mem=16MB .* -c temp_buffers=1MB -c work_mem=64MB 9", result.stdout.strip()
    ), result.stderr


def test_a_database_url_may_name_several_hosts_as_for_libpq():
    url = "postgresql://a,b:p%2Cq@first:5433,[::1],third:5434/shop?target_session_attrs=read-write"
    found = shown(
        "[settings.DATABASES['default'][name] for name in ('USER', 'PASSWORD', 'HOST', 'PORT')]", DATABASE_URL=url
    )
    assert found == str(["a,b", "p,q", "first,::1,third", "5433,,5434"])


def test_a_database_that_vanished_is_given_up_within_seconds():
    options = settings.DATABASES["default"]["OPTIONS"]
    silence = options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"]
    assert (options["connect_timeout"], silence, options["tcp_user_timeout"]) == (2, 10, 5000)


def test_behind_pgbouncer_nothing_is_kept_in_the_session():
    show = (
        "from django.conf import settings; d = settings.DATABASES['default'];"
        "print(d['CONN_MAX_AGE'], d['OPTIONS'].get('options'), d['OPTIONS']['prepare_threshold'],"
        " d['DISABLE_SERVER_SIDE_CURSORS'])"
    )
    result = manage("shell", "--no-imports", "-c", show, env={"DATABASE_PGBOUNCER": "true"})
    assert result.stdout.strip() == "None None None True", result.stderr


def test_the_image_makes_no_setting_up_and_names_all_that_are_missing():
    result = manage("check", env={"PRODUCTION": "true"}, unset=("SECRET_KEY", "REDIS_URL", "ALLOWED_HOSTS"))

    assert result.returncode == 1
    assert result.stderr.startswith("SECRET_KEY, REDIS_URL, ALLOWED_HOSTS must be set")
    assert manage("check", env={"PRODUCTION": "true"}).returncode == 0
