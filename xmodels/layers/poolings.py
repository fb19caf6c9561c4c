"""The readouts that a fine-tuning knows by name. Light to import, so that `--help` lists them without Keras."""

PUBLISHED = "published"  # what the paper of the system reads, such as BERT's pooler
POOLINGS = (PUBLISHED, "first", "last", "mean", "max", "mean_sqrt_len", "weighted_mean", "attention")
