"""Asks a fine-tuned run, or a masked language model, about texts."""

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence

from data_pipelines.errors import UsageError, name_source
from data_pipelines.escaping import for_terminal_line
from data_pipelines.files import whole_file
from data_pipelines.options.declaration import values_of
from data_pipelines.paths import check_output
from data_pipelines.quiet import keep_loaded
from data_pipelines.text import cuts
from xmodels.conversion import convert, names
from xmodels.jobs.device_options import answer_scope
from xmodels.jobs.predict import fill_mask
from xmodels.jobs.predict.options import Options
from xmodels.jobs.predict.write import write
from xmodels.jobs.shares import Share, count_rows, share_of
from xmodels.runs import fine_tuned
from xmodels.runs import folder as run_folder
from xmodels.tasks.base.answer import Predictor, Question
from xmodels.tasks.base.score import predict as predict_all
from xmodels.tasks.base.score import print_cuts


def load_predictor(model_dir: str) -> Predictor:
    """Returns the network of a run, or of somebody else's classifier; says so where a fine-tuning was interrupted."""
    if names.is_foreign(model_dir):
        with tempfile.TemporaryDirectory() as folder, name_source(os.path.join(folder, "model"), model_dir):
            convert.save(convert.load(model_dir), os.path.join(folder, "model"))
            return fine_tuned.load_predictor(os.path.join(folder, "model"))
    predictor = fine_tuned.load_predictor(model_dir)
    flags, results = (os.path.join(model_dir, name) for name in ("flags.txt", run_folder.RESULTS))
    if os.path.isfile(flags) and not os.path.isfile(results):
        print(
            f"Note: {model_dir} was interrupted; the best epoch so far answers. Finish it with "
            f"`xmodels finetune --flagfile={flags}`.", file=sys.stderr,
        )  # fmt: skip
    return predictor


def predict(options: Options) -> list[dict | None]:
    """Answers one text or a file, and returns the answers as they stand in JSON lines.

    A blank line of a .txt file gets an empty row, so that rows stay the lines of the file. What a task reads line by line is
    answered and written so, in memory that does not grow with the file; with an output file nothing is then returned.
    """
    text, input_file, output_file = options.text, options.input_file, options.output_file
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    check_output(output_file, overwrite=options.overwrite)
    share = share_of(options)
    with answer_scope(options):
        predictor = fill_mask.load(options.model_dir) or load_predictor(options.model_dir)
    predictor.adjust(**values_of(options, options.TASK_OPTIONS))
    question = Question(text, options.text_pair, input_file, options.text_column, options.text_pair_column)
    if share is not None:
        predict_share(share, predictor, question, options.batch_size)
        return []
    inputs = predictor.inputs(question)
    if not isinstance(inputs, list):
        if output_file:
            write(output_file, predictor, stream_predictions(predictor, inputs, options.batch_size, input_file))
            return []
        inputs = list(inputs)
    there = [asked for asked in inputs if asked is not None]
    found = predict_all(predictor, there, options.batch_size, input_file or "--text")
    each = iter(found)
    predictions = [None if asked is None else next(each) for asked in inputs]
    if text is not None:
        print("\n".join(map(for_terminal_line, predictor.describe_prediction(inputs[0], predictions[0]))))
    elif output_file:
        write(output_file, predictor, [(inputs, found)])
    else:
        for asked, prediction in zip(inputs, predictions, strict=True):
            print("" if asked is None else for_terminal_line(predictor.line(asked, prediction)))
    pairs = zip(inputs, predictions, strict=True)
    return [None if asked is None else predictor.record(asked, prediction) for asked, prediction in pairs]


def predict_share(share: Share, predictor: Predictor, question: Question, batch_size: int) -> None:
    """Answers the rows of a share of a file, and joins the answers to all rows where it is the last one."""

    def make(path: str) -> None:
        rows = share.rows(count_rows(predictor.inputs(question)))
        inputs = itertools.islice(predictor.inputs(question), rows.start, rows.stop)
        parts = stream_predictions(predictor, inputs, batch_size, question.input_file)
        write(path, predictor, parts, has_header=share.index == 0)

    def join(paths: Sequence[str]) -> None:
        with whole_file(share.output) as file:
            for path in paths:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, file)

    share.work(make, join)


def stream_predictions(
    predictor: Predictor, inputs: Iterator, batch_size: int, source: str
) -> Iterator[tuple[list, Sequence]]:
    """Yields inputs, None for a blank line, and the predictions of those that are none; some are in memory at once. Says at the
    end how many were cut."""
    inputs, cut = iter(inputs), cuts.Cuts()
    keep_loaded()
    while chunk := list(itertools.islice(inputs, predictor.stream_size)):
        with cuts.count_cuts() as more:
            found = predictor.predict_stream([asked for asked in chunk if asked is not None], batch_size)
        cut += more
        yield chunk, found
    print_cuts(source, cut, predictor)
