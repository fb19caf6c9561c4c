"""Token-document relation (Sun et al., 2020, arXiv 1907.12412, section 3.2.1)."""

from data_pipelines.features import Feature
from xmodels.objectives.token_labels import TokenLabels


class RepeatedTokens(TokenLabels):
    """Predicts whether the token also occurs in another part of its document (1).

    Frequent words of long documents mostly do, so read `repeated_tokens_auc`, or compare the accuracy with
    `repeated_tokens_share`, that of always predicting 1.
    """

    reads = needs = {"repeated_labels": Feature((None,))}
