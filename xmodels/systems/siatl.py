"""SiATL (Chronopoulou et al., 2019): an LSTM language model that is fine-tuned in one step, beside its own loss, layer after layer."""

import dataclasses

from keras import ops

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.frames import Frame
from data_pipelines.text.vocabulary import SEP, Vocabulary
from xmodels.interfaces.reading import Reading, as_published, last_token
from xmodels.interfaces.writing import Writing
from xmodels.layers.attentive_lstm import AttentiveLstm
from xmodels.layers.initialization import GlorotUniform
from xmodels.models.siatl import SIZES, Siatl, SiatlConfig
from xmodels.objectives.tied_lm import TiedLM
from xmodels.training.finetuning import AUXILIARY_LM, TOKENS, FineTuning
from xmodels.training.optimizers.groups import Group
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Siatl, False
# Sections 3.2 and 4.2, and the code of the authors: a new LSTM of 100 with attention reads the states of the language model.
READING = Reading(
    frame=Frame.of(f"A {SEP} (B {SEP})", whole_is_last=True),
    summary=last_token,
    make_network=lambda config: AttentiveLstm(100, dropout=0.3),
    make_initializer=lambda stddev: GlorotUniform(),
    head_dropout=0.0,
    default_pooling=as_published,
    numbers={
        "learning_rate": 5e-4, "warmup_proportion": 0.0, "optimizer": "adam", "adam_beta2": 0.999, "adam_epsilon": 1e-8,
        "lr_schedule": "constant", "clip_norm": 1.0, "auxiliary_lm_weight": 0.2019, "gradual_unfreezing": 1.0,
    },
)  # fmt: skip
WRITING = Writing(objective=TiedLM)

LAYERS = r"^backbone\.(recurrent_layers|down)\.|^objective\.language_model\."
EMBEDDING, DOWN = r"^backbone\.embedding\.", r"^backbone\.down\."
# The weight of the language model falls by exp(-0.05) after each of the first epochs, from 0.2 to 0.1.
DECAY, DECAYS = 0.05, 14


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Numbers of the fine-tuning, of which `finetune --set` gives others.

    Attributes:
        layers_rate, embedding_rate: learning rates of plain gradient descent.
        dropout, word_dropout, locked_input_dropout, locked_output_dropout: see `SiatlConfig`; the pretraining drops other things.
        reference_groups: groups as in the authors' code: `down` stays as it is, and the embedding, which is the output matrix too,
            learns with the layers.
    """

    layers_rate: float = 1e-2
    embedding_rate: float = 1e-4
    dropout: float = 0.4
    word_dropout: float = 0.2
    locked_input_dropout: float = 0.1
    locked_output_dropout: float = 0.1
    reference_groups: bool = False

    def __post_init__(self):
        for name, value in vars(self).items():
            if value < 0 or (name.endswith("dropout") and value >= 1):
                expected = "from 0 to below 1" if name.endswith("dropout") else "0 or more"
                raise ValueError(f"`{name}` must be {expected}. Received: {value}.")

    def network(self) -> dict[str, float]:
        """Returns the fields of the network's configuration that change."""
        own = {name: rate for name, rate in vars(self).items() if name.endswith("dropout")}
        return own | {"input_dropout": 0.0, "input_noise": 0.0}


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: SiatlConfig | None = None) -> Recipe:
    """Returns the recipe of section 4.1: Adam at 1e-4, batches of 32, norm of gradients at most 5, 30 epochs of 20 million
    tweets. Here texts are streams, whose state is carried from batch to batch, and the numbers are those of the paper."""
    config = config or SiatlConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Siatl(config),
        objective=lambda: TiedLM(config),
        frame=frame_run(records.sequence_length),
        batch_size=32,
        num_steps=18_750_000,
        learning_rate=1e-4,
        num_warmup_steps=0,
        optimizer="adam",
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        schedule="constant",
        clip_norm=5.0,
        packings=("stream",),
    )


def finetuning(task: str, network: SiatlConfig, options, own: FineTuningOptions | None = None) -> FineTuning:
    """Returns the new layers learn from the first epoch, the LSTMs and the output layer from the second, and the embedding from
    the fifth on (--gradual_unfreezing=1), each group with an optimizer and a clipping of its own. The loss of the language
    model counts 0.2 of that of the task (--auxiliary_lm_weight) and falls to 0.1 in 14 epochs.

    Averaged gradient descent of the authors' code begins to average after a million steps; it is plain gradient descent here."""
    own, epoch = own or FineTuningOptions(), options.gradual_unfreezing / options.num_train_epochs
    descent = {"optimizer": "sgd", "schedule": "constant", "clip_norm": options.clip_norm}
    groups = [Group("task", r"^objective\.(?!language_model\.)", clip_norm=options.clip_norm)]
    if own.reference_groups:
        groups.append(Group("down", DOWN, begins=None))
        groups.append(Group("layers", f"{LAYERS}|{EMBEDDING}", **descent, learning_rate=own.layers_rate, begins=epoch))
    else:
        groups.append(Group("layers", LAYERS, **descent, learning_rate=own.layers_rate, begins=epoch))
        groups.append(Group("embedding", EMBEDDING, **descent, learning_rate=own.embedding_rate, begins=4 * epoch))
    weight = lm_weight(options.auxiliary_lm_weight, options.num_train_epochs)
    return FineTuning(tuple(groups), {AUXILIARY_LM: weight}, TOKENS, network=own.network())


def lm_weight(first: float, num_epochs: float):
    """Returns the weight of the language model's loss as a function of the progress; `first` itself if it is 0.

    It is first * exp(-0.05 k) in the epoch k from 0 on, and after 14 epochs stays as it is: from exp(-1.6) to exp(-2.3).
    """
    if not first:
        return first

    def weight(progress):
        epoch = ops.floor(progress * num_epochs + 1e-4)  # of a step that begins one, in spite of rounding
        return first * ops.exp(-DECAY * ops.minimum(epoch, DECAYS))

    return weight
