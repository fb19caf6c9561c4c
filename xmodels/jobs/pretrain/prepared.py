"""What a pretraining consists of, once the flags are read and the network is built."""

import dataclasses
import os
from collections.abc import Mapping

from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.compose import Op
from data_pipelines.records.source import RecordSource
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.jobs.pretrain import length_schedule
from xmodels.jobs.pretrain.options import Options
from xmodels.jobs.pretrain.task_schedule import TaskSchedule
from xmodels.training.recipe import Recipe, Records
from xmodels.training.step.learner import Learner


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a pretraining consists of; all of it fits together.

    Attributes:
        schedule: of the tasks of a system that has several; None of others.
        pairs, held_out_pairs: {name of a task: its labelled records}.
        scoring: makes rows of records ready for an evaluation, in place of what does so for the training.
    """

    options: Options
    source: RecordSource
    tokenizer: Tokenizer
    records: Records
    recipe: Recipe
    learner: Learner
    batches: Batches
    schedule: TaskSchedule | None = None
    pairs: Mapping[str, RecordSource] = dataclasses.field(default_factory=dict)
    held_out_pairs: Mapping[str, RecordSource] = dataclasses.field(default_factory=dict)
    scoring: Op | None = None

    @property
    def size(self) -> str:
        """The name of the size, or of the file that gives the numbers of the network."""
        file = self.options.model_config_file
        return os.path.basename(file) if file else self.options.size

    @property
    def phases(self) -> str:
        """What --task_schedule or --length_schedule make of the run; empty without them."""
        if self.schedule:
            return self.schedule.describe()
        recipe, longest = self.recipe, self.records.sequence_length
        if not recipe.length_schedule:
            return ""
        found = length_schedule.phases(recipe.length_schedule, recipe.num_steps, longest)
        return length_schedule.describe(found, recipe.batch_size, longest)

    def scored(self) -> dict[str, Batches]:
        """{name of a stream: its batches} of those that an evaluation scores: all tasks, but one length only."""
        streams = {name: stream.batches for name, stream in self.learner.streams.items()}
        if self.schedule:
            return streams
        name, batches = next(iter(streams.items()))
        return {name: dataclasses.replace(batches, transform=self.scoring) if self.scoring else batches}

    @property
    def hidden(self) -> str:
        """Which share of the tokens the training hides, and which one an evaluation; empty where both are the same."""
        if not self.scoring:
            return ""
        share = self.source.manifest.settings.masked_lm_prob
        return f"{self.records.masking_rate:.0%} of the tokens (or units) are masked, {share:.0%} where the network is scored."

    @property
    def num_parameters(self) -> int:
        """Weights of the network and its heads."""
        return self.learner.backbone.count_params() + self.learner.objective.count_params()
