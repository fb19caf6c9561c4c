"""Serves a SavedModel until SIGTERM."""

from data_pipelines.quiet import quiet_start
from xmodels.jobs import early
from xmodels.jobs.serve.options import Options
from xmodels.serving.folder import find_model
from xmodels.serving.limits import Limits


def serve(options: Options) -> None:
    """Answers requests; returns after SIGTERM, when all are answered."""
    early.check_serving(options)
    with quiet_start():
        from xmodels.serving import hosts, server  # what it needs is an extra, of which the line above knows

    limits = Limits(
        max_body_bytes=options.max_body_bytes,
        max_text_length=options.max_text_length,
        max_batch_size=options.max_batch_size,
        max_waiting=options.max_waiting,
        batch_timeout=options.batch_timeout_ms / 1000,
        client_timeout=options.client_timeout,
        drain_timeout=options.drain_timeout,
    )
    folder = find_model(options.export_dir, options.name)
    allowed = tuple(name.strip() for name in options.allowed_hosts.split(",") if name.strip())
    origins = hosts.origins_of(options.allowed_origins)
    server.serve(
        folder, options.host, options.port, limits, options.log_requests, options.trust_graph, allowed, origins
    )
