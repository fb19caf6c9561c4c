"""What tells causal networks apart, and the objective that turns their states into tokens."""

from collections.abc import Mapping

import numpy as np

from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.objectives.base import Objective
from xmodels.objectives.causal_lm import CausalLM
from xmodels.objectives.untied_lm import UntiedLM


def generates(network: type[Backbone]) -> bool:
    """Whether a network can continue texts by itself, not only translate them."""
    return "target_ids" not in network.reads and hasattr(network, "decode") and hasattr(network, "start")


def remembers(network: type[Backbone]) -> bool:
    """Whether a network carries a memory from segment to segment."""
    return network.carries_memory


def names_next_tokens(network: type[Backbone]) -> bool:
    """Whether a network names the token that follows, from those before it alone."""
    return generates(network) or remembers(network)


def objective_of(backbone: Backbone, values: Mapping[str, np.ndarray], source: str) -> Objective:
    """The objective that a causal network was trained with, with its weights: tied logits where it has none.

    Raises:
        CheckpointError: the weights of its softmax are missing.
    """
    if hasattr(backbone.embedding, "tables"):
        objective = AdaptiveLM(backbone.config)
    elif any(name.startswith("objective.untied_lm.") for name in values):
        objective = UntiedLM(backbone.config)
    else:
        objective = CausalLM()
    folder.assign(objective.prefix, objective, values, source)
    return objective
