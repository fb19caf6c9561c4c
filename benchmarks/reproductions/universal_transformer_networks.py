"""The networks that `universal_transformer_babi` compares."""

import dataclasses

STEPS, MAX_STEPS = 4, 6


@dataclasses.dataclass(frozen=True)
class Case:
    """A network to compare."""

    title: str
    model: str
    numbers: dict
    ponder_weight: float = 0.0


# Halting as in tensor2tensor.
ADAPTIVE = {"num_layers": STEPS, "max_steps": MAX_STEPS, "force_halt": False, "freeze_halted": False}
CASES = {
    "universal": Case(f"Universal Transformer, {STEPS} steps", "story_universal_transformer", {"num_layers": STEPS}),
    "adaptive": Case(
        f"Universal Transformer, adaptive, at most {MAX_STEPS} steps, ponder weight 0.01",
        "story_adaptive_universal_transformer", ADAPTIVE, 0.01,
    ),
    "frugal": Case(
        f"Universal Transformer, adaptive, at most {MAX_STEPS} steps, ponder weight 0.05",
        "story_adaptive_universal_transformer", ADAPTIVE, 0.05,
    ),
    "shallow": Case("Transformer, 1 layer (equal parameters)", "story_transformer", {"num_layers": 1}),
    "deep": Case(f"Transformer, {STEPS} layers (equal compute)", "story_transformer", {"num_layers": STEPS}),
}  # fmt: skip


PEERS = "universal", "adaptive", "frugal"  # those that tensor2tensor has too
