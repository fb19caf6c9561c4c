"""Small SavedModels to serve: one of a few string ops, and exports of runs with random weights."""

import numpy as np
import tensorflow as tf

from tests.helpers.small_models import TOKENIZER, network
from xmodels.export.exporter import export
from xmodels.interfaces.reading import Reading
from xmodels.models import folder
from xmodels.runs.fine_tuned import write_task
from xmodels.tasks.answer_beam.task import AnswerBeam
from xmodels.tasks.answer_span.task import AnswerSpan
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.fast_classify.task import FastClassify
from xmodels.tasks.multi_label.task import MultiLabel
from xmodels.tasks.rank.task import Rank
from xmodels.tasks.regress.task import Regress
from xmodels.tasks.san.task import San
from xmodels.tasks.siamese.task import Siamese
from xmodels.tasks.similarity.task import Similarity
from xmodels.tasks.tag.task import Tag

NUM_TEXTS = dict.fromkeys(("answer_span", "answer_beam"), 0)  # of tasks that are not named 1
NUM_TEXTS |= dict.fromkeys(("rank", "san", "choose", "siamese", "similarity"), 2)
SPANS = {"max_query_length": 6, "doc_stride": 6}
TASKS = {
    "choose": lambda config: Choose(config, [], Reading()),
    "fast_classify": lambda config: FastClassify(config, ["bad", "so so", "好"]),
    "multi_label": lambda config: MultiLabel(config, ["bad", "so so", "好"]),
    "rank": Rank,
    "regress": Regress,
    "san": lambda config: San(config, ["no", "yes"]),
    "similarity": lambda config: Similarity(config, ["no", "yes"]),
    "siamese": lambda config: Siamese(config, reading=Reading().with_pooling("mean")),
    "classify": lambda config: Classify(config, ["bad", "so so", "好"]),
    "tag": lambda config: Tag(config, ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
    "answer_beam": lambda config: AnswerBeam(config, settings=SPANS),
    "answer_span": lambda config: AnswerSpan(config, settings={**SPANS, "null_score_diff_threshold": 0.0}),
}


class Echo(tf.Module):
    """Says how long a text is, and refuses the text "refused"."""

    def answer(self, text):
        allowed = tf.debugging.assert_none_equal(text, "refused", message="This text is refused.")
        with tf.control_dependencies([allowed]):
            return {"length": tf.strings.length(text, unit="UTF8_CHAR"), "text": tf.identity(text)}

    def words(self, text):
        """The words of a text; rows are filled up as those of a tagger."""
        words = tf.strings.split(text)
        return {
            "word": words.to_tensor(""),
            "start": tf.ragged.range(tf.cast(words.row_lengths(), tf.int32)).to_tensor(-1),
        }

    def scaled(self, text, factor):
        """The length of a text as a number; 0 times infinity is NaN."""
        return {"scaled": tf.cast(tf.strings.length(text), tf.float32) * (1.0 / factor)}

    def ranked(self, query, candidates):
        return {"order": tf.argsort(tf.strings.length(candidates), direction="DESCENDING", stable=True)}

    def drawn(self, text, seed):
        return {"number": tf.random.stateless_uniform(tf.shape(text), seed)}


def echo(path):
    """Writes the SavedModel of an Echo into `path`/1; returns `path`."""
    made = Echo()
    text = tf.TensorSpec([None], tf.string, "text")
    methods = {
        "serving_default": (made.answer, [text]),
        "words": (made.words, [text]),
        "scaled": (made.scaled, [text, tf.TensorSpec([], tf.float32, "factor")]),
        "ranked": (made.ranked, [tf.TensorSpec([None], tf.string, "query"), tf.TensorSpec([None, None], tf.string, "candidates")]),
        "drawn": (made.drawn, [text, tf.TensorSpec([2], tf.int32, "seed")]),
    }  # fmt: skip
    signatures = {name: tf.function(method).get_concrete_function(*specs) for name, (method, specs) in methods.items()}
    tf.saved_model.save(made, str(path / "1"), signatures=signatures)
    return path


def small_run(task, path):
    """A run of `task` whose weights are random, and so large that answers depend on texts."""
    (path / "start").mkdir()
    network("bert", path / "start")
    backbone, _ = folder.read_model(str(path / "start"))
    made = TASKS[task](backbone.config)
    reads = {"token_ids": [[1, 2, 3]], "segment_ids": [[0, 0, 1]], "padding_mask": [[True, True, True]]}
    arrays = {name: np.array(value) for name, value in reads.items()}
    count = {"choose": 1, "similarity": 2}.get(task)  # rows for one question
    batch = {name: np.stack([value] * count, axis=1) if count else value for name, value in arrays.items()}
    build = made.exits if task == "fast_classify" else made.forward
    build(backbone, batch | {"choice_weights": np.ones((1, 1)), "span_roles": np.array([[2, 1, 1]])})
    rng = np.random.default_rng(3)
    for variable in made.variables:
        variable.assign(rng.normal(0, 1.0, variable.shape))
    run = path / "run"
    (run / "backbone").mkdir(parents=True)
    folder.write_model(str(run / "backbone"), backbone, made, TOKENIZER.files(), TOKENIZER.describe())
    if task == "fast_classify":
        made.settings["distilled"] = True
    write_task(str(run), made, NUM_TEXTS.get(task, 1), 24)
    return run


def small_export(task, path):
    """The folder of such a run, and that of its export."""
    run = small_run(task, path)
    return run, path / export(str(run), str(path / "serving"), "core").path
