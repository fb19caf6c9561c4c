"""A signature of a served model that a test holds back."""

import threading


class Held:
    """A signature that waits, counts its calls, and keeps what it was asked."""

    def __init__(self, signature):
        self.signature, self.calls, self.free, self.begun = signature, [], threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.signature, name)

    def __call__(self, values):
        self.begun.set()
        assert self.free.wait(20)
        self.calls.append(list(values["text"]))
        return self.signature(values)
