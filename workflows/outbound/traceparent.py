"""The trace that a question is asked in, as W3C Trace Context writes it.

Lives here: reading it from OpenTelemetry, where the project uses that. Nothing is imported for it.
"""

from __future__ import annotations

import sys


def find_traceparent() -> str | None:
    """The trace that is current on this thread.

    >>> find_traceparent()
    '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
