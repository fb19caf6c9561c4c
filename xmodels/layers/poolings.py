"""The names of the poolings for fine-tuning. Light to import, so that `--help` can list them without Keras."""

PUBLISHED = "published"  # the pooling of the system's paper, such as BERT's pooler
POOLINGS = (PUBLISHED, "first", "last", "mean", "max", "mean_sqrt_len", "weighted_mean", "attention")
JOINT = "+"
MIX = "mix:"  # before a name: of a learned mix of all layers (`layers.scalar_mix`) instead of the last layer
CHOICES = (*POOLINGS, *(f"{MIX}{name}" for name in POOLINGS[1:]))
KNOWN = (
    f"one of {', '.join(POOLINGS)}; all but {PUBLISHED} can be joined, each once, such as mean{JOINT}max, and read a learned mix of "
    f"all layers, such as {MIX}mean"
)


def is_mixed(pooling: str) -> bool:
    """Returns whether a name is of a pooling of a learned mix of all layers."""
    return pooling.startswith(MIX)


def parts(pooling: str) -> tuple[str, ...]:
    """Returns the poolings that a name joins: ("mean", "max") for "mean+max" and for "mix:mean+max"."""
    return tuple(pooling.removeprefix(MIX).split(JOINT))


def is_known(pooling: str) -> bool:
    """Returns whether the name is in `POOLINGS`, or joins several of them but "published" with +, each once; these may follow
    "mix:"."""
    found = parts(pooling)
    return pooling in POOLINGS or (set(found) <= set(POOLINGS[1:]) and len(set(found)) == len(found))
