"""The arms of a comparison: systems, and what needs no pretraining."""

import dataclasses

from xmodels import systems
from xmodels.comparison.plan import Plan, System

MAJORITY, BAG, VECTORS, RANDOM, NETWORK = "majority", "bag_of_words", "word_vectors", "random", "network"
WORDS = {"tokenizer": "words"}  # what word vectors are of


@dataclasses.dataclass(frozen=True)
class Arm:
    """One row of the tables.

    Attributes:
        kind: "network", fine-tuned after pretraining, or without one; "random", fine-tuned from random weights; "word_vectors",
            averaged; "majority"; "bag_of_words".
        called: the system, as `pretrain --system` names it; None where nothing is pretrained.
        of: the arm whose pretraining gives the size and the vocabulary of random weights.
        start: the arm whose pretraining it begins from; the first one that is pretrained alike, so that none is made twice.
    """

    name: str
    kind: str
    system: System | None = None
    called: str | None = None
    of: str | None = None
    start: str | None = None

    @property
    def is_network(self) -> bool:
        return self.kind in (NETWORK, RANDOM)


def list_arms(plan: Plan) -> list[Arm]:
    """Returns all arms, baselines first."""
    found = [Arm(name, name) for name in (MAJORITY, BAG) if getattr(plan.baselines, name)]
    if plan.baselines.word_vectors:
        found.append(Arm(VECTORS, VECTORS, plan.baselines.word_vectors, systems.for_baseline(VECTORS), start=VECTORS))
    for name in plan.baselines.random:
        system = plan.systems[name]
        found.append(
            Arm(f"{RANDOM}-{name}", RANDOM, system, system.system or name, name, _pretrained_alike(plan, name))
        )
    for name, system in plan.systems.items():
        kind = VECTORS if system.averaged else NETWORK
        pretrained = () if system.new else (system.system or name, None, _pretrained_alike(plan, name))
        found.append(Arm(name, kind, system, *pretrained))
    return found


def _pretrained_alike(plan: Plan, name: str) -> str:
    """Returns the first system of the plan that differs from this one in its fine-tuning at most."""
    return next(other for other in plan.systems if _pretraining(plan, other) == _pretraining(plan, name))


def _pretraining(plan: Plan, name: str) -> System:
    system = plan.systems[name]
    return dataclasses.replace(system, system=system.system or name, finetune={}, tune_finetuning=None)
