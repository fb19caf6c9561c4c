"""The vocabulary: whole, with its special tokens, and used in the case that it was made for."""

from data_pipelines.text.kinds import open_tokenizer, read_tokenizer
from data_pipelines.text.letter_case import case_warning
from xmodels.doctor.case import Case
from xmodels.training.watching.progress import print_status


def vocabulary(case: Case) -> str | None:
    """Opens the vocabulary of --vocab_file, or of the records."""
    path, described = case.flags.vocab_file, (case.manifest.settings.tokenizer if case.manifest else None) or {}
    if path:
        lower_case = described.get("do_lower_case") if case.flags.do_lower_case is None else case.flags.do_lower_case
        tokenizer = open_tokenizer(path, described.get("tokenizer", "auto"), lower_case)
        _warn_of_line_ends(path)
    elif described:
        path, tokenizer = case.flags.data_dir, read_tokenizer(case.flags.data_dir, described)
    else:
        return None
    if warning := case_warning(tokenizer, path):
        print_status(warning)
    case.tokenizer = tokenizer
    case_of_text = "lower-cased" if tokenizer.do_lower_case else "case kept"
    return f"{len(tokenizer.vocabulary):,} pieces, {tokenizer.kind}, {case_of_text}"


def _warn_of_line_ends(path: str) -> None:
    if not path.endswith(".txt"):
        return
    with open(path, "rb") as file:
        if b"\r\n" in file.read(1 << 16):
            print_status(
                f"Warning: {path} has Windows line ends. They are left out here, but other programs read `[PAD]\\r`. Run "
                f"`sed -i 's/\\r$//' {path}`."
            )
