"""The optimizers by name. Light to import, so that `--help` can list them without TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Kind:
    """A named optimizer.

    Attributes:
        class_name: its class in `optimizers`.
        numbers: its hyperparameters and their defaults, by the names of `Optimization`.
        fixed: further arguments of its class, which cannot be changed.
    """

    class_name: str
    numbers: dict[str, float]
    fixed: dict[str, float | bool] = dataclasses.field(default_factory=dict)


def _adam_like(weight_decay=0.0, beta1=0.9, beta2=0.999, epsilon=1e-8):
    return {"weight_decay": weight_decay, "adam_beta1": beta1, "adam_beta2": beta2, "adam_epsilon": epsilon}


BERT = _adam_like(weight_decay=0.01, epsilon=1e-6)

OPTIMIZERS = {
    "bert_adamw": Kind("BertAdamW", BERT),
    "adamw": Kind("AdamW", BERT),
    "adam": Kind("Adam", _adam_like(beta2=0.98, epsilon=1e-9)),
    "lazy_adam": Kind("LazyAdam", _adam_like()),
    "lamb": Kind("BertLamb", BERT),
    "lamb_corrected": Kind("Lamb", BERT),
    "adamax": Kind("Adamax", _adam_like()),
    "mt_dnn_adamax": Kind("MtDnnAdamax", BERT),
    "muon": Kind("Muon", BERT | {"momentum": 0.95}),
    "adafactor": Kind("Adafactor", {"weight_decay": 0.0}),
    "sgd": Kind("Sgd", {"weight_decay": 0.0, "momentum": 0.0}),
    "sgd_nesterov": Kind("Sgd", {"weight_decay": 0.0, "momentum": 0.9}, {"nesterov": True}),
    "adadelta": Kind("Adadelta", {"weight_decay": 0.0}, {"rho": 0.95, "epsilon": 1e-6}),
    # The accumulators of ELMo and GloVe start at 1, without an epsilon; Keras starts them at 0.1.
    "adagrad": Kind("Adagrad", {"weight_decay": 0.0}, {"initial_accumulator_value": 1.0, "epsilon": 0.0}),
}
