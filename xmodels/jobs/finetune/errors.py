"""The answers of a fine-tuned network that are wrong, and pictures of all, for its report."""

import collections
import os

from data_pipelines.files import write_json
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.jobs.finetune.plan import Plan
from xmodels.runs.errors import FILE
from xmodels.runs.fine_tuned import read_task
from xmodels.runs.report import PICTURES

MOST = 30  # examples


def write_errors(job: Plan) -> None:
    """Writes those of the weights that are handed over, on the evaluation file, else on that of the test.

    Tasks whose `score.py` has no `mistakes` have none; those with `DRAWS_LAST` have pictures.
    """
    score, folder = job.evaluation.score, job.options.model_dir
    name = next((name for name in ("evaluation", "test") if name in job.data.evaluation_sets), None)
    find = getattr(score, "mistakes", None)
    if name is None or not (find or score.DRAWS_LAST):
        return
    outputs, examples = job.evaluation.predict_set(job.data.evaluation_sets[name])
    settings = read_task(folder).settings
    if score.DRAWS_LAST:
        answers = score.from_arrays(outputs, examples, job.data.labels)
        score.draw(os.path.join(folder, PICTURES), *answers, {**settings, "labels": job.data.labels})
    if not find:
        return
    wrong = find(outputs, examples, job.data.labels, settings)
    pairs = collections.Counter((each.truth, each.answer) for each in wrong)
    shown = sorted(wrong, key=lambda each: -each.probability)[:MOST]
    found = {
        "file": os.path.basename(
            (job.options.eval_file if name == "evaluation" else job.options.test_file).rstrip("/")
        ),
        "rows": len(examples["padding_mask"]),
        "wrong": len(wrong),
        "pairs": [{"truth": t, "answer": a, "count": count} for (t, a), count in pairs.most_common()],
        "examples": [
            {
                "truth": each.truth,
                "answer": each.answer,
                "probability": each.probability,
                "text": as_read(examples, each.row, job.tokenizer),
            }
            for each in shown
        ],
    }
    write_json(os.path.join(folder, FILE), found)


def as_read(examples: dict, row: int, tokenizer: Tokenizer) -> str:
    """Returns the text of an example without special tokens, several with a bar between; of one that is read in several orders the
    first; of one without tokens its number.
    """
    if "token_ids" not in examples:
        return f"example {row + 1}"
    ids, mask = examples["token_ids"][row], examples["padding_mask"][row]
    if ids.ndim > 1:
        ids, mask = ids[0], mask[0]
    parts, special = [[]], tokenizer.vocabulary.special_ids
    for each in ids[mask.astype(bool)].tolist():
        if each in special:
            parts.append([])
        else:
            parts[-1].append(each)
    return " | ".join(tokenizer.decode(part).strip() for part in parts if part)
