"""The names of the poolings for fine-tuning. Light to import, so that `--help` can list them without Keras."""

PUBLISHED = "published"  # the pooling of the system's paper, such as BERT's pooler
POOLINGS = (PUBLISHED, "first", "last", "mean", "max", "mean_sqrt_len", "weighted_mean", "attention")
JOINT = "+"
KNOWN = f"one of {', '.join(POOLINGS)}; all but {PUBLISHED} can be joined, each once, such as mean{JOINT}max"


def parts(pooling: str) -> tuple[str, ...]:
    """Returns the poolings that a name joins: ("mean", "max") for "mean+max"."""
    return tuple(pooling.split(JOINT))


def is_known(pooling: str) -> bool:
    """Whether the name is in `POOLINGS`, or joins several of them but "published" with +, each once."""
    found = parts(pooling)
    return pooling in POOLINGS or (set(found) <= set(POOLINGS[1:]) and len(set(found)) == len(found))
