"""How fast, and in how much memory, raw text becomes records: ours beside Google's script, and the tokenizers alone.

    python -m benchmarks.data --en=english.txt --zh=chinese.txt --output=benchmarks/results/data.md
    python -m benchmarks.data --zh=chinese.txt --gigabytes=2 --num_workers=2      # memory on a large corpus

The texts hold one sentence a line and a blank line between documents. Every measurement is a process of its own, pinned
to one core, and counts processor seconds, so that other work on the machine disturbs it little; methods take turns and the
best of the rounds counts. Google's script is restated in `benchmarks/reference_data.py` and reads a part of the text only.
"""

import argparse
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

REFERENCE_BYTES = 500_000  # of text for the reference: it is slow
PLANS = {
    "characters, once": ("zh", {"masking": "dynamic"}, 1),
    "characters, static, 5 times": ("zh", {"masking": "static", "dupe_factor": 5}, 5),
    "whole words by jieba, once": ("zh", {"do_whole_word_mask": True, "segmenter": "jieba"}, 0),
    "English whole words, once": ("en", {"do_whole_word_mask": True}, 1),
    "English whole words, static, 5 times": ("en", {"do_whole_word_mask": True, "masking": "static", "dupe_factor": 5}, 5),
    "English whole words, static, 10 times": (
        "en", {"do_whole_word_mask": True, "masking": "static", "dupe_factor": 10}, 10,
    ),
}  # fmt: skip
TOKENIZERS = ("google", "tokenizers", "tensorflow_text", "ours")


def cut(path: str, num_bytes: int, target: str) -> str:
    """The first documents of a text, about `num_bytes` of it."""
    with open(path, encoding="utf-8") as source, open(target, "w", encoding="utf-8") as file:
        written = 0
        for line in source:
            if written > num_bytes and not line.strip():
                break
            file.write(line)
            written += len(line.encode())
    return target


def ours(text: str, vocabulary: str, language: str, settings: dict, folder: str) -> None:
    """One process makes all shards."""
    from data_pipelines.pretraining.job import Settings, create

    create(
        Settings(input_file=text, vocab_file=vocabulary, language=language, **settings), os.path.join(folder, "records")
    )


def reference(text: str, vocabulary: str, language: str, settings: dict, folder: str) -> None:
    from benchmarks import reference_data

    whole_words = settings.get("do_whole_word_mask", False)
    reference_data.create(
        text, vocabulary, os.path.join(folder, "out"), settings.get("dupe_factor", 1), whole_words=whole_words
    )


def segment(text: str) -> None:
    """jieba alone."""
    import jieba

    jieba.initialize()
    before = processor_seconds()
    with open(text, encoding="utf-8") as file:
        for line in file:
            for _ in jieba.cut(line.strip()):
                pass
    print(json.dumps({"seconds": processor_seconds() - before}))


def tokenize(name: str, text: str, vocab_file: str) -> None:
    """A tokenizer alone, on lines that are in memory."""
    with open(text, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    from data_pipelines.text.vocabulary import Vocabulary
    from data_pipelines.text.wordpiece import WordPieceTokenizer

    vocabulary = Vocabulary.read(vocab_file)
    if name == "google":
        from benchmarks import reference_data

        def work():
            for line in lines:
                reference_data.tokenize(line, vocabulary.ids)
    elif name == "tokenizers":
        tokenizer = WordPieceTokenizer(vocabulary)

        def work():
            tokenizer.backend.encode_batch(lines, add_special_tokens=False)
    elif name == "tensorflow_text":
        import tensorflow_text

        fast = tensorflow_text.FastBertTokenizer(vocabulary.tokens, lower_case_nfd_strip_accents=True)

        def work():
            for start in range(0, len(lines), 1000):
                fast.tokenize(lines[start : start + 1000])
    else:
        import collections

        from data_pipelines.corpora.documents import Document
        from data_pipelines.pretraining.stages.tokenize import tokenize as stage

        def work():
            documents = (Document(lines[start : start + 20], "") for start in range(0, len(lines), 20))
            for _ in stage(WordPieceTokenizer(vocabulary), None, collections.Counter())(documents):
                pass

    before = processor_seconds()
    work()
    print(json.dumps({"seconds": processor_seconds() - before}))


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(*arguments: str) -> dict[str, float]:
    """Runs this file with `--one` in a fresh process: processor seconds, and the peak of its memory in MB."""
    code = (
        "import json, os, resource, subprocess, sys\n"
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "last = done.stdout.strip().splitlines()[-1:]\n"
        "found = json.loads(last[0]) if last and last[0].startswith('{') else {}\n"
        "found = {'seconds': usage.ru_utime + usage.ru_stime, 'megabytes': usage.ru_maxrss / 1024, **found}\n"
        "print(json.dumps(found)); sys.exit(done.returncode)\n"
    )
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", code, sys.executable, "-m", "benchmarks.data", "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def best(rounds: int, jobs: dict[str, tuple[str, ...]]) -> dict[str, dict[str, float]]:
    """The fastest round of each job; the jobs take turns."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, arguments in jobs.items():
            result = measure(*arguments)
            if name not in found or result["seconds"] < found[name]["seconds"]:
                found[name] = result
    return found


def compare(texts: dict[str, str], folder: str, rounds: int) -> list[str]:
    """The tables, as lines of Markdown."""
    vocabularies, parts = {}, {}
    for language, text in texts.items():
        vocabularies[language] = os.path.join(folder, f"vocab-{language}.txt")
        train = [sys.executable, "-m", "launch", "train_vocabulary", f"--input_file={text}", f"--language={language}"]
        train += ["--vocab_size=16000", f"--output_file={vocabularies[language]}"]
        subprocess.run(train, check=True, capture_output=True)
        parts[language] = cut(text, REFERENCE_BYTES, os.path.join(folder, f"part-{language}.txt"))
    lines = [
        "| records | ours MB/s | Google's MB/s | ratio | ours peak MB | Google's peak MB (of 0.5 MB text) |",
        "| --- " * 6 + "|",
    ]
    for title, (language, settings, passes) in PLANS.items():
        if language not in texts:
            continue
        arguments = vocabularies[language], language, json.dumps(settings), folder
        jobs = {"ours": ("ours", texts[language], *arguments), "idle": ("ours", parts[language] + ".one", *arguments)}
        cut(texts[language], 1, parts[language] + ".one")
        if passes:
            jobs["google"] = ("reference", parts[language], *arguments)
            jobs["google idle"] = ("reference", parts[language] + ".one", *arguments)
        else:
            jobs["jieba"] = ("segment", texts[language])
        found = best(rounds, jobs)

        def rate(name, start, text, found=found):
            used = found[name]["seconds"] - (found[start]["seconds"] if start else 0)
            return os.path.getsize(text) / 1e6 / used

        mine = rate("ours", "idle", texts[language])
        if passes:
            theirs = rate("google", "google idle", parts[language])
            other, memory = f"{theirs:.3f}", f"{found['google']['megabytes']:.0f}"
        else:
            theirs = rate("jieba", None, texts[language])
            other, memory = f"{theirs:.2f} (jieba alone)", ""
        lines.append(
            f"| {title} | {mine:.2f} | {other} | {mine / theirs:.1f} | {found['ours']['megabytes']:.0f} | {memory} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "Tokenizers alone, MB of text a processor second:",
        "",
        "| text | " + " | ".join(TOKENIZERS) + " |",
        "| --- " * 5 + "|",
    ]
    for language, text in texts.items():
        jobs = {
            name: ("tokenize", name, parts[language] if name == "google" else text, vocabularies[language])
            for name in TOKENIZERS
        }
        found = best(rounds, jobs)
        sizes = {name: os.path.getsize(jobs[name][2]) / 1e6 for name in jobs}
        lines.append(
            f"| {language} | " + " | ".join(f"{sizes[n] / found[n]['seconds']:.2f}" for n in TOKENIZERS) + " |"
        )
        print(lines[-1], flush=True)
    return lines


def repeat(text: str, gigabytes: float, target: str) -> None:
    """A large corpus: the documents of a text again and again, each time in another order."""
    with open(text, encoding="utf-8") as file:
        documents = [d for d in file.read().split("\n\n") if d.strip()]
    rng, written = random.Random(0), 0
    with open(target, "w", encoding="utf-8") as file:
        while written < gigabytes * 1e9:
            rng.shuffle(documents)
            for document in documents:
                written += len(document.encode()) + 2
                file.write(document + "\n\n")


def tree_megabytes(pid: int) -> float:
    """Memory of a process and all below it, shared pages once where the system tells (PSS)."""
    total, waiting = 0.0, [pid]
    while waiting:
        current = waiting.pop()
        try:
            with open(f"/proc/{current}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
            with open(f"/proc/{current}/task/{current}/children") as file:
                waiting += map(int, file.read().split())
        except OSError:
            pass  # it has ended
    return total


def large(text: str, language: str, gigabytes: float, num_workers: int, folder: str) -> list[str]:
    """Wall time and peak memory of the command on a large corpus."""
    corpus, vocabulary = os.path.join(folder, "large.txt"), os.path.join(folder, "vocab.txt")
    repeat(text, gigabytes, corpus)
    train = [sys.executable, "-m", "launch", "train_vocabulary", f"--input_file={text}", f"--language={language}"]
    subprocess.run([*train, f"--output_file={vocabulary}", "--vocab_size=16000"], check=True, capture_output=True)
    command = [
        sys.executable,
        "-m",
        "launch",
        "create_pretraining_data",
        f"--input_file={corpus}",
        f"--language={language}",
    ]
    command += [f"--vocab_file={vocabulary}", f"--output_dir={folder}/records", f"--num_workers={num_workers}"]
    started, peak = time.monotonic(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    while process.poll() is None:
        peak = max(peak, tree_megabytes(process.pid))
        time.sleep(0.2)
    reader.join()
    seconds = time.monotonic() - started
    size = os.path.getsize(corpus)
    return [
        f"{size / 1e9:.2f} GB of {language}, {num_workers} worker(s): {seconds:.0f} s, {size / 1e6 / seconds:.1f} MB/s; peak "
        f"memory of all processes together {peak:.0f} MB (bound: 512 + 64 a worker = {512 + 64 * num_workers})."
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--en", help="English text")
    parser.add_argument("--zh", help="Chinese text")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--gigabytes", type=float, default=0, help="measure the command on a corpus of this size instead"
    )
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--output", help="Markdown file to write the table to")
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, *arguments = options.one
        if name in ("ours", "reference"):
            arguments[3] = json.loads(arguments[3])
            with tempfile.TemporaryDirectory(dir=arguments[4]) as arguments[4]:
                {"ours": ours, "reference": reference}[name](*arguments)
        else:
            {"segment": segment, "tokenize": tokenize}[name](*arguments)
        return
    texts = {language: path for language, path in (("zh", options.zh), ("en", options.en)) if path}
    if not texts:
        parser.error("name a text with --en or --zh")
    folder = tempfile.mkdtemp(prefix="benchmark-data-")
    try:
        if options.gigabytes:
            language, text = next(iter(texts.items()))
            lines = large(text, language, options.gigabytes, options.num_workers, folder)
        else:
            lines = compare(texts, folder, options.rounds)
    finally:
        shutil.rmtree(folder)
    sizes = ", ".join(f"{language} {os.path.getsize(path) / 1e6:.1f} MB" for language, path in texts.items())
    head = [f"Python {platform.python_version()}, {os.cpu_count()} cores; texts: {sizes}; one core a measurement.", ""]
    report = "\n".join([*head, *lines]) + "\n"
    print(report)
    if options.output:
        os.makedirs(os.path.dirname(os.path.abspath(options.output)), exist_ok=True)
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(
                "# Making records\n\nMade by `python -m benchmarks.data`; see its head for what is measured.\n\n"
                + report
            )


if __name__ == "__main__":
    main()
