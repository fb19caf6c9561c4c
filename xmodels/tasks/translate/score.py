"""Translates a test set and compares the translations with references: sacreBLEU (Post, 2018) and chrF (Popović, 2015)."""

import re

import sacrebleu

from data_pipelines.errors import UsageError
from data_pipelines.paths import check_output
from xmodels.decoding.options import Decoding
from xmodels.tasks.base.source import Source
from xmodels.tasks.translate.answer import load, translations
from xmodels.tasks.translate.read import read_pairs, write_lines

SELECTION_METRIC = "seq2seq_accuracy"  # writing all texts to choose an epoch would take longer than training
REPORTED = ("negative_log_likelihood", "exact_match")
CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
WORDS = re.compile(rf"[a-z0-9]+|{CHINESE.pattern}")
ROUGE = ("rouge1", "rouge2", "rougeL")


def evaluate(
    source: Source, test_file: str, target_file: str | None, text_column: str | None, target_column: str | None,
    num_beams: int, length_penalty: float | None, no_repeat_ngram_size: int, min_new_tokens: int, max_new_tokens: int | None,
    bleu_tokenize: str, rouge: bool, lowercase: bool, batch_size: int | None, translations_file: str | None,
) -> dict:  # fmt: skip
    """Prints and returns BLEU and chrF with their signatures, and ROUGE; arguments as in `launch/evaluate.py`."""
    scorer = rouge_scorer() if rouge else None  # before anything is written, which takes long
    check_output(translations_file, "translations_file")
    if not target_file:  # a table, as that of the training was
        learnt = source.columns()
        text_column, target_column = text_column or learnt["text_column"], target_column or learnt["text_pair_column"]
    sources, references = read_pairs(test_file, target_file, text_column, target_column)
    generator = load(source)
    decoding = Decoding(
        temperature=0.0, num_beams=num_beams, length_penalty=generator.penalty(length_penalty),
        no_repeat_ngram_size=no_repeat_ngram_size, min_new_tokens=min_new_tokens,
    )  # fmt: skip
    predictions = translations(generator, sources, decoding, batch_size or 32, max_new_tokens)
    if translations_file:
        write_lines(translations_file, predictions)
    found = scores(predictions, references, tokenize=bleu_tokenize, lowercase=lowercase)
    how = f"beam {num_beams}, length penalty {decoding.length_penalty:g}" if num_beams > 1 else "greedy"
    print(f"{test_file}: {len(predictions):,} translations, {how}")
    print(f"  BLEU  {found['bleu']:.2f}  {found['bleu_signature']}")
    print(f"  chrF2 {found['chrf']:.2f}  {found['chrf_signature']}")
    print(f"  exact {found['exact_match']:.2f} % of the references, letter by letter")
    if scorer:
        found |= rouge_scores(scorer, predictions, references)
        print("  " + " ".join(f"{name} {found[name]:.2f}" for name in ROUGE))
    print(f"  length {found['length_ratio']:.3f} of the references")
    if generator.tokenizer.describe().get("do_lower_case") and not lowercase:
        print(
            "  Note: the vocabulary has no capitals, so those of the references count as wrong; --lowercase ignores case."
        )
    for source, reference, text in list(zip(sources, references, predictions, strict=True))[:2]:
        print(f"  {source}\n    reference    {reference}\n    translation  {text}")
    return found


def rouge_scorer():
    """Returns the module of the library. Raises a UsageError where it is not installed."""
    try:
        from rouge_score import rouge_scorer as library
    except ImportError:
        raise UsageError("--rouge: needs a library; pip install 'xmodels[rouge]' or rouge-score.") from None
    return library


def rouge_scores(library, predictions: list[str], references: list[str]) -> dict[str, float]:
    """Returns the mean F of each of ROUGE (Lin, 2004), in percent, without stemming; a Chinese character is a word."""
    scorer = library.RougeScorer(ROUGE, tokenizer=Words())
    rows = [scorer.score(reference, text) for reference, text in zip(references, predictions, strict=True)]
    return {name: 100.0 * sum(row[name].fmeasure for row in rows) / len(rows) for name in ROUGE}


class Words:
    """What ROUGE counts: letters and digits between other signs, lower-cased, as the library has it, and Chinese characters."""

    def tokenize(self, text: str) -> list[str]:
        return WORDS.findall(text.lower())


def scores(translations: list[str], *references: list[str], tokenize: str = "auto", lowercase: bool = False) -> dict:
    """Returns BLEU and chrF of a whole test set, as sacreBLEU counts them, and the share that equals the first reference.

    Args:
        references: one or several lists, each with a reference of every translation.
        tokenize: a tokenization of sacreBLEU; "auto" takes "zh" where a third of the references' characters are Chinese,
            and else "13a".
    """
    if tokenize == "auto":
        text = "".join(reference for stream in references for reference in stream)
        tokenize = "zh" if 3 * len(CHINESE.findall(text)) > len(text) else "13a"
    bleu = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase)
    chrf = sacrebleu.CHRF(lowercase=lowercase)
    result, characters = (metric.corpus_score(translations, list(references)) for metric in (bleu, chrf))
    exact = sum(a.strip() == b.strip() for a, b in zip(translations, references[0], strict=True))
    return {
        "bleu": result.score,
        "bleu_signature": str(bleu.get_signature()),
        "precisions": list(result.precisions),
        "brevity_penalty": result.bp,
        "length_ratio": result.ratio,
        "chrf": characters.score,
        "chrf_signature": str(chrf.get_signature()),
        "exact_match": 100.0 * exact / len(translations),
        "num_translations": len(translations),
    }
