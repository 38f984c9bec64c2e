"""Settings, all of them from the environment; docs/operators.md has the table.

A wrong or missing value stops the start with a sentence that names the variable. Any variable that is read here can be
given as NAME_FILE instead: the path of a file that holds the value (Docker and Kubernetes secrets). Whitespace around a
value is ignored, but for SECRET_KEY.
"""

import os
import re
import ssl
from datetime import time
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import redis
import redis.backoff
import redis.retry
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.message import sanitize_address
from environs import EnvError, EnvValidationError, FileAwareEnv, validate

from codservice import __version__, data_folder, observability
from codservice.data_folder import Layout
from codservice.errors import CannotStart
from codservice.secret_file import secrets

BASE_DIR = Path(__file__).resolve().parent.parent


# What production requires.
NEEDED = ("SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS")


class _Env(FileAwareEnv):
    def _get_value(self, env_key: str, default: Any) -> Any:
        # The file would win, and whoever changed the variable, such as to have a new key, would not be heard.
        if all(os.environ.get(each, "").strip() for each in (env_key, f"{env_key}_FILE")):
            raise EnvError(f"{env_key} and {env_key}_FILE are both set. Unset one of them.")
        try:
            given = super()._get_value(env_key, default)
        except (UnicodeDecodeError, OSError):
            raise EnvError(f"{env_key}_FILE must be the path of a text file that holds the value.") from None
        if not isinstance(given, str):
            return given
        # Files may end with a line break, and files of variables from Windows with a carriage return.
        value = given.strip()
        # A secret that is lost must not turn production into a development server or start an embedded database.
        if not value and env_key in NEEDED:
            if os.environ.get(f"{env_key}_FILE"):
                raise EnvError(f"{env_key}_FILE names an empty file. Write the value into it.")
            if given:
                raise EnvError(f"{env_key} is set but blank. Give it a value.")
        return value


env = _Env()
# The library's sentences that do not say what is taken.
_TAKEN = {
    "Not a valid boolean.": "Must be true or false.",
    "Not a valid integer.": "Must be a whole number.",
    "Not a valid time.": "Must be a time from 00:00 to 23:59.",
}


def _sentence(error: EnvValidationError) -> str:
    """Whatever is wrong with a value, in a sentence like ours: `HTTPS must be true or false.`"""
    named = re.match(r'Environment variable "(\w+)" invalid: ', str(error))
    said = " ".join(_TAKEN.get(each, each) for each in error.error_messages)
    return f"{named[1] if named else 'A setting'} {said[:1].lower()}{said[1:]}"


def _need_readable(name: str, url: str) -> None:
    """Raise EnvError if the URL cannot be parsed. Later a library would, and its error might quote a password."""
    try:
        urlsplit(url).port  # noqa: B018  (it is read here)
    except ValueError:
        raise EnvError(
            f"{name} is not a valid URL. In passwords, write %2F for /, %3F for ?, %23 for #, %5B for [ and %5D for ]."
        ) from None


# Options that redis-py and Celery's client (kombu) both take; others are a TypeError in kombu, or read as text.
_REDIS_OPTIONS = {
    "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_ciphers",
    "ssl_keyfile", "ssl_password",
}  # fmt: skip


def _need_redis(url: str) -> None:
    """Raises EnvError for a database or options that one of the clients would misread, or fail on later."""
    if ";" in url:
        raise EnvError("REDIS_URL must be a single URL. In passwords, write %3B for ;.")
    parts = urlsplit(url)
    is_socket, options = parts.scheme == "unix", parse_qs(parts.query, keep_blank_values=True)
    if not is_socket and ("db" in options or not re.fullmatch(r"(/\d*)?", parts.path, re.ASCII)):
        raise EnvError("REDIS_URL must end with the port or a database number: redis://host:6379/0.")
    try:
        if options.keys() - ({"db"} if is_socket else _REDIS_OPTIONS):
            raise ValueError("Celery's client takes no other options")
        if any(value.lower() not in ("true", "false") for value in options.get("ssl_check_hostname", ())):
            raise ValueError("Celery's client reads anything but false as true")
        redis.ConnectionPool.from_url(url).make_connection()  # this does not connect yet
    except (ValueError, TypeError, redis.RedisError):
        raise EnvError("REDIS_URL has an invalid option after its ?. In passwords, write %3F for ?.") from None


def _need_unguessable(name: str, keys: list[str]) -> None:
    """Raises EnvError for keys that Django's check security.W009 warns of: they sign sessions and password links."""
    if any(len(key) < 50 or len(set(key)) < 5 for key in keys):
        raise EnvError(f"{name} is too easy to guess. Use at least 50 random characters (openssl rand -hex 32).")


def _need_sender(sender: str) -> None:
    """Raises EnvError unless it is one address that Django can write into a mail, without changing its mailbox."""
    try:
        sanitize_address(sender, "utf-8")  # raises IndexError for some that Python misreads
        if "\n" in sender or not re.fullmatch(r"[!-?A-~]+@[^@\s]+", parseaddr(sender)[1]):
            raise ValueError("Django would write another mailbox")
    except (ValueError, IndexError):
        raise EnvError(
            "DEFAULT_FROM_EMAIL must be one e-mail address: cod@shop.example, or Cod <cod@shop.example>."
        ) from None


def _read_database(url: str) -> dict[str, Any]:
    """Read DATABASE_URL, which may name several hosts as it may for libpq. Raises EnvError.

    It does so also for unknown options and a bad `connect_timeout`, which would otherwise fail at the first statement.
    """
    parts = re.fullmatch(r"((?:postgres|postgresql|pgsql)://(?:[^/?#]*@)?)([^/?#]*)(.*)", url, re.IGNORECASE)
    if not parts:
        raise EnvError("DATABASE_URL must start with postgresql:// (PostgreSQL 15 or newer).")
    before, hosts, after = parts.groups()
    urls = [f"{before}{host}{after}" for host in hosts.split(",")]
    for each in urls:
        _need_readable("DATABASE_URL", each)
    read = [env.dj_db_url("", each) for each in urls]  # no variable is named "": its default is parsed
    database = read[0] | {name: ",".join(str(each[name]) for each in read) for name in ("HOST", "PORT")}
    # The one option of Django's own that goes with ours; all others are for PostgreSQL.
    options = {name: value for name, value in database.get("OPTIONS", {}).items() if name != "assume_role"}
    if not database["NAME"] and "service" not in options:
        raise EnvError("DATABASE_URL must name the database: postgresql://user:password@host/name.")
    try:
        psycopg.conninfo.make_conninfo(**options)
        if "connect_timeout" in options:
            psycopg.conninfo.timeout_from_conninfo(options)
    except psycopg.ProgrammingError:
        raise EnvError(
            "DATABASE_URL has an option after its ? that PostgreSQL does not take. In passwords, write %3F for ?."
        ) from None
    return database


try:
    # --- Required settings ------------------------------------------------------------------------------------
    # The image turns it on: a container without settings is a mistake, not a development server.
    if env.bool("PRODUCTION", False) and (_unset := [name for name in NEEDED if not env.str(name, "")]):
        raise EnvError(
            f"{', '.join(_unset)} must be set, directly or with NAME_FILE as the path of a file that holds the value."
            " See docs/operators.md. (For a development server, set PRODUCTION=false.)"
        )

    # --- Where the data is ------------------------------------------------------------------------------------
    DATA_DIR = data_folder.data_dir()
    DATABASE_URL = env.str("DATABASE_URL", "") or data_folder.database_url(DATA_DIR)
    REDIS_URL = env.str("REDIS_URL", "") or data_folder.redis_url(DATA_DIR)
    if not REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
        raise EnvError("REDIS_URL must start with redis://, rediss:// or unix://.")
    _need_readable("REDIS_URL", REDIS_URL)
    _need_redis(REDIS_URL)

    # --- Secrets ----------------------------------------------------------------------------------------------
    # Without SECRET_KEY this is development, and the secrets are in a 0600 file of DATA_DIR. With a DATABASE_URL that
    # file is only read (`make run` makes it), so that a production without secrets cannot start.
    DEVELOPMENT = not env.str("SECRET_KEY", "")
    if bool(env.str("ENCRYPTION_KEYS", "")) == DEVELOPMENT:  # one of the two is missing
        both = ("ENCRYPTION_KEYS", "SECRET_KEY") if DEVELOPMENT else ("SECRET_KEY", "ENCRYPTION_KEYS")
        raise EnvError(
            f"{' is set without '.join(both)}. Set both, or unset both to have them read from"
            f" {Layout(DATA_DIR).secrets}."
        )
    _secrets: dict[str, str] = {}
    if DEVELOPMENT:
        _secrets = secrets(DATA_DIR, create=not env.str("DATABASE_URL", ""))
        if not _secrets:
            raise EnvError(
                f"SECRET_KEY is not set, and there is no {Layout(DATA_DIR).secrets}. With `make run`, start it once"
                " with this DATA_DIR, or set the DATA_DIR that it uses. In production, set SECRET_KEY and"
                " ENCRYPTION_KEYS to the service's own; a new service needs 50 random characters and a Fernet key."
            )
        SECRET_KEY = _secrets["SECRET_KEY"]
        ENCRYPTION_KEYS = _secrets["ENCRYPTION_KEYS"].split(",")
    else:
        # Not stripped: a line break in the file is part of the key that signed sessions and merchants' cursors.
        SECRET_KEY = FileAwareEnv().str("SECRET_KEY")
        ENCRYPTION_KEYS = env.list("ENCRYPTION_KEYS")
    _need_unguessable("SECRET_KEY", [SECRET_KEY])
    # Former keys. They sign nothing new, but what they signed stays valid, also with the line break that was part of a
    # key from a file.
    _former = [*env.list("SECRET_KEY_FALLBACKS", []), *_secrets.get("SECRET_KEY_FALLBACKS", "").split(",")]
    _fallbacks = [key.strip() for key in _former if key.strip()]
    _need_unguessable("SECRET_KEY_FALLBACKS", _fallbacks)
    SECRET_KEY_FALLBACKS = [each for key in _fallbacks for each in (key, f"{key}\n")]
    ENCRYPTION_KEYS = [key.strip() for key in ENCRYPTION_KEYS]
    if not all(re.fullmatch(r"[A-Za-z0-9_+/-]{43}=", key, re.ASCII) for key in ENCRYPTION_KEYS):
        raise EnvError("ENCRYPTION_KEYS must be Fernet keys (32 bytes in URL-safe base64), separated by commas.")

    # --- Who may talk to it, and how often --------------------------------------------------------------------
    DEBUG = env.bool("DEBUG", False)
    if DEBUG and not DEVELOPMENT:
        raise EnvError("DEBUG must be off when SECRET_KEY is set, because its error pages show code and data.")
    DEMO = env.bool("DEMO", False)  # make the demo data at the start
    if DEMO and not DEVELOPMENT:
        raise EnvError(
            "DEMO must be off when SECRET_KEY is set, because it makes people whose one password is in the log."
        )
    HTTPS = env.bool("HTTPS", not DEVELOPMENT)
    ALLOWED_HOSTS = [host.strip() for host in env.list("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])]
    # Other values would match no host, and Django would refuse all requests.
    _host = re.compile(r"\*|[a-z0-9.-]*[a-z0-9-]|\[[a-f0-9]*:[a-f0-9.:]+\]", re.ASCII | re.IGNORECASE)
    if not ALLOWED_HOSTS or not all(map(_host.fullmatch, ALLOWED_HOSTS)):
        raise EnvError(
            "ALLOWED_HOSTS must be host names separated by commas, without https:// or a port: shop.example, or"
            " .shop.example to include its subdomains."
        )
    if "*" in ALLOWED_HOSTS and not DEVELOPMENT:
        raise EnvError(
            "ALLOWED_HOSTS must not contain *, which lets strangers choose where password links lead. Name your hosts."
        )
    CSRF_TRUSTED_ORIGINS = [origin.strip() for origin in env.list("CSRF_TRUSTED_ORIGINS", [])]
    if not all(re.fullmatch(r"https?://(\*\.)?[^/*\s]+", origin) for origin in CSRF_TRUSTED_ORIGINS):
        raise EnvError(
            "CSRF_TRUSTED_ORIGINS must be origins separated by commas, without a path: https://shop.example."
        )
    # How many reverse proxies are in front and append to X-Forwarded-For; 0: the header is ignored.
    TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", 0, validate=validate.Range(min=0, max=10))
    API_RATE_LIMIT = env.int("API_RATE_LIMIT", 60, validate=validate.Range(min=1, max=1_000_000))
    # Pages per minute for a signed-in person. A call screen makes 15 requests a minute by itself, in each tab.
    PAGE_RATE_LIMIT = env.int("PAGE_RATE_LIMIT", 600, validate=validate.Range(min=60, max=1_000_000))

    # --- How long data is kept, in days -----------------------------------------------------------------------
    # Rows are found by the time in their ids, which begins in 1970; 27 years stay well after that.
    MOST_RETENTION_DAYS = 10_000
    DELIVERY_RETENTION_DAYS = env.int(
        "DELIVERY_RETENTION_DAYS", 90, validate=validate.Range(min=1, max=MOST_RETENTION_DAYS)
    )
    # From an order's end until its customer is anonymised; 0: never.
    CUSTOMER_RETENTION_DAYS = env.int("CUSTOMER_RETENTION_DAYS", 730, validate=validate.Range(min=0, max=36_500))
    if 0 < CUSTOMER_RETENTION_DAYS < DELIVERY_RETENTION_DAYS:
        raise EnvError(
            "CUSTOMER_RETENTION_DAYS must be 0 (never) or at least DELIVERY_RETENTION_DAYS,"
            " because deliveries contain customers' data."
        )

    # --- Calling rules: the bounds of what merchants may set --------------------------------------------------
    CALLING_EARLIEST = env.time("CALLING_EARLIEST", time(8))
    CALLING_LATEST = env.time("CALLING_LATEST", time(21))
    if CALLING_EARLIEST.tzinfo or CALLING_LATEST.tzinfo:
        raise EnvError("CALLING_EARLIEST and CALLING_LATEST must be times in Algeria, without a UTC offset: 08:00.")
    if CALLING_EARLIEST >= CALLING_LATEST:
        raise EnvError("CALLING_EARLIEST must be before CALLING_LATEST.")
    CALLING_LEAST_MINUTES = env.int("CALLING_LEAST_MINUTES", 30, validate=validate.Range(min=5, max=7 * 24 * 60))
    CALLING_MOST_TRIES = env.int("CALLING_MOST_TRIES", 10, validate=validate.Range(min=1, max=50))

    # --- Webhooks ---------------------------------------------------------------------------------------------
    # For development on one machine: webhooks may be http: and lead to private addresses.
    WEBHOOK_ALLOW_PRIVATE = env.bool("WEBHOOK_ALLOW_PRIVATE", False)
    if WEBHOOK_ALLOW_PRIVATE and HTTPS:
        raise EnvError(
            "WEBHOOK_ALLOW_PRIVATE must be off when HTTPS is on, because it lets merchants reach this network through"
            " webhooks. Unset it."
        )
    # A lookup that takes longer than an attempt may take is of no use; glibc would try for ten seconds and more. Set
    # here because there are no threads yet: writing to the environment while another thread reads it, as C libraries
    # do, can end the process.
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:2")
    # A PEM file of authorities that are trusted for receivers besides the system's.
    WEBHOOK_CA_FILE = env.str("WEBHOOK_CA_FILE", "") or None
    try:
        if WEBHOOK_CA_FILE:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(WEBHOOK_CA_FILE)
    except OSError:
        raise EnvError("WEBHOOK_CA_FILE must be the path of a readable file of PEM certificates.") from None

    # --- E-mail -----------------------------------------------------------------------------------------------
    _need_readable("EMAIL_URL", env.str("EMAIL_URL", ""))
    _mail = urlsplit(env.str("EMAIL_URL", "console:"))
    if _mail.scheme not in ("smtp", "smtps", "submission", "submit", "console"):
        raise EnvError("EMAIL_URL must start with smtp://, smtps://, submission:// or console:.")
    # For smtp:// the library makes up a host.
    if _mail.scheme != "console" and not _mail.hostname:
        raise EnvError("EMAIL_URL must name the mail server: submission://user:password@host:587.")
    _email = env.dj_email_url("EMAIL_URL", "console:")
    # The library reads ssl=require, and tls=on beside ssl=off, as no TLS at all.
    _is_encrypted = _email["EMAIL_USE_TLS"] or _email["EMAIL_USE_SSL"]
    if _mail.query and not (_is_encrypted and parse_qs(_mail.query, keep_blank_values=True).keys() <= {"ssl", "tls"}):
        raise EnvError("EMAIL_URL takes only ssl=on or tls=on after its ?. In passwords, write %3F for ?.")
    EMAIL_BACKEND = _email["EMAIL_BACKEND"]
    EMAIL_HOST = _email["EMAIL_HOST"]
    EMAIL_PORT = _email["EMAIL_PORT"] or 465  # for smtps:// without a port
    EMAIL_HOST_USER = _email["EMAIL_HOST_USER"]
    EMAIL_HOST_PASSWORD = _email["EMAIL_HOST_PASSWORD"]
    if not f"{EMAIL_HOST_USER}{EMAIL_HOST_PASSWORD}".isascii():  # smtplib logs in with ASCII alone
        raise EnvError("EMAIL_URL must have a user and a password of ASCII letters, digits and signs.")
    EMAIL_TIMEOUT = 10  # seconds that a silent mail server may hold a worker's thread
    # At port 465 TLS begins at once, elsewhere by STARTTLS (RFC 8314).
    EMAIL_USE_SSL = _email["EMAIL_USE_SSL"] or (_is_encrypted and EMAIL_PORT == 465)
    EMAIL_USE_TLS = _is_encrypted and not EMAIL_USE_SSL
    DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", "codservice@localhost")
    _need_sender(DEFAULT_FROM_EMAIL)

    # --- Logs, metrics, and where errors and traces go --------------------------------------------------------
    LOG_LEVEL = env.str("LOG_LEVEL", "INFO", validate=validate.OneOf(["DEBUG", "INFO", "WARNING", "ERROR"]))
    # The token for /metrics from other hosts, and the port where a worker serves its metrics; 0: none.
    METRICS_TOKEN = env.str("METRICS_TOKEN", "")
    if METRICS_TOKEN and not re.fullmatch(r"[ -~]{16,}", METRICS_TOKEN):  # what a header can hold
        raise EnvError("METRICS_TOKEN must have at least 16 characters, all of them ASCII.")
    METRICS_PORT = env.int("METRICS_PORT", 0, validate=validate.Range(min=0, max=65535))
    # Errors to Sentry, traces to OpenTelemetry; both need more packages.
    SENTRY_DSN = env.str(
        "SENTRY_DSN",
        "",
        validate=validate.Regexp(
            r"(https?://\w+(:\w+)?@[^/?#@]+/(.*/)?\d+)?$",
            error="Must be a DSN from Sentry, such as https://key@host/1.",
        ),
    )
    _need_readable("SENTRY_DSN", SENTRY_DSN)
    OTEL_EXPORTER_OTLP_ENDPOINT = env.str(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        validate=validate.Regexp(r"(https?://[^/]+.*)?$", error="Must be an http:// or https:// URL."),
    )
    _need_readable("OTEL_EXPORTER_OTLP_ENDPOINT", OTEL_EXPORTER_OTLP_ENDPOINT)
    if _missing := observability.what_is_missing(
        SENTRY_DSN=SENTRY_DSN, OTEL_EXPORTER_OTLP_ENDPOINT=OTEL_EXPORTER_OTLP_ENDPOINT
    ):
        raise EnvError(_missing)

    # --- Database ---------------------------------------------------------------------------------------------
    DATABASES = {"default": _read_database(DATABASE_URL)}
    # Behind PgBouncer in transaction mode: no session settings and no prepared statements of ours.
    _pgbouncer = env.bool("DATABASE_PGBOUNCER", False)
    # PostgreSQL counts milliseconds in 31 bits.
    _statement_timeout = env.int("DATABASE_STATEMENT_TIMEOUT", 30, validate=validate.Range(min=0, max=2_147_483))
except (EnvError, ValueError, CannotStart) as error:
    raise ImproperlyConfigured(_sentence(error) if isinstance(error, EnvValidationError) else str(error)) from None

# What our statements and psycopg rely on, whatever the server, the database or the role says.
DATABASE_SESSION = {
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "array_nulls": "on",
}
_relied_on = " ".join("-c {}={}".format(name, value.replace(" ", r"\ ")) for name, value in DATABASE_SESSION.items())

_given_options = DATABASES["default"].get("OPTIONS", {})  # DATABASE_URL's own
_session_options: dict[str, Any] = {"prepare_threshold": None}
if not _pgbouncer:
    # The planner overestimates pages of figures: it would compile for longer than they take, and use files for what
    # fits into memory. Parallel queries fail where /dev/shm is full, of which containers have 64 MB, and let one search
    # take several processors. Options of DATABASE_URL come last, and so take precedence.
    _session_options = {
        "prepare_threshold": 1,
        "options": f"-c lock_timeout=2s -c statement_timeout={_statement_timeout}s"
        f" -c idle_in_transaction_session_timeout=60s -c jit=off -c work_mem=16MB"
        f" -c max_parallel_workers_per_gather=0 {_relied_on} {_given_options.get('options', '')}".rstrip(),
    }

# A connection for each request would cost more than half the throughput; the health check replaces a connection
# that a restart of PostgreSQL broke. Statements wait for locks for 2 s at most (then 503, docs/errors.md).
DATABASES["default"] |= {
    "ENGINE": "codservice.postgresql",
    "CONN_MAX_AGE": None,  # also behind PgBouncer: an idle connection to it holds none to PostgreSQL
    "CONN_HEALTH_CHECKS": True,
    "DISABLE_SERVER_SIDE_CURSORS": _pgbouncer,
    "OPTIONS": {
        "connect_timeout": 2,
        # TCP would wait for a quarter of an hour for a host or a link that vanishes. A silence of 5 s is survived; a
        # little later the connection is given up, whether it waits for an answer or to send.
        "keepalives_idle": 5,
        "keepalives_interval": 1,
        "keepalives_count": 5,
        "tcp_user_timeout": 5000,
        "application_name": "codservice",
        **_given_options,  # these take precedence over those above
        "server_side_binding": True,
        **_session_options,
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Apps, middleware, URLs, templates ------------------------------------------------------------------------
INSTALLED_APPS = [
    "agents.apps.ConsoleConfig",  # the admin site at /console/
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_filters",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "rest_framework",
    "drf_spectacular",
    "codservice.operations",
    "codservice.api",
    "codservice.docs",
    "codservice.accounts",
    "codservice.uploads",
    "webhooks",
    "inventory",
    "orders",
    "agents.apps.AgentsConfig",
]
MIDDLEWARE = [
    "codservice.middleware.RequestId",
    "codservice.middleware.HealthChecks",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "codservice.middleware.ApiGate",
    "codservice.middleware.StaticFiles",
    "codservice.middleware.Policies",
    "codservice.middleware.WithoutNul",
    "codservice.middleware.Sessions",
    "codservice.middleware.Language",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "codservice.middleware.Authentication",
    "codservice.middleware.Messages",
    "codservice.middleware.MethodNotAllowedPage",
    "codservice.middleware.SignedIn",
]
APPEND_SLASH = False
ROOT_URLCONF = "codservice.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "codservice.accounts.account_page.seat",
            ],
            "libraries": {"i18n": "codservice.i18n_tags"},
        },
    },
]
SILENCED_SYSTEM_CHECKS = [
    "templates.W003",  # our `i18n` replaces Django's (`codservice.i18n_tags`)
    # No `preload`: anybody may then enter the domain into browsers' own lists, where it stays for years. Whoever owns
    # it has to want that.
    "security.W021",
]

# --- People: who they are, and how long they stay signed in ---------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["codservice.accounts.roles.RolesBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": name}
    for name in (
        "codservice.accounts.passwords.UnlikeThePerson",
        "django.contrib.auth.password_validation.MinimumLengthValidator",
        "django.contrib.auth.password_validation.CommonPasswordValidator",
        "django.contrib.auth.password_validation.NumericPasswordValidator",
    )
]
OTP_TOTP_ISSUER = "codservice"  # our name in apps for one-time codes
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
PASSWORD_RESET_TIMEOUT = 4 * 60 * 60
SESSION_ENGINE = "codservice.accounts.sessions"
SESSION_COOKIE_AGE = 12 * 60 * 60  # a long shift
STAFF_IDLE_SECONDS = 30 * 60  # then staff must sign in again (OWASP ASVS 4, 3.3.2: 12 hours, or 30 minutes idle)
# No other host of the domain, and nobody on a connection without TLS, can set a cookie with this prefix for us.
COOKIE_PREFIX = "__Host-" if HTTPS else ""
SESSION_COOKIE_NAME = f"{COOKIE_PREFIX}sessionid"
CSRF_COOKIE_NAME = f"{COOKIE_PREFIX}csrftoken"
LANGUAGE_COOKIE_NAME = f"{COOKIE_PREFIX}django_language"
MESSAGE_STORAGE = "codservice.middleware.MessageStorage"

# --- What browsers are told: redirects, cookies, headers ------------------------------------------------------
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^api/v1"]  # refused by the API's gate
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS and TRUSTED_PROXIES else None
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
CSRF_FAILURE_VIEW = "codservice.accounts.views.csrf_refused"
CSRF_COOKIE_HTTPONLY = True  # forms carry the token; no script of ours reads the cookie
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- Static files: served by the web processes themselves, compressed and cacheable for ever ------------------
STATIC_URL = "/static/"
# In development they are served from where they are; production collects them first (`manage.py collectstatic`).
STATIC_ROOT = None if DEVELOPMENT else BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = DEVELOPMENT
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # nothing links to the others
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = ("gif", "jpg", "map", "png", "webp", "woff", "woff2")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEVELOPMENT
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# --- Language and time ----------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("fr", "Français"), ("ar-dz", "العربية")]
LOCALE_PATHS = [BASE_DIR / "codservice" / "locale"]
LANGUAGE_COOKIE_AGE = 365 * 24 * 60 * 60
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = HTTPS
TIME_ZONE = "UTC"

# --- Redis: rate counters, and Celery's wake-ups. It may be away: nothing here may hang or raise for long. ----
REDIS_TIMEOUT = 0.2  # seconds, for connecting and for each answer
# Where a connection was closed or a write refused, Redis is asked once more, over a new connection: it was restarted,
# or its address has moved and the server that had it goes on answering as a replica. A slow one is not asked again.
_again = redis.retry.Retry(redis.backoff.NoBackoff(), 1, (redis.ConnectionError, redis.ReadOnlyError))
REDIS_CLIENT = {"socket_timeout": REDIS_TIMEOUT, "socket_connect_timeout": REDIS_TIMEOUT, "retry": _again}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "codservice",
        "OPTIONS": {"serializer": "codservice.wire.CacheSerializer", **REDIS_CLIENT},
    }
}

# --- Celery: wake-ups by Redis, and the clock -----------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
if CELERY_BROKER_URL.startswith("rediss:") and "ssl_cert_reqs=" not in CELERY_BROKER_URL:
    # By default Celery accepts any certificate there; the other Redis clients do not.
    CELERY_BROKER_URL += ("&" if "?" in CELERY_BROKER_URL else "?") + "ssl_cert_reqs=required"
# Workers and beat wait for Redis, however long it is away or answers with errors.
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# A wake-up that Redis does not take at once is given up: beat sends another soon, and the request goes on.
# A worker mostly waits on its connection. When that is dead, because a host or a link has vanished, the health check
# notices within two intervals (in seconds).
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "max_retries": 0,  # for senders; workers that wait for Redis retry by themselves
    "socket_timeout": 5,
    "socket_connect_timeout": REDIS_TIMEOUT,
    "health_check_interval": 5,
}
CELERY_TASK_PUBLISH_RETRY = False
# It cancels none of our tasks, as none is acknowledged late. Without it, each lost connection logs a warning about the
# default of Celery 6.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_TASK_IGNORE_RESULT = True
# Anyone who can write to Redis can start any task with any arguments. JSON executes nothing, and tasks trust no
# argument that matters.
CELERY_ACCEPT_CONTENT = ["json"]
# With it, whoever can write to Redis could stop workers and read their settings.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_DEFAULT_QUEUE = "celery"  # a list in Redis
# Messages that wait in it, beyond which neither beat nor commits send more. Only workers drop what has expired: without
# any, some days of messages would fill Redis.
MOST_MESSAGES = 1000
CELERY_BEAT_SCHEDULER = "codservice.run.beat:Scheduler"
# Messages expire by the clocks of two hosts, beat's and the worker's: after minutes, so that seconds of skew are
# harmless.
CELERY_BEAT_SCHEDULE = {
    # The safety net for wake-ups, and for the workers' own clock: retries must begin at most 30 s late.
    "deliver": {"task": "webhooks.tasks.deliver", "schedule": 5, "options": {"expires": 600}},
    "drop-left-over": {"task": "webhooks.tasks.drop_left_over", "schedule": 30, "options": {"expires": 600}},
    "shorten-claims": {"task": "webhooks.tasks.shorten_claims", "schedule": 60, "options": {"expires": 600}},
    "shorten-claims-of-customers": {"task": "agents.tasks.shorten_claims", "schedule": 60, "options": {"expires": 600}},
    "tell-of-failing": {"task": "webhooks.tasks.tell_of_failing", "schedule": 60, "options": {"expires": 600}},
    "tell-of-key-ends": {
        "task": "codservice.operations.tasks.tell_of_key_ends",
        "schedule": 600,
        "options": {"expires": 600},
    },
    # A sign of life, useless when it is old; `check_service` reports a skew of this size.
    "note-beat": {"task": "codservice.operations.tasks.note_beat", "schedule": 10, "options": {"expires": 60}},
    # Runs every minute, for some seconds, until the day's round is over.
    "prune": {"task": "codservice.operations.tasks.prune", "schedule": 60, "options": {"expires": 600}},
    "count-pending-orders": {"task": "orders.tasks.count_pending_orders", "schedule": 60, "options": {"expires": 60}},
    "sum-up-days": {"task": "orders.tasks.sum_up_days", "schedule": 60, "options": {"expires": 60}},
    "index-texts": {"task": "orders.tasks.index_texts", "schedule": 60, "options": {"expires": 60}},
    "fold-order-counts": {"task": "orders.tasks.fold_order_counts", "schedule": 10, "options": {"expires": 600}},
    "forget-idempotency-keys": {
        "task": "codservice.api.tasks.forget_idempotency_keys",
        "schedule": 600,
        "options": {"expires": 600},
    },
}
# Tasks that each worker runs by itself, also while Redis or beat is away, with the seconds between runs.
WORKER_SCHEDULE = {
    "webhooks.tasks.deliver": 5,
    "webhooks.tasks.recover": 10,
    "codservice.operations.tasks.note_worker": 10,
    "codservice.uploads.tasks.go_on": 2,
}

# --- The API --------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["codservice.accounts.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["codservice.api.permissions.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["codservice.api.adapters.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["codservice.api.adapters.ExactJSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "codservice.api.adapters.AlwaysJSON",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "codservice.api.schema.Schema",
    "EXCEPTION_HANDLER": "codservice.api.error_answers.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "codservice API",
    "VERSION": __version__,
    "DESCRIPTION": "Cash-on-delivery orders for Algerian merchants. Send `Authorization: Bearer <API_KEY>`. Besides the"
    " answers that are listed, any call can get 400 `bad_request`, 408 `request_timeout`, 414 `uri_too_long` and"
    " 431 `headers_too_large`, where the request itself cannot be read.",
    "OAS_VERSION": "3.1.0",
    "COMPONENT_SPLIT_REQUEST": True,
    "PATH_CONVERTER_OVERRIDES": {"id": {"type": "string", "format": "uuid"}},
    "POSTPROCESSING_HOOKS": ["codservice.api.schema.finish"],
    "WEBHOOKS": [
        "orders.openapi.CREATED",
        "orders.openapi.UPDATED",
        "orders.openapi.CALL_ATTEMPTED",
        "orders.openapi.CONFIRMED",
        "orders.openapi.CANCELLED",
        "orders.openapi.SHIPPED",
        "orders.openapi.DELIVERED",
        "orders.openapi.RETURNED",
        "inventory.openapi.PRODUCT",
        "inventory.openapi.STOCK",
        "webhooks.openapi.PING",
    ],
}

# --- Logs -----------------------------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "codservice.logs.formatter", "readable": DEVELOPMENT}},
    "filters": {"expected": {"()": "codservice.logs.ExpectedRefusals"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["expected"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # Beat sends a task every few seconds; that each was sent, received and done is for debugging only.
        "celery": {"level": LOG_LEVEL if LOG_LEVEL in ("DEBUG", "ERROR") else "WARNING"},
        # That a message came while a worker stopped, and went back to its queue, is nothing to warn of.
        "kombu.transport.virtual.base": {"level": "ERROR"},
        # Clients read their 4xx in the answer; they do not belong in our log.
        "django.request": {"level": "ERROR", "filters": ["expected"]},
    },
}
