"""Numbers about a server, for Prometheus."""

import dataclasses

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What is counted. Each server has a registry of its own. Requests that are for no model have empty names of model and version."""

    def __init__(self):
        self.registry = CollectorRegistry()
        own, labels = {"registry": self.registry, "namespace": "xmodels"}, ["model", "version"]
        ProcessCollector(registry=self.registry)
        self.requests = Counter("requests", "Answered requests.", ["route", "code", *labels], **own)
        self.seconds = Histogram(
            "request_seconds", "From the first byte to the last one of the answer.", ["route", *labels],
            buckets=SECONDS, **own
        )  # fmt: skip
        self.batch_rows = Histogram("batch_rows", "Rows that the network reads at a time.", labels, buckets=ROWS, **own)
        self.batch_seconds = Histogram(
            "batch_seconds", "Seconds of the network for a batch.", labels, buckets=SECONDS, **own
        )
        self.waiting_rows = Gauge("waiting_rows", "Rows that wait for the network.", labels, **own)
        self.dropped_rows = Counter(
            "dropped_rows", "Rows whose clients left before the network read them.", labels, **own
        )

    def count(self, route: str, code: int | str, seconds: float, version: tuple[str, str] = ("", "")) -> None:
        """Counts a request that has been answered by a version of a model, if by any."""
        self.requests.labels(route, code, *version).inc()
        self.seconds.labels(route, *version).observe(seconds)

    def of(self, model: str, version: str) -> "BatchMetrics":
        """Returns what is counted of a version of a model."""
        return BatchMetrics(
            *(
                each.labels(model, version)
                for each in (self.batch_rows, self.batch_seconds, self.waiting_rows, self.dropped_rows)
            )
        )


@dataclasses.dataclass(frozen=True)
class BatchMetrics:
    """What is counted of one queue."""

    batch_rows: Histogram
    batch_seconds: Histogram
    waiting_rows: Gauge
    dropped_rows: Counter
