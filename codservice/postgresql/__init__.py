"""Django's PostgreSQL backend, `ENGINE = "codservice.postgresql"`: a health check that costs no round trip, and a
database that takes no writes, or is too old, is one that is away."""

OLDEST_POSTGRES = 15
