# One image for every role; the command chooses:
#   python -m codservice.run.web       web processes on port 8000 (the default)
#   python -m codservice.run.worker    sends deliveries
#   python -m codservice.run.beat      the clock
#   python -m codservice.run.prepare   migrations and the first operator; runs once before the others
# PostgreSQL and Redis are elsewhere: DATABASE_URL, REDIS_URL. docs/operators.md, "More than one machine", tells the rest.

FROM python:3.11-slim-bookworm AS build
WORKDIR /app
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY requirements.txt ./
# Sentry and OpenTelemetry too: they stay silent until their settings name an address.
COPY codservice/observability/requirements.txt codservice/observability/
RUN pip install --no-cache-dir --disable-pip-version-check -r requirements.txt -r codservice/observability/requirements.txt
COPY . ./
# Settings want these; nothing is connected to, and nothing of them stays.
RUN SECRET_KEY=build ENCRYPTION_KEYS=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= \
    DATABASE_URL=postgresql://build/build REDIS_URL=redis://build \
    python manage.py collectstatic --no-input --verbosity 0 \
    && python -m compileall -q .

FROM python:3.11-slim-bookworm
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
# The root file system may be read-only: what is written (beat's schedule, counters) is in /tmp and need not survive.
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DATA_DIR=/tmp \
    HOME=/tmp \
    HOST=0.0.0.0 \
    PORT=8000 \
    MALLOC_ARENA_MAX=2 \
    CELERY_SKIP_CHECKS=true
USER 10001:10001
EXPOSE 8000
# For web; the other roles have nothing to ask, and switch it off.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "from codservice.run.web import Web; raise SystemExit(not Web.from_environ().answers())"]
CMD ["python", "-m", "codservice.run.web"]
