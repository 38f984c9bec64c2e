"""Errors to Sentry and traces to OpenTelemetry, for operators who use them. Off unless the environment configures them.

Their packages are not among the service's own: `pip install -r codservice/observability/requirements.txt`.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from codservice import __version__
from codservice.logs import redacted, request_id

_PACKAGES = {"SENTRY_DSN": "sentry_sdk", "OTEL_EXPORTER_OTLP_ENDPOINT": "opentelemetry.instrumentation.django"}
# Only these span attributes are exported; paths, queries, addresses and arguments are not.
_ATTRIBUTES = {
    "http.method", "http.route", "http.status_code", "http.request.method", "http.response.status_code", "error.type",
    "celery.action", "celery.state", "celery.task_name", "messaging.destination", "messaging.message.id",
    "exception.type", "exception.message", "exception.stacktrace", "exception.escaped",
}  # fmt: skip


def what_is_missing(**settings: str) -> str:
    """A sentence if one of these settings needs packages that are not installed; otherwise empty."""
    for name, value in settings.items():
        if value and not _is_installed(_PACKAGES[name]):
            return f"{name} needs more packages. Run `pip install -r codservice/observability/requirements.txt`."
    return ""


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def start(*, sentry_dsn: str, otlp_endpoint: str) -> None:
    """Start reporting what happens in this process and its forks."""
    if sentry_dsn:
        _start_sentry(sentry_dsn)
    if otlp_endpoint:
        _start_tracing(otlp_endpoint)


# --- Sentry ------------------------------------------------------------------------------------------------------


def _start_sentry(dsn: str) -> None:
    import sentry_sdk
    from sentry_sdk.integrations.argv import ArgvIntegration

    sentry_sdk.init(
        dsn=dsn,
        release=f"codservice@{__version__}",
        send_default_pii=False,
        include_local_variables=False,
        include_source_context=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        disabled_integrations=[ArgvIntegration],  # a command's arguments may be passwords and customers' numbers
        before_send=_before_send,
    )


def _before_send(event: Any, hint: dict[str, Any]) -> Any:
    """Sentry's hook: keep only the request's method and id, and redact every text like a log line."""
    event["request"] = {"method": event.get("request", {}).get("method", "")}
    event["tags"] = {**(event.get("tags") or {}), "request_id": request_id()}
    return _clean(event)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value


# --- OpenTelemetry -----------------------------------------------------------------------------------------------


def _start_tracing(endpoint: str) -> None:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.instrumentation.django import DjangoInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Exporter(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return super().export([_cleaned(span) for span in spans])

    provider = TracerProvider(resource=Resource.create({"service.name": "codservice", "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(Exporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    trace.set_tracer_provider(provider)
    DjangoInstrumentor().instrument()
    CeleryInstrumentor().instrument()


def _cleaned(span: Any) -> Any:
    """The span with its texts redacted like log lines, and only the allowed attributes."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Status

    def allowed(attributes: Any) -> dict[str, Any]:
        return {name: _clean(value) for name, value in (attributes or {}).items() if name in _ATTRIBUTES}

    return ReadableSpan(
        name=redacted(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=allowed(span.attributes),
        events=[Event(each.name, allowed(each.attributes), each.timestamp) for each in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, redacted(span.status.description or "") or None),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
