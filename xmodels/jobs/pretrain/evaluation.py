"""What scores a pretraining: evaluations, examples, and what counting alone can name."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.compose import Op, compose
from data_pipelines.records.manifest import RecordSettings
from data_pipelines.records.source import RecordSource
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary
from xmodels import systems
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.neighbours import measure_shares
from xmodels.objectives.base import Objective
from xmodels.objectives.perplexity import of_training
from xmodels.runs.baselines import Baselines
from xmodels.runs.samples import COUNT, join_samplers, make_sampler
from xmodels.training.recipe import Records
from xmodels.training.step.learner import Learner


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """What scores a run, always the same examples with the same masks: read once, and kept."""

    batches: Batches
    num_batches: int | None

    @functools.cached_property
    def kept_batches(self) -> list[dict[str, tf.Tensor]]:
        return list(self.batches.once(self.num_batches))

    def first_examples(self) -> dict[str, tf.Tensor]:
        return {name: value[:COUNT] for name, value in self.kept_batches[0].items()}


def make_scoring_transform(
    system, vocabulary: Vocabulary, training: Records, made_for: RecordSettings, config, own
) -> Op | None:
    """Frames rows and hides as much of them as their records were made for, so that networks which learn from other shares can be
    compared; None where the training does that.

    Args:
        training: the records, with the share that the training hides.
        made_for: the settings of the records.
        own: the system's options.
    """
    share = made_for.masked_lm_prob
    if training.static or share in (None, training.masking_rate) or not hasattr(own, "masking_rate"):
        return None
    slots = systems.slots_of(system, share, training.sequence_length, made_for.max_predictions_per_seq)
    records = dataclasses.replace(training, masking_rate=share, num_predictions=slots)
    recipe = systems.recipe(system, vocabulary, records, config, dataclasses.replace(own, masking_rate=None))
    return compose(recipe.frame, recipe.objective().transform())


def held_out_batches(options, batches: Batches) -> Batches:
    """Returns held-out text, where there is such, else that of the training."""
    if not options.eval_data_dir:
        return batches
    return dataclasses.replace(batches, source=pretraining_records.open_held_out(options, batches.source))


def choose_streams(
    options, streams: Mapping[str, Batches], pairs: Mapping[str, RecordSource], held_out: Mapping[str, RecordSource]
) -> dict[str, Evaluated]:
    """Returns what an evaluation scores, by the name of its stream.

    Args:
        pairs, held_out: the records of --task_data and --eval_task_data by the name of their task.
    """

    def choose_batches(name: str, batches: Batches) -> Batches:
        if name in pairs:
            return dataclasses.replace(batches, source=held_out.get(name, pairs[name]))
        return held_out_batches(options, batches)

    return {name: Evaluated(choose_batches(name, batches), options.eval_steps) for name, batches in streams.items()}


def make_joint_sampler(
    learner: Learner, scored: Mapping[str, Evaluated], tokenizer: Tokenizer, note: str = ""
) -> Callable[[], list]:
    """Predicts examples of all streams that are scored. `note` is that of the recipe."""
    each = {name: make_sampler(learner, one.first_examples, tokenizer, stream=name) for name, one in scored.items()}
    return join_samplers(each, note)


def make_evaluate(learner: Learner, scored: Mapping[str, Evaluated], kind: str) -> Callable[[], dict[str, float]]:
    """Returns what scores the learner. `kind` is that of the tokenizer."""
    if len(scored) > 1:
        return _of_tasks(learner, scored)
    (evaluated,) = scored.values()

    def evaluate() -> dict[str, float]:
        means = learner.evaluate(evaluated.kept_batches)
        return {**means, **of_training(means, kind)}

    return evaluate


def _of_tasks(learner: Learner, scored: Mapping[str, Evaluated]) -> Callable[[], dict[str, float]]:
    """Returns what scores every task. `loss` is the mean over the tasks, which all count alike."""

    def evaluate() -> dict[str, float]:
        found, losses = {}, []
        for name, evaluated in scored.items():
            means = learner.evaluate(evaluated.kept_batches, name)
            losses.append(means.pop("loss"))
            found |= {f"{name}/{measure}": value for measure, value in means.items()}
        return {"loss": sum(losses) / len(losses), **found}

    return evaluate


def count_baselines(
    batches: Batches, scored: list[dict[str, tf.Tensor]], objective: Objective, held_out: bool, special_ids: list[int]
) -> Baselines | None:
    """Returns what counting can name of the tokens of `scored`, learnt from the records of `batches`.

    Args:
        objective: asks for the tokens; of several parts the first that does counts. None is returned where none does.
        held_out: whether `scored` are other records.
        special_ids: of the vocabulary.
    """
    part = next((part for part in objective.parts if part.context), None)
    if part is None:
        return None
    training = dataclasses.replace(batches, grouping=None).once()
    seen = ({**batch, **objective.target_visibility(batch)} for batch in scored)
    as_arrays = ({name: np.array(value) for name, value in batch.items()} for batch in seen)
    shares = measure_shares(training.as_numpy_iterator(), as_arrays, part.context, held_out, special_ids)
    return Baselines(shares.unigram, shares.neighbours, part.accuracy, shares.visible)


def list_baselines(baselines: Baselines | None) -> dict[str, float]:
    """Returns the baselines among the scores of a model card."""
    named = dataclasses.asdict(baselines) if baselines else {}
    return {name: value for name, value in named.items() if isinstance(value, float)}
