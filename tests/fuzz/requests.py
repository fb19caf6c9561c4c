"""Requests to `serve` as a command: the bodies in a file are answered one by one, as the server answers them, without a network."""

import sys
from pathlib import Path

import tensorflow as tf

from launch import serve
from launch.command import guarded
from xmodels.serving.answers import as_json, without_filling
from xmodels.serving.examples import as_numbers, read_examples, results_as_json
from xmodels.serving.folder import find_model
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Model
from xmodels.serving.questions import read_question
from xmodels.serving.sources import find_sources

BODIES = "requests.jsonl"  # a body a line
REFUSED = 2


class Requests:
    """Takes the flags of `serve`. What a server would answer with 500 and a line in its log leaves it as an exception."""

    declared, options = serve.COMMAND.declared, serve.COMMAND.options
    parse = staticmethod(serve.COMMAND.parse)

    @classmethod
    def main(cls, arguments: list[str]) -> int:
        return guarded("xmodels serve", lambda: cls.answer(arguments))

    @classmethod
    def answer(cls, arguments: list[str]) -> int:
        """Answers all bodies; 2 if none of them could be answered."""
        options = cls.parse(arguments)
        limits = Limits(max_text_length=options.max_text_length, max_waiting=options.max_waiting)
        source, *_ = find_sources(options.export_dir, options.name, options.model_config_file, options.version_policy)
        model = Model(find_model(source.folder, source.name), options.trust_graph)
        codes = [_answer(body, model, limits) for body in Path(BODIES).read_bytes().splitlines()]
        print(f"{len(codes)} requests")
        return 0 if 200 in codes else REFUSED


def _answer(body: bytes, model: Model, limits: Limits) -> int:
    """Prints the answer to a body; returns its code of HTTP."""
    try:
        of_examples = b'"examples"' in body
        question = (read_examples if of_examples else read_question)(body, model.signatures, limits)
        if question.num_rows > limits.max_waiting:
            raise RequestError("Too many rows.", 413)
        outputs = question.signature(question.part(0, max(question.num_rows, 1)))
        if of_examples:
            answer = results_as_json(as_numbers(outputs, question))
        else:
            answer = as_json(without_filling(outputs, question.signature), question.num_rows, question.by_rows)
    except RequestError as error:
        print(f"{error.code}: {error!s:.300}".encode("unicode_escape").decode(), file=sys.stderr)
        return error.code
    except tf.errors.InvalidArgumentError:  # of an op, which is the request's fault
        print("400: refused by the model", file=sys.stderr)
        return 400
    print(len(answer))
    return 200


COMMAND = Requests
