"""From files to trained real tokens: ours beside Hugging Face's Trainer as its standard scripts use it.

    python -m benchmarks.end_to_end --corpus=text.txt --train_file=train.tsv --output=benchmarks/results/end_to_end.md

Pretraining: raw text (a sentence a line) -> tokenized -> masked LM steps of 32 x 128 tokens. Theirs as `run_mlm.py` does it
(texts joined and cut into blocks, no padding); ours with create_pretraining_data (full_sentences, whole words) and
pretrain --pack_rows. Fine-tuning: a file of `text, tab, label` rows, one epoch in batches of 32. Theirs as `run_glue.py` does it
(padded to 128); ours with length buckets. Networks have the same sizes
and vocabulary, of at most `--vocab_size` pieces (BERT's has 30,522; a small corpus gives fewer). Processor seconds from the first
byte read to the last step, without imports, on the same cores; real tokens are those that are no padding. Needs the
packages transformers, torch, accelerate and datasets. Take it on a calm machine.
"""

import json
import os
import tempfile

from benchmarks import inference, measure

BATCH, LENGTH = 32, 128
PEER = "Hugging Face Trainer"


def rows_of(path: str, most: int) -> list[tuple[str, str]]:
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [(row[0], row[1]) for row in rows if len(row) == 2][:most]


def prepare(folder: str, size: str, corpus: str, train_file: str, most: int, vocab_size: int) -> None:
    """The network in both formats, and the labelled rows with a header."""
    inference.make_run(size, folder, corpus, vocab_size)
    with open(f"{folder}/train.tsv", "w", encoding="utf-8") as file:
        file.writelines(["text\tlabel\n", *(f"{text}\t{label}\n" for text, label in rows_of(train_file, most))])


def our_pretraining(folder: str, size: str, corpus: str, steps: int) -> dict:
    from data_pipelines.pretraining.job import Settings, create
    from xmodels.jobs.pretrain.run import Options, pretrain

    records, run = f"{folder}/records", f"{folder}/pretrained"
    settings = Settings(
        input_file=corpus,
        vocab_file=f"{folder}/{size}/backbone/vocab.txt",
        language="en",
        do_lower_case=True,
        do_whole_word_mask=True,
        max_seq_length=LENGTH,
        packing="full_sentences",
    )
    options = Options(
        system="roberta_wwm", model_dir=run, size=size, data_dir=records, num_train_steps=steps,
        train_batch_size=BATCH, learning_rate=1e-4, log_steps=steps, eval_steps=1, pack_rows=True,
        set="masking_rate=0.15",  # as theirs
    )  # fmt: skip

    def work():
        create(settings, records)
        pretrain(options)

    return {**measure.timed(work, 1), "tokens": real_tokens(run, steps)}


def real_tokens(run: str, steps: int) -> dict:
    """Real and all tokens of a run, from its log."""
    with open(f"{run}/log.jsonl", encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    share = [entry["real_tokens"] for entry in entries if "real_tokens" in entry][-1]
    return {"share": share, "all": steps * BATCH * LENGTH}


def our_finetuning(folder: str, size: str) -> dict:
    from xmodels.jobs.finetune.run import Options, finetune

    options = Options(
        init_checkpoint=f"{folder}/{size}", train_file=f"{folder}/train.tsv", model_dir=f"{folder}/tuned", num_train_epochs=1.0,
        max_seq_length=LENGTH, length_buckets="auto", train_batch_size=BATCH,
    )  # fmt: skip
    return measure.timed(lambda: finetune(options), 1)


def their_pretraining(folder: str, size: str, corpus: str, steps: int) -> dict:
    import datasets
    import transformers

    source = f"{folder}/{size}/hf"

    def work():
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        model = transformers.BertForMaskedLM(transformers.BertConfig.from_pretrained(source))
        with open(corpus, encoding="utf-8") as file:
            text = datasets.Dataset.from_dict({"text": [line.strip() for line in file if line.strip()]})
        ids = text.map(lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=["text"])

        def group(rows):
            joined = {name: sum(lists, []) for name, lists in rows.items()}
            total = len(joined["input_ids"]) // LENGTH * LENGTH
            return {n: [values[i : i + LENGTH] for i in range(0, total, LENGTH)] for n, values in joined.items()}

        collator = transformers.DataCollatorForLanguageModeling(tokenizer)
        train(transformers, model, ids.map(group, batched=True), collator, folder, max_steps=steps)

    return {**measure.timed(work, 1), "tokens": {"share": 1.0, "all": steps * BATCH * LENGTH}}


def their_finetuning(folder: str, size: str) -> dict:
    import datasets
    import transformers

    source, found = f"{folder}/{size}/hf", {}

    def work():
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        rows = rows_of(f"{folder}/train.tsv", 10**9)[1:]
        names = sorted({label for _, label in rows})
        config = transformers.BertConfig.from_pretrained(source, num_labels=len(names))
        model = transformers.BertForSequenceClassification(config)
        data = datasets.Dataset.from_dict({"text": [t for t, _ in rows], "label": [names.index(n) for _, n in rows]})
        how = {"padding": "max_length", "truncation": True, "max_length": LENGTH}
        data = data.map(lambda batch: tokenizer(batch["text"], **how), batched=True, remove_columns=["text"])
        found["share"] = sum(map(sum, data["attention_mask"])) / (len(rows) * LENGTH)
        found["all"] = len(rows) * LENGTH
        train(transformers, model, data, transformers.default_data_collator, folder, num_train_epochs=1)

    return {**measure.timed(work, 1), "tokens": found}


def train(transformers, model, data, collator, folder: str, **how) -> None:
    arguments = transformers.TrainingArguments(
        f"{folder}/theirs", per_device_train_batch_size=BATCH, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, logging_steps=1000, **how,
    )  # fmt: skip
    transformers.Trainer(model, arguments, train_dataset=data, data_collator=collator).train()


def report(size: str, jobs: dict, given) -> str:
    real = jobs["fine-tuning"][PEER].get("tokens", {})
    num_real = real.get("share", 0) * real.get("all", 0)  # ours reads the same rows with the same vocabulary
    text = f"\n## BERT-{size}\n"
    for job, results in jobs.items():
        rows, peer = [], None
        for name, found in results.items():
            if "error" in found:
                rows.append([name, found["error"], "", "", ""])
                continue
            tokens = found.get("tokens")
            number = tokens["share"] * tokens["all"] if job == "pretraining" else num_real
            speed = number / found["processor"]
            peer = peer or speed
            padding = f"{1 - tokens['share']:.1%}" if tokens else "see its log"
            rows.append([name, f"{found['processor']:.1f}", f"{speed:,.0f}", padding, f"{speed / peer:.2f}"])
        what = f"{given.steps} steps" if job == "pretraining" else f"{given.rows} rows at most, one epoch"
        columns = ["", "processor s", "real tokens / processor s", "padding", "times Hugging Face"]
        text += f"\n{job.capitalize()} ({what}):\n\n{measure.table(columns, rows)}"
    return text


def main() -> None:
    parser = measure.parser_of(__doc__)
    for name in ("--corpus", "--train_file"):
        parser.add_argument(name)
    parser.set_defaults(size="mini")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--vocab_size", type=int, default=30_522)
    parser.add_argument("--rows", type=int, default=1600)
    given = parser.parse_args()
    if not given.method:
        compare(given)
    elif given.method == "prepare":
        prepare(given.folder, given.size, given.corpus, given.train_file, given.rows, given.vocab_size)
        print("{}")
    elif given.method.endswith("pretraining"):
        method = our_pretraining if given.method.startswith("our") else their_pretraining
        print(json.dumps(method(given.folder, given.size, given.corpus, given.steps)))
    else:
        method = our_finetuning if given.method.startswith("our") else their_finetuning
        print(json.dumps(method(given.folder, given.size)))


def compare(given) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus, train_file = os.path.abspath(given.corpus), os.path.abspath(given.train_file)
        more = [f"--folder={folder}", f"--size={given.size}", f"--corpus={corpus}", f"--train_file={train_file}"]
        more += [f"--steps={given.steps}", f"--rows={given.rows}", f"--vocab_size={given.vocab_size}"]
        measure.prepare("benchmarks.end_to_end", ["prepare", *more])
        jobs = {
            job: measure.rounds(
                "benchmarks.end_to_end",
                {PEER: [f"their_{name}", *more], "ours": [f"our_{name}", *more]}, 1, given.cores,
            )
            for job, name in (("pretraining", "pretraining"), ("fine-tuning", "finetuning"))
        }  # fmt: skip
    text = (
        f"Made by `python -m benchmarks.end_to_end --size={given.size} --steps={given.steps} --rows={given.rows} "
        f"--vocab_size={given.vocab_size}`; its head says "
        f"what is measured.\n\n{measure.machine(given.cores)}\n{report(given.size, jobs, given)}"
    )
    measure.publish(text, given.output)


if __name__ == "__main__":
    main()
