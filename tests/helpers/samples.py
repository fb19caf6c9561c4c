"""Where the samples and the development data are, and records made of the samples."""

import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SHARED = pathlib.Path(os.environ.get("XMODELS_SHARED_DIR", ROOT.parent / "shared"))


def make_records(folder, vocabulary, **settings):
    """Writes records of the Chinese samples into `folder`; returns its path."""
    from data_pipelines.pretraining.job import Settings, create

    values = {"language": "zh", "do_whole_word_mask": True, "segmenter": "jieba", "max_seq_length": 32} | settings
    values = {"max_predictions_per_seq": 6, "num_shards": 2} | values
    create(Settings(input_file=str(ROOT / "samples/zh/corpus.txt"), vocab_file=vocabulary, **values), str(folder))
    return str(folder)
