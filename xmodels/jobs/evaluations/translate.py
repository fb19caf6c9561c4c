"""Translates a test set and compares the translations with references: sacreBLEU (Post, 2018) and chrF (Popović, 2015)."""

import re

import sacrebleu

from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError, UsageError
from xmodels.decoding.options import Decoding
from xmodels.export.translator import Translator
from xmodels.jobs.predict import check_output
from xmodels.jobs.translate import translations, write_lines

CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def evaluate(
    model_dir: str, test_file: str, target_file: str | None, text_column: str | None, target_column: str | None,
    num_beams: int, length_penalty: float, max_new_tokens: int | None, bleu_tokenize: str, lowercase: bool,
    batch_size: int | None, translations_file: str | None,
) -> dict:  # fmt: skip
    """Prints and returns BLEU and chrF with their signatures; arguments as in `launch/evaluate.py`."""
    check_output(translations_file, "translations_file")
    sources, references = read_pairs(test_file, target_file, text_column, target_column)
    translator = Translator.load(model_dir)
    decoding = Decoding(temperature=0.0, num_beams=num_beams, length_penalty=length_penalty)
    found = translations(translator, sources, decoding, batch_size or 32, max_new_tokens)
    if translations_file:
        write_lines(translations_file, found)
    scores = score(found, references, tokenize=bleu_tokenize, lowercase=lowercase)
    how = f"beam {num_beams}, length penalty {length_penalty:g}" if num_beams > 1 else "greedy"
    print(f"{test_file}: {len(found):,} translations, {how}")
    print(f"  BLEU  {scores['bleu']:.2f}  {scores['bleu_signature']}")
    print(f"  chrF2 {scores['chrf']:.2f}  {scores['chrf_signature']}")
    print(f"  length {scores['length_ratio']:.3f} of the references")
    if translator.tokenizer.describe().get("do_lower_case") and not lowercase:
        print(
            "  Note: the vocabulary has no capitals, so those of the references count as wrong; --lowercase ignores case."
        )
    for source, reference, text in list(zip(sources, references, found, strict=True))[:2]:
        print(f"  {source}\n    reference    {reference}\n    translation  {text}")
    return scores


def score(translations: list[str], *references: list[str], tokenize: str = "auto", lowercase: bool = False) -> dict:
    """BLEU and chrF of a whole test set, as sacreBLEU counts them.

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
    return {
        "bleu": result.score,
        "bleu_signature": str(bleu.get_signature()),
        "precisions": list(result.precisions),
        "brevity_penalty": result.bp,
        "length_ratio": result.ratio,
        "chrf": characters.score,
        "chrf_signature": str(chrf.get_signature()),
        "num_translations": len(translations),
    }


def read_pairs(test_file: str, target_file: str | None, text_column: str | None, target_column: str | None):
    """Sources and references, read as `create_pretraining_data` reads parallel text; says how many pairs lack a side.

    Raises:
        DataError: the files differ in their numbers of lines, or hold no pair.
    """
    if target_file and (text_column or target_column):
        raise UsageError(
            "--target_file goes with two files of lines; --text_column and --target_column with one table."
        )
    monitor = Monitor()
    try:
        corpus = open_corpus(test_file, "en", "parallel", Reading("en", text_column, target_column), target_file)
        pairs = [document.sentences for document in read_documents(corpus.whole(), monitor)]
    except (DataError, UsageError) as error:
        raise type(error)(str(error).replace("--input_file", "--test_file")) from None
    if not pairs:
        raise DataError(f"--test_file={test_file}: holds no pair of a text and its translation.")
    if empty := monitor.counts["empty_documents"]:
        print(f"Note: {empty:,} pair(s) with an empty side are left out.")
    return [source for source, _ in pairs], [reference for _, reference in pairs]
