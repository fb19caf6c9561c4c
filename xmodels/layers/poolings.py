"""The readouts that a fine-tuning knows by name. Light to import, so that `--help` lists them without Keras."""

PUBLISHED = "published"  # what the paper of the system reads, such as BERT's pooler
POOLINGS = (PUBLISHED, "first", "last", "mean", "max", "mean_sqrt_len", "weighted_mean", "attention")
JOINT = "+"
KNOWN = f"one of {', '.join(POOLINGS)}; all but {PUBLISHED} can be joined, each once, such as mean{JOINT}max"


def parts(pooling: str) -> tuple[str, ...]:
    """The poolings that stand side by side in one: of "mean+max" mean and max."""
    return tuple(pooling.split(JOINT))


def is_known(pooling: str) -> bool:
    """Whether this is one of `POOLINGS`, or several of them, each once, joined by +."""
    found = parts(pooling)
    return pooling in POOLINGS or (set(found) <= set(POOLINGS[1:]) and len(set(found)) == len(found))
