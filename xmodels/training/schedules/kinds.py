"""The learning-rate schedules by name. Light to import, so that `--help` can list them without Keras."""

# {name: its class or function in `schedules`}
SCHEDULES = {
    "bert_linear": "WarmupLinearDecay",
    "linear": "_linear",
    "polynomial": "_polynomial",
    "cosine": "_cosine",
    "constant": "_constant",
    "noam": "Noam",
    "inverse_sqrt": "InverseSquareRoot",
    "t5_inverse_sqrt": "Plateau",
    "root_decay": "RootDecay",
    "slanted_triangular": "SlantedTriangular",
    "gpt_linear": "ProductDecay",
}
