"""Serves SavedModels until SIGTERM."""

from data_pipelines.quiet import quiet_start
from xmodels.jobs import early
from xmodels.jobs.serve.options import Options
from xmodels.serving.limits import Limits
from xmodels.serving.sources import find_sources


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
    sources = find_sources(options.export_dir, options.name, options.model_config_file, options.version_policy)
    address = server.Address(options.host, options.port, options.grpc_port)
    allowed = tuple(name.strip() for name in options.allowed_hosts.split(",") if name.strip())
    origins = hosts.origins_of(options.allowed_origins)
    server.serve(
        sources, address, limits, options.poll_seconds, options.log_requests, options.trust_graph, allowed, origins
    )
