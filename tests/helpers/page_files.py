"""What each page takes for granted: small files and networks under its names, written into the working folder."""

import gzip
import json
import pathlib
import shutil

from tests.helpers.page_networks import (
    PIECES,
    bert,
    classifier,
    command,
    cross_encoder,
    gpt2,
    roberta,
    sentence_encoder,
    transformer_xl,
)
from tests.helpers.pages import ROOT, fenced, text_of

NAMES, PLACES = ("ann", "bob", "eve", "dan"), ("york", "rome", "bonn", "oslo")
SENTENCES = [f"{name} lives in {place} ." for name in NAMES for place in PLACES]
TITLES = ["怎么重置密码？", "忘记密码怎么办？", "今天天气很好。", "饭菜很好吃。"]
SETS = "train", "dev", "test"


def write(name, *parts, separator="\n"):
    """Writes parts, by default lines, into a file, which is compressed where its name ends in .gz."""
    path, text = pathlib.Path(name), separator.join(parts) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def rows(header, row, count=16):
    """Lines of a table; `row` makes the cells of the number of a row."""
    return [*(["\t".join(header)] if header else []), *("\t".join(map(str, row(i))) for i in range(count))]


def texts_with_labels(*labels):
    return rows(("label", "text"), lambda i: (labels[i % len(labels)], SENTENCES[i]))


def pairs(first, second, label, labels=("yes", "no"), count=16):
    """A table of pairs; its arguments name the columns."""
    columns = first, second, label
    return rows(columns, lambda i: (SENTENCES[i % 16], SENTENCES[-i % 16], labels[i % len(labels)]), count)


def lists():
    """Queries with candidates and their relevance, without a header."""
    return rows((), lambda i: (f"where does {NAMES[i // 4]} live ?", SENTENCES[i], int(i % 4 == 1)))


def conll():
    """Sentences in the four columns of CoNLL-2003."""
    yield "-DOCSTART- -X- -X- O\n"
    for sentence in SENTENCES:
        name, *middle, place, end = sentence.split()
        yield f"{name} NN B-NP I-PER"
        yield from (f"{word} VB B-VP O" for word in middle)
        yield f"{place} NN B-NP I-LOC\n{end} . O O\n"


def classify():
    bert("hf:bert-base-uncased")
    for name in SETS:
        write(f"{name}.tsv", *texts_with_labels("sport", "politics", "sport|politics"))
    write("texts.txt", *SENTENCES[:3])
    write("vocab.txt", *PIECES)


def tag():
    bert("run", num_layers=4)
    for name in ("train", "testa", "testb"):
        write(f"eng.{name}", *conll())
    write("texts.txt", *SENTENCES[:3])


def answer_span():
    """The files of questions are the example of the page."""
    bert("hf:bert-base-uncased")
    for name in ("train", "dev"):
        write(f"{name}-v2.0.json", fenced(text_of("answer_span"), "json")[0])
    write("questions.jsonl", json.dumps({"id": "7", "question": "where does bob live?", "context": SENTENCES[5]}))


def rank():
    bert("hf:bert-base-uncased")
    cross_encoder("hf:ms-marco-MiniLM-L6-v2")
    for name in SETS:
        write(f"{name}.tsv", *lists())
    write("lists.jsonl", json.dumps({"query": "who?", "candidates": ["ann.", "a fish", "bob ."]}))


def regress():
    bert("hf:bert-base-uncased")
    cross_encoder("hf:ms-marco-MiniLM-L6-v2")
    sentence_encoder("for-search")
    for name in SETS:
        write(f"sts-{name}.tsv", *pairs("sentence1", "sentence2", "score", (0, 2.5, 5)))
    write("pairs.tsv", *pairs("sentence1", "sentence2", "score", (1,), count=3))
    write("titles.txt", *SENTENCES)
    command("convert_checkpoint", "--from=sentence_transformers:for-search", "--to=encoder")
    command("encode", model_dir="encoder", input_file="titles.txt", output_file="titles.npy")
    command("index", vectors_file="titles.npy", input_file="titles.txt", output_dir="index")


def siamese():
    bert("hf:bert-base-chinese")
    sentence_encoder("all-MiniLM-L6-v2")
    for name in SETS:
        write(f"{name}.tsv", *rows(("text", "text_b"), lambda i: (TITLES[i % 4], TITLES[i % 4][::-1] + "好" * i), 128))
    write("titles.txt", *TITLES)


def features():
    bert("run", num_layers=4)
    write("texts.txt", *SENTENCES[:3])
    write("reviews.tsv", *texts_with_labels("good", "bad"))


def mt_dnn():
    """Besides the files of the samples those that the example of the page names."""
    shutil.copytree(ROOT / "samples/mt_dnn", "samples/mt_dnn")
    bert("run")
    for name in SETS:
        write(f"data/classification/sst2-en/{name}.tsv", *rows((), lambda i: (SENTENCES[i], i % 2)))
    cola = rows((), lambda i: ("gj04", i % 2, "*" if i % 2 else "", SENTENCES[i]))
    for name in ("in_domain_train", "in_domain_dev"):
        write(f"data/classification/cola-en/{name}.tsv", *cola)
    write("cola_test.tsv", *cola)
    labels = ("entailment", "neutral", "contradiction")
    for name in ("dev", "test"):
        write(f"data/sentence_pair/snli-en/{name}.txt.gz", *pairs("premise", "hypothesis", "label", labels)[1:])
    for name in SETS:
        table = "\n".join(pairs("a", "b", "score", (0, 2.5, 5))[1:])
        write(f"data/sentence_pair/stsb-en/stsb-en-{name}.csv", table.replace("\t", ","))
    for name in ("train.txt.gz", "dev.txt", "test.txt.gz"):
        write(f"data/retrieval/wikiqa-en/{name}", *lists())
    for name in ("snli.tsv", "dev.tsv", "data/rte/train.tsv", "data/rte/dev.tsv"):
        write(name, *pairs("premise", "hypothesis", "label", labels))
    write("new.tsv", *rows(("label", "text"), lambda i: (i % 2, f"{SENTENCES[i % 16]} {i}"), 400))
    write("data/stsb/train.tsv", *rows(("label", "text"), lambda i: (i / 2, SENTENCES[i])))
    write("page.yaml", *fenced(text_of("mt_dnn"), "yaml"))


def fast_classify():
    bert("hf:bert-base-uncased")
    for name in SETS:
        write(f"{name}.tsv", *texts_with_labels("good", "bad"))
    write("unlabelled.txt", *SENTENCES)
    write("texts.txt", *SENTENCES[:3])


def serve():
    """Besides the classifier of the page an export with early exit, which is called classifier too, and one of a generator."""
    classifier("classifier")
    bert("start")
    write("train.tsv", *texts_with_labels("good", "bad"))
    quick = {"num_train_epochs": 1, "distill_epochs": 1, "max_seq_length": 16, "train_file": "train.tsv"}
    command("finetune", task="fast_classify", init_checkpoint="start", model_dir="early/classifier", **quick)
    command("export_model", model_dir="early/classifier", export_dir="early/serving")
    gpt2("generator")
    command("export_model", model_dir="generator", export_dir="generator-serving")


def probing():
    bert("run", num_layers=4, system="roberta_wwm", fills_masks=True)
    roberta("hf:roberta-base")
    write("texts.txt", "ann lives in <mask>", "<mask> lives in rome")
    bert("hf:bert-base-chinese", num_layers=7)
    for name in ("train", "test"):
        write(f"{name}.tsv", *rows(("label", "text"), lambda i: (i % 2, SENTENCES[i % 16] + "好坏"[i % 2]), 40))


def rnn_cnn():
    for number in range(2):
        write(f"text/{number}.txt", *SENTENCES, "the food was good or bad .", separator="\n\n")
    for name in SETS:
        write(f"{name}.tsv", *texts_with_labels("good", "bad"))
    write("train.conll", *(f"{word} {'B-PLACE' if word in PLACES else 'O'}{chr(10) * (word == '.')}"
                           for sentence in SENTENCES for word in sentence.split()))  # fmt: skip
    write("train.de", *(f"{name} wohnt in {place} ." for name in NAMES for place in PLACES))
    write("train.en", *SENTENCES)
    texts = {"input_file": "text/*.txt,train.de", "input_format": "documents"}
    command("train_vocabulary", **texts, tokenizer="sentencepiece", vocab_size=60, output_file="vocabulary")


def evaluation():
    write("corpus/a.txt", *SENTENCES, separator="\n\n")
    write("held_out/a.txt", *SENTENCES[:5], separator="\n\n")
    write("wiki.test.tokens", " = rome = ", "", " ann does n't live in rome , but in york 1 @,@ 000 times . " * 8)
    write("test.txt", *SENTENCES)
    write("lambada_test.jsonl", *(json.dumps({"text": sentence.removesuffix(" .")}) for sentence in SENTENCES[:3]))
    sentences = [f"{i + 1} {SENTENCES[i % 16]}" for i in range(20)]
    write("cbtest_NE_test_2500ex.txt", *sentences, "21 ann lives in XXXXX .\trome\t\trome|" + "|".join("abcdefghi"), "")
    gpt2("hf:gpt2")
    transformer_xl("txl")
    records = {"input_file": "corpus/*.txt", "vocab_file": "gpt2", "packing": "stream", "max_seq_length": 32}
    command("create_pretraining_data", **records, output_dir="records", num_workers=1)
    quick = {"num_train_steps": 2, "train_batch_size": 2, "size": "tiny"}
    command("pretrain", system="gpt2", data_dir="records", model_dir="run", **quick)


def labelled_data():
    """The records that the page calls RECORDS; `test_finetuning_data` runs all rows of its table."""
    write("vocab.txt", *PIECES)
    write("reviews.tsv", *texts_with_labels("good", "bad"))
    flags = {"task": "classify", "input_file": "reviews.tsv", "vocab_file": "vocab.txt", "output_dir": "RECORDS"}
    command("create_finetuning_data", **flags)
