"""The application of a server for a single model that is loaded already."""

from xmodels.serving.app import make_app
from xmodels.serving.metrics import Metrics
from xmodels.serving.models import fixed


def app_of(model, limits, labels=None, hosts=None):
    """What `make_app` returns for `model`."""
    return make_app(fixed(model, labels, limits, Metrics()), limits, hosts=hosts)
