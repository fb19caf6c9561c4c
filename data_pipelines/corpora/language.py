"""Notices text that is not in the language of --language."""

from data_pipelines.corpora.corpus import Corpus, read_documents

_ENOUGH = 30_000  # letters to look at


def language_warning(corpus: Corpus) -> str | None:
    """Returns what to change where the beginning of a corpus does not look like its language; None where it does."""
    letters = chinese = 0
    for document in read_documents(corpus.whole()):
        for sentence in document.sentences:
            letters += sum(c.isalpha() for c in sentence)
            chinese += sum("\u3400" <= c <= "\u9fff" for c in sentence)
        if letters > _ENOUGH:
            break
    share = chinese / max(1, letters)
    if corpus.language == "en" and share > 0.5:
        other = "--language=zh; for whole words add --segmenter=jieba"
    elif corpus.language == "zh" and letters and share < 0.2:
        other = "--language=en"
    else:
        return None
    return (
        f"Warning: --language={corpus.language}, but {share:.0%} of the letters in the text are Chinese. Use {other}."
    )
