"""What several cores give: training, answering and making records on all of them beside one, and two trainings at once.

    python -m benchmarks.several_cores --texts=sentences.txt --corpus=text.txt --output=benchmarks/results/several_cores.md

The methods are those of `benchmarks.train_step` and `benchmarks.inference`, of BERT-mini, with as many threads as cores; they take
turns, and the round with the least time by the clock counts. Records are made by as many workers as cores from the corpus, one
sentence a line.

What the machine gives at most is measured by processes of their own on one core each, at the same time: virtual cores that share a
processor give less than twice. Then two trainings run at once, each free to use all cores, as two people on one machine would.
"""

import concurrent.futures
import os
import sys
import tempfile

from benchmarks import inference, measure, train_step

NAME, SIZE = "benchmarks.several_cores", "mini"
TRAINING = ("Hugging Face, masked positions gathered", "KerasHub", "ours", "ours, XLA")
ANSWERING = (
    inference.PIPELINE,
    "ONNX Runtime, padded to the longest",
    "ours, xmodels predict on a file",
    "ours, SavedModel (strings in)",
)
STEP = "benchmarks.train_step"


def fastest(module: str, methods: dict[str, list[str]], rounds: int, counts: list[int]) -> dict[str, dict[int, dict]]:
    """Returns {method: {number of cores: its round with the least time by the clock}}."""
    best: dict[str, dict[int, dict]] = {name: {} for name in methods}
    for number in range(rounds):
        for name, arguments in methods.items():
            for cores in counts:
                found = measure.alone(module, arguments, cores)
                print(f"round {number + 1}: {name}, {cores}: {found}", file=sys.stderr, flush=True)
                before = best[name].get(cores, {})
                if found.get("wall", 1e9) < before.get("wall", 1e9) or not before:
                    best[name][cores] = found
    return best


def at_once(arguments: list[str], places: list[set[int]]) -> list[dict]:
    """Returns what processes measure that run at the same time, each on its own set of cores."""

    def run(place: set[int]) -> dict:
        os.sched_setaffinity(0, place)  # of this thread, which the process inherits
        return measure.alone(STEP, arguments, len(place))

    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(run, places))


def records(corpus: str, workers: int, folder: str) -> dict:
    """Returns the seconds of making records with so many workers on as many cores."""
    vocabulary = os.path.join(folder, "vocab.txt")
    launch = [sys.executable, "-m", "launch"]
    chosen = ",".join(map(str, sorted(os.sched_getaffinity(0))[:workers]))
    if not os.path.exists(vocabulary):
        command = [*launch, "train_vocabulary", f"--input_file={corpus}", "--language=en", "--vocab_size=8000"]
        measure.spent([*command, f"--output_file={vocabulary}"], dict(os.environ))
    command = ["taskset", "-c", chosen, *launch, "create_pretraining_data", f"--input_file={corpus}", "--language=en"]
    command += [
        f"--vocab_file={vocabulary}",
        f"--output_dir={folder}/records",
        "--overwrite",
        f"--num_workers={workers}",
    ]
    return measure.spent(command, dict(os.environ))


def rows_of(found: dict[str, dict[int, dict]], counts: list[int]) -> list[list[str]]:
    """Returns a row for each method: seconds by the clock for each number of cores, and how many times as fast the last is."""
    rows = []
    for name, by_cores in found.items():
        failed = [each["error"] for each in by_cores.values() if "error" in each]
        if failed:
            rows.append([name, failed[0], *[""] * len(counts)])
            continue
        walls = [by_cores[cores]["wall"] for cores in counts]
        rows.append([name, *(f"{wall:.3f}" for wall in walls), f"{walls[0] / walls[-1]:.2f}"])
    return rows


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--texts", required=True, help="sentences to answer, one a line")
    parser.add_argument("--corpus", required=True, help="text to make records of, one sentence a line")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    counts = [1, len(cores)]
    if len(cores) < 2:
        raise SystemExit("needs two cores or more.")
    head = ["", *(f"{count} core{'s' * (count > 1)}" for count in counts), "times as fast"]
    parts = [
        "# Several cores", "",
        f"Made by `python -m {NAME}`; its head says what is measured. Seconds by the clock. {measure.machine(len(cores))}", "",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        step = ["--system=bert", f"--size={SIZE}", f"--folder={folder}/bert"]
        measure.prepare(STEP, ["make_weights", *step])
        answer = [f"--size={SIZE}", f"--folder={folder}", f"--texts={given.texts}"]
        measure.prepare("benchmarks.inference", ["make_run", *answer])
        methods = {name: [*train_step.methods_of("bert", None)[name], *step] for name in TRAINING}
        trained = fastest(STEP, methods, given.rounds, counts)
        asked = {name: [*inference.METHODS[name], *answer] for name in ANSWERING}
        answered = fastest("benchmarks.inference", asked, given.rounds, counts)
        made = {"ours": {count: records(given.corpus, count, folder) for count in counts}}
        ours = methods["ours"]
        apart, shared = at_once(ours, [{core} for core in cores]), at_once(ours, [set(cores)] * 2)
    alone = {count: trained["ours"][count]["wall"] for count in counts}
    limit = sum(alone[1] / each["wall"] for each in apart)
    each = ", ".join(f"{found['wall']:.3f}" for found in shared)
    together = sum(alone[counts[-1]] / found["wall"] for found in shared)
    size = os.path.getsize(given.corpus) / 1e6
    parts += [
        f"{len(cores)} trainings of ours, each on a core of its own, make {limit:.2f} times the steps of one: more is not to be had "
        "from this machine.", "",
        f"## A step of pretraining BERT-{SIZE}, {train_step.SHAPES[SIZE][0]} x {train_step.LENGTH}", "",
        measure.table(head, rows_of(trained, counts)),
        f"## {len(inference.read_texts(given.texts))} sentences to labels, BERT-{SIZE}", "",
        measure.table(head, rows_of(answered, counts)),
        f"## Records of {size:.1f} MB of text, whole command", "", measure.table(head, rows_of(made, counts)),
        "## Two trainings at once", "",
        f"A step of one alone on all cores takes {alone[counts[-1]]:.3f} s; two at once, each with threads for all cores, take "
        f"{each} s, {together:.2f} times the steps of one.", "",
    ]  # fmt: skip
    measure.publish("\n".join(parts), given.output)


if __name__ == "__main__":
    main()
