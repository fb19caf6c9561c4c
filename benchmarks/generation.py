"""Writing 64 tokens behind eight prompts, and as eight answers to texts: ours beside Hugging Face's `generate`, with the same weights.

    python -m benchmarks.generation --texts=sentences.txt --output=benchmarks/results/generation.md [--sizes=mini --beams=1,4]

GPT-2 continues the first words of real sentences, BART answers them, greedily and by beam search. Weights are random, so a text ends
where 64 tokens are full. Methods are processes of their own on the same cores and take turns; the round with the fewest processor
seconds counts. `same texts` says how many of the eight equal Hugging Face's,
but for blanks at the ends. Take it on a calm machine.
"""

import json
import tempfile
import time

from benchmarks import measure
from benchmarks.inference import read_texts

NAME, BATCH, NEW, WORDS = "benchmarks.generation", 8, 64, 16
METHODS = {"Hugging Face": ["hugging_face"], "ours": ["ours"], "ours, XLA": ["ours", "--jit_compile"]}


def prompts(path: str) -> list[str]:
    """The beginnings of the first sentences that are long enough."""
    words = [text.split() for text in read_texts(path)]
    return [" ".join(each[: WORDS - place]) for place, each in enumerate([w for w in words if len(w) >= WORDS][:BATCH])]


def make_run(system: str, size: str, folder: str, texts: str) -> None:
    """A network that speaks clearly, as a run of ours and as a folder of Hugging Face's."""
    import os

    import keras
    import numpy as np

    from data_pipelines.corpora.corpus import open_corpus
    from data_pipelines.text.train_kinds import train_tokenizer
    from xmodels import systems
    from xmodels.conversion import convert
    from xmodels.models.folder import assign, values_of, write_model

    keras.utils.set_random_seed(0)
    tokenizer = train_tokenizer("byte_bpe", open_corpus(texts, "en"), 8000)
    module = systems.load(system)
    backbone = module.MODEL(systems.configuration(module, tokenizer.vocabulary, size)).initialize()
    drawn = np.random.default_rng(0)
    values = {
        name: drawn.normal(0, 0.1, value.shape).astype("float32")
        for name, value in values_of("backbone", backbone).items()
    }
    assign("backbone", backbone, values, "random")
    os.makedirs(f"{folder}/backbone")
    write_model(f"{folder}/backbone", backbone, None, tokenizer.files(), tokenizer.describe(), system)
    convert.save(convert.load(folder), f"hf:{folder}-hf")


def ours(system: str, folder: str, texts: list[str], beams: int, jit_compile: bool) -> dict:
    from xmodels.decoding.options import Decoding
    from xmodels.runs.fine_tuned import load_generator

    begun = time.perf_counter()
    generator = load_generator(folder)
    generator.jit_compile = jit_compile
    decoding = Decoding(temperature=0.0, num_beams=beams, length_penalty=0.0, ranked=system == "bart")

    def write():
        return generator.generate(texts, decoding, max_new_tokens=NEW, batch_size=BATCH)

    return result(write, begun)


def result(write, begun: float) -> dict:
    found = write()
    first = time.perf_counter() - begun
    return {**measure.timed(write, 3), "first": first, "texts": found}


def hugging_face(system: str, folder: str, texts: list[str], beams: int) -> dict:
    import torch
    import transformers

    begun = time.perf_counter()
    kind = transformers.AutoModelForCausalLM if system == "gpt2" else transformers.AutoModelForSeq2SeqLM
    model = kind.from_pretrained(f"{folder}-hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        f"{folder}-hf", padding_side="left" if system == "gpt2" else "right"
    )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    written = {model.config.eos_token_id, model.generation_config.forced_bos_token_id}
    special = [i for i in tokenizer.all_special_ids if i not in written]  # which ours never writes
    how = {
        "max_new_tokens": NEW, "do_sample": False, "num_beams": beams, "length_penalty": 0.0, "pad_token_id": tokenizer.pad_token_id,
        "suppress_tokens": special or None,
    }  # fmt: skip

    def write():
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        with torch.inference_mode():
            rows = model.generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], **how)
        rows = rows[:, inputs["input_ids"].shape[1] :] if system == "gpt2" else rows
        return tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    return result(write, begun)


def report(found: dict[str, dict], title: str) -> str:
    theirs = found["Hugging Face"]
    rows = [
        [name, each["error"], "", "", ""] if "error" in each else [
            name, f"{BATCH * NEW / each['processor']:,.0f}",
            f"{theirs['processor'] / each['processor']:.2f}" if "processor" in theirs else "", f"{each['first']:.1f}",
            sum(a.strip() == b.strip() for a, b in zip(each["texts"], theirs.get("texts", []), strict=False)),
        ]
        for name, each in found.items()
    ]  # fmt: skip
    columns = ["", "tokens / processor s", "times Hugging Face", "s to load and write once", "same texts"]
    return f"\n## {title}\n\n{measure.table(columns, rows)}"


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--system", help="of one method")
    parser.add_argument("--texts", required=True, help="sentences, one a line")
    parser.add_argument("--systems", default="gpt2,bart")
    parser.add_argument("--sizes", default="mini")
    parser.add_argument("--beams", default="1,4")
    parser.add_argument("--jit_compile", action="store_true", help="of one method")
    given = parser.parse_args()
    if not given.method:
        compare(given)
    elif given.method == "make_run":
        make_run(given.system, given.size, given.folder, given.texts)
        print("{}")
    else:
        asked = given.system, given.folder, prompts(given.texts), int(given.beams)
        print(json.dumps(ours(*asked, given.jit_compile) if given.method == "ours" else hugging_face(*asked)))


def compare(given) -> None:
    flags = f"--systems={given.systems} --sizes={given.sizes} --beams={given.beams} --rounds={given.rounds} --cores={given.cores}"
    text = (
        f"Made by `python -m {NAME} {flags}`; its head says what is measured.\n\n{measure.machine(given.cores)}\n\n"
        f"{BATCH} texts of {WORDS - BATCH + 1} to {WORDS} words, {NEW} tokens each.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for system in given.systems.split(","):
            for size in given.sizes.split(","):
                more = [
                    f"--system={system}",
                    f"--folder={folder}/{system}-{size}",
                    f"--size={size}",
                    f"--texts={given.texts}",
                ]
                measure.prepare(NAME, ["make_run", *more])
                for beams in given.beams.split(","):
                    methods = {name: [*method, *more, f"--beams={beams}"] for name, method in METHODS.items()}
                    found = measure.rounds(NAME, methods, given.rounds, given.cores)
                    text += report(found, f"{system}, {size}, {'greedy' if beams == '1' else f'{beams} beams'}")
    measure.publish(text, given.output)


if __name__ == "__main__":
    main()
