import os

import dj_database_url
import oscar
from oscar.defaults import *  # noqa: F403

SECRET_KEY = "bench"
ALLOWED_HOSTS = ["*"]
SITE_ID = 1
INSTALLED_APPS = [*oscar.INSTALLED_APPS, "rest_framework", "oscarapi"]
MIDDLEWARE = [
    "oscarapi.middleware.ApiGatewayMiddleWare",
    "django.middleware.security.SecurityMiddleware",
    "oscarapi.middleware.HeaderSessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.template.context_processors.i18n",
                "django.contrib.messages.context_processors.messages",
                "oscar.apps.search.context_processors.search_form",
                "oscar.apps.checkout.context_processors.checkout",
                "oscar.apps.communication.notifications.context_processors.notifications",
                "oscar.core.context_processors.metadata",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = [
    "oscar.apps.customer.auth_backends.EmailBackend",
    "django.contrib.auth.backends.ModelBackend",
]
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
ROOT_URLCONF = "shop.urls"
STATIC_URL = "/static/"
USE_TZ = True
DATABASES = {
    # "Note that we recommend using ATOMIC_REQUESTS": Oscar's "Building your own shop".
    "default": dj_database_url.parse(os.environ["PEER_DATABASE_URL"], conn_max_age=None) | {"ATOMIC_REQUESTS": True}
}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": os.environ["PEER_REDIS_URL"]}
}
SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"

OSCAR_DEFAULT_CURRENCY = "DZD"
OSCAR_ALLOW_ANON_CHECKOUT = True
OSCAR_INITIAL_ORDER_STATUS = OSCAR_INITIAL_LINE_STATUS = "Pending"
OSCAR_ORDER_STATUS_PIPELINE = {"Pending": ("Confirmed", "Cancelled"), "Confirmed": (), "Cancelled": ()}
PHONENUMBER_DEFAULT_REGION = "DZ"
