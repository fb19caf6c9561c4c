"""Pages of networks that mix their inputs in other ways than full attention, from the development data of this project."""

import os
from collections.abc import Callable

from benchmarks.reproductions.shared_inputs import Place, english, parted, write_text
from data_pipelines.corpora.headers import Columns


def set_transformer(place: Place) -> list[str]:
    return ["set_transformer", f"--folder={os.path.join(place.work, 'set_transformer')}"]


def star_transformer(place: Place) -> list[str]:
    """Topics of news (AG News) and moods of films (SST-2)."""
    given = {
        "topics": (["classification/agnews-en/test.csv.gz"], Columns("2", None, "0")),
        "moods": ([f"classification/sst2-en/{part}.tsv" for part in ("train", "test")], Columns("0", None, "1")),
    }
    tables = {name: parted(place, f"star_transformer/{name}", *each, 1000) for name, each in given.items()}
    tasks = (
        f"--task={name}={','.join(each[part] for part in ('train', 'dev', 'test'))}" for name, each in tables.items()
    )
    return ["star_transformer", *tasks, f"--folder={os.path.join(place.work, 'star_transformer_en')}"]


def tensorcoder(place: Place) -> list[str]:
    text = write_text(place, "tensorcoder", english(place))
    folder = os.path.join(place.work, "tensorcoder_en")
    return ["tensorcoder", f"--text={text['train']}", f"--heldout={text['heldout']}", f"--folder={folder}"]


# Page -> minutes of one free core, about, and what makes its command.
PAGES: dict[str, tuple[int, Callable[[Place], list[str]]]] = {
    "set_transformer": (15, set_transformer),
    "star_transformer_en": (25, star_transformer),
    "tensorcoder_en": (25, tensorcoder),
}
