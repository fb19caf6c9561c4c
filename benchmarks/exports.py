"""What each format and precision of an export takes and loses, beside the network, on the rows of a file.

    xmodels fetch --network=all-minilm-l6-v2 --output_dir=minilm
    xmodels finetune --task=classify --init_checkpoint=hf:minilm --train_file=train.tsv --eval_file=dev.tsv --model_dir=run
    taskset -c 0 python -m benchmarks.exports --model_dir=run --eval_file=dev.tsv --page=benchmarks/results/exports.md

Times are of the processors that the process may use, so other work on them matters little; with one processor (`taskset`) they are
those by the clock of an idle machine.
"""

import os
import platform
import tempfile
import time
from importlib import metadata

from absl import app, flags

from xmodels.export import comparison, exporter, formats
from xmodels.export.exporter import Form
from xmodels.export.readme import VERSION
from xmodels.jobs.export_model.run import evaluator
from xmodels.runs import exports
from xmodels.runs.fine_tuned import task_of

MODEL_DIR = flags.DEFINE_string("model_dir", None, "Run folder of finetune.", required=True)
EVAL_FILE = flags.DEFINE_string("eval_file", None, "Labelled rows.", required=True)
PAGE = flags.DEFINE_string("page", None, "Markdown file of the results.", required=True)
WHAT = flags.DEFINE_string("what", "", "What the run is, for the page.")
PACKAGES = ("tensorflow", "keras", "tf2onnx", "onnx", "onnxruntime", "ai-edge-litert")


def measure(run: str, eval_file: str) -> comparison.Comparison:
    """Returns one comparison with the rows of all forms."""
    comparison.CLOCK, others = time.process_time, {}
    task = task_of(run)
    network = exporter.make_server(run, task, "core", Form(), {})
    with tempfile.TemporaryDirectory() as folder:
        for form in (
            Form(kind, precision) for kind, precisions in formats.PRECISIONS.items() for precision in precisions
        ):
            path = os.path.join(folder, f"{form.kind}_{form.precision}")
            exporter.export(run, path, "core", form=form)
            model = os.path.join(path, VERSION)
            others[form.name] = (model, *exporter.asker_of(network, model, form))
        weights = exporter.folder_of_network(run)
        return comparison.compare(network, evaluator(task, eval_file), eval_file, weights, others)


def processor() -> str:
    """Returns the name of the processor, and which instructions matter here."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
    except OSError:
        return platform.processor()
    known = {name.strip(): value.strip() for name, value in lines.items()}
    own = [
        each
        for each in known.get("flags", "").split()
        if each in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
    ]
    return f"{known.get('model name', 'x86-64')} ({', '.join(own)})"


def main(_):
    found = measure(MODEL_DIR.value, EVAL_FILE.value)
    head, rows = exports.table(found.as_dict())
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    text = PAGE_TEXT.format(
        what=WHAT.value, rows=found.num_rows, file=os.path.basename(found.file), processor=processor(), threads=found.threads,
        versions=versions, table=table,
    )  # fmt: skip
    with open(PAGE.value, "w", encoding="utf-8") as file:
        file.write(text)


PAGE_TEXT = """# Formats and precisions of exports

{what}

On {rows:,} rows of `{file}`, from strings to answers. Milliseconds are of the processor, a text: the median of texts that
are asked alone, and the mean in batches of 32 in the order of the file. MB are of all files of the export. The largest difference
is that of probabilities from the network's. A SavedModel parts a batch by length; the others compute its padding.

{processor}, {threads} processor(s); {versions}. Made by

    taskset -c 0 python -m benchmarks.exports --model_dir=… --eval_file=… --page=…

{table}
"""

if __name__ == "__main__":
    app.run(main)
