"""The job behind `inspect_data`: shows records, or compares a vocabulary or test sets with a corpus."""

from data_pipelines.errors import UsageError
from data_pipelines.options.inspect_data import Options
from data_pipelines.quiet import quiet_start


def inspect_data(options: Options) -> None:
    """Prints what is asked for."""
    if options.contamination and options.vocab_file:
        raise UsageError("--contamination and --vocab_file ask for two reports; give one of them.")
    if options.contamination:
        from data_pipelines.pretraining.command import check_contamination

        check_contamination(options)
    elif options.vocab_file:
        from data_pipelines.pretraining.vocabulary import report_vocabulary

        report_vocabulary(options)
    elif options.data_dir:
        with quiet_start():
            from data_pipelines.inspect.inspection import inspect_records  # imports TensorFlow

        inspect_records(options)
    else:
        raise UsageError(
            "--data_dir: name a folder of records; or a vocabulary with --vocab_file, or a test set with --contamination, "
            "and --input_file."
        )
