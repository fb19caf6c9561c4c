"""Finds the texts of an index that are nearest to queries, and orders them anew by a network that reads both together."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence

from data_pipelines.errors import UsageError
from data_pipelines.escaping import for_terminal_line
from data_pipelines.files import whole_file
from data_pipelines.paths import check_output
from xmodels.jobs.predict.run import load_predictor
from xmodels.jobs.predict.texts_of_files import texts_of
from xmodels.jobs.search.options import Options
from xmodels.retrieval.encoder import Encoder
from xmodels.retrieval.index import Index

SHOWN = 100  # characters of a text on the screen
Rescore = Callable[[str, Sequence[str]], Sequence[float]]


def search(options: Options) -> list[dict]:
    """Answers a query or a file of queries; returns the answers, as they stand in JSON lines. With an output file, none."""
    if (options.text is None) == (options.input_file is None):
        raise UsageError("Give either --text or --input_file.")
    if options.rerank_model_dir and options.rerank_depth < options.top_k:
        raise UsageError(f"--rerank_depth={options.rerank_depth}: must be at least --top_k={options.top_k}.")
    if options.rerank_label is not None and not options.rerank_model_dir:
        raise UsageError("--rerank_label: belongs to --rerank_model_dir, which is missing.")
    check_output(options.output_file, overwrite=options.overwrite)
    index = Index(options.index)
    predictor = load_predictor(options.model_dir)
    asked = f"--model_dir={options.model_dir}"
    index.description.encoder.check(Encoder.of(predictor, options.model_dir), options.index, asked)
    rescore = None
    if options.rerank_model_dir:
        list(index.texts([]))  # says that there are none before any network is opened
        rescore = functools.partial(load_predictor(options.rerank_model_dir).pair_scores, label=options.rerank_label)
        rescore("", [])  # says that the task has no scores before queries are read
    queries = iter([options.text]) if options.text is not None else texts_of(options.input_file, options.text_column)
    answers = search_all(index, lambda texts: predictor.encode(texts, options.batch_size), queries, options, rescore)
    if options.output_file:
        count = 0
        with whole_file(options.output_file, "w") as file:
            for count, answer in enumerate(answers, 1):  # noqa: B007
                file.write(json.dumps(answer, ensure_ascii=False) + "\n")
        print(f"{options.output_file}: {count:,} queries.")
        return []
    every = []
    for answer in answers:
        print("\n".join(map(for_terminal_line, format_answer(answer))))
        every.append(answer)
    return every


def search_all(
    index: Index, encode, queries: Iterator[str], options: Options, rescore: Rescore | None = None
) -> Iterator[dict]:
    """Yields {"query", "results"} of each query; results are sorted, the best first.

    Args:
        encode: texts -> vectors.
        rescore: a query and texts -> a score of each; orders `rerank_depth` nearest texts anew.
    """
    depth = options.rerank_depth if rescore else options.top_k
    while chunk := list(itertools.islice(queries, options.batch_size)):
        for query, rows, cosines in zip(chunk, *index.search(encode(chunk), depth), strict=True):
            results = [
                {"row": int(row), "similarity": float(cosine)}
                for row, cosine in zip(rows, cosines, strict=True)
                if row >= 0
            ]
            if index.description.has_texts or rescore:
                texts = index.texts(each["row"] for each in results)
                results = [{**each, "text": text} for each, text in zip(results, texts, strict=True)]
            if rescore:
                scores = rescore(query, [each["text"] for each in results])
                results = [{**each, "score": float(score)} for each, score in zip(results, scores, strict=True)]
                results.sort(key=lambda each: -each["score"])
            yield {"query": query, "results": results[: options.top_k]}


def format_answer(answer: dict) -> Iterator[str]:
    """Yields the lines of an answer on the screen."""
    yield f"query: {answer['query']:.{SHOWN}}"
    for each in answer["results"]:
        score = f"{each['score']:.4f}\t" if "score" in each else ""
        yield f"  {score}{each['similarity']:.4f}\t{each['row']}\t{each.get('text', ''):.{SHOWN}}"
