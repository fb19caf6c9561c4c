"""A finished run in Python: asked for predictions or for texts, on any backend of Keras."""

from collections.abc import Sequence

from data_pipelines.errors import UsageError
from xmodels.conversion import names
from xmodels.jobs.generate.run import decoding_of
from xmodels.jobs.given_inputs import as_list, as_texts
from xmodels.jobs.predict import fill_mask
from xmodels.runs import fine_tuned
from xmodels.runs.fine_tuned import load_generator, task_of
from xmodels.runs.loaded import identify
from xmodels.tasks.base import answer
from xmodels.tasks.base.find import load_part
from xmodels.tasks.base.generation import Generator

SHOWN = 5  # labels


class OpenRun:
    """A run of `finetune`, which predicts, or of `pretrain`, which fills masks, generates or translates.

    Attributes:
        predictor: answers inputs, or fills their masks; None where the network does neither.
        generator: continues or translates texts; None where the network does neither.
    """

    def __init__(self, source: str, predictor: answer.Predictor | None, generator: Generator | None):
        self.source, self.predictor, self.generator = source, predictor, generator

    def __repr__(self) -> str:
        """Returns what it is of, what it has learnt, and what can be asked of it."""
        answers = self.predictor or self.generator
        about = [type(answers.backbone).__name__]
        if self.predictor is not None:
            about.append(f"task={self.predictor.task.label}")
            labels = self.predictor.labels
            about += [f"labels={', '.join(labels[:SHOWN])}{', …' if len(labels) > SHOWN else ''}"] if labels else []
        able = [name for name, has in (("predict", self.predictor), ("generate", self.generator)) if has is not None]
        return f"<{self.source}: {', '.join(about)}; {' and '.join(able)}>"

    def predict(self, inputs: str | Sequence, batch_size: int = 32, **flags) -> list:
        """Returns the prediction of each input, as the task gives it, in the order of the inputs.

        Args:
            inputs: a string, which is one text; or strings or tuples of strings, in a list, an array of numpy, a column or a table of
                pandas; of other tasks what `xmodels/tasks/NAME/answer.py` takes.
            flags: of the task, such as `speed` of `fast_classify`; they hold until they are given again.
        """
        if self.predictor is None:
            raise UsageError(f"{self.source}: was not fine-tuned, so it predicts nothing; `generate` continues texts.")
        self.predictor.adjust(**flags)
        asked = [self.predictor.as_input(each) if isinstance(each, str) else each for each in as_list(inputs)]
        return self.predictor.predict(asked, batch_size)

    def generate(
        self, prompts: str | Sequence[str], *, max_new_tokens: int | None = None, seed: int = 0, batch_size: int = 16, **decoding
    ) -> list[str]:  # fmt: skip
        """Returns what follows each prompt, or its translation.

        Args:
            prompts: a string, which is one prompt; or strings in a list, an array of numpy or a column of pandas.
            decoding: the fields of `xmodels.decoding.options.Decoding`, such as `top_k=10` or `num_beams=4`. Defaults are
                those of `xmodels generate`: a text is continued by draws from the 40 likeliest tokens, a translation by the likeliest.
                `temperature=0` takes the likeliest token each time.
        """
        if self.generator is None:
            raise UsageError(f"{self.source}: does not generate texts; `predict` answers.")
        limit = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
        chosen = decoding_of({"length_penalty": self.generator.penalty(None)} | decoding, self.generator.defaults)
        return self.generator.generate(as_texts(prompts), chosen, seed=seed, batch_size=batch_size, **limit)


def open_run(model_dir: str) -> OpenRun:
    """Reads a run or a model folder.

    Raises:
        CheckpointError: the folder is neither, or is not whole.
    """
    if filler := fill_mask.load(model_dir):
        return OpenRun(model_dir, filler, load_generator(model_dir) if identify(model_dir).writing else None)
    task = task_of(model_dir)  # None of a published checkpoint whose head tells
    if task and getattr(load_part(task, "answer"), "GENERATOR", None):
        return OpenRun(model_dir, None, load_generator(model_dir))
    if names.is_foreign(model_dir):
        from xmodels.jobs.predict.run import load_predictor  # imports TensorFlow

        return OpenRun(model_dir, load_predictor(model_dir), None)
    return OpenRun(model_dir, fine_tuned.load_predictor(model_dir), None)
