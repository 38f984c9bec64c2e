# One image for every role; the command chooses:
#   python -m codservice.run.web       web processes on port 8000 (the default)
#   python -m codservice.run.worker    sends deliveries
#   python -m codservice.run.beat      the clock
#   python -m codservice.run.prepare   migrations and the first operator; runs once before the others
# PostgreSQL and Redis run elsewhere: DATABASE_URL, REDIS_URL. See docs/operators.md, "More than one machine".
# Health checks differ by role, so they are in compose.yaml and docs/operations/kubernetes.

# By digest after docs/operations/compose/pin-images.sh.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY image/packages.sh image/
COPY codservice/onebox/requirements.txt codservice/onebox/
COPY requirements.txt ./
# Sentry and OpenTelemetry are included: they do nothing until their settings name an address.
COPY codservice/observability/requirements.txt codservice/observability/
RUN sh image/packages.sh /venv requirements.txt codservice/observability/requirements.txt
ENV PATH=/venv/bin:$PATH
COPY . ./
# The settings need these values. Nothing connects to them, and none of them stays in the image.
RUN SECRET_KEY=nothing-that-is-built-here-is-ever-signed-with-this ENCRYPTION_KEYS=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= \
    DATABASE_URL=postgresql://build/build REDIS_URL=redis://build \
    sh image/application.sh /venv

# The base image without what installs software, and with Python's own modules compiled.
FROM ${PYTHON_IMAGE} AS system
COPY image/system.sh /
RUN sh /system.sh && rm /system.sh

FROM scratch
# hadolint ignore=DL3067
COPY --from=system / /
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
# The root file system may be read-only: only /tmp is written to (counters, signs of life), and need not survive.
# PRODUCTION makes it refuse to start without its settings, instead of becoming a development server.
ENV PATH=/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PRODUCTION=true \
    PULSE_FILE=/tmp/pulse \
    DATA_DIR=/tmp \
    HOME=/tmp \
    HOST=0.0.0.0 \
    PORT=8000 \
    MALLOC_ARENA_MAX=2 \
    CELERY_SKIP_CHECKS=true
USER 10001:10001
EXPOSE 8000
CMD ["python", "-m", "codservice.run.web"]
