"""A Siamese network of random weights and pairs with numbers, for tests of how answers are shared out."""

import pathlib

from tests.conversion.test_sentence_transformers import folder_of
from xmodels.jobs.convert_checkpoint.sentence_transformers import to_run


def write_scored_pairs(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """Writes a run and 11 pairs into a folder; returns the flags of `evaluate` for them."""
    to_run(str(folder_of(path / "made", dense=False)), str(path / "run"))
    rows = [f"ann {n} in york\t{'bob in rome' if n % 3 else f'who {n}'}\t{n % 5 / 4}\n" for n in range(11)]
    (path / "pairs.tsv").write_text("".join(["text\ttext_pair\tlabel\n", *rows]), "utf-8")
    return {"model_dir": path / "run", "test_file": path / "pairs.tsv"}
