"""Owns the traces of requests: FastAPI's HTTP spans, with added attributes of the generation, named
as in OpenTelemetry's semantic conventions for generative AI where these have a name."""

from __future__ import annotations

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace

from specguide.engine import RequestDelta
from specguide.host.release import extra
from specguide.server.config import Exposure

_UNTRACED = ("/health", "/ready", "/metrics")


def telemetry(exposure: Exposure, model_name: str) -> TelemetryConfig | None:
    """FastAPI's setting: spans go to the endpoint; without one, to the exporter that the process
    that makes the application has set up. Raises InvalidParams where the extra [otel] is
    missing."""
    if exposure.otlp_traces_endpoint is None:
        return None
    with extra("otel", "otlp_traces_endpoint", "otlp_traces_endpoint"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    service = {"service.name": "specguide", "gen_ai.request.model": model_name}
    provider = TracerProvider(resource=Resource.create(service))
    exporter = OTLPSpanExporter(endpoint=exposure.otlp_traces_endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return {
        "tracer_provider": provider,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "exclude": lambda scope: scope.get("path", "").endswith(_UNTRACED),
    }


def note_generation(delta: RequestDelta) -> None:
    """Add attributes of one generated sample to the current request's span.

    delta: the last one of a sample
    """
    metrics = delta.metrics
    if metrics is None:
        return
    span = trace.get_current_span()
    if not span.is_recording():
        return
    span.add_event(
        "generation",
        {
            "gen_ai.response.finish_reason": delta.finish_reason or "",
            "gen_ai.usage.input_tokens": metrics.prompt_tokens,
            "gen_ai.usage.output_tokens": metrics.output_tokens,
            "specguide.queue_s": metrics.queue_s,
            "specguide.time_to_first_token_s": metrics.time_to_first_token_s,
            "specguide.acceptance_length": metrics.acceptance_length,
        },
    )
