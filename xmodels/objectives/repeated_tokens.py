"""Token-document relation (Sun et al., 2020, arXiv 1907.12412, section 3.2.1)."""

from data_pipelines.features import Feature
from xmodels.objectives.token_labels import TokenLabels


class RepeatedTokens(TokenLabels):
    """Does the token stand in another part of its document too (1)? Frequent words of long documents mostly do: compare the accuracy
    with `repeated_tokens_share`."""

    reads = needs = {"repeated_labels": Feature((None,))}
