"""Numbers about a server, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What is counted. Each server has a registry of its own."""

    def __init__(self):
        self.registry = CollectorRegistry()
        own = {"registry": self.registry, "namespace": "xmodels"}
        ProcessCollector(registry=self.registry)
        self.requests = Counter("requests", "Answered requests.", ["route", "code"], **own)
        self.seconds = Histogram(
            "request_seconds", "From the first byte to the last one of the answer.", ["route"], buckets=SECONDS, **own
        )
        self.batch_rows = Histogram("batch_rows", "Rows that the network reads at a time.", buckets=ROWS, **own)
        self.batch_seconds = Histogram("batch_seconds", "Seconds of the network for a batch.", buckets=SECONDS, **own)
        self.waiting_rows = Gauge("waiting_rows", "Rows that wait for the network.", **own)
        self.dropped_rows = Counter("dropped_rows", "Rows whose clients left before the network read them.", **own)
