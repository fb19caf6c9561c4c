"""AWD-LSTM (Merity et al., 2017): a language model of LSTMs with dropped weights, which ULMFiT (Howard and Ruder, 2018) fine-tunes."""

import dataclasses

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.frames import Frame
from data_pipelines.text.vocabulary import SEP, Vocabulary
from xmodels.interfaces.reading import Reading, as_published, last_token
from xmodels.interfaces.writing import Writing
from xmodels.layers.concat_pooling import ConcatPooling
from xmodels.layers.initialization import GlorotUniform
from xmodels.models.awd_lstm import SIZES, AwdLstm, AwdLstmConfig
from xmodels.objectives.tied_lm import TiedLM
from xmodels.training.finetuning import AUXILIARY_LM, FineTuning, language_model_phase
from xmodels.training.optimizers.groups import Group
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = AwdLstm, False
# Howard and Ruder, sections 3.3 and 4.1, and the code of the authors: a hidden layer of 50; Adam with beta1 0.7 and beta2 0.99.
READING = Reading(
    frame=Frame.of(f"A {SEP} (B {SEP})", whole_is_last=True),
    summary=last_token,
    make_network=lambda config: ConcatPooling(50, 0.4, GlorotUniform()),
    make_initializer=lambda stddev: GlorotUniform(),
    head_dropout=0.1,
    default_pooling=as_published,
    numbers={
        "learning_rate": 0.01, "warmup_proportion": 0.1, "optimizer": "adam", "adam_beta1": 0.7, "adam_beta2": 0.99,
        "adam_epsilon": 1e-8, "lr_schedule": "slanted_triangular", "clip_norm": 25.0, "weight_decay": 1e-6,
        "gradual_unfreezing": 1.0, "language_model_epochs": 1.0,
    },
)  # fmt: skip
WRITING = Writing(objective=TiedLM)

DECAY = 2.6  # section 3.2: the rate of a layer is that of the one above, divided by this
EMBEDDING = r"^backbone\.embedding\."
DROPOUTS = "dropout", "hidden_dropout", "input_dropout", "embedding_dropout", "weight_dropout"
# Sections 4.1 and the code of the authors: what is dropped while the language model learns the texts of the task, and then the task.
LANGUAGE_MODEL_DROPOUT = dict(zip(DROPOUTS, (0.1, 0.15, 0.25, 0.02, 0.2), strict=True))
TASK_DROPOUT = dict(zip(DROPOUTS, (0.4, 0.3, 0.4, 0.05, 0.5), strict=True))


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Numbers of the fine-tuning, of which `finetune --set` gives others.

    Attributes:
        rate_decay: the rate of a layer is that of the one above, divided by this; 1 for the same rate everywhere.
        language_model_rate: peak of the learning rate while the language model learns the texts of the task.
        dropout_factor: multiplies all rates of dropout of the network; None for its width in parts of the paper's 400, at most 1.
        bptt: gradients flow through at most so many tokens of a text; 0 for all.
    """

    rate_decay: float = DECAY
    language_model_rate: float = 4e-3
    dropout_factor: float | None = None
    bptt: int = 70

    def __post_init__(self):
        for name, expected, fits in (
            ("rate_decay", "1 or more", self.rate_decay >= 1), ("language_model_rate", "above 0", self.language_model_rate > 0),
            ("dropout_factor", "from 0 to below 2", 0 <= (self.dropout_factor or 0.0) < 2), ("bptt", "0 or more", self.bptt >= 0),
        ):  # fmt: skip
            if not fits:
                raise ValueError(f"`{name}` must be {expected}. Received: {getattr(self, name)}.")

    def network(self, dropout: dict[str, float], config: AwdLstmConfig) -> dict[str, float]:
        """Returns the fields of the network's configuration that change, given the rates of dropout of the paper's network."""
        factor = parts_of_published(config) if self.dropout_factor is None else self.dropout_factor
        return {name: factor * rate for name, rate in dropout.items()} | {"bptt": self.bptt}


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: AwdLstmConfig | None = None) -> Recipe:
    """Returns the recipe of section 5 for the Penn Treebank: 20 streams, gradient descent at a constant rate of 30, norm of gradients
    at most 0.25, weight decay of 1.2e-6, 500 epochs of some 660 steps. Of narrower networks than the paper's, whose weights have a
    smaller norm, the rate is smaller in proportion to the width. It is not multiplied by the length of the rows of a step, as in the
    paper: the rows of a batch have different lengths here, and its loss is a mean over all of its tokens."""
    config = config or AwdLstmConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: AwdLstm(config),
        objective=lambda: TiedLM(config),
        frame=frame_run(records.sequence_length),
        batch_size=20,
        num_steps=330_000,
        learning_rate=30.0 * parts_of_published(config),
        num_warmup_steps=0,
        optimizer="sgd",
        weight_decay=1.2e-6,
        schedule="constant",
        clip_norm=0.25,
        packings=("stream", "stream_varied"),
    )


def finetuning(task: str, network: AwdLstmConfig, options, own: FineTuningOptions | None = None) -> FineTuning:
    """Returns ULMFiT: first the language model learns the texts of the task (--language_model_epochs=1), then the task begins with the
    head, and each epoch thaws the next layer, from the top down (--gradual_unfreezing=1). The rate of each layer is that of the one
    above, divided by 2.6. In the first phase the embedding is the layer at the top, since it is the output matrix too."""
    own, epoch = own or FineTuningOptions(), options.gradual_unfreezing / options.num_train_epochs
    layers = tuple(reversed(range(network.num_layers)))
    groups = [
        Group(f"layer_{i}", layer_names(i), rate=own.rate_decay**-depth, begins=depth * epoch)
        for depth, i in enumerate(layers, 1)
    ]
    depth = network.num_layers + 1
    groups.append(Group("embedding", EMBEDDING, rate=own.rate_decay**-depth, begins=depth * epoch))
    phases = ()
    if options.language_model_epochs:
        of_model = [Group(f"layer_{i}", layer_names(i), rate=own.rate_decay**-d) for d, i in enumerate(layers, 1)]
        learning = FineTuning(tuple(of_model), network=own.network(LANGUAGE_MODEL_DROPOUT, network))
        changes = {"learning_rate": own.language_model_rate, "clip_norm": 0.3, "weight_decay": 1e-7}
        phases = (language_model_phase(options.language_model_epochs, learning, **changes),)
    weights = {AUXILIARY_LM: options.auxiliary_lm_weight or 0.0}
    return FineTuning(tuple(groups), weights, network=own.network(TASK_DROPOUT, network), phases=phases)


def parts_of_published(config: AwdLstmConfig) -> float:
    """Returns the width in parts of the paper's, at most 1: numbers for a wide network keep a narrow one from learning."""
    return min(1.0, config.hidden_dim / SIZES["base"]["hidden_dim"])


def layer_names(index: int) -> str:
    """Returns a pattern of the names of the weights of an LSTM."""
    return rf"^backbone\.recurrent_layers\.{index}\."
