"""Django's PostgreSQL backend, `ENGINE = "codservice.postgresql"`: a health check that costs no round trip, and a
database that takes no writes is one that is away."""
