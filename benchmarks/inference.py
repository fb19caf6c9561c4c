"""Strings to labels: a fine-tuned BERT of ours beside Hugging Face and ONNX Runtime, with the same weights.

    python -m benchmarks.inference --texts=sentences.txt --output=benchmarks/results/inference.md [--sizes=mini,base]

The texts are real sentences of mixed lengths, one a line. Methods are processes of
their own on the same cores and take turns. Strings: tokenizer and network, in batches of 32; Hugging Face's pipeline and
`xmodels predict` read a file and write one, a line of JSON for each text. Equal shapes: the network alone on 32 x 128 ids.
ONNX Runtime gets the graph of ours; of strings the ids of Hugging Face's tokenizer, each batch padded to its longest. Take it on
a calm machine.
"""

import contextlib
import io
import json
import os
import tempfile
import time

from benchmarks import measure

BATCH, LENGTH = 32, 128
PIPELINE = "Hugging Face, pipeline on a file"
METHODS = {
    PIPELINE: ["pipeline"],
    "Hugging Face, padded to the longest": ["hugging_face"],
    "Hugging Face, padded to 128": ["hugging_face", "--padded"],
    "ONNX Runtime, padded to the longest": ["onnx"],
    "ours, xmodels predict on a file": ["ours"],
    "ours, SavedModel (strings in)": ["saved_model"],
}
SHAPES = {
    "Hugging Face": ["hugging_face", "--ids"],
    "ONNX Runtime": ["onnx", "--ids"],
    "ours": ["ours", "--ids"],
}


def read_texts(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()][:512]


def make_run(size: str, folder: str, texts: str, vocab_size: int = 8000) -> None:
    """A classifier with random weights as a run folder, its SavedModel, its graph for ONNX, and a Hugging Face folder."""
    import keras

    from data_pipelines.corpora.corpus import open_corpus
    from data_pipelines.text.train import train_wordpiece
    from data_pipelines.text.wordpiece import WordPieceTokenizer
    from xmodels.conversion import convert
    from xmodels.export import exporter
    from xmodels.models.bert import SIZES, Bert, BertConfig
    from xmodels.models.folder import write_model
    from xmodels.runs.fine_tuned import write_task
    from xmodels.tasks.classify.task import Classify

    keras.utils.set_random_seed(0)
    tokenizer = WordPieceTokenizer(train_wordpiece(open_corpus(texts, "en"), vocab_size))
    config = BertConfig(len(tokenizer.vocabulary), activation="gelu", **SIZES[size])
    backbone, task = Bert(config).initialize(), Classify(config, ("no", "yes", "perhaps"))
    task.forward(backbone, {name: x[:1] for name, x in full_batch().items()})  # creates the head
    run = f"{folder}/{size}"
    os.makedirs(f"{run}/backbone")
    write_model(f"{run}/backbone", backbone, task, tokenizer.files(), tokenizer.describe())
    write_task(run, task, 1, LENGTH)
    convert.save(convert.load(run), f"hf:{run}/hf")
    exporter.export(run, f"{run}/export", "text")


def ours(run: str, texts: list[str], ids: bool) -> dict:
    import numpy as np

    from xmodels.jobs.predict import run as job
    from xmodels.jobs.predict.write import write
    from xmodels.runs.fine_tuned import load_predictor
    from xmodels.tasks.base.answer import Question

    begun = time.perf_counter()
    predictor = load_predictor(run)
    if ids:
        import tensorflow as tf

        batch = {n: tf.constant(x) for n, x in full_batch().items()}
        answer = tf.function(predictor.answer)
        answer(batch)
        return {**measure.timed(lambda: answer(batch), 6), "first": time.perf_counter() - begun}

    def predict():
        source = written(run, texts)
        rows = predictor.inputs(Question(input_file=source))
        with contextlib.redirect_stdout(io.StringIO()):
            write(f"{run}/ours.jsonl", predictor, job.stream_predictions(predictor, rows, BATCH, source))

    predict()
    first = time.perf_counter() - begun
    took = measure.timed(predict, 2)
    with open(f"{run}/ours.jsonl", encoding="utf-8") as file:
        found = [json.loads(line)["probabilities"]["no"] for line in file]
    return {**took, "first": first, "answer": float(np.sum(found))}


def written(run: str, texts: list[str]) -> str:
    """The file of the texts, one a line."""
    path = f"{run}/texts.txt"
    if not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in texts)
    return path


def pipeline(run: str, texts: list[str]) -> dict:
    import transformers

    begun = time.perf_counter()
    ask = transformers.pipeline("text-classification", model=f"{run}/hf", device="cpu", top_k=None)
    how = {"batch_size": BATCH, "truncation": True, "max_length": LENGTH}

    def predict() -> float:
        total = 0.0
        with (
            open(written(run, texts), encoding="utf-8") as file,
            open(f"{run}/theirs.jsonl", "w", encoding="utf-8") as out,
        ):
            for found in ask((line.rstrip("\n") for line in file), **how):
                out.write(json.dumps(found) + "\n")
                total += sum(each["score"] for each in found if each["label"] == "no")
        return total

    total = predict()
    first = time.perf_counter() - begun
    return {**measure.timed(predict, 2), "first": first, "answer": total}


def saved_model(run: str, texts: list[str], ids: bool) -> dict:
    import numpy as np
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops

    begun = time.perf_counter()
    served = tf.saved_model.load(f"{run}/export/1").signatures["serving_default"]

    def predict():
        batches = (texts[i : i + BATCH] for i in range(0, len(texts), BATCH))
        return [served(text=tf.constant(batch))["probabilities"].numpy() for batch in batches]

    found = predict()
    first = time.perf_counter() - begun
    return {**measure.timed(predict, 2), "first": first, "answer": float(np.concatenate(found)[:, 0].sum())}


def full_batch() -> dict:
    import numpy as np

    token_ids = np.random.default_rng(0).integers(5, 500, (BATCH, LENGTH)).astype("int32")
    return {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids, bool),
    }


def hugging_face(run: str, texts: list[str], ids: bool, padded: bool) -> dict:
    import numpy as np
    import torch
    import transformers

    begun = time.perf_counter()
    model = transformers.BertForSequenceClassification.from_pretrained(f"{run}/hf").eval()
    if ids:
        held = torch.tensor(full_batch()["token_ids"]).long()
        with torch.inference_mode():
            model(held)
            return {**measure.timed(lambda: model(held), 6), "first": time.perf_counter() - begun}
    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{run}/hf")

    def predict():
        answers = []
        for start in range(0, len(texts), BATCH):
            how = {"padding": "max_length" if padded else True, "truncation": True, "max_length": LENGTH}
            inputs = tokenizer(texts[start : start + BATCH], return_tensors="pt", **how)
            answers.append(torch.softmax(model(**inputs).logits, dim=-1).numpy())
        return np.concatenate(answers)

    with torch.inference_mode():
        found = predict()
        first = time.perf_counter() - begun
        return {**measure.timed(predict, 2), "first": first, "answer": float(found[:, 0].sum())}


def onnx(run: str, texts: list[str], ids: bool) -> dict:
    import numpy as np
    import onnxruntime

    export_onnx(run)
    begun = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(f"{run}/model.onnx", options)
    if ids:
        batch = full_batch()
        session.run(None, batch)
        return {**measure.timed(lambda: session.run(None, batch), 6), "first": time.perf_counter() - begun}
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{run}/hf")

    def predict():
        answers = []
        for start in range(0, len(texts), BATCH):
            how = {"padding": True, "truncation": True, "max_length": LENGTH, "return_tensors": "np"}
            found = tokenizer(texts[start : start + BATCH], **how)
            batch = {
                "token_ids": found["input_ids"].astype("int32"), "segment_ids": found["token_type_ids"].astype("int32"),
                "padding_mask": found["attention_mask"].astype(bool),
            }  # fmt: skip
            answers.append(session.run(None, batch)[0])
        return np.concatenate(answers)

    found = predict()
    first = time.perf_counter() - begun
    return {**measure.timed(predict, 2), "first": first, "answer": float(found[:, 0].sum())}


def export_onnx(run: str) -> None:
    """Writes the network of ours as `model.onnx`, for any number and length of rows."""
    import tensorflow as tf
    import tf2onnx

    from xmodels.runs.fine_tuned import load_predictor

    predictor, batch = load_predictor(run), full_batch()
    specs = [tf.TensorSpec([None, None], x.dtype, name=name) for name, x in batch.items()]
    call = tf.function(lambda *values: predictor.answer(dict(zip(batch, values, strict=True)))["probabilities"])
    tf2onnx.convert.from_function(call, specs, opset=17, output_path=f"{run}/model.onnx")


def report(strings: dict, shapes: dict, size: str, count: int) -> str:
    eager = strings[PIPELINE].get("processor")
    runtime = shapes["ONNX Runtime"].get("processor")
    rows = [
        [name, f["error"], "", "", ""] if "error" in f else [
            name, f"{count / f['processor']:,.0f}", f"{eager / f['processor']:.2f}" if eager else "", f"{f['first']:.1f}",
            f"{f['answer']:.3f}",
        ]
        for name, f in strings.items()
    ]  # fmt: skip
    text = f"\n## BERT-{size}: {count} sentences, batches of {BATCH}\n\n"
    text += measure.table(
        ["", "texts / processor s", "times its pipeline", "s to load and answer all once", "sum of answers"], rows
    )
    rows = [
        [name, f["error"], ""] if "error" in f else [
            name, f"{f['processor']:.3f}", f"{runtime / f['processor']:.2f}" if runtime else ""
        ]
        for name, f in shapes.items()
    ]  # fmt: skip
    text += f"\nThe network alone, {BATCH} x {LENGTH} ids:\n\n"
    return text + measure.table(["", "processor s / batch", "times ONNX Runtime"], rows)


def main() -> None:
    parser = measure.parser_of(__doc__)
    for name in ("--ids", "--padded"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--sizes", default="mini,base")
    given = parser.parse_args()
    run = f"{given.folder}/{given.size}"
    if not given.method:
        compare(given)
    elif given.method == "make_run":
        make_run(given.size, given.folder, given.texts)
        print("{}")
    elif given.method == "pipeline":
        print(json.dumps(pipeline(run, read_texts(given.texts))))
    elif given.method == "hugging_face":
        print(json.dumps(hugging_face(run, read_texts(given.texts), given.ids, given.padded)))
    else:
        method = {"ours": ours, "saved_model": saved_model, "onnx": onnx}[given.method]
        print(json.dumps(method(run, read_texts(given.texts), given.ids)))


def compare(given) -> None:
    flags = f"--sizes={given.sizes} --rounds={given.rounds} --cores={given.cores}"
    flags += f" --instructions={given.instructions}" if given.instructions else ""
    text = f"Made by `python -m benchmarks.inference {flags}`; its head says what is measured.\n\n{measure.machine(given.cores)}\n"
    with tempfile.TemporaryDirectory() as folder:
        texts = given.texts
        for size in given.sizes.split(","):
            more = [f"--size={size}", f"--folder={folder}", f"--texts={texts}"]
            measure.prepare("benchmarks.inference", ["make_run", *more])
            strings, shapes = (
                measure.rounds(
                    "benchmarks.inference", {n: [*a, *more] for n, a in methods.items()}, given.rounds, given.cores
                )
                for methods in (METHODS, SHAPES)
            )
            text += report(strings, shapes, size, len(read_texts(texts)))
    measure.publish(text, given.output)


if __name__ == "__main__":
    main()
