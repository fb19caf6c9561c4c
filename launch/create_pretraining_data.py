"""Turns raw text into records for pretraining."""

import sys

from launch import input_flags
from launch.command import Command

COMMAND = Command(
    "create_pretraining_data",
    "Turns raw text into sharded records for pretraining. Streams, uses many processes, and resumes.",
    "xmodels create_pretraining_data --input_file='corpus/*.txt' --vocab_file=vocab.txt --output_dir=records \\\n"
    "    --language=zh --do_whole_word_mask --segmenter=jieba --num_workers=8",
)
input_flags.add(COMMAND)
COMMAND.section("Text")
COMMAND.string("vocab_file", None, "Vocabulary: vocab.txt, vocab.json with its merges beside it, a SentencePiece *.model, or a folder with one.", required=True)  # fmt: skip
COMMAND.choice("tokenizer", "auto", ["auto", "wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"], "Kind of vocabulary; auto goes by the folder's settings or by the file.")  # fmt: skip
COMMAND.boolean("do_lower_case", None, "Lower-case and strip accents. Must agree with the vocabulary. Default: as the vocabulary's folder says, or else yes, but for byte_bpe and sentencepiece.")  # fmt: skip
COMMAND.section("Cleaning")
COMMAND.string("clean", "", "Comma-separated: wiki, html (take out markup), width (full-width letters and digits), control (control characters, odd blanks), traditional_to_simplified (OpenCC).")  # fmt: skip
COMMAND.integer("min_sentence_chars", 0, "Drop shorter sentences.")
COMMAND.integer("min_document_chars", 0, "Drop documents with fewer characters.")
COMMAND.choice("deduplicate", "none", ["none", "exact", "near"], "Drop documents that stand in the corpus before: with the same words, or (near) with similar ones as well, found by MinHash. Reads the corpus twice.")  # fmt: skip
COMMAND.number("near_duplicate_threshold", 0.8, "Jaccard similarity of runs of words from which on documents count as near duplicates.")  # fmt: skip
COMMAND.integer("near_duplicate_ngram", 5, "Length of these runs, in words; in Chinese in characters.")
COMMAND.integer("near_duplicate_seed", 1, "Seed of MinHash.")
COMMAND.section("Words")
COMMAND.boolean("do_whole_word_mask", False, "Mark words, so that all pieces of a word are hidden together. Chinese needs a segmenter.")  # fmt: skip
COMMAND.string("segmenter", "none", "What tells words apart: jieba (its dictionary and rules in Rust), jieba_python (as published), lexicon (longest match in --lexicon), presegmented or whitespace (blanks), ltp:FOLDER (a local LTP model), MODULE:FUNCTION (your own Python function from a text to its words, which is run), or none.")  # fmt: skip
COMMAND.string("lexicon", "", "Files of words, one a line, with their frequency if you like: added to jieba's dictionary, or all there is for --segmenter=lexicon.")  # fmt: skip
COMMAND.string("phrase_lexicon", "", "Files of phrases, one a line. Writes phrase_start, for masks that hide phrases whole: the longest match is one unit, elsewhere each word.")  # fmt: skip
COMMAND.string("entity_lexicon", "", "Files of entities, one a line. Writes entity_start: the longest match is one unit, elsewhere each Chinese character and each English word.")  # fmt: skip
COMMAND.section("Examples")
COMMAND.choice("packing", "segment_pair", ["segment_pair", "sentence_pair", "sentence_order", "full_sentences", "doc_sentences", "stream", "stream_bidirectional", "dialogue", "parallel"], "segment_pair: two segments, for next sentence prediction (BERT). sentence_pair: two single sentences. sentence_order: two segments, swapped in half of the pairs (ALBERT). full_sentences: whole sentences up to the length, across documents. doc_sentences: the same within a document (RoBERTa). stream: contiguous runs, for causal models and memories (GPT, Transformer-XL). stream_bidirectional: a run and two segments (XLNet). dialogue: turns, one of them foreign in half of the examples (ERNIE). parallel: a text and its translation.")  # fmt: skip
COMMAND.integer("max_seq_length", 128, "Length of an example with its special tokens.", minimum=1)
COMMAND.integer(
    "max_predictions_per_seq", 20, "Most hidden tokens in an example; about max_seq_length * masked_lm_prob."
)
COMMAND.number("masked_lm_prob", 0.15, "Share of tokens to hide.", maximum=1.0)
COMMAND.number(
    "short_seq_prob", 0.1, "Share of documents cut into shorter examples (pairs of segments only).", maximum=1.0
)
COMMAND.integer(
    "dupe_factor", None, "Passes over the corpus with other pairs. Default 1; with static masking 10, as Google's."
)
COMMAND.choice("masking", "dynamic", ["dynamic", "static"], "dynamic: clean records, masked anew in every epoch. static: Google's record layout.")  # fmt: skip
COMMAND.integer("ngram", 1, "With static masking: hide up to so many words in a row, as ALBERT's script (it says 3).")
COMMAND.boolean("favor_shorter_ngram", True, "Shorter n-grams are likelier than longer ones.")
COMMAND.choice("wwm_replace_unit", "token", ["token", "word"], "With static masks of whole words: whether each token of a word is masked, kept or replaced for itself, as in Google's code, or all alike.")  # fmt: skip
COMMAND.integer("random_seed", 12345, "Seed of all random choices.")
COMMAND.section("Output and work")
COMMAND.string("output_dir", None, "New folder for the records and their manifest.", required=True)
COMMAND.integer("num_shards", 0, "Number of files; 0 chooses by the size of the corpus.")
COMMAND.integer("num_workers", 1, "Processes. The records do not depend on it.", minimum=1)
COMMAND.boolean("resume", False, "Go on with an unfinished output_dir; finished shards are kept.")
COMMAND.boolean("overwrite", False, "Replace the records in output_dir.")
COMMAND.section("Many machines (docs/distributed_data.md)")
COMMAND.string("task", None, "Make the shards of one task only: from 0 to num_tasks - 1. Finished shards are kept, as with --resume, and the last task writes the manifest. merge: join what tasks made in folders that were copied together.")  # fmt: skip
COMMAND.integer("num_tasks", None, "Number of tasks that share the work.", minimum=1)
COMMAND.choice("runner", "local", ["local", "beam"], "local: processes of this machine. beam: an Apache Beam pipeline.")
COMMAND.string("beam_options", "", "Options of the pipeline in one string, such as '--runner=FlinkRunner --flink_master=host:8081'. Without --runner it runs here.")  # fmt: skip


def run() -> None:
    from data_pipelines.pretraining.command import create_pretraining_data

    create_pretraining_data(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
