"""What one does with a fine-tuned run: ask it, export it. (To score it: `xmodels/jobs/evaluations`.)"""

import csv
import os
import sys
import tempfile

from tqdm import tqdm

from data_pipelines.corpora.tables import Columns, read_table
from data_pipelines.errors import DataError, UsageError
from xmodels.conversion import convert
from xmodels.export import saved_model, text_generator, text_translator
from xmodels.export.generator import continues_texts
from xmodels.export.predictor import Predictor
from xmodels.export.task_file import TASK_FILE
from xmodels.export.translator import is_translator
from xmodels.jobs import story_predictions
from xmodels.jobs.evaluate import task_of
from xmodels.models.folder import read_json
from xmodels.runs import folder as run_folder


def load_predictor(model_dir: str) -> Predictor:
    """The network of a run, or of somebody else's classifier; says so where a fine-tuning was interrupted."""
    if convert.is_foreign(model_dir):
        with tempfile.TemporaryDirectory() as folder:
            convert.save(convert.load(model_dir), os.path.join(folder, "model"))
            return Predictor.load(os.path.join(folder, "model"))
    predictor = Predictor.load(model_dir)
    begun, done = (os.path.isfile(os.path.join(model_dir, n)) for n in (run_folder.CONFIG, run_folder.RESULTS))
    if begun and not done:
        print(
            f"Note: {model_dir} was interrupted; the best epoch so far answers. Finish it with "
            f"`xmodels finetune --flagfile={os.path.join(model_dir, 'flags.txt')}`.", file=sys.stderr,
        )  # fmt: skip
    return predictor


def remembered_columns(model_dir: str, text: str | None, text_pair: str | None, label: str | None = None) -> Columns:
    """The columns given, and for those not given what `finetune` was given.

    Positions do not complete names, nor names positions: the files are of different kinds then.
    """
    path = os.path.join(model_dir, run_folder.CONFIG)
    stored = read_json(path).get("flags", {}) if os.path.isfile(path) else {}
    remembered = Columns(stored.get("text_column"), stored.get("text_pair_column"), stored.get("label_column"))
    given = Columns(text, text_pair, label)
    if given != Columns() and given.by_position != remembered.by_position:
        return given
    return Columns(text or remembered.text, text_pair or remembered.text_pair, label or remembered.label)


def check_output(path: str | None, flag: str = "output_file") -> None:
    """Refuses a file that could not be written, before the work."""
    folder = os.path.dirname(os.path.abspath(path)) if path else "."
    if not os.path.isdir(folder):
        raise UsageError(f"--{flag}={path}: there is no folder {folder}. Make it, or choose another name.")


def ask(predictor: Predictor, texts, batch_size: int):
    with tqdm(total=len(texts), desc="texts", unit="text", disable=len(texts) < 200) as progress:
        return predictor.predict(texts, batch_size, progress.update)


def predict(
    model_dir: str, text: str | None, text_pair: str | None, input_file: str | None, text_column: str | None,
    text_pair_column: str | None, output_file: str | None, overwrite: bool, batch_size: int,
) -> None:  # fmt: skip
    """Labels one text or a file; arguments as in `launch/predict.py`.

    A blank line of a .txt file gets an empty row, so that rows stay the lines of the file.
    """
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    if output_file and os.path.exists(output_file) and not overwrite:
        raise UsageError(f"--output_file={output_file}: exists. Choose another name or add --overwrite.")
    check_output(output_file)
    if task_of(model_dir) == "answer_story":
        if text_column or text_pair_column:
            raise UsageError(
                "--text_column, --text_pair_column: stories are read from plain lines, which have no columns."
            )
        story_predictions.predict(model_dir, text, text_pair, input_file, output_file, batch_size)
        return
    texts = _texts(text, text_pair, input_file, remembered_columns(model_dir, text_column, text_pair_column))
    predictor = load_predictor(model_dir)
    found = iter(ask(predictor, [given for given in texts if given is not None], batch_size))
    answers = [None if given is None else next(found) for given in texts]
    if text is not None:
        print(f"label: {answers[0].label}")
        for name, value in sorted(answers[0].probabilities.items(), key=lambda item: -item[1])[:10]:
            print(f"  {value:.4f}  {name}")
        return
    if output_file:
        with open(f"{output_file}.partial", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(["label", *predictor.labels])
            blank = [""] * (1 + len(predictor.labels))
            writer.writerows(
                [a.label, *(f"{p:.6f}" for p in a.probabilities.values())] if a else blank for a in answers
            )
        os.replace(f"{output_file}.partial", output_file)
        blanks = answers.count(None)
        print(
            f"{output_file}: {len(answers) - blanks:,} labels"
            + (f", {blanks:,} empty rows for blank lines." if blanks else ".")
        )
        return
    for answer, given in zip(answers, texts, strict=True):
        print() if answer is None else print(
            f"{answer.label}\t{answer.probabilities[answer.label]:.4f}\t{' | '.join(given)}"
        )


def _texts(text, text_pair, input_file, columns: Columns) -> list[tuple[str, ...] | None]:
    """The texts to label; None stands for a blank line of a .txt file."""
    if text is not None:
        return [(text,) if text_pair is None else (text, text_pair)]
    if not input_file.endswith(".txt"):
        return [row.texts for row in read_table(input_file, columns, with_labels=False)]
    try:
        with open(input_file, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file]
    except FileNotFoundError:
        raise DataError(f"{input_file}: no such file.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{input_file}: not valid UTF-8 at byte {error.start}.") from None
    if not any(lines):
        raise DataError(f"{input_file}: holds no text.")
    return [(line,) if line else None for line in lines]


def export_model(
    model_dir: str, export_dir: str, serving_ops: str, overwrite: bool, num_beams: int | None, length_penalty: float | None
) -> None:  # fmt: skip
    """Exports a run; arguments as in `launch/export_model.py`."""
    if is_translator(model_dir):
        beam = {"num_beams": num_beams or 4, "length_penalty": 0.6 if length_penalty is None else length_penalty}
        text_translator.export(model_dir, export_dir, serving_ops, overwrite, **beam)
        print(f"{export_dir}: SavedModel that translates ({serving_ops} ops); README.md there says how to serve it.")
        return
    if num_beams is not None or length_penalty is not None:
        raise UsageError(f"--num_beams, --length_penalty: {model_dir} does not translate.")
    if not os.path.isfile(os.path.join(model_dir, TASK_FILE)) and continues_texts(model_dir):
        text_generator.export(model_dir, export_dir, serving_ops, overwrite)
        print(
            f"{export_dir}: SavedModel that continues prompts ({serving_ops} ops); README.md there says how to serve it."
        )
        return
    if task_of(model_dir) == "answer_story":
        raise UsageError(
            f"--model_dir={model_dir}: a run of --task=answer_story cannot be exported yet; `xmodels predict` asks it."
        )
    done = saved_model.export(model_dir, export_dir, serving_ops, overwrite)
    print(f"{done.path}: SavedModel of raw strings ({serving_ops} ops); README.md there says how to serve it.")
    print(f"  largest difference from the run's own answers: {done.largest_difference:.2g}")
