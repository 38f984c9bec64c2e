import os

import dj_database_url

SECRET_KEY = "bench"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "idiomatic"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "idiomatic.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
MIGRATION_MODULES = {"auth": None, "contenttypes": None}  # all tables are made from the models at once
DATABASES = {"default": dj_database_url.parse(os.environ["PEER_DATABASE_URL"], conn_max_age=None)}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": os.environ["PEER_REDIS_URL"]}
}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["idiomatic.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.UserRateThrottle"],
    # The throttle keeps the times of all requests in its window, and reads and writes them all at each request. With a
    # lifted limit by the minute, like ours, that would be ten thousand; a second has about as many as a usual minute.
    "DEFAULT_THROTTLE_RATES": {"user": "1000000/second"},
}
